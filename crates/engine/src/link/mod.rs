//! A connection to a peer, after its handshake: it moves bytes between the kernel and the two queues of one
//! pipe.
//!
//! Whoever has the occasion moves them: a sender writes what has gathered, a receiver that would wait reads,
//! and the I/O thread does both while nobody is inside. Each direction has a lock of its own; neither is held
//! while anybody waits.

mod anew;
mod batch;
mod carrier;
mod codec;
mod datagrams;
mod multicast;
mod packets;
mod rx;
#[cfg(test)]
pub(crate) mod scripted;
mod shared;
mod signs;
mod stream;
mod switch;
#[cfg(test)]
mod tests;
mod tls;
mod tx;
mod v1;
mod watching;

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
use crate::ends::FarEnds;
use crate::hub::{Hub, Mail};
use crate::monitor::Ends;
use crate::pipe::{Pipe, PipeId};
use crate::reactor::{Command, Io};
use anew::Anew;
pub(crate) use anew::restart;
pub(crate) use batch::{Next, flush_age};
pub use carrier::{Because, Carrier};
pub(crate) use codec::Codec;
pub(crate) use datagrams::First;
pub(crate) use packets::Packets;
use rx::{Rx, Way};
pub(crate) use stream::Stream;
use switch::Switch;
pub(crate) use tls::Failure as TlsFailure;
pub(crate) use tx::Progress;
use tx::Tx;
use watching::Watching;

/// A read or a write of so many bytes says that the peer is streaming.
const STREAMING_BYTES: usize = 16 * 1024;
/// Bytes that a link may have taken ahead of the high-water mark.
pub(crate) const AHEAD_BYTES: u64 = 256 * 1024;

/// What the context of a PING begins with whose answer is a receipt.
pub(crate) const RECEIPT: [u8; 4] = *b"rcpt";

/// What a link has to know of its socket and its peer.
pub(crate) struct Config {
    pub(crate) version: Version,
    /// How its messages move, unless it switches (`switch`).
    pub(crate) carrier: Carrier,
    /// It speaks no ZMTP.
    pub(crate) is_raw: bool,
    /// Subscriptions are kept in the incoming queue for the pattern; else they are dropped.
    pub(crate) keeps_subscriptions: bool,
    /// What becomes of large bodies that the peer has put into memory of both.
    pub(crate) taking: Taking,
    /// What its peers send are subscriptions, or groups they are in.
    pub(crate) hears_wishes: bool,
    /// The same for groups that are joined and left.
    pub(crate) keeps_groups: bool,
    /// The largest frame that is taken, in bytes.
    pub(crate) max_body: u64,
    /// Where the connection leads, for events.
    pub(crate) ends: Ends,
    /// Which entry of the reactor it came from.
    pub(crate) origin: u64,
    /// How many connections the pipe has had before.
    pub(crate) connection: u64,
    /// What the peer gets before all else (ZMQ_HELLO_MSG); empty: nothing.
    pub(crate) hello: Vec<u8>,
    /// What our socket receives when the connection is lost, behind all that came in.
    pub(crate) last_words: Vec<Vec<u8>>,
}

/// One connection.
///
/// Its descriptor is held by `watching`, `tx` and `rx`, each for what it does with it, so that it is closed
/// when the link ends (`dismantle`), and never while somebody uses it, however long others keep the link.
pub struct Link {
    /// The descriptor's number, for events.
    pub(crate) descriptor: u32,
    pub(crate) hub: Arc<Hub>,
    io: Arc<Io>,
    pub(crate) pipe: PipeId,
    pub(crate) config: Config,
    /// The peer answers when it is asked for a sign of life.
    pub(crate) speaks_heartbeats: bool,
    /// It moves packets of a multicast.
    is_multicast: bool,
    /// How far it has switched to memory, where it may.
    switch: Option<Arc<Switch>>,
    /// Its token in the hub's poll set, once it has joined the socket.
    token: OnceLock<u64>,
    /// Its token with the I/O thread.
    pub(crate) io_token: u64,
    watching: Mutex<Watching>,
    tx: Mutex<Tx>,
    rx: Mutex<Rx>,
    /// The kernel takes no more; the poll set tells when it does again. Or the link has ended.
    blocked: AtomicBool,
    /// Messages were committed since the last write began.
    gathering: AtomicBool,
    /// The I/O thread looks after what senders leave behind ...
    watched: AtomicBool,
    /// ... and some may have left something since its last look.
    left_behind: AtomicBool,
    broken: AtomicBool,
    /// The peer takes nothing more; what it has sent is still read.
    deaf: AtomicBool,
    /// Holding senders up has not helped: the peer takes nothing, ...
    pacing_fails: AtomicBool,
    /// ... or keeps the large bodies that it has.
    lending_fails: AtomicBool,
    /// The queues may have grown; the I/O thread makes them small again when they are idle.
    swollen: AtomicBool,
    /// Much was moved at once since the I/O thread last looked.
    streams: AtomicBool,
    /// Reading without being told that there is something has paid off.
    read_pays: AtomicBool,
    /// It is read on at the next turn of whoever serves (`Hub::read_again`).
    pub(crate) reads_again: AtomicBool,
    /// The end of the last write, and when the peer was last heard of, by `clock`.
    last_write: AtomicU64,
    heard_at: AtomicU64,
    /// Counts writes, and those that the I/O thread knows of.
    writes: AtomicU64,
    writes_seen: AtomicU64,
    /// The time to live that the peer's last PING gave, in tenths of a second; 0: none.
    peer_ttl_ds: AtomicU32,
    /// The I/O thread looks whether the peer is heard of.
    beats: AtomicBool,
    /// When the last PING was sent that is not answered yet, by `clock`; 0: none.
    pinged_at: AtomicU64,
    /// How long the answer to the last one took, in nanoseconds; 0: not known.
    round_trip: AtomicU64,
    /// Receipts that were asked for, and the last that has come.
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
        hub: Arc<Hub>,
        io: Arc<Io>,
        pipe: PipeId,
        config: Config,
        codec: Codec,
        ends: FarEnds,
    ) -> Link {
        let stream = Arc::new(stream);
        // A packet is looked at before it gets there, and what is wrong with it is its own affair.
        let max_body = if codec.packets.is_some() { u64::MAX } else { config.max_body };
        let intake = Intake::new(ends.incoming.queue, max_body);
        let io_token = io.token();
        let speaks_heartbeats = !config.is_raw && codec.speaks_heartbeats(config.version);
        let anew = Anew::new(codec.encoder, config.connection);
        Link {
            descriptor: stream.as_fd().as_raw_fd() as u32,
            hub,
            io,
            pipe,
            token: OnceLock::new(),
            io_token,
            speaks_heartbeats,
            is_multicast: stream.packets().is_some(),
            switch: stream.local().map(|local| local.switch.clone()),
            tx: Mutex::new(Tx::new(stream.clone(), ends.outgoing, anew, codec.packets, &config.hello)),
            rx: Mutex::new(Rx::new(
                stream.clone(),
                Way::new(intake, ends.incoming.outlet),
                codec.decoder,
                codec.packets,
            )),
            watching: Mutex::new(Watching::new(stream)),
            config,
            blocked: AtomicBool::new(false),
            gathering: AtomicBool::new(false),
            watched: AtomicBool::new(false),
            left_behind: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            deaf: AtomicBool::new(false),
            pacing_fails: AtomicBool::new(false),
            lending_fails: AtomicBool::new(false),
            swollen: AtomicBool::new(false),
            streams: AtomicBool::new(false),
            read_pays: AtomicBool::new(false),
            reads_again: AtomicBool::new(false),
            last_write: AtomicU64::new(0),
            heard_at: AtomicU64::new(clock()),
            writes: AtomicU64::new(0),
            writes_seen: AtomicU64::new(0),
            peer_ttl_ds: AtomicU32::new(0),
            beats: AtomicBool::new(false),
            pinged_at: AtomicU64::new(0),
            round_trip: AtomicU64::new(0),
            receipts: AtomicU64::new(0),
            receipt: AtomicU64::new(0),
        }
    }

    /// For the one pipe that it has, where it goes through shared memory.
    pub(crate) fn lender(&self) -> Option<Box<Lender>> {
        self.tx.lock().arena().map(|arena| Box::new(Lender::new(arena)))
    }

    /// Has the I/O thread look after what is left behind, for a while.
    pub(crate) fn be_watched(&self) {
        self.left_behind.store(true, Ordering::Relaxed);
        if !self.watched.load(Ordering::Relaxed) && !self.watched.swap(true, Ordering::SeqCst) {
            self.io.send(Command::Watch(self.hub.clone(), self.pipe));
        }
    }

    /// So many bytes were moved at once: the queues may have grown, and are looked after from now on.
    fn moved(&self, bytes: usize) {
        if bytes < STREAMING_BYTES {
            return;
        }
        self.streams.store(true, Ordering::Relaxed);
        if !self.swollen.load(Ordering::Relaxed) && !self.swollen.swap(true, Ordering::SeqCst) {
            self.io.send(Command::Swollen(self.hub.clone(), self.pipe));
        }
    }

    /// Whether much was moved at once since the last call.
    pub(crate) fn has_streamed(&self) -> bool {
        self.streams.swap(false, Ordering::Relaxed)
    }

    /// The queues are no longer looked after; the next large read or write changes that.
    pub(crate) fn not_swollen(&self) {
        self.swollen.store(false, Ordering::SeqCst);
    }

    /// Makes the idle queues of its pipe small again; the socket's lock is held. False: there is something in
    /// them.
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

    /// The I/O thread no longer looks after it.
    pub(crate) fn unwatch(&self) {
        self.watched.store(false, Ordering::SeqCst);
    }

    /// Does what the poll set said can be done.
    pub(crate) fn serve(&self, ready: &Ready) {
        if ready.readable && self.reads_memory() {
            self.hear(ready.ended);
            fence(Ordering::SeqCst); // What the peer did before it woke us, and whether we wait for it (`write_out`).
        }
        if (ready.writable || self.tells_by_input()) && self.is_blocked() {
            self.flush();
        }
        if ready.readable && !self.is_broken() {
            self.read();
        }
    }

    /// Whether the descriptor is readable when it takes more, too.
    fn tells_by_input(&self) -> bool {
        self.is_multicast || self.writes_memory()
    }

    /// The peer need not ring: whoever waits looks by itself (`Hub::hush`).
    pub(crate) fn hush(&self) {
        if let Some(shared) = self.rx.lock().shared() {
            shared.hush();
        }
    }

    /// Whether there is something to read, and room for it, of which the poll set does not know.
    pub(crate) fn has_news(&self) -> bool {
        self.rx.lock().has_news()
    }

    /// The peer has rung, or is gone (`ended`).
    fn hear(&self, ended: bool) {
        let stream = self.watching.lock().stream.clone();
        if stream.is_some_and(|stream| (stream.is_loud() || ended) && stream.hear(ended)) {
            self.watch_for(|watching| watching.read = false); // What is left is in the ring.
        }
    }

    /// The connection is lost, or the peer broke the rules: nothing more is read or written.
    fn fail(&self) {
        if self.broken.swap(true, Ordering::AcqRel) {
            return;
        }
        self.leave_watcher();
        if let Some(stream) = &self.watching.lock().stream {
            net::shut_down(stream);
        }
        self.io.send(Command::LinkDown(self.hub.clone(), self.pipe));
    }

    /// Ends the connection from our side, at once.
    pub(crate) fn cut(&self) {
        self.fail();
    }

    /// The end of the link, once it is out of the poll set: its descriptor is closed, and the queues' ends are
    /// taken back. The outgoing one begins at a message; what had to be given up for that is counted.
    pub(crate) fn dismantle(&self) -> Option<FarEnds> {
        let mut done = Vec::new();
        let outgoing = {
            let mut tx = self.tx.lock();
            self.blocked.store(true, Ordering::Relaxed); // A sender that sees it looks for another link.
            tx.end(&mut done)
        };
        drop(done); // Their owners' code runs here, with no lock held.
        let incoming = self.rx.lock().end();
        self.watching.lock().stream = None;
        let (outgoing, given_up) = outgoing?;
        self.hub.lost.give_up(Reason::Cut, given_up);
        Some(FarEnds { outgoing, incoming: incoming? })
    }

    fn room_made(&self, wanted: bool) {
        if wanted {
            self.hub.post(Mail::Writable(self.pipe));
        }
    }
}
