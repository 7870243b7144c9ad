//! How much the server may send: the window, which follows bandwidth and round trip.
//!
//! A window of W bytes allows W bytes in each round trip. The round trip is measured when nothing else is under way.
//! From then on the bytes that arrive in a period give the rate. If twice the rate times the round trip exceeds the
//! window, the window grows to that, up to a limit: it doubles for as long as it is what limits the rate.

use std::time::{Duration, Instant};

use pinnace_stream::{CreditExceeded, ReceiverCredit};

/// The window of a new connection, in bytes.
const WINDOW: u64 = 2 << 20;

/// The largest window, in bytes, if the program does not choose.
pub const WINDOW_MAX_BYTES: u64 = 16 << 20;

/// The most octets of an entry of a listing, which may exceed the credit: names, and extended attributes.
const ENTRY_MAX: u64 = 128 << 10;

/// How long the rate is measured, at least.
const PERIOD: Duration = Duration::from_millis(10);

/// The round trip counts as at least this long. Threads of either side wait for a processor, or for the disk, about as
/// long, and nothing should stand still meanwhile.
const ROUND_TRIP_MIN: Duration = Duration::from_millis(2);

/// The credit that a client grants.
pub struct Window {
    credit: ReceiverCredit,
    window: u64,
    /// It grows by multiples of the largest chunk, so that few chunks are cut where the credit ends.
    unit: u64,
    limit: u64,
    announced: u64,
    round_trip: Option<Duration>,
    /// The current period: its beginning, and the bytes that arrived.
    period: Option<(Instant, u64)>,
}

impl Window {
    /// `limit`: the largest window; `most`: the largest chunk, which may exceed the credit.
    pub fn new(limit: u64, most: u64) -> Window {
        let window = WINDOW.min(limit);
        let (credit, round_trip, period) = (ReceiverCredit::new(window, most.max(ENTRY_MAX), 0), None, None);
        Window { credit, window, unit: most.max(1), limit, announced: 0, round_trip, period }
    }

    /// The first credit of a connection.
    pub fn first(&mut self) -> u64 {
        self.announce(self.credit.granted())
    }

    pub fn set_round_trip(&mut self, round_trip: Duration) {
        self.round_trip = Some(round_trip);
    }

    /// Counts content that arrived. Returns further credit to grant. Error: the server has no credit for it.
    pub fn receive(&mut self, bytes: u64, now: Instant) -> Result<Option<u64>, CreditExceeded> {
        self.credit.receive(bytes)?;
        let Some(round_trip) = self.round_trip.map(|measured| measured.max(ROUND_TRIP_MIN)) else {
            return Ok(None);
        };
        let (began, arrived) = self.period.get_or_insert((now, 0));
        *arrived += bytes;
        let elapsed = now.duration_since(*began);
        if elapsed < round_trip.max(PERIOD) {
            return Ok(None);
        }
        let rate = *arrived as f64 / elapsed.as_secs_f64();
        self.period = Some((now, 0));
        let wanted = ((2.0 * rate * round_trip.as_secs_f64()) as u64).next_multiple_of(self.unit);
        let more = wanted.min(self.limit).saturating_sub(self.window);
        if more == 0 {
            return Ok(None);
        }
        self.window += more;
        let total = self.credit.enlarge(more);
        Ok(Some(self.announce(total)))
    }

    /// Gives credit back for content that is settled. Returns the credit to grant, if that is due.
    pub fn give_back(&mut self, bytes: u64) -> Option<u64> {
        let total = self.credit.give_back(bytes)?;
        Some(self.announce(total))
    }

    fn announce(&mut self, total: u64) -> u64 {
        total - std::mem::replace(&mut self.announced, total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a link and a server that sends all that it may. Returns the rate after a second, in bytes a second.
    fn rate(bytes_per_s: u64, round_trip: Duration, limit: u64) -> f64 {
        const CHUNK_BYTES: u64 = 64 << 10;
        let (mut window, began) = (Window::new(limit, CHUNK_BYTES), Instant::now());
        window.set_round_trip(round_trip);
        let mut granted = window.first();
        let (mut sent, mut now, mut noms) = (0, began, std::collections::VecDeque::new());
        let (mut counted, end) = (0, began + Duration::from_secs(3));
        while now < end {
            while noms.front().is_some_and(|(at, _)| *at <= now) {
                granted += noms.pop_front().map_or(0, |(_, credit)| credit);
            }
            now += Duration::from_secs_f64(CHUNK_BYTES as f64 / bytes_per_s as f64);
            if sent + CHUNK_BYTES > granted {
                continue;
            }
            sent += CHUNK_BYTES;
            let enlarged = window.receive(CHUNK_BYTES, now).unwrap();
            noms.extend(
                enlarged
                    .into_iter()
                    .chain(window.give_back(CHUNK_BYTES))
                    .map(|credit| (now + round_trip, credit)),
            );
            counted += if now > began + Duration::from_secs(1) { CHUNK_BYTES } else { 0 };
        }
        counted as f64 / 2.0
    }

    #[test]
    fn a_long_link_is_filled_up_to_the_limit() {
        let (gigabit, long) = (125_000_000, Duration::from_millis(50));
        assert!(rate(gigabit, long, 16 << 20) > 0.97 * gigabit as f64);
        let limited = rate(gigabit, long, WINDOW);
        assert!(limited < 1.05 * WINDOW as f64 / long.as_secs_f64(), "{limited}");
    }

    /// What a window grows to within a host, if content arrives at this rate.
    fn within_host(bytes_per_ms: u64) -> u64 {
        let mut window = Window::new(64 << 20, 1 << 18);
        window.set_round_trip(Duration::from_micros(100));
        window.first();
        let began = Instant::now();
        for step in 1..1000 {
            window.receive(bytes_per_ms, began + Duration::from_millis(step)).unwrap();
            window.give_back(bytes_per_ms);
        }
        window.window
    }

    #[test]
    fn within_a_host_only_a_fast_sender_gets_a_larger_window() {
        assert_eq!(within_host(1 << 18), WINDOW);
        let fast = within_host(1 << 21);
        assert!((8 << 20..=10 << 20).contains(&fast), "{fast}");
    }
}
