//! Pacing: the streams with something to do take turns.
//!
//! A stream waits at most once, however often it is listed, and one that has more to do goes to the end: no stream can
//! delay another by more than one turn.
//!
//! ```
//! use pinnace_stream::RoundRobin;
//!
//! let mut ready = RoundRobin::default();
//! ready.enqueue(7);
//! ready.enqueue(2);
//! ready.enqueue(7);
//! assert_eq!(ready.take(), Some(7));
//! ready.enqueue(7); // It has more to do.
//! assert_eq!((ready.take(), ready.take(), ready.take()), (Some(2), Some(7), None));
//! ```

use std::collections::VecDeque;

/// A queue of stream indexes, each listed at most once. Its memory grows with the largest index.
#[derive(Debug, Clone, Default)]
pub struct RoundRobin {
    queue: VecDeque<usize>,
    /// By index: it is in `queue`.
    is_listed: Vec<bool>,
}

impl RoundRobin {
    /// Puts an index at the end, unless it waits already.
    #[inline]
    pub fn enqueue(&mut self, index: usize) {
        if index >= self.is_listed.len() {
            self.is_listed.resize(index + 1, false);
        }
        if !std::mem::replace(&mut self.is_listed[index], true) {
            self.queue.push_back(index);
        }
    }

    /// Takes the index whose turn it is.
    #[inline]
    pub fn take(&mut self) -> Option<usize> {
        let index = self.queue.pop_front()?;
        self.is_listed[index] = false;
        Some(index)
    }

    /// Returns true if no index waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_waits_once_in_the_order_of_listing(
            steps in prop::collection::vec(prop::option::of(0_usize..6), 0..100),
        ) {
            let (mut ready, mut model) = (RoundRobin::default(), Vec::new());
            for step in steps {
                match step {
                    Some(index) => {
                        ready.enqueue(index);
                        if !model.contains(&index) {
                            model.push(index);
                        }
                    }
                    None => {
                        let next = (!model.is_empty()).then(|| model.remove(0));
                        assert_eq!(ready.take(), next);
                    }
                }
                assert_eq!(ready.is_empty(), model.is_empty());
            }
        }
    }
}
