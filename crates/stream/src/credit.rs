//! Credit: the receiver of a connection bounds the bytes that it has to hold.
//!
//! The receiver announces a total, counted from the connection's beginning, and the sender spends it. Totals, not
//! increments: an announcement that is repeated or overtaken does no harm. The receiver gives credit back as messages
//! are handled, and announces it once a quarter of its window is free, so that not every message causes a frame.
//!
//! A sender with any credit left may send one whole frame. A receiver that sees more than that refuses the sender; a
//! sender does not believe an announcement of more than a window.
//!
//! ```
//! use pinnace_stream::{ReceiverCredit, SenderCredit};
//!
//! let mut receiver = ReceiverCredit::new(1000, 100, 0);
//! let mut sender = SenderCredit::new(1000);
//! assert!(sender.is_exhausted());
//! sender.grant(receiver.granted());
//!
//! sender.spend(1010); // The last frame may exceed the credit.
//! assert!(sender.is_exhausted());
//! assert!(receiver.receive(1010).is_ok());
//!
//! assert_eq!(receiver.give_back(200), None, "less than a quarter of the window");
//! sender.grant(receiver.give_back(810).unwrap());
//! assert!(!sender.is_exhausted());
//! ```

use std::error::Error;
use std::fmt;

/// The receiver's end of one connection's credit.
#[derive(Debug, Clone)]
pub struct ReceiverCredit {
    /// The window without what was held when the connection began; and how far that exceeded the window.
    free: u64,
    excess: u64,
    overdraft: u64,
    quarter: u64,
    /// Totals since the connection began: bytes received, bytes given back, and the credit announced.
    received: u64,
    given_back: u64,
    granted: u64,
}

/// The sender has sent more than its credit and the overdraft: it does not follow the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreditExceeded;

impl fmt::Display for CreditExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("more bytes than the credit granted")
    }
}

impl Error for CreditExceeded {}

impl ReceiverCredit {
    /// The credit of a new connection, all in bytes. `window`: the most that is granted and not given back.
    /// `overdraft`: how far the sender may exceed its credit; at least the largest frame. `held`: what is held of the
    /// sender's earlier connections, and is given back on this one; without it each reconnection would grant a window
    /// more.
    pub fn new(window: u64, overdraft: u64, held: u64) -> ReceiverCredit {
        let (free, excess) = (window.saturating_sub(held), held.saturating_sub(window));
        let quarter = window / 4;
        ReceiverCredit { free, excess, overdraft, quarter, received: 0, given_back: 0, granted: free }
    }

    /// The total that is granted now, to be announced when the connection begins.
    pub fn granted(&self) -> u64 {
        self.granted
    }

    /// The credit that the sender has not used yet, in bytes.
    pub fn outstanding(&self) -> u64 {
        self.granted.saturating_sub(self.received)
    }

    /// Returns true if the sender has spent what was announced to it.
    pub fn is_exhausted(&self) -> bool {
        self.outstanding() == 0
    }

    /// Counts what arrived.
    ///
    /// # Errors
    ///
    /// The sender has exceeded its credit by more than the overdraft.
    #[inline]
    pub fn receive(&mut self, cost: u64) -> Result<(), CreditExceeded> {
        self.received = self.received.saturating_add(cost);
        if self.received > self.granted.saturating_add(self.overdraft) {
            return Err(CreditExceeded);
        }
        Ok(())
    }

    /// Enlarges the window by `more` bytes. Returns the new total to announce.
    pub fn enlarge(&mut self, more: u64) -> u64 {
        self.free = self.free.saturating_add(more);
        self.quarter = self.quarter.saturating_add(more / 4);
        self.granted = self.given_back.saturating_sub(self.excess).saturating_add(self.free);
        self.granted
    }

    /// Gives back the credit of bytes that were received and are no longer held. Returns the new total to announce,
    /// once a quarter of the window is free.
    #[inline]
    pub fn give_back(&mut self, bytes: u64) -> Option<u64> {
        self.given_back = self.given_back.saturating_add(bytes);
        let total = self.given_back.saturating_sub(self.excess).saturating_add(self.free);
        if total - self.granted < self.quarter {
            return None;
        }
        self.granted = total;
        Some(total)
    }
}

/// The sender's end of one connection's credit.
#[derive(Debug, Clone)]
pub struct SenderCredit {
    window: u64,
    /// Totals since the connection began.
    granted: u64,
    spent: u64,
}

impl SenderCredit {
    /// A new connection, with no credit yet. `window`: the most bytes that a receiver grants.
    pub fn new(window: u64) -> SenderCredit {
        SenderCredit { window, granted: 0, spent: 0 }
    }

    /// The receiver grants credit up to `total`. It never decreases, and is at most a window beyond what was spent.
    pub fn grant(&mut self, total: u64) {
        self.granted = self.granted.max(total.min(self.spent.saturating_add(self.window)));
    }

    /// Returns true if nothing may be sent now.
    #[inline]
    pub fn is_exhausted(&self) -> bool {
        self.spent >= self.granted
    }

    /// How much may be sent now, in bytes.
    pub fn left(&self) -> u64 {
        self.granted.saturating_sub(self.spent)
    }

    /// Counts what is sent. With any credit left, this may exceed it.
    #[inline]
    pub fn spend(&mut self, cost: u64) {
        self.spent = self.spent.saturating_add(cost);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WINDOW: u64 = 1000;
    const FRAME: u64 = 300;

    proptest! {
        /// Frames and announcements arrive late and in batches, in order.
        #[test]
        fn a_sender_within_its_credit_is_never_refused_and_never_stuck(
            steps in prop::collection::vec((0_u8..4, 1..=FRAME), 0..200),
        ) {
            let mut receiver = ReceiverCredit::new(WINDOW, FRAME, 0);
            let mut sender = SenderCredit::new(WINDOW);
            let (mut frames, mut held, mut announced) = (Vec::new(), Vec::new(), vec![receiver.granted()]);
            let receive = |receiver: &mut ReceiverCredit, frames: &mut Vec<u64>, held: &mut Vec<u64>| {
                frames.iter().for_each(|cost| receiver.receive(*cost).unwrap());
                held.append(frames);
            };
            for (step, cost) in steps {
                match step {
                    0 if !sender.is_exhausted() => {
                        sender.spend(cost);
                        frames.push(cost);
                    }
                    0 => {}
                    1 => receive(&mut receiver, &mut frames, &mut held),
                    2 => announced.extend(held.pop().and_then(|cost| receiver.give_back(cost))),
                    _ => announced.drain(..).for_each(|total| sender.grant(total)),
                }
                let in_flight: u64 = frames.iter().chain(&held).sum();
                assert!(in_flight < WINDOW + FRAME);
            }
            receive(&mut receiver, &mut frames, &mut held);
            announced.extend(held.drain(..).filter_map(|cost| receiver.give_back(cost)));
            announced.drain(..).for_each(|total| sender.grant(total));
            assert!(!sender.is_exhausted(), "everything was given back");
        }
    }

    #[test]
    fn a_larger_window_is_granted_at_once() {
        let mut receiver = ReceiverCredit::new(WINDOW, FRAME, 0);
        assert_eq!(receiver.receive(WINDOW), Ok(()));
        assert_eq!(receiver.enlarge(WINDOW), 2 * WINDOW);
        assert_eq!(receiver.give_back(WINDOW / 4), None, "less than a quarter of the window");
        assert_eq!(receiver.give_back(WINDOW / 4), Some(2 * WINDOW + WINDOW / 2));
    }

    #[test]
    fn a_new_connection_does_not_grant_what_is_held_beyond_the_window() {
        let mut receiver = ReceiverCredit::new(WINDOW, FRAME, WINDOW + FRAME);
        assert_eq!(receiver.granted(), 0);
        assert_eq!(receiver.give_back(FRAME), None, "a window is held still");
        assert_eq!(receiver.give_back(WINDOW), Some(WINDOW));
    }

    #[test]
    fn more_than_the_overdraft_is_refused() {
        let mut receiver = ReceiverCredit::new(WINDOW, FRAME, 0);
        assert_eq!(receiver.receive(WINDOW + FRAME), Ok(()));
        assert_eq!(receiver.receive(1), Err(CreditExceeded));
    }

    #[test]
    fn credit_is_announced_by_quarters_of_the_window() {
        let mut receiver = ReceiverCredit::new(WINDOW, FRAME, 0);
        assert_eq!(receiver.granted(), WINDOW);
        assert_eq!((receiver.give_back(249), receiver.give_back(1)), (None, Some(WINDOW + 250)));
        assert_eq!((receiver.give_back(0), receiver.give_back(700)), (None, Some(WINDOW + 950)));
        assert_eq!(receiver.granted(), WINDOW + 950);
    }

    #[test]
    fn a_false_announcement_gives_no_more_than_a_window() {
        let mut sender = SenderCredit::new(WINDOW);
        sender.grant(u64::MAX);
        sender.spend(WINDOW - 1);
        assert!(!sender.is_exhausted());
        assert_eq!(sender.left(), 1);
        sender.spend(1);
        assert!(sender.is_exhausted());
        sender.grant(10);
        assert!(sender.is_exhausted(), "a total that does not increase changes nothing");
        sender.grant(WINDOW + 1);
        assert!(!sender.is_exhausted());
    }

    #[test]
    fn the_largest_totals_do_no_harm() {
        let (mut receiver, mut sender) = (ReceiverCredit::new(WINDOW, FRAME, 0), SenderCredit::new(WINDOW));
        assert_eq!(receiver.receive(u64::MAX), Err(CreditExceeded));
        assert_eq!(receiver.give_back(u64::MAX), Some(u64::MAX));
        assert_eq!(receiver.give_back(u64::MAX), None);
        sender.spend(u64::MAX);
        sender.grant(u64::MAX);
        assert!(sender.is_exhausted());
    }
}
