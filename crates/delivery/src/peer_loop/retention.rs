//! Enforces the limits on messages that wait for receivers that are away and for later subscribers, and drops the
//! messages for clients that were forgotten.

use std::time::{Duration, Instant};

use super::{PeerLoop, TRY_AGAIN_AFTER};
use crate::Error;
use crate::environment::{now, now_ms};
use crate::registry::Lasting;
use crate::store::RetainLimits;
use crate::store::records::{Receiver, StreamRecord};

/// The limits apply to a receiver that is away for this long, or for the age limit if that is shorter: a restart of a
/// receiver with a long backlog drops nothing of it.
const AWAY_AFTER: Duration = Duration::from_secs(600);
/// Between two checks, at most and at least.
const CHECK_EVERY: Duration = Duration::from_secs(10);
const CHECK_AT_LEAST: Duration = Duration::from_millis(20);
/// Bytes of bodies moved at once from the stream of a forgotten client.
const MOVE_BYTES: usize = 256 << 10;

/// When the limits are checked next.
#[derive(Default)]
pub struct Retention {
    check_at: Option<Instant>,
}

/// Why messages of a stream may have to be dropped.
enum Excess {
    Limit(RetainLimits),
    Forget,
}

impl RetainLimits {
    fn away_after(&self) -> Duration {
        self.age.map_or(AWAY_AFTER, |age| age.min(AWAY_AFTER))
    }

    fn check_every(&self) -> Duration {
        self.age.map_or(CHECK_EVERY, |age| (age / 8).clamp(CHECK_AT_LEAST, CHECK_EVERY))
    }
}

impl Retention {
    pub fn check_at(&self) -> Option<Instant> {
        self.check_at
    }

    /// Has everything checked at once: the members or the clients have changed.
    pub fn wake(&mut self) {
        self.check_at = Some(now());
    }
}

impl PeerLoop {
    /// Checks all streams against the limits, if a check is due.
    pub(super) fn enforce_retention(&mut self) {
        let now = now();
        if self.retention.check_at.is_none_or(|at| at > now) {
            return;
        }
        let mut next = self.inward.iter().map(|inward| inward.limits.check_every()).min();
        let streams: Vec<StreamRecord> = {
            let state = self.store.lock();
            let holds = state.outbox.iter().filter(|of| of.record.last > of.record.done.all_upto());
            holds.map(|of| of.record.clone()).collect()
        };
        for record in streams {
            let done = match self.excess_of(&record, now) {
                Some(Excess::Limit(limits)) => self.limit(&record, &limits),
                Some(Excess::Forget) => self.forget(&record),
                None => Ok(()),
            };
            if done.is_err() {
                next = Some(TRY_AGAIN_AFTER);
            }
        }
        self.retention.check_at = next.map(|after| now + after);
    }

    fn excess_of(&self, record: &StreamRecord, now: Instant) -> Option<Excess> {
        let client = record.client;
        let limits = self.inward.iter().find(|inward| inward.client.number == client)?.limits;
        let Receiver::Client(name) = &record.receiver else {
            return (record.receiver == Receiver::Later).then_some(Excess::Limit(limits));
        };
        let lane = self.outward.lanes.lane(record.number);
        if lane.is_some_and(|lane| self.outward.lanes.is_connected(lane.peer())) {
            return None;
        }
        let member = self.members.iter().find(|(other, _)| *other == client)?.1.find(name);
        if member.is_some_and(|member| member.lasting == Lasting::Forgotten) {
            return Some(Excess::Forget);
        }
        let away = self.reassign.away_since(record.number)?;
        (now.duration_since(away) >= limits.away_after()).then_some(Excess::Limit(limits))
    }

    fn limit(&mut self, record: &StreamRecord, limits: &RetainLimits) -> Result<(), Error> {
        let dropped = self.store.drop_beyond(record.number, limits, now_ms())?;
        self.report_dropped(record, dropped);
        Ok(())
    }

    fn forget(&mut self, record: &StreamRecord) -> Result<(), Error> {
        let (dropped, moved_to) = self.store.forget_stream(record.number, MOVE_BYTES)?;
        moved_to.into_iter().for_each(|stream| self.find(stream));
        self.report_dropped(record, dropped);
        Ok(())
    }

    fn report_dropped(&self, record: &StreamRecord, messages: u64) {
        if messages > 0 {
            let receiver = match &record.receiver {
                Receiver::Client(name) => Some(name.clone()),
                Receiver::Anyone | Receiver::Later => None,
            };
            let topic = record.topic.clone();
            self.notify(record.client, &Error::Dropped { receiver, topic, messages });
        }
    }
}
