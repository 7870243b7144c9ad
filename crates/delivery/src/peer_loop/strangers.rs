//! Peers that a client does not admit: they cannot authenticate, or use the name of another client.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::network::FailedHandshake;
use crate::environment::now;

/// A peer that was quiet for this long is reported again. Refused peers try again after 10 s at the latest.
const QUIET: Duration = Duration::from_secs(30);
/// The most peers that are remembered and reported.
const STRANGERS_MAX: usize = 64;

/// The peers that were not admitted lately.
#[derive(Default)]
pub struct Strangers {
    /// By address and reason.
    seen: HashMap<(String, String), Attempted>,
    news: Vec<FailedHandshake>,
    total: u64,
}

struct Attempted {
    attempts: u64,
    last: Instant,
}

/// A peer that was not admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stranger {
    pub address: String,
    pub reason: String,
    pub attempts: u64,
    pub last: Instant,
}

impl Strangers {
    /// A peer was not admitted. It is news if it was not seen with this reason lately.
    pub fn note(&mut self, failed: FailedHandshake) {
        self.total += 1;
        let (of, time) = ((failed.address.clone(), failed.reason.clone()), now());
        if let Some(before) = self.seen.get_mut(&of) {
            let was_quiet = time.saturating_duration_since(before.last) >= QUIET;
            (before.attempts, before.last) = (before.attempts + 1, time);
            if was_quiet {
                self.news.push(failed);
            }
            return;
        }
        if self.seen.len() >= STRANGERS_MAX {
            self.seen.retain(|_, before| time.saturating_duration_since(before.last) < QUIET);
        }
        // A flood of addresses is counted, and not reported one by one.
        if self.seen.len() < STRANGERS_MAX {
            self.seen.insert(of, Attempted { attempts: 1, last: time });
            self.news.push(failed);
        }
    }

    /// Those to report, since the last call.
    pub fn take_news(&mut self) -> Vec<FailedHandshake> {
        std::mem::take(&mut self.news)
    }

    /// How often a peer was not admitted.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Those that tried lately, sorted by address.
    pub fn recent(&self) -> Vec<Stranger> {
        let recent = self.seen.iter().filter(|(_, of)| now().saturating_duration_since(of.last) < QUIET);
        let mut recent: Vec<Stranger> = recent
            .map(|((address, reason), of)| {
                let (address, reason) = (address.clone(), reason.clone());
                Stranger { address, reason, attempts: of.attempts, last: of.last }
            })
            .collect();
        recent.sort_by(|one, other| (&one.address, &one.reason).cmp(&(&other.address, &other.reason)));
        recent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(address: String) -> FailedHandshake {
        FailedHandshake { address, reason: "no key".to_owned() }
    }

    #[test]
    fn each_peer_is_news_once_and_a_flood_is_bounded() {
        let mut strangers = Strangers::default();
        for _ in 0..3 {
            strangers.note(failed("tcp://10.0.0.1".to_owned()));
        }
        assert_eq!(strangers.take_news().len(), 1);
        assert_eq!((strangers.recent()[0].attempts, strangers.total()), (3, 3));
        (0..1000).for_each(|number| strangers.note(failed(format!("tcp://10.0.1.{number}"))));
        assert_eq!((strangers.take_news().len(), strangers.total()), (STRANGERS_MAX - 1, 1003));
        assert_eq!(strangers.recent().len(), STRANGERS_MAX);
    }
}
