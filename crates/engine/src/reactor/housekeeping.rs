//! Work that the I/O thread does at short intervals, and only while there is some.
//!
//! - Links with messages that their senders left unwritten: those not written since the last check are written now.
//!   A link without new messages for [`QUIET_LOOKS`] checks is no longer checked.
//! - Sockets with connections that callers poll (`ownership`).
//! - Links that have moved much data at once: when they are idle, their queues are shrunk. A link with queues that
//!   stay idle but not empty for [`FULL_LOOKS`] checks is left alone.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::WATCH_TICK;
use crate::io::Io;
use crate::link::{self, Link};
use crate::mailbox::Mailbox;
use crate::ownership::{Checked, OWNERSHIP_TICK};
use crate::pipe::PipeId;

/// Checks without a new message after which a link is no longer checked.
const QUIET_LOOKS: u32 = 20;
/// Links of one socket that are checked before other sockets have their turn.
const LINKS_A_TURN: usize = 256;
/// How often to check whether a link that has moved much is idle.
const SHRINK_TICK: Duration = Duration::from_millis(500);
/// Checks of an idle link with non-empty queues after which it is left alone.
const FULL_LOOKS: u32 = 20;

#[derive(Default)]
pub(super) struct Housekeeping {
    left: Vec<UnflushedSocket>,
    next_look: Option<Instant>,
    ownerships: Vec<(Arc<Mailbox>, Option<u32>)>,
    next_check: Option<Instant>,
    /// Links with queues that may have grown, by the link's address.
    queues_grown: HashMap<usize, QueuesGrown>,
    next_shrink: Option<Instant>,
}

struct QueuesGrown {
    link: Arc<Link>,
    /// Checks that found data in its queues while it was idle.
    full: u32,
}

/// A socket with messages that its senders left unwritten.
struct UnflushedSocket {
    mailbox: Arc<Mailbox>,
    links: Vec<CheckedLink>,
    /// Index of the next link in the current check.
    at: usize,
    /// When the last check ended.
    looked: Instant,
    /// `Mailbox::sent` at the last check.
    sent: u64,
}

struct CheckedLink {
    link: Arc<Link>,
    quiet: u32,
    /// `Link::end_flush_checks` was called; one more check covers what was sent meanwhile.
    let_go: bool,
}

impl Housekeeping {
    pub(super) fn check_flush(&mut self, mailbox: Arc<Mailbox>, pipe: PipeId) {
        let Some(link) = mailbox.link_of(pipe) else { return };
        let checked = CheckedLink { link, quiet: 0, let_go: false };
        match self.left.iter_mut().find(|left| Arc::ptr_eq(&left.mailbox, &mailbox)) {
            Some(left) => left.links.push(checked),
            None => self.left.push(UnflushedSocket {
                mailbox,
                links: vec![checked],
                at: 0,
                looked: Instant::now(),
                sent: 0,
            }),
        }
        self.next_look.get_or_insert_with(|| Instant::now() + WATCH_TICK);
    }

    pub(super) fn check_ownership(&mut self, mailbox: Arc<Mailbox>) {
        if !self.ownerships.iter().any(|(other, _)| Arc::ptr_eq(other, &mailbox)) {
            self.ownerships.push((mailbox, None));
        }
        self.next_check.get_or_insert_with(|| Instant::now() + OWNERSHIP_TICK);
    }

    pub(super) fn queues_grown(&mut self, mailbox: &Mailbox, pipe: PipeId) {
        let Some(link) = mailbox.link_of(pipe).filter(|link| !link.is_closing()) else { return };
        self.queues_grown.entry(Arc::as_ptr(&link) as usize).or_insert(QueuesGrown { link, full: 0 });
        self.next_shrink.get_or_insert_with(|| Instant::now() + SHRINK_TICK);
    }

    /// A link closes: its queues will soon be freed.
    pub(super) fn forget(&mut self, link: &Arc<Link>) {
        if self.queues_grown.remove(&(Arc::as_ptr(link) as usize)).is_some() && self.queues_grown.is_empty() {
            self.next_shrink = None;
        }
    }

    /// When the next check is due.
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
            self.ownerships.retain_mut(|(mailbox, before)| {
                match mailbox.ownership.check(io, mailbox, *before) {
                    Checked::Again(visits) => {
                        *before = Some(visits);
                        true
                    }
                    Checked::Done => false,
                }
            });
            self.next_check = (!self.ownerships.is_empty()).then(|| now + OWNERSHIP_TICK);
        }
        if self.next_shrink.is_some_and(|at| at <= now) {
            self.queues_grown.retain(|_, one| one.keeps());
            self.next_shrink = (!self.queues_grown.is_empty()).then(|| now + SHRINK_TICK);
        }
    }
}

impl QueuesGrown {
    /// Checks the link, and shrinks its queues if they are idle. False: it is no longer checked.
    fn keeps(&mut self) -> bool {
        if self.link.is_broken() {
            return false;
        }
        if self.link.has_streamed() {
            self.full = 0;
            return true;
        }
        self.full += 1;
        self.link.clear_queues_grown(); // Later growth is reported again.
        let empty = self.link.mailbox.socket().is_none_or(|socket| socket.shrink(&self.link));
        !empty && self.full < FULL_LOOKS
    }
}

impl UnflushedSocket {
    /// Checks the links, or the next LINKS_A_TURN of them. While messages keep coming and links are many,
    /// the next check waits longer, so that each link batches more messages.
    fn look(&mut self, io: &Io, now: Instant) {
        let age = Duration::from_nanos(link::flush_age(self.mailbox.links()));
        let sent = self.mailbox.sends.sent();
        let goes_on = std::mem::replace(&mut self.sent, sent) != sent;
        if self.at == 0 && goes_on && age > WATCH_TICK && now < self.looked + age {
            return;
        }
        for _ in 0..LINKS_A_TURN {
            let Some(checked) = self.links.get_mut(self.at) else { break };
            if !checked.keeps() {
                self.links.swap_remove(self.at);
                continue;
            }
            self.at += 1;
            // Its writes wait for the kernel, so some thread must poll the set.
            let (link, mailbox) = (&checked.link, &self.mailbox);
            if link.is_blocked() && mailbox.ownership.is_taken() && mailbox.ownership.is_empty() {
                mailbox.ownership.reclaim(io, mailbox, false);
            }
        }
        if self.at >= self.links.len() {
            (self.at, self.looked) = (0, Instant::now());
        }
    }
}

impl CheckedLink {
    /// Checks the link. False: it is no longer checked.
    fn keeps(&mut self) -> bool {
        if self.link.is_broken() {
            return false;
        }
        if self.link.flush_left_behind(self.let_go) {
            self.quiet = 0;
        } else {
            self.quiet += 1;
        }
        if self.let_go {
            return false;
        }
        if self.quiet >= QUIET_LOOKS {
            self.link.end_flush_checks();
            self.let_go = true;
        }
        true
    }
}
