//! Pull: the receiver's end of a stream whose messages several receivers share.
//!
//! The receiver asks for messages, so that a message waits here only if it will be handled soon. It asks for one when
//! its handler has nothing to do. It asks for more in advance as long as these wait for at most [`AHEAD`], judged by
//! the rate at which the handler takes messages. Messages that wait for longer than [`RETURN_AFTER`], because the
//! handler has become slower, are returned to the sender.
//!
//! All counts are of whole messages of one generation. A generation begins with each report to the sender. A frame of
//! an earlier generation was sent before the sender had the report, and is dropped.
//!
//! ```
//! use std::time::{Duration, Instant};
//! use pinnace_stream::{Arrival, Pull};
//!
//! let (mut pull, now) = (Pull::default(), Instant::now());
//! let (generation, wanted) = pull.restart(0, 1);
//! assert_eq!((wanted, pull.check(generation, 0)), (1, Arrival::InTurn));
//! pull.take(Duration::ZERO, || now);
//! assert_eq!(pull.to_announce(), None, "its handler is busy");
//! pull.ask(now + Duration::from_millis(1));
//! assert_eq!(pull.to_announce(), Some(3), "one to handle now, and one in advance");
//! assert_eq!(pull.check(generation - 1, 5), Arrival::Old);
//! ```

use std::time::{Duration, Instant};

/// How long a message that is asked for in advance may wait for its handler.
pub const AHEAD: Duration = Duration::from_millis(50);
/// How long messages may wait for their handler before they are returned.
pub const RETURN_AFTER: Duration = Duration::from_millis(500);
/// The most messages asked for in advance. Their bytes are limited by credit.
const MOST_AHEAD: u64 = 1 << 16;

/// The messages that a receiver asks of one stream.
#[derive(Debug, Clone, Default)]
pub struct Pull {
    generation: u64,
    /// The index of the next frame.
    next: u64,
    /// Messages asked for, announced as such, received, and taken by handlers.
    wanted: u64,
    announced: u64,
    received: u64,
    taken: u64,
    /// More was asked for after all messages asked for before had been received: the sender may have more than that.
    is_limited: bool,
    /// How many to ask for in advance.
    ahead: u64,
    /// Messages that waited here when the generation began: they are not counted.
    earlier: u64,
    /// The first message taken since the last `ask`, and how many were taken since.
    since: Option<Instant>,
    count: u32,
}

/// What to do with a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// It is the next one.
    InTurn,
    /// It is of an earlier generation: drop it.
    Old,
    /// One before it is missing: drop it, and report again.
    Gap,
}

impl Pull {
    /// Begins a generation in which `wanted` messages are asked for at first, beyond those that are `waiting` here.
    /// Returns its number, and `wanted`.
    pub fn restart(&mut self, waiting: u64, wanted: u64) -> (u64, u64) {
        self.generation += 1;
        (self.next, self.received, self.taken, self.earlier) = (0, 0, 0, waiting);
        (self.wanted, self.announced) = (wanted, wanted);
        (self.generation, wanted)
    }

    /// A frame has arrived.
    pub fn check(&mut self, generation: u64, index: u64) -> Arrival {
        if generation != self.generation {
            return Arrival::Old;
        }
        if index != self.next {
            return Arrival::Gap;
        }
        self.next += 1;
        Arrival::InTurn
    }

    /// A message has arrived.
    #[inline]
    pub fn receive(&mut self) {
        self.received += 1;
    }

    /// A message is taken by its handler, or need not be handled. `waited`: how long it has waited here. `now` is only
    /// called if the time is needed.
    #[inline]
    pub fn take(&mut self, waited: Duration, now: impl FnOnce() -> Instant) {
        match self.earlier {
            0 => self.taken += 1,
            _ => self.earlier -= 1,
        }
        if self.count == 0 {
            self.since = Some(now());
        }
        self.count = self.count.saturating_add(1);
        if waited > AHEAD {
            self.ahead /= 2;
        }
        if self.wanted.saturating_sub(self.taken) <= self.ahead / 2 {
            self.raise(self.taken + self.ahead);
        }
    }

    fn raise(&mut self, wanted: u64) {
        if wanted > self.wanted {
            self.is_limited |= self.received >= self.announced;
            self.wanted = wanted;
        }
    }

    /// A handler asks for a message, and none is here.
    pub fn ask(&mut self, now: Instant) {
        let has_none = self.wanted <= self.taken && self.earlier == 0;
        self.is_limited |= has_none;
        if let Some(since) = self.since.take().filter(|_| self.is_limited) {
            let each = now.saturating_duration_since(since) / self.count.max(1);
            let fit = AHEAD.as_nanos() / each.as_nanos().max(1);
            let fit = u64::try_from(fit).unwrap_or(u64::MAX).min(MOST_AHEAD);
            self.ahead = (self.ahead * 2).max(1).min(fit);
            self.is_limited = false;
        }
        self.count = 0;
        if has_none {
            self.raise(self.taken + 1 + self.ahead);
        } else if self.wanted.saturating_sub(self.taken) <= self.ahead / 2 {
            self.raise(self.taken + self.ahead);
        }
    }

    /// Of the messages that waited when the generation began, at most this many are left.
    pub fn forget_earlier(&mut self, waiting: u64) {
        self.earlier = self.earlier.min(waiting);
    }

    /// Returns true if a new total is to be announced now: all messages announced so far have arrived. Otherwise it may
    /// be announced when something else is sent to the sender.
    #[inline]
    pub fn is_urgent(&self) -> bool {
        self.wanted > self.announced && self.received >= self.announced
    }

    /// The new total to announce, if there is one.
    pub fn to_announce(&mut self) -> Option<u64> {
        let is_new = self.wanted > self.announced;
        self.announced = self.wanted;
        is_new.then_some(self.wanted)
    }

    /// The present generation.
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// The round trip to the sender.
    const TRIP: Duration = Duration::from_micros(200);

    /// Handles `count` messages that take `each`, from a sender that has always enough. Returns the longest time that
    /// one of the second half waited, and how long all took.
    fn handle(pull: &mut Pull, count: u32, each: Duration) -> (Duration, Duration) {
        let begin = Instant::now();
        let (mut time, mut longest) = (begin, Duration::ZERO);
        let (mut waiting, mut on_its_way) = (VecDeque::new(), VecDeque::new());
        let mut sent = pull.received;
        for at in 0..count {
            loop {
                while on_its_way.front().is_some_and(|arrival| *arrival <= time) {
                    waiting.extend(on_its_way.pop_front());
                    pull.receive();
                }
                if waiting.is_empty() {
                    pull.ask(time);
                }
                let wanted = pull.to_announce().unwrap_or(pull.announced);
                (sent..wanted).for_each(|_| on_its_way.push_back(time + TRIP));
                sent = sent.max(wanted);
                match (waiting.is_empty(), on_its_way.front()) {
                    (false, _) => break,
                    (true, arrival) => time = *arrival.expect("it has asked"),
                }
            }
            let waited = time - waiting.pop_front().unwrap();
            longest = if at < count / 2 { longest } else { longest.max(waited) };
            pull.take(waited, || time);
            time += each;
        }
        // What is under way arrives, and is taken too.
        for _ in waiting.iter().chain(&on_its_way) {
            pull.take(Duration::ZERO, || time);
        }
        on_its_way.iter().for_each(|_| pull.receive());
        (longest, time - begin)
    }

    #[test]
    fn as_many_in_advance_as_are_handled_soon() {
        let mut pull = Pull::default();
        pull.restart(0, 1);
        let slow = Duration::from_millis(100);
        assert_eq!((handle(&mut pull, 20, slow).0, pull.ahead), (Duration::ZERO, 0));
        let (each, count) = (Duration::from_micros(1), 100_000);
        let (longest, took) = handle(&mut pull, count, each);
        assert!(longest <= AHEAD && took < each * count * 5 / 4, "{longest:?} {took:?} {}", pull.ahead);
        handle(&mut pull, 2000, Duration::from_millis(10));
        assert!(pull.ahead <= 5, "{}", pull.ahead);
    }

    #[test]
    fn an_idle_receiver_asks_for_few() {
        let mut pull = Pull::default();
        pull.restart(0, 1);
        let mut time = Instant::now();
        for _ in 0..100 {
            pull.receive();
            pull.take(Duration::ZERO, || time);
            time += Duration::from_micros(1);
            pull.ask(time);
            pull.to_announce();
            time += Duration::from_secs(1);
        }
        assert!(pull.ahead <= 2 && pull.wanted - pull.taken <= 3, "{pull:?}");
    }

    #[test]
    fn a_frame_is_in_turn_once() {
        let mut pull = Pull::default();
        let (generation, _) = pull.restart(0, 1);
        assert_eq!(pull.check(generation, 0), Arrival::InTurn);
        assert_eq!((pull.check(generation, 0), pull.check(generation, 2)), (Arrival::Gap, Arrival::Gap));
        assert_eq!(
            (pull.check(generation, 1), pull.check(generation + 1, 0)),
            (Arrival::InTurn, Arrival::Old)
        );
    }

    #[test]
    fn messages_of_earlier_generations_are_not_counted() {
        let mut pull = Pull::default();
        pull.restart(2, 0);
        let now = Instant::now();
        (0..2).for_each(|_| pull.take(Duration::ZERO, || now));
        assert_eq!(pull.to_announce(), None);
        pull.ask(now + Duration::from_secs(1));
        assert_eq!(pull.to_announce(), Some(1));
    }
}
