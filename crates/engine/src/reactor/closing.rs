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
        let mut connecters = self.drop_entries(|_, origin| origin == token);
        let stops =
            |entry: &Entry| matches!(entry, Entry::Connecter(one) if one.stops_after(Stop::AfterDisconnect));
        if self.entries.get(&token).is_some_and(stops) {
            connecters.drain(..).for_each(|token| self.give_up(token));
        }
        self.start_closing(hub, links, connecters, linger, None);
    }

    /// A peer was told to go: what the kernel takes of what was accepted for it is sent.
    pub(super) fn end_link(&mut self, link: Arc<Link>) {
        self.start_closing(link.hub.clone(), vec![link], Vec::new(), Some(Duration::ZERO), None);
    }

    /// Drops listeners, handshakes and idle connecters that match; returns the connecters that still have
    /// messages to send.
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
                    let ends = matches(&connecter.owner.hub, token);
                    if ends && connecter.has_unsent() {
                        busy.push(token);
                        return true;
                    }
                    if ends {
                        connecter.end_pipe();
                    }
                    !ends
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
        self.adopt_links(&mut closing);
        let graceless = closing.grace.is_some_and(|grace| grace <= now);
        let mut unsent = false;
        closing.links.retain(|link| {
            let done = link.closes();
            if !done && !link.is_shut() {
                unsent = true;
            }
            if done || late || (graceless && link.is_shut()) {
                if closing.hub.remove_link(link) {
                    link.leave_poll_set();
                    // A socket's own end is not an event of its connections.
                    if closing.done.is_none() {
                        let at = At::Between(&link.config.ends);
                        monitor::emit(&closing.hub, Event::Disconnected, link.descriptor, at);
                    }
                    if let Some(ends) = link.dismantle() {
                        bury(&closing.hub, link.config.hears_wishes, ends, Reason::Expired);
                    }
                    closing.hub.post(Mail::Ended(link.pipe));
                }
                return false;
            }
            true
        });
        if !unsent && closing.grace.is_none() {
            closing.grace = Some(now + GRACE);
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

    /// Connecters that have become connections meanwhile are links to be closed now.
    fn adopt_links(&mut self, closing: &mut Closing) {
        closing.connecters.retain(|&token| {
            let Some(Entry::Connecter(connecter)) = self.entries.get_mut(&token) else { return false };
            if let State::Connected(pipe) = connecter.state {
                closing.links.extend(closing.hub.link_of(pipe));
            } else if connecter.has_unsent() {
                return true;
            } // Else all was sent, and the connection lost again.
            self.give_up(token);
            false
        });
    }

    /// A connecter ends; if its pipe has no connection, the pipe does too.
    pub(super) fn give_up(&mut self, token: u64) {
        self.timers.clear(token);
        if let Some(Entry::Connecter(mut connecter)) = self.entries.remove(&token) {
            connecter.end_pipe();
        }
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
