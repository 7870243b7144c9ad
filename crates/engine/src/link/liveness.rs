//! What PING and PONG (RFC 37) tell a link about its peer: when it was last heard of, the time to live it announced,
//! the round-trip time, and which messages have arrived.

use std::sync::atomic::Ordering;
use std::time::Duration;

use pinnace_sys::net;

use super::{Link, RECEIPT, clock};
use crate::mailbox::Notice;

impl Link {
    /// Records that the peer is alive.
    pub(super) fn heard(&self) {
        self.heard_at.store(clock(), Ordering::Relaxed);
    }

    /// Time since the peer was last heard of: since a whole frame, or a large part of one, came.
    pub(crate) fn quiet_for(&self) -> Duration {
        Duration::from_nanos(clock().saturating_sub(self.heard_at.load(Ordering::Relaxed)))
    }

    /// The peer's announced time to live: it promises to be heard of again within this time.
    pub(crate) fn peer_ttl(&self) -> Option<Duration> {
        let tenths = self.peer_ttl_ds.load(Ordering::Relaxed);
        (tenths > 0).then(|| Duration::from_millis(u64::from(tenths) * 100))
    }

    /// Notes that the I/O thread checks the peer's liveness. False: it already did.
    pub(crate) fn begin_heartbeats(&self) -> bool {
        !self.has_heartbeats.load(Ordering::Relaxed) && !self.has_heartbeats.swap(true, Ordering::SeqCst)
    }

    /// A PING is being sent.
    pub(crate) fn pinged(&self) {
        self.pinged_at.store(clock(), Ordering::Relaxed);
    }

    /// The number for a new receipt, requested by a PING with [`RECEIPT`] and this number as its context.
    pub(crate) fn new_receipt(&self) -> u64 {
        self.receipts.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Whether the peer has answered that PING, and so has received all that was sent before it.
    pub(crate) fn has_receipt(&self, number: u64) -> bool {
        self.receipt.load(Ordering::Acquire) >= number
    }

    /// A PONG has come. A receipt that was not requested, or has come before, is ignored.
    pub(super) fn ponged(&self, context: &[u8]) {
        if let Some(number) = context.strip_prefix(&RECEIPT[..]).and_then(|bytes| bytes.try_into().ok()) {
            let number = u64::from_be_bytes(number);
            if number <= self.receipts.load(Ordering::Relaxed)
                && self.receipt.fetch_max(number, Ordering::AcqRel) < number
            {
                self.mailbox.post(Notice::Readable(self.pipe)); // Callers that wait for the receipt check again.
            }
            return;
        }
        let at = self.pinged_at.swap(0, Ordering::Relaxed);
        if at > 0 {
            self.round_trip.store(clock().saturating_sub(at).max(1), Ordering::Relaxed);
        }
    }

    /// Round-trip time of the last PING, or else the kernel's estimate for TCP.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        match self.round_trip.load(Ordering::Relaxed) {
            0 => {
                let stream = self.registration.lock().stream.clone()?;
                net::tcp_round_trip_us(&stream).map(|us| Duration::from_micros(us.into()))
            }
            ns => Some(Duration::from_nanos(ns)),
        }
    }
}
