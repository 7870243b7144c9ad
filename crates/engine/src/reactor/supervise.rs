//! What the I/O thread looks after at short intervals, and only while there is something to look after.
//!
//! - Links whose senders leave messages to be written: those that nobody has written since the last look are
//!   written now. A link that has had nothing for [`QUIET_LOOKS`] is no longer looked at.
//! - Sockets whose connections callers watch (`lease`).
//! - Links that have moved much at once: when they are idle their queues are made small again. One whose queues
//!   stay idle and not empty for [`FULL_LOOKS`] is left alone.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Io, WATCH_TICK};
use crate::hub::Hub;
use crate::lease::{Checked, LEASE_TICK};
use crate::link::{self, Link};
use crate::pipe::PipeId;

/// Looks without a message after which a link is left alone.
const QUIET_LOOKS: u32 = 20;
/// Links of one socket that are looked at before others have their turn.
const LINKS_A_TURN: usize = 256;
/// How often to look whether a link that has moved much is idle.
const SHRINK_TICK: Duration = Duration::from_millis(500);
/// Looks at an idle link with something in its queues after which it is left alone.
const FULL_LOOKS: u32 = 20;

#[derive(Default)]
pub(super) struct Supervised {
    left: Vec<Left>,
    next_look: Option<Instant>,
    leases: Vec<(Arc<Hub>, Option<u32>)>,
    next_check: Option<Instant>,
    /// By the link's address.
    swollen: HashMap<usize, Swollen>,
    next_shrink: Option<Instant>,
}

struct Swollen {
    link: Arc<Link>,
    /// Looks at which there was something in its queues, though it did not stream.
    full: u32,
}

/// What the senders of one socket leave behind.
struct Left {
    hub: Arc<Hub>,
    links: Vec<Watched>,
    /// The link that comes next in the look that is under way.
    at: usize,
    /// When the last look was over.
    looked: Instant,
    /// Messages that had been sent at the last call.
    sent: u64,
}

struct Watched {
    link: Arc<Link>,
    quiet: u32,
    /// It was said to be no longer looked at; one more look follows, for what was sent meanwhile.
    let_go: bool,
}

impl Supervised {
    pub(super) fn watch(&mut self, hub: Arc<Hub>, pipe: PipeId) {
        let Some(link) = hub.link_of(pipe) else { return };
        let watched = Watched { link, quiet: 0, let_go: false };
        match self.left.iter_mut().find(|left| Arc::ptr_eq(&left.hub, &hub)) {
            Some(left) => left.links.push(watched),
            None => {
                self.left.push(Left { hub, links: vec![watched], at: 0, looked: Instant::now(), sent: 0 })
            }
        }
        self.next_look.get_or_insert_with(|| Instant::now() + WATCH_TICK);
    }

    pub(super) fn supervise(&mut self, hub: Arc<Hub>) {
        if !self.leases.iter().any(|(other, _)| Arc::ptr_eq(other, &hub)) {
            self.leases.push((hub, None));
        }
        self.next_check.get_or_insert_with(|| Instant::now() + LEASE_TICK);
    }

    pub(super) fn swollen(&mut self, hub: &Hub, pipe: PipeId) {
        let Some(link) = hub.link_of(pipe).filter(|link| !link.is_closing()) else { return };
        self.swollen.entry(Arc::as_ptr(&link) as usize).or_insert(Swollen { link, full: 0 });
        self.next_shrink.get_or_insert_with(|| Instant::now() + SHRINK_TICK);
    }

    /// A link closes: its queues are soon gone.
    pub(super) fn forget(&mut self, link: &Arc<Link>) {
        if self.swollen.remove(&(Arc::as_ptr(link) as usize)).is_some() && self.swollen.is_empty() {
            self.next_shrink = None;
        }
    }

    /// When to look next.
    pub(super) fn next(&self) -> Option<Instant> {
        [self.next_look, self.next_check, self.next_shrink].into_iter().flatten().min()
    }

    pub(super) fn tick(&mut self, io: &Io, now: Instant) {
        if self.next_look.is_some_and(|at| at <= now) {
            self.left.iter_mut().for_each(|left| left.look(io, now));
            self.left.retain(|left| !left.links.is_empty());
            let pause = if self.left.iter().any(|left| left.at > 0) { Duration::ZERO } else { WATCH_TICK };
            self.next_look = (!self.left.is_empty()).then(|| now + pause);
        }
        if self.next_check.is_some_and(|at| at <= now) {
            self.leases.retain_mut(|(hub, before)| match hub.lease.check(io, hub, *before) {
                Checked::Again(visits) => {
                    *before = Some(visits);
                    true
                }
                Checked::Done => false,
            });
            self.next_check = (!self.leases.is_empty()).then(|| now + LEASE_TICK);
        }
        if self.next_shrink.is_some_and(|at| at <= now) {
            self.swollen.retain(|_, one| one.keeps());
            self.next_shrink = (!self.swollen.is_empty()).then(|| now + SHRINK_TICK);
        }
    }
}

impl Swollen {
    /// Looks at the link, and shrinks what is idle. False: it is left alone from now on.
    fn keeps(&mut self) -> bool {
        if self.link.is_broken() {
            return false;
        }
        if self.link.has_streamed() {
            self.full = 0;
            return true;
        }
        self.full += 1;
        self.link.not_swollen(); // What is moved from here on is seen to anew.
        let empty = self.link.hub.socket().is_none_or(|socket| socket.shrink(&self.link));
        !empty && self.full < FULL_LOOKS
    }
}

impl Left {
    /// Looks at the links, or at the next of them where they are many. While messages keep coming, many links are
    /// left to gather more of them.
    fn look(&mut self, io: &Io, now: Instant) {
        let age = Duration::from_nanos(link::flush_age(self.hub.links()));
        let sent = self.hub.sent();
        let goes_on = std::mem::replace(&mut self.sent, sent) != sent;
        if self.at == 0 && goes_on && age > WATCH_TICK && now < self.looked + age {
            return;
        }
        for _ in 0..LINKS_A_TURN {
            let Some(watched) = self.links.get_mut(self.at) else { break };
            if !watched.keeps() {
                self.links.swap_remove(self.at);
                continue;
            }
            self.at += 1;
            // Its writes wait for the kernel: the poll set must be watched by somebody.
            let (link, hub) = (&watched.link, &self.hub);
            if link.is_blocked() && hub.lease.is_taken() && hub.lease.is_empty() {
                hub.lease.take_back(io, hub, false);
            }
        }
        if self.at >= self.links.len() {
            (self.at, self.looked) = (0, Instant::now());
        }
    }
}

impl Watched {
    /// Looks at the link. False: it is left alone from now on.
    fn keeps(&mut self) -> bool {
        if self.link.is_broken() {
            return false;
        }
        if self.link.flush_left(self.let_go) {
            self.quiet = 0;
        } else {
            self.quiet += 1;
        }
        if self.let_go {
            return false;
        }
        if self.quiet >= QUIET_LOOKS {
            self.link.unwatch();
            self.let_go = true;
        }
        true
    }
}
