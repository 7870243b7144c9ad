//! Heartbeats (RFC 37, PING and PONG): a peer that stays silent for too long is considered lost.
//!
//! With ZMQ_HEARTBEAT_IVL a PING is sent each interval, and a frame of any kind, or a large part of one, has to
//! arrive within ZMQ_HEARTBEAT_TIMEOUT. A peer's PING carries a time to live: the peer promises to send again within
//! it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pinnace_zmtp::command;

use super::{Entry, Reactor};
use crate::link::Link;
use crate::mailbox::Mailbox;
use crate::options::Options;
use crate::pipe::PipeId;

/// A check that runs this late says nothing about the peer.
const LATE: Duration = Duration::from_millis(5);

/// The heartbeat state of one connection.
pub(super) struct Heartbeat {
    link: Arc<Link>,
    interval: Option<Duration>,
    timeout: Duration,
    ttl_ds: u16,
    next_ping: Option<Instant>,
    /// When the PING was sent that is not answered yet.
    pinged_at: Instant,
    /// Deadline for any input after that PING.
    answer_by: Option<Instant>,
}

impl Reactor {
    /// Starts the heartbeats of a new connection, if they are enabled.
    pub(super) fn heartbeat(&mut self, link: &Arc<Link>, options: &Options) {
        if options.heartbeat_ivl.is_zero() || !link.speaks_heartbeats || !link.begin_heartbeats() {
            return;
        }
        let interval = options.heartbeat_ivl;
        let timeout = options.heartbeat_timeout.unwrap_or(interval);
        let ttl_ds = u16::try_from(options.heartbeat_ttl.as_millis() / 100).unwrap_or(u16::MAX);
        self.begin(link.clone(), Some(interval), timeout, ttl_ds);
    }

    /// A peer has announced a time to live: starts checking its liveness.
    pub(super) fn await_peer(&mut self, mailbox: &Mailbox, pipe: PipeId) {
        if let Some(link) = mailbox.link_of(pipe) {
            self.begin(link, None, Duration::ZERO, 0);
        }
    }

    fn begin(&mut self, link: Arc<Link>, interval: Option<Duration>, timeout: Duration, ttl_ds: u16) {
        let now = Instant::now();
        let next_ping = interval.map(|interval| now + interval);
        let heartbeat =
            Heartbeat { link, interval, timeout, ttl_ds, next_ping, pinged_at: now, answer_by: None };
        let token = self.io.token();
        self.timers.set(token, heartbeat.next(now));
        self.entries.insert(token, Entry::Heartbeat(Box::new(heartbeat)));
    }

    pub(super) fn heartbeat_timer(&mut self, token: u64, now: Instant) {
        let Some(Entry::Heartbeat(heartbeat)) = self.entries.get_mut(&token) else { return };
        if heartbeat.link.is_broken() || !heartbeat.keeps(now) {
            heartbeat.link.cut();
            self.entries.remove(&token);
            return;
        }
        let next = heartbeat.next(now);
        self.timers.set(token, next);
    }
}

impl Heartbeat {
    /// Does what is due. False: the peer is lost.
    fn keeps(&mut self, now: Instant) -> bool {
        // Input that no caller has read yet counts as liveness.
        self.link.read();
        let quiet = if self.link.has_unread() { Duration::ZERO } else { self.link.quiet_for() };
        if self.link.peer_ttl().is_some_and(|ttl| quiet >= ttl) {
            return false;
        }
        if let Some(by) = self.answer_by {
            let heard_at = Instant::now().checked_sub(quiet);
            if heard_at.is_some_and(|heard_at| heard_at > self.pinged_at) {
                self.answer_by = None;
            } else if now > by + LATE {
                self.answer_by = Some(now + self.timeout); // This thread itself ran late.
            } else if by <= now {
                return false;
            }
        }
        if let (Some(at), Some(interval)) = (self.next_ping, self.interval)
            && at <= now
        {
            let mut ping = Vec::new();
            command::encode_ping(self.ttl_ds, b"", &mut ping);
            self.next_ping = Some(now + interval);
            if !self.timeout.is_zero() && self.answer_by.is_none() {
                self.pinged_at = Instant::now();
                self.answer_by = Some(now + self.timeout);
            }
            self.link.pinged();
            self.link.send_control(&ping);
        }
        true
    }

    /// When to check again.
    fn next(&self, now: Instant) -> Instant {
        let ttl = self.link.peer_ttl().map(|ttl| now + ttl.saturating_sub(self.link.quiet_for()));
        let at = [self.next_ping, self.answer_by, ttl].into_iter().flatten().min();
        at.unwrap_or(now + Duration::from_secs(1)).max(now + Duration::from_millis(1))
    }
}
