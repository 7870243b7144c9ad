//! The end of endpoints and sockets: what was accepted is sent first, for as long as the linger says, then
//! the connection is shut in good order.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use super::connecter::{State, Stop};
use super::{Entry, Reactor};
use crate::drops::Reason;
use crate::ends::FarEnds;
use crate::hub::{Hub, Mail};
use crate::link::{Link, Progress};
use crate::monitor::{self, At, Event};

/// How long the peer's kernel may take to acknowledge what ours has taken. Ours goes on without us
/// afterwards.
const GRACE: Duration = Duration::from_secs(1);
/// When to try again to have a link watched, for which there was no memory.
const REST: Duration = Duration::from_millis(50);

/// What is left of a socket or an endpoint that was closed. A link is looked at when its descriptor has changed, a
/// connecter when it has connected or ended, and all of them when the linger is over: between that nothing is due.
pub(super) struct Closing {
    hub: Arc<Hub>,
    /// By their tokens with the I/O thread; with each the time at which it ends in any case, once it is shut.
    links: HashMap<u64, (Arc<Link>, Option<Instant>)>,
    /// Connecters that have something to send and no connection.
    connecters: HashSet<u64>,
    until: Option<Instant>,
    /// The whole socket ends, and whoever waits for that is told.
    done: Option<Box<dyn FnOnce() + Send>>,
}

/// The closings that wait for a link or a connecter, by its token: those of its endpoint and of its socket.
pub(super) type Closers = HashMap<u64, SmallVec<[u64; 1]>>;

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
        let linger = if self.hurried { Some(Duration::ZERO) } else { linger };
        let until = linger.and_then(|linger| Instant::now().checked_add(linger));
        let token = self.io.token();
        until.iter().for_each(|&until| self.timers.set(token, until));
        let mut closing = Closing { hub, links: HashMap::new(), connecters: HashSet::new(), until, done };
        links.into_iter().for_each(|link| self.close_link(token, &mut closing, link));
        connecters.into_iter().for_each(|connecter| self.close_connecter(token, &mut closing, connecter));
        self.keep_closing(token, closing);
    }

    /// From now on nothing lingers: what is not sent yet is given up.
    pub(super) fn hurry(&mut self) {
        self.hurried = true;
        let is_closing = |entry: &Entry| matches!(entry, Entry::Closing(_));
        let all = self.entries.iter().filter(|(_, entry)| is_closing(entry));
        let tokens: Vec<u64> = all.map(|(&token, _)| token).collect();
        tokens.into_iter().for_each(|token| self.linger_is_over(token));
    }

    /// What has not been sent is lost.
    pub(super) fn linger_is_over(&mut self, token: u64) {
        let Some(Entry::Closing(mut closing)) = self.entries.remove(&token) else { return };
        closing.until = Some(Instant::now());
        for item in closing.items() {
            self.look_at(token, &mut closing, item);
        }
        self.keep_closing(token, *closing);
    }

    /// A link or a connecter that closings may wait for has changed, or its time is over.
    pub(super) fn look_at_closing(&mut self, item: u64) {
        let Some(closings) = self.closers.get(&item).cloned() else { return };
        for token in closings {
            let Some(Entry::Closing(mut closing)) = self.entries.remove(&token) else { continue };
            self.look_at(token, &mut closing, item);
            self.keep_closing(token, *closing);
        }
    }

    /// Waits on, or ends when there is nothing left to wait for.
    fn keep_closing(&mut self, token: u64, closing: Closing) {
        if !closing.links.is_empty() || !closing.connecters.is_empty() {
            self.entries.insert(token, Entry::Closing(Box::new(closing)));
            return;
        }
        self.timers.clear(token);
        let Some(done) = closing.done else { return };
        let hub = closing.hub;
        self.entries.retain(|_, entry| !matches!(entry, Entry::Hub(other) if Arc::ptr_eq(other, &hub)));
        monitor::stop(&hub);
        done();
    }

    fn close_link(&mut self, token: u64, closing: &mut Closing, link: Arc<Link>) {
        let item = link.io_token;
        self.closers.entry(item).or_default().push(token);
        self.supervised.forget(&link);
        closing.links.insert(item, (link, None));
        self.look_at(token, closing, item);
    }

    fn close_connecter(&mut self, token: u64, closing: &mut Closing, connecter: u64) {
        self.closers.entry(connecter).or_default().push(token);
        closing.connecters.insert(connecter);
        self.look_at(token, closing, connecter);
    }

    /// The closing no longer waits for the link or connecter.
    fn forget(&mut self, token: u64, closing: &mut Closing, item: u64) {
        closing.links.remove(&item);
        closing.connecters.remove(&item);
        if let Some(closings) = self.closers.get_mut(&item) {
            closings.retain(|closing| *closing != token);
            if closings.is_empty() {
                self.closers.remove(&item);
                self.timers.clear(item);
            }
        }
    }

    /// Goes on with one link or connecter of a closing.
    fn look_at(&mut self, token: u64, closing: &mut Closing, item: u64) {
        if closing.connecters.contains(&item) {
            return self.look_at_connecter(token, closing, item);
        }
        let Some((link, end)) = closing.links.get(&item).cloned() else { return };
        let is_over = closing.is_over();
        if !closing.hub.has_link(&link) {
            return self.leave_to_connecter(token, closing, &link);
        }
        let progress = if link.is_lost() { Progress::Done } else { link.close(is_over) };
        if !is_over && link.is_lost() {
            // It was lost before all was sent. Its connecter, if it has one that goes on, makes another.
            link.cut();
            self.lose(&link);
            return self.leave_to_connecter(token, closing, &link);
        }
        let now = Instant::now();
        let is_late = end.is_some_and(|end| end <= now);
        if is_over || (link.is_shut() && (progress == Progress::Done || is_late)) {
            self.forget(token, closing, item);
            self.part(&link, closing.done.is_none());
            return self.look_at_closing(item); // Of its socket's closing, too.
        }
        let end = end.or_else(|| link.is_shut().then(|| now + GRACE));
        closing.links.insert(item, (link, end));
        match (progress, end) {
            (Progress::GoesOn, _) => self.timers.set(item, now),
            (Progress::Unwatched, _) => self.timers.set(item, now + REST),
            (Progress::Waits | Progress::Done, Some(end)) => self.timers.set(item, end),
            (Progress::Waits | Progress::Done, None) => {}
        }
    }

    /// What a connection has not sent is its connecter's again.
    fn leave_to_connecter(&mut self, token: u64, closing: &mut Closing, link: &Link) {
        self.forget(token, closing, link.io_token);
        self.close_connecter(token, closing, link.config.origin);
    }

    /// A connecter that has become a connection meanwhile is a link to be closed now; one that has nothing to send any
    /// more ends.
    fn look_at_connecter(&mut self, token: u64, closing: &mut Closing, item: u64) {
        let is_over = closing.is_over();
        let Some(connecter) = self.connecter(item) else { return self.forget(token, closing, item) };
        if let State::Connected(pipe) = connecter.state {
            self.forget(token, closing, item);
            let link = closing.hub.link_of(pipe);
            return link.into_iter().for_each(|link| self.close_link(token, closing, link));
        }
        if is_over || !connecter.has_unsent() {
            self.forget(token, closing, item);
            self.give_up(item);
        }
    }

    /// The end of a connection, and of the connecter that has made it. What is not sent is given up.
    fn part(&mut self, link: &Link, tells: bool) {
        self.leave(link);
        link.leave_watcher();
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
        self.look_at_closing(token);
    }
}

impl Closing {
    /// Whether its linger is over.
    fn is_over(&self) -> bool {
        self.until.is_some_and(|until| until <= Instant::now())
    }

    fn items(&self) -> Vec<u64> {
        self.links.keys().chain(&self.connecters).copied().collect()
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
