//! Files that another transfer writes: they are tried again until it has ended, for some time.
//!
//! It may be the same upload, over a connection whose loss the server has not noticed yet.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long a file is tried again: longer than a server takes to notice that a client is gone.
const WAIT: Duration = Duration::from_secs(15);
/// The pause before it is tried again: the first one, and the longest; each is twice the one before.
const PAUSE: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(160);

/// The files, by the sender's path.
#[derive(Default)]
pub struct InUse(BTreeMap<Vec<u8>, TriedLater>);

struct TriedLater {
    until: Instant,
    pause: Duration,
    /// None: it was asked for again.
    next: Option<Instant>,
}

impl InUse {
    /// Has a file tried again later. False: that was done for long enough.
    pub fn wait(&mut self, filename: &[u8], now: Instant) -> bool {
        let new = TriedLater { until: now + WAIT, pause: PAUSE, next: None };
        let waiting = self.0.entry(filename.to_vec()).or_insert(new);
        let is_patient = now < waiting.until;
        waiting.next = Some(now + waiting.pause);
        waiting.pause = (2 * waiting.pause).min(PAUSE_MAX);
        if !is_patient {
            self.forget(filename);
        }
        is_patient
    }

    /// Whether a file is, or was, tried again.
    pub fn has(&self, filename: &[u8]) -> bool {
        self.0.contains_key(filename)
    }

    /// When a file is to be tried again. None: none waits.
    pub fn due(&self) -> Option<Instant> {
        self.0.values().filter_map(|waiting| waiting.next).min()
    }

    /// The files that are to be tried again now.
    pub fn take_due(&mut self, now: Instant) -> Vec<Vec<u8>> {
        let is_due = |(filename, waiting): (&Vec<u8>, &mut TriedLater)| {
            waiting.next.take_if(|next| *next <= now).map(|_| filename.clone())
        };
        self.0.iter_mut().filter_map(is_due).collect()
    }

    /// A file is tried no more.
    pub fn forget(&mut self, filename: &[u8]) {
        self.0.remove(filename);
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_tried_again_for_some_time() {
        let (mut files, began) = (InUse::default(), Instant::now());
        assert_eq!((files.due(), files.has(b"a")), (None, false));
        let (mut now, mut tries) = (began, 0);
        while files.wait(b"a", now) {
            assert!(files.take_due(now).is_empty());
            now = files.due().unwrap();
            assert_eq!(files.take_due(now), [b"a"]);
            assert_eq!((files.due(), files.has(b"a")), (None, true));
            tries += 1;
        }
        assert!(now - began >= WAIT && now - began < WAIT + PAUSE_MAX);
        assert!((95..110).contains(&tries), "{tries}");
        assert_eq!((files.due(), files.has(b"a")), (None, false));
    }
}
