//! The end of endpoints and sockets: what was accepted is sent first, for as long as the linger says, then
//! the connection is shut in good order.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::connecter::{State, Stop};
use super::{Entry, Reactor};
use crate::drops::Reason;
use crate::ends::FarEnds;
use crate::hub::{Hub, Mail};
use crate::link::Link;
use crate::monitor::{self, At, Event};

/// How often a closing socket is looked at: at first, and at most.
const LOOK_MIN: Duration = Duration::from_micros(200);
const LOOK_MAX: Duration = Duration::from_millis(10);
/// How long the peer's kernel may take to acknowledge what ours has taken. Ours goes on without us
/// afterwards.
const GRACE: Duration = Duration::from_secs(1);

/// What is left of a socket or an endpoint that was closed.
pub(super) struct Closing {
    hub: Arc<Hub>,
    /// Its listeners, connecters and handshakes; for an endpoint that ends, that one alone.
    links: Vec<Arc<Link>>,
    connecters: Vec<u64>,
    until: Option<Instant>,
    look: Duration,
    grace: Option<Instant>,
    /// The whole socket ends, and whoever waits for that is told.
    done: Option<Box<dyn FnOnce() + Send>>,
}

impl Reactor {
    /// A socket was closed.
    pub(super) fn close(&mut self, hub: Arc<Hub>, linger: Option<Duration>, done: Box<dyn FnOnce() + Send>) {
        hub.lease.take_back(&self.io, &hub, true);
        let connecters = self.drop_entries(|owner_hub, _| Arc::ptr_eq(owner_hub, &hub));
        let links = hub.all_links();
        self.start_closing(hub, links, connecters, linger, Some(done));
    }

    /// An endpoint was unbound or disconnected.
    pub(super) fn end(&mut self, hub: Arc<Hub>, token: u64, linger: Option<Duration>) {
        let links = hub.all_links().into_iter().filter(|link| link.config.origin == token).collect();
        let connecters = self.drop_entries(|_, origin| origin == token);
        if self.connecter(token).is_some_and(|one| one.stops_after(Stop::AfterDisconnect)) {
            self.give_up(token); // Its connection, where it has one, is the last.
        }
        self.start_closing(hub, links, connecters, linger, None);
    }

    /// A peer was told to go: what the kernel takes of what was accepted for it is sent.
    pub(super) fn end_link(&mut self, link: Arc<Link>) {
        self.start_closing(link.hub.clone(), vec![link], Vec::new(), Some(Duration::ZERO), None);
    }

    /// Drops listeners, handshakes and idle connecters that match. Those stay that have a connection, which may be lost
    /// before all is sent, or have none and messages for it; returns the latter.
    fn drop_entries(&mut self, matches: impl Fn(&Arc<Hub>, u64) -> bool) -> Vec<u64> {
        let mut busy = Vec::new();
        let timers = &mut self.timers;
        self.entries.retain(|&token, entry| {
            let keep = match entry {
                Entry::Hub(_) | Entry::Closing(_) | Entry::Beat(_) => true,
                Entry::Listener(listener) => {
                    let ends = matches(&listener.owner.hub, token);
                    if ends {
                        monitor::emit_fd(
                            &listener.owner.hub,
                            Event::Closed,
                            &*listener.bound,
                            At::Bound(&listener.bound.endpoint),
                        );
                    }
                    !ends
                }
                Entry::Accepted(accepted) => !matches(&accepted.owner.hub, accepted.listener),
                Entry::Connecter(connecter) => {
                    if !matches(&connecter.owner.hub, token) {
                        return true;
                    }
                    connecter.ending = true;
                    if connecter.has_unsent() {
                        busy.push(token);
                        return true;
                    }
                    connecter.end_pipe();
                    connecter.may_dial_again()
                }
            };
            if !keep {
                timers.clear(token);
            }
            keep
        });
        busy
    }

    pub(super) fn start_closing(
        &mut self,
        hub: Arc<Hub>,
        links: Vec<Arc<Link>>,
        connecters: Vec<u64>,
        linger: Option<Duration>,
        done: Option<Box<dyn FnOnce() + Send>>,
    ) {
        let now = Instant::now();
        let linger = if self.hurried { Some(Duration::ZERO) } else { linger };
        let until = linger.and_then(|linger| now.checked_add(linger));
        let closing = Closing { hub, links, connecters, until, look: LOOK_MIN, grace: None, done };
        let token = self.io.token();
        self.entries.insert(token, Entry::Closing(Box::new(closing)));
        self.closing_timer(token, now);
    }

    /// From now on nothing lingers: what is not sent yet is given up.
    pub(super) fn hurry(&mut self) {
        self.hurried = true;
        let now = Instant::now();
        let mut tokens = Vec::new();
        for (&token, entry) in &mut self.entries {
            if let Entry::Closing(closing) = entry {
                closing.until = Some(now);
                tokens.push(token);
            }
        }
        tokens.into_iter().for_each(|token| self.closing_timer(token, now));
    }

    pub(super) fn closing_timer(&mut self, token: u64, now: Instant) {
        let Some(Entry::Closing(mut closing)) = self.entries.remove(&token) else { return };
        let late = closing.until.is_some_and(|until| until <= now);
        self.leave_lost_links(&mut closing, late);
        self.adopt_links(&mut closing);
        let graceless = closing.grace.is_some_and(|grace| grace <= now);
        let mut unsent = !closing.connecters.is_empty();
        closing.links.retain(|link| {
            let done = link.closes();
            let shut = link.is_shut();
            unsent |= !shut;
            if late || (shut && (done || graceless)) {
                self.part(link, closing.done.is_none());
                return false;
            }
            true
        });
        if unsent {
            closing.grace = None;
        } else {
            closing.grace.get_or_insert(now + GRACE);
        }
        if late {
            for connecter in std::mem::take(&mut closing.connecters) {
                self.give_up(connecter);
            }
        }
        if closing.links.is_empty() && closing.connecters.is_empty() {
            self.finish(*closing);
            return;
        }
        closing.look = (closing.look * 2).min(LOOK_MAX);
        let next = now + closing.look;
        self.timers.set(token, closing.until.map_or(next, |until| next.min(until)));
        self.entries.insert(token, Entry::Closing(closing));
    }

    /// Connections that were lost before all was sent are no longer to be closed: their connecters, where they have
    /// some that go on, make others. There is no time for that when it is too `late`.
    fn leave_lost_links(&mut self, closing: &mut Closing, late: bool) {
        let Closing { hub, links, connecters, .. } = closing;
        links.retain(|link| {
            if !late && hub.has_link(link) && link.is_lost() {
                link.cut();
                self.lose(link);
            }
            let there = hub.has_link(link);
            if !there {
                connecters.push(link.config.origin);
            }
            there
        });
    }

    /// Connecters that have become connections meanwhile are links to be closed now; those that have nothing to send
    /// any more end.
    fn adopt_links(&mut self, closing: &mut Closing) {
        let Closing { hub, links, connecters, .. } = closing;
        connecters.retain(|&token| {
            let Some(connecter) = self.connecter(token) else { return false };
            if let State::Connected(pipe) = connecter.state {
                links.extend(hub.link_of(pipe));
                return false;
            }
            let goes_on = connecter.has_unsent();
            if !goes_on {
                self.give_up(token); // All was sent, and the connection lost again.
            }
            goes_on
        });
    }

    /// The end of a connection, and of the connecter that has made it. What is not sent is given up.
    fn part(&mut self, link: &Link, tells: bool) {
        link.hub.remove_link(link);
        link.leave_poll_set();
        // A socket's own end is not an event of its connections.
        if tells {
            monitor::emit(&link.hub, Event::Disconnected, link.descriptor, At::Between(&link.config.ends));
        }
        if let Some(ends) = link.dismantle() {
            bury(&link.hub, link.config.hears_wishes, ends, Reason::Expired);
        }
        link.hub.post(Mail::Ended(link.pipe));
        self.give_up(link.config.origin);
    }

    /// A connecter ends, where there is one; if its pipe has no connection, the pipe does too.
    pub(super) fn give_up(&mut self, token: u64) {
        let Some(connecter) = self.connecter(token) else { return };
        connecter.end_pipe();
        self.timers.clear(token);
        self.entries.remove(&token);
    }

    fn finish(&mut self, closing: Closing) {
        let Some(done) = closing.done else { return };
        let hub = closing.hub;
        self.entries.retain(|_, entry| !matches!(entry, Entry::Hub(other) if Arc::ptr_eq(other, &hub)));
        monitor::stop(&hub);
        done();
    }
}

/// The end of a pipe's far ends: what was not sent is lost for that `reason`; what came in and nobody received, if
/// its socket is closed. What waits for one that `hears_wishes` are subscriptions, which nobody loses.
pub(super) fn bury(hub: &Hub, hears_wishes: bool, mut ends: FarEnds, reason: Reason) {
    hub.lost.give_up(reason, ends.outgoing.give_up(&mut Vec::new()));
    if hub.is_closed() && !hears_wishes {
        hub.lost.add(Reason::Unread, ends.incoming.backlog());
    }
}
