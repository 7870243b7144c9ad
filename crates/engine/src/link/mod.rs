//! A connection to a peer, after its handshake. A link moves bytes between the kernel and the two queues of one pipe.
//!
//! No thread is dedicated to this: a sender writes the unwritten messages, a receiver that would block reads, and the
//! I/O thread does both while no caller is inside the socket. Each direction has its own lock. No thread sleeps while
//! it holds one.

mod batch;
mod codec;
mod datagrams;
mod incoming;
mod liveness;
mod multicast;
mod packets;
mod reencode;
mod registration;
mod rx;
#[cfg(test)]
pub(crate) mod scripted;
mod shared;
mod stream;
mod switch;
#[cfg(test)]
mod tests;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;
mod tx;
mod v1;

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{LazyLock, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;
use pinnace_ring::{Intake, Lender, Taking};
use pinnace_sys::poll::Ready;
use pinnace_sys::{AsFd, net};
use pinnace_zmtp::Version;

use crate::drops::Reason;
use crate::endpoint::EndpointPair;
use crate::io::{Command, Io};
use crate::mailbox::{Mailbox, Notice};
use crate::medium::Medium;
use crate::pipe::{Pipe, PipeId};
use crate::queue::FarEnds;
pub(crate) use batch::{AfterCommit, flush_age};
pub(crate) use codec::Codec;
pub(crate) use datagrams::First;
use incoming::Incoming;
pub(crate) use packets::Packets;
use reencode::Reencoder;
pub(crate) use reencode::restart;
use registration::FdRegistration;
use rx::Rx;
pub(crate) use stream::Stream;
use switch::Switch;
pub(crate) use tls::{TlsFailure, tls_errno};
pub(crate) use tx::Progress;
use tx::Tx;

/// A read or a write of this many bytes shows that the peer is streaming.
const STREAMING_BYTES: usize = 16 * 1024;
/// Bytes that a link may take beyond the high-water mark.
pub(crate) const AHEAD_BYTES: u64 = 256 * 1024;

/// The context of a PING that requests a receipt begins with this.
pub(crate) const RECEIPT: [u8; 4] = *b"rcpt";

/// What a link knows of its socket and its peer.
pub(crate) struct Config {
    pub(crate) version: Version,
    /// What carries the messages until the link switches to shared memory (`switch`).
    pub(crate) medium: Medium,
    /// The peer speaks no ZMTP.
    pub(crate) is_raw: bool,
    /// Subscriptions go into the incoming queue for the pattern; otherwise they are dropped.
    pub(crate) keeps_subscriptions: bool,
    /// How large bodies in shared memory are received.
    pub(crate) taking: Taking,
    /// The peers send only subscriptions or their groups, which never count as lost messages.
    pub(crate) receives_subscriptions: bool,
    /// As `keeps_subscriptions`, for joins and leaves of groups.
    pub(crate) keeps_groups: bool,
    /// The largest frame accepted, in bytes.
    pub(crate) max_body: u64,
    /// The connection's endpoints, for events.
    pub(crate) ends: EndpointPair,
    /// The reactor entry it came from.
    pub(crate) origin: u64,
    /// How many connections the pipe had before this one.
    pub(crate) connection: u64,
    /// The message sent before all others (ZMQ_HELLO_MSG); empty: none.
    pub(crate) hello: Vec<u8>,
    /// Messages that our socket receives when the connection is lost, after all other input.
    pub(crate) disconnect_messages: Vec<Vec<u8>>,
}

/// One connection.
///
/// `registration`, `tx` and `rx` each hold the descriptor for their own use. So it is closed when the link ends
/// (`dismantle`), never while in use, however long others keep the `Link`.
pub struct Link {
    /// The descriptor's number, for events.
    pub(crate) descriptor: u32,
    pub(crate) mailbox: Arc<Mailbox>,
    io: Arc<Io>,
    pub(crate) pipe: PipeId,
    pub(crate) config: Config,
    /// The peer answers heartbeats.
    pub(crate) speaks_heartbeats: bool,
    /// The link carries multicast packets.
    is_multicast: bool,
    /// The state of the switch to shared memory, if the connection may switch.
    switch: Option<Arc<Switch>>,
    /// The token in the mailbox's poll set, set when the link joins the socket.
    token: OnceLock<u64>,
    /// The token with the I/O thread.
    pub(crate) io_token: u64,
    registration: Mutex<FdRegistration>,
    tx: Mutex<Tx>,
    rx: Mutex<Rx>,
    /// The kernel takes no more until the poll set reports room; or the link has ended.
    blocked: AtomicBool,
    /// Messages were committed since the last write began.
    has_unwritten: AtomicBool,
    /// The I/O thread checks for unwritten data ...
    flush_checked: AtomicBool,
    /// ... and a sender may have left some since its last check.
    left_behind: AtomicBool,
    broken: AtomicBool,
    /// The peer takes nothing more. What it has sent is still read.
    write_failed: AtomicBool,
    /// The last time a sender was held up, no room came: the peer reads nothing, ...
    pacing_fails: AtomicBool,
    /// ... or keeps the large bodies that it has.
    lending_fails: AtomicBool,
    /// The queues may have grown; the I/O thread shrinks them when they are idle.
    queues_grown: AtomicBool,
    /// Much was moved at once since the I/O thread last checked.
    streams: AtomicBool,
    /// A read before the next notification is likely to find data.
    read_pays: AtomicBool,
    /// The next thread that serves the socket reads on (`Mailbox::read_again`).
    pub(crate) reads_again: AtomicBool,
    /// Times by `clock`: the end of the last write, and of the last input from the peer.
    last_write: AtomicU64,
    heard_at: AtomicU64,
    /// Number of writes, and the number that the I/O thread saw last.
    writes: AtomicU64,
    writes_seen: AtomicU64,
    /// The time to live in the peer's last PING, in tenths of a second; 0: none.
    peer_ttl_ds: AtomicU32,
    /// The I/O thread checks the peer's liveness.
    has_heartbeats: AtomicBool,
    /// When the last unanswered PING was sent, by `clock`; 0: none.
    pinged_at: AtomicU64,
    /// The round-trip time of the last answered PING, in nanoseconds; 0: unknown.
    round_trip: AtomicU64,
    /// The number of receipts requested, and the highest one received.
    receipts: AtomicU64,
    receipt: AtomicU64,
}

/// Nanoseconds since the first call.
fn clock() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_nanos() as u64
}

impl Link {
    pub(crate) fn new(
        stream: Stream,
        mailbox: Arc<Mailbox>,
        io: Arc<Io>,
        pipe: PipeId,
        config: Config,
        codec: Codec,
        ends: FarEnds,
    ) -> Link {
        let stream = Arc::new(stream);
        // Packets are checked before they reach the intake, and a bad one does not end the link.
        let max_body = if codec.packets.is_some() { u64::MAX } else { config.max_body };
        let intake = Intake::new(ends.incoming.queue, max_body);
        let io_token = io.token();
        let speaks_heartbeats = !config.is_raw && codec.speaks_heartbeats(config.version);
        let reencoder = Reencoder::new(codec.encoder, config.connection);
        Link {
            descriptor: stream.as_fd().as_raw_fd() as u32,
            mailbox,
            io,
            pipe,
            token: OnceLock::new(),
            io_token,
            speaks_heartbeats,
            is_multicast: stream.packets().is_some(),
            switch: stream.local().map(|local| local.switch.clone()),
            tx: Mutex::new(Tx::new(stream.clone(), ends.outgoing, reencoder, codec.packets, &config.hello)),
            rx: Mutex::new(Rx::new(
                stream.clone(),
                Incoming::new(intake, ends.incoming.outlet),
                codec.decoder,
                codec.packets,
            )),
            registration: Mutex::new(FdRegistration::new(stream)),
            config,
            blocked: AtomicBool::new(false),
            has_unwritten: AtomicBool::new(false),
            flush_checked: AtomicBool::new(false),
            left_behind: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            write_failed: AtomicBool::new(false),
            pacing_fails: AtomicBool::new(false),
            lending_fails: AtomicBool::new(false),
            queues_grown: AtomicBool::new(false),
            streams: AtomicBool::new(false),
            read_pays: AtomicBool::new(false),
            reads_again: AtomicBool::new(false),
            last_write: AtomicU64::new(0),
            heard_at: AtomicU64::new(clock()),
            writes: AtomicU64::new(0),
            writes_seen: AtomicU64::new(0),
            peer_ttl_ds: AtomicU32::new(0),
            has_heartbeats: AtomicBool::new(false),
            pinged_at: AtomicU64::new(0),
            round_trip: AtomicU64::new(0),
            receipts: AtomicU64::new(0),
            receipt: AtomicU64::new(0),
        }
    }

    /// The lender for the link's only pipe, if the link uses shared memory.
    pub(crate) fn lender(&self) -> Option<Box<Lender>> {
        self.tx.lock().arena().map(|arena| Box::new(Lender::new(arena)))
    }

    /// Has the I/O thread check for unwritten data for a while.
    pub(crate) fn request_flush_checks(&self) {
        self.left_behind.store(true, Ordering::Relaxed);
        if !self.flush_checked.load(Ordering::Relaxed) && !self.flush_checked.swap(true, Ordering::SeqCst) {
            self.io.send(Command::CheckFlush(self.mailbox.clone(), self.pipe));
        }
    }

    /// This many bytes were moved at once. If many, the queues may have grown: the I/O thread checks them.
    fn moved(&self, bytes: usize) {
        if bytes < STREAMING_BYTES {
            return;
        }
        self.streams.store(true, Ordering::Relaxed);
        if !self.queues_grown.load(Ordering::Relaxed) && !self.queues_grown.swap(true, Ordering::SeqCst) {
            self.io.send(Command::QueuesGrown(self.mailbox.clone(), self.pipe));
        }
    }

    /// Whether much was moved at once since the last call.
    pub(crate) fn has_streamed(&self) -> bool {
        self.streams.swap(false, Ordering::Relaxed)
    }

    /// The I/O thread stops checking the queues, until the next large read or write.
    pub(crate) fn clear_queues_grown(&self) {
        self.queues_grown.store(false, Ordering::SeqCst);
    }

    /// Shrinks the idle queues of its pipe. The caller holds the socket's lock. False: a queue is not empty.
    pub(crate) fn shrink(&self, pipe: &mut Pipe) -> bool {
        let (mut rx, mut tx) = (self.rx.lock(), self.tx.lock());
        rx.shrink(pipe) & tx.shrink(pipe)
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked.load(Ordering::Relaxed)
    }

    /// The I/O thread stops checking for unwritten data.
    pub(crate) fn end_flush_checks(&self) {
        self.flush_checked.store(false, Ordering::SeqCst);
    }

    /// Does the reads and writes that the poll set reported as possible.
    pub(crate) fn serve(&self, ready: &Ready) {
        if ready.readable && self.reads_memory() {
            self.on_wakeup(ready.ended);
            fence(Ordering::SeqCst); // Pairs with `write_out`: we see `blocked`, or the writer sees the peer's room.
        }
        if (ready.writable || self.reports_room_as_input()) && self.is_blocked() {
            self.flush();
        }
        if ready.readable && !self.is_broken() {
            self.read();
        }
    }

    /// Whether the descriptor becomes readable, and not writable, when there is room to write.
    fn reports_room_as_input(&self) -> bool {
        self.is_multicast || self.writes_memory()
    }

    /// Suppresses wake-ups by the peer: the waiting caller polls the ring itself (`Mailbox::suppress_wakeups`).
    pub(crate) fn suppress_wakeups(&self) {
        if let Some(shared) = self.rx.lock().shared() {
            shared.suppress_wakeups();
        }
    }

    /// Whether there is input, with room for it, that the poll set does not report.
    pub(crate) fn has_unpolled_input(&self) -> bool {
        self.rx.lock().has_unpolled_input()
    }

    /// The peer has sent a wake-up, or has closed the connection (`ended`).
    fn on_wakeup(&self, ended: bool) {
        let stream = self.registration.lock().stream.clone();
        if stream.is_some_and(|stream| (stream.is_loud() || ended) && stream.on_wakeup(ended)) {
            self.set_interest(|registration| registration.read = false); // The remaining input is in the ring.
        }
    }

    /// Ends the link: the connection is lost, or the peer broke the rules. Nothing more is read or written.
    fn fail(&self) {
        if self.broken.swap(true, Ordering::AcqRel) {
            return;
        }
        self.leave_poller();
        if let Some(stream) = &self.registration.lock().stream {
            net::shut_down(stream);
        }
        self.io.send(Command::LinkDown(self.mailbox.clone(), self.pipe));
    }

    /// Ends the connection from our side, at once.
    pub(crate) fn cut(&self) {
        self.fail();
    }

    /// The end of a link that is out of the poll set: closes the descriptor and takes the queues' ends back. The
    /// outgoing queue then begins at a message boundary; messages given up for that are counted.
    pub(crate) fn dismantle(&self) -> Option<FarEnds> {
        let mut done = Vec::new();
        let outgoing = {
            let mut tx = self.tx.lock();
            self.blocked.store(true, Ordering::Relaxed); // A sender that sees it looks for another link.
            tx.end(&mut done)
        };
        drop(done); // Their owners' code runs here, with no lock held.
        let incoming = self.rx.lock().end();
        self.registration.lock().stream = None;
        let (outgoing, given_up) = outgoing?;
        self.mailbox.lost.give_up(Reason::Cut, given_up);
        Some(FarEnds { outgoing, incoming: incoming? })
    }

    fn room_made(&self, wanted: bool) {
        if wanted {
            self.mailbox.post(Notice::Writable(self.pipe));
        }
    }
}
