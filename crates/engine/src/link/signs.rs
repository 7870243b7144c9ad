//! What a link knows of its peer by PING and PONG (RFC 37): when it was last heard of, within which time it has
//! promised to be, how long the way to it takes, and what has arrived there.

use std::sync::atomic::Ordering;
use std::time::Duration;

use pinnace_sys::net;

use super::{Link, RECEIPT, clock};
use crate::hub::Mail;

impl Link {
    /// The peer is there.
    pub(super) fn heard(&self) {
        self.heard_at.store(clock(), Ordering::Relaxed);
    }

    /// How long ago the peer was last heard of: of a whole frame, or of much of one.
    pub(crate) fn quiet_for(&self) -> Duration {
        Duration::from_nanos(clock().saturating_sub(self.heard_at.load(Ordering::Relaxed)))
    }

    /// Within which time the peer has promised to be heard of again.
    pub(crate) fn peer_ttl(&self) -> Option<Duration> {
        let tenths = self.peer_ttl_ds.load(Ordering::Relaxed);
        (tenths > 0).then(|| Duration::from_millis(u64::from(tenths) * 100))
    }

    /// From now on it is looked whether the peer is heard of. False: so it was before.
    pub(crate) fn begin_beats(&self) -> bool {
        !self.beats.load(Ordering::Relaxed) && !self.beats.swap(true, Ordering::SeqCst)
    }

    /// A PING is sent now.
    pub(crate) fn pinged(&self) {
        self.pinged_at.store(clock(), Ordering::Relaxed);
    }

    /// The number of a receipt to ask for, by a PING whose context is [`RECEIPT`] and it.
    pub(crate) fn new_receipt(&self) -> u64 {
        self.receipts.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Whether the peer has answered that PING, and so has all that was sent before it.
    pub(crate) fn has_receipt(&self, number: u64) -> bool {
        self.receipt.load(Ordering::Acquire) >= number
    }

    /// A PONG has come. A receipt that nobody asked for, or that has come before, is no news to anybody.
    pub(super) fn ponged(&self, context: &[u8]) {
        if let Some(number) = context.strip_prefix(&RECEIPT[..]).and_then(|bytes| bytes.try_into().ok()) {
            let number = u64::from_be_bytes(number);
            if number <= self.receipts.load(Ordering::Relaxed)
                && self.receipt.fetch_max(number, Ordering::AcqRel) < number
            {
                self.hub.post(Mail::Readable(self.pipe)); // Whoever waits for it looks again.
            }
            return;
        }
        let at = self.pinged_at.swap(0, Ordering::Relaxed);
        if at > 0 {
            self.round_trip.store(clock().saturating_sub(at).max(1), Ordering::Relaxed);
        }
    }

    /// How long the way to the peer and back takes: of the last PING, else as the kernel says.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        match self.round_trip.load(Ordering::Relaxed) {
            0 => {
                let stream = self.watching.lock().stream.clone()?;
                net::tcp_round_trip_us(&stream).map(|us| Duration::from_micros(us.into()))
            }
            ns => Some(Duration::from_nanos(ns)),
        }
    }
}
