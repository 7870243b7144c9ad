//! The end of endpoints and sockets: accepted messages are sent first, within the linger time, then the connection
//! is shut down in order.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use super::connecter::{ConnecterState, Stop};
use super::{Entry, Reactor};
use crate::drops::Reason;
use crate::events::Event;
use crate::link::{Link, Progress};
use crate::mailbox::{Mailbox, Notice};
use crate::monitor::{self, At};
use crate::queue::FarEnds;

/// How long the peer's kernel may take to acknowledge the data that ours has taken. Our kernel continues without us
/// afterwards.
const GRACE: Duration = Duration::from_secs(1);
/// Pause before another attempt to register a link, after a lack of memory.
const REST: Duration = Duration::from_millis(50);

/// A socket or an endpoint that was closed and is still sending. A link is checked when its descriptor changes, a
/// connecter when it connects or ends, and all of them when the linger time is over. Nothing is due between these
/// events.
pub(super) struct Closing {
    mailbox: Arc<Mailbox>,
    /// By their tokens with the I/O thread. Each has the time at which it ends in any case, once it is shut.
    links: HashMap<u64, (Arc<Link>, Option<Instant>)>,
    /// Connecters with messages to send and no connection.
    connecters: HashSet<u64>,
    until: Option<Instant>,
    /// To be called when the whole socket has ended; None if an endpoint or a connection ends.
    done: Option<Box<dyn FnOnce() + Send>>,
}

/// The closings that wait for a link or a connecter to end, by its token. An endpoint and a socket may both wait for
/// it.
pub(super) type Closers = HashMap<u64, SmallVec<[u64; 1]>>;

impl Reactor {
    /// A socket was closed.
    pub(super) fn close(
        &mut self,
        mailbox: Arc<Mailbox>,
        linger: Option<Duration>,
        done: Box<dyn FnOnce() + Send>,
    ) {
        mailbox.ownership.reclaim(&self.io, &mailbox, true);
        let connecters = self.drop_entries(|owner_mailbox, _| Arc::ptr_eq(owner_mailbox, &mailbox));
        let links = mailbox.all_links();
        self.start_closing(mailbox, links, connecters, linger, Some(done));
    }

    /// An endpoint was unbound or disconnected.
    pub(super) fn end(&mut self, mailbox: Arc<Mailbox>, token: u64, linger: Option<Duration>) {
        let links = mailbox.all_links().into_iter().filter(|link| link.config.origin == token).collect();
        let connecters = self.drop_entries(|_, origin| origin == token);
        if self.connecter(token).is_some_and(|one| one.stops_after(Stop::AfterDisconnect)) {
            self.give_up(token); // Its current connection, if it has one, is the last.
        }
        self.start_closing(mailbox, links, connecters, linger, None);
    }

    /// The application disconnects a peer: only the messages that the kernel takes at once are still sent.
    pub(super) fn end_link(&mut self, link: Arc<Link>) {
        self.start_closing(link.mailbox.clone(), vec![link], Vec::new(), Some(Duration::ZERO), None);
    }

    /// Drops matching listeners, handshakes and idle connecters. Connecters with a connection stay, because it may
    /// be lost before all is sent. Connecters with messages and no connection stay, too; their tokens are returned.
    fn drop_entries(&mut self, matches: impl Fn(&Arc<Mailbox>, u64) -> bool) -> Vec<u64> {
        let mut busy = Vec::new();
        let timers = &mut self.timers;
        self.entries.retain(|&token, entry| {
            let keep = match entry {
                Entry::Mailbox(_) | Entry::Closing(_) | Entry::Heartbeat(_) => true,
                Entry::Listener(listener) => {
                    let ends = matches(&listener.owner.mailbox, token);
                    if ends {
                        monitor::emit_fd(
                            &listener.owner.mailbox,
                            Event::Closed,
                            &*listener.bound,
                            At::Bound(&listener.bound.endpoint),
                        );
                    }
                    !ends
                }
                Entry::Accepted(accepted) => !matches(&accepted.owner.mailbox, accepted.listener),
                Entry::Connecter(connecter) => {
                    if !matches(&connecter.owner.mailbox, token) {
                        return true;
                    }
                    connecter.ending = true;
                    if connecter.has_unsent() {
                        busy.push(token);
                        return true;
                    }
                    connecter.end_pipe(Reason::Expired);
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
        mailbox: Arc<Mailbox>,
        links: Vec<Arc<Link>>,
        connecters: Vec<u64>,
        linger: Option<Duration>,
        done: Option<Box<dyn FnOnce() + Send>>,
    ) {
        let linger = if self.linger_ended { Some(Duration::ZERO) } else { linger };
        let until = linger.and_then(|linger| Instant::now().checked_add(linger));
        let token = self.io.token();
        until.iter().for_each(|&until| self.timers.set(token, until));
        let mut closing = Closing { mailbox, links: HashMap::new(), connecters: HashSet::new(), until, done };
        links.into_iter().for_each(|link| self.close_link(token, &mut closing, link));
        connecters.into_iter().for_each(|connecter| self.close_connecter(token, &mut closing, connecter));
        self.keep_closing(token, closing);
    }

    /// Nothing lingers any more: unsent messages are given up.
    pub(super) fn end_linger(&mut self) {
        self.linger_ended = true;
        let is_closing = |entry: &Entry| matches!(entry, Entry::Closing(_));
        let all = self.entries.iter().filter(|(_, entry)| is_closing(entry));
        let tokens: Vec<u64> = all.map(|(&token, _)| token).collect();
        tokens.into_iter().for_each(|token| self.linger_is_over(token));
    }

    /// The linger time is over: unsent messages are lost.
    pub(super) fn linger_is_over(&mut self, token: u64) {
        let Some(Entry::Closing(mut closing)) = self.entries.remove(&token) else { return };
        closing.until = Some(Instant::now());
        for item in closing.items() {
            self.look_at(token, &mut closing, item);
        }
        self.keep_closing(token, *closing);
    }

    /// A link or a connecter that closings may wait for has changed, or its timer has expired.
    pub(super) fn look_at_closing(&mut self, item: u64) {
        let Some(closings) = self.closers.get(&item).cloned() else { return };
        for token in closings {
            let Some(Entry::Closing(mut closing)) = self.entries.remove(&token) else { continue };
            self.look_at(token, &mut closing, item);
            self.keep_closing(token, *closing);
        }
    }

    /// Continues to wait, or finishes if there is nothing left to wait for.
    fn keep_closing(&mut self, token: u64, closing: Closing) {
        if !closing.links.is_empty() || !closing.connecters.is_empty() {
            self.entries.insert(token, Entry::Closing(Box::new(closing)));
            return;
        }
        self.timers.clear(token);
        let Some(done) = closing.done else { return };
        let mailbox = closing.mailbox;
        self.entries
            .retain(|_, entry| !matches!(entry, Entry::Mailbox(other) if Arc::ptr_eq(other, &mailbox)));
        monitor::stop(&mailbox);
        done();
    }

    fn close_link(&mut self, token: u64, closing: &mut Closing, link: Arc<Link>) {
        let item = link.io_token;
        self.closers.entry(item).or_default().push(token);
        self.housekeeping.forget(&link);
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

    /// Advances one link or connecter of a closing.
    fn look_at(&mut self, token: u64, closing: &mut Closing, item: u64) {
        if closing.connecters.contains(&item) {
            return self.look_at_connecter(token, closing, item);
        }
        let Some((link, end)) = closing.links.get(&item).cloned() else { return };
        let is_over = closing.is_over();
        if !closing.mailbox.has_link(&link) {
            return self.leave_to_connecter(token, closing, &link);
        }
        let progress = if link.is_lost() { Progress::Done } else { link.close(is_over) };
        if !is_over && link.is_lost() {
            // The link was lost before all was sent. If its connecter continues, it makes another.
            link.cut();
            self.lose(&link);
            return self.leave_to_connecter(token, closing, &link);
        }
        let now = Instant::now();
        let is_late = end.is_some_and(|end| end <= now);
        if is_over || (link.is_shut() && (progress == Progress::Done || is_late)) {
            self.forget(token, closing, item);
            self.part(&link, closing.done.is_none());
            return self.look_at_closing(item); // For the closing of its socket, too.
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

    /// The connecter has the unsent messages of a lost connection again: the closing waits for the connecter instead.
    fn leave_to_connecter(&mut self, token: u64, closing: &mut Closing, link: &Link) {
        self.forget(token, closing, link.io_token);
        self.close_connecter(token, closing, link.config.origin);
    }

    /// If the connecter has connected meanwhile, its link is closed now. If it has no more messages to send, it
    /// ends.
    fn look_at_connecter(&mut self, token: u64, closing: &mut Closing, item: u64) {
        let is_over = closing.is_over();
        let Some(connecter) = self.connecter(item) else { return self.forget(token, closing, item) };
        if let ConnecterState::Connected(pipe) = connecter.state {
            self.forget(token, closing, item);
            let link = closing.mailbox.link_of(pipe);
            return link.into_iter().for_each(|link| self.close_link(token, closing, link));
        }
        if is_over || !connecter.has_unsent() {
            self.forget(token, closing, item);
            self.give_up(item);
        }
    }

    /// Ends a connection, and the connecter that made it. Unsent messages are given up.
    fn part(&mut self, link: &Link, tells: bool) {
        self.leave(link);
        link.leave_poller();
        // A socket's own end is not an event of its connections.
        if tells {
            monitor::emit(
                &link.mailbox,
                Event::Disconnected,
                link.descriptor,
                At::Between(&link.config.ends),
            );
        }
        if let Some(ends) = link.dismantle() {
            count_losses(&link.mailbox, link.config.receives_subscriptions, ends, Reason::Expired);
        }
        link.mailbox.post(Notice::Ended(link.pipe));
        self.give_up(link.config.origin);
    }

    /// Ends a connecter, if it exists, and its pipe, if that has no connection.
    pub(super) fn give_up(&mut self, token: u64) {
        let Some(connecter) = self.connecter(token) else { return };
        connecter.end_pipe(Reason::Expired);
        self.timers.clear(token);
        self.entries.remove(&token);
        self.look_at_closing(token);
    }
}

impl Closing {
    /// True if the linger time is over.
    fn is_over(&self) -> bool {
        self.until.is_some_and(|until| until <= Instant::now())
    }

    fn items(&self) -> Vec<u64> {
        self.links.keys().chain(&self.connecters).copied().collect()
    }
}

/// Counts the losses when a pipe's far ends are dropped: unsent messages, with `reason`; and unread received ones, if
/// the socket is closed. The unread input of a socket that `receives_subscriptions` consists of subscriptions, which
/// are not lost messages.
pub(super) fn count_losses(
    mailbox: &Mailbox,
    receives_subscriptions: bool,
    mut ends: FarEnds,
    reason: Reason,
) {
    mailbox.lost.give_up(reason, ends.outgoing.give_up(&mut Vec::new()));
    if mailbox.is_closed() && !receives_subscriptions {
        mailbox.lost.add(Reason::Unread, ends.incoming.backlog());
    }
}
