//! The functions of pinnace.h, beyond libzmq's interface, over a [`Socket`].

use std::ffi::{CString, c_void};

use libc::{c_char, c_int, c_long, c_short, size_t};

use crate::api::functions;
use crate::errno::{self, Outcome};
use crate::{Context, PATIENCE_MS, Socket};

type P = *mut c_void;

/// `pinnace_traffic_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    pub messages: u64,
    pub bytes: u64,
    pub queued: u64,
}

/// Indices of `dropped`.
pub const FULL: usize = 0;
pub const UNROUTABLE: usize = 1;
pub const PEER_LOST: usize = 2;
pub const CUT: usize = 3;
pub const UNWANTED: usize = 4;
pub const MALFORMED: usize = 5;
pub const DUPLICATE: usize = 6;
pub const CONFLATED: usize = 7;
pub const LIMIT: usize = 8;
pub const EXPIRED: usize = 10;
pub const UNREAD: usize = 11;
/// `PINNACE_REASONS`.
pub const REASONS: usize = 32;

/// `pinnace_stats_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Stats {
    pub size: size_t,
    pub received: Traffic,
    pub sent: Traffic,
    pub dropped: [u64; REASONS],
    pub connected: u64,
    pub accepted: u64,
    pub disconnected: u64,
    pub retried: u64,
    pub handshakes_succeeded: u64,
    pub handshakes_failed: u64,
    pub events_dropped: u64,
    pub peers: u64,
    pub ended_peers: u64,
}

/// `pinnace_peer_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Peer {
    pub number: u64,
    pub received: Traffic,
    pub sent: Traffic,
    pub dropped: u64,
    pub reconnects: u64,
    pub round_trip_us: u64,
    pub connected: c_int,
    pub mechanism: c_int,
    pub routing_id_size: size_t,
    pub routing_id: [u8; 256],
    pub socket_type: [c_char; 16],
    pub address: [c_char; 128],
    pub user_id: [c_char; 256],
    pub endpoint: [c_char; 256],
    pub medium: [c_char; 16],
    pub fallback_reason: [c_char; 64],
}

/// A text member of [`Peer`].
pub fn text(member: &[c_char]) -> String {
    let bytes = member.iter().take_while(|&&c| c != 0).map(|&c| c as u8).collect();
    String::from_utf8(bytes).expect("a text")
}

/// `pinnace_leftover_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Leftover {
    pub size: size_t,
    pub messages: u64,
    pub bytes: u64,
    pub lost: [u64; REASONS],
    pub open_sockets: u64,
}

#[repr(C)]
struct Part {
    data: *const c_void,
    size: size_t,
}

functions! {
    fn pinnace_socket_stats(socket: P, stats: *mut Stats) -> c_int;
    fn pinnace_socket_peers(socket: P, peers: *mut Peer, count: *mut size_t) -> c_int;
    fn pinnace_socket_stats_json(socket: P, buffer: *mut c_char, size: *mut size_t) -> c_int;
    fn pinnace_socket_stats_prometheus(socket: P, name: *const c_char, buffer: *mut c_char, size: *mut size_t) -> c_int;
    fn pinnace_kick(socket: P, peer: u64) -> c_int;
    fn pinnace_wait_peers(socket: P, count: size_t, timeout_ms: c_long) -> c_int;
    fn pinnace_wait_subscribers(s: P, topic: *const c_void, size: size_t, count: size_t, timeout_ms: c_long) -> c_int;
    fn pinnace_wait_subscribed(socket: P, timeout_ms: c_long) -> c_int;
    fn pinnace_wait_ended(socket: P, count: u64, timeout_ms: c_long) -> c_int;
    fn pinnace_fd(socket: P, events: c_short) -> c_int;
    fn pinnace_send_parts(socket: P, parts: *const Part, count: size_t, flags: c_int) -> c_int;
    fn pinnace_ctx_set_max_bytes(ctx: P, max_bytes: u64) -> c_int;
    fn pinnace_ctx_held_bytes(ctx: P, held: *mut u64) -> c_int;
    fn pinnace_ctx_lost(ctx: P, lost: *mut u64) -> c_int;
    fn pinnace_ctx_term(ctx: P, timeout_ms: c_long, left: *mut Leftover) -> c_int;
}

fn patience() -> c_long {
    PATIENCE_MS.into()
}

/// Socket options of type int64_t.
pub const SNDBYTES: c_int = 10_001;
pub const RCVBYTES: c_int = 10_002;
pub const SHARED_MEMORY: c_int = 10_003;
pub const BORROW: c_int = 10_004;

impl Context {
    #[track_caller]
    pub fn set_max_bytes(&self, max_bytes: u64) {
        // SAFETY: an open context.
        errno::check(unsafe { pinnace_ctx_set_max_bytes(self.raw(), max_bytes) }).expect("a limit");
    }

    /// Messages lost by sockets now closed, by reason.
    #[track_caller]
    pub fn lost(&self) -> [u64; REASONS] {
        let mut lost = [u64::MAX; REASONS];
        // SAFETY: an open context, and an array of that many numbers.
        errno::check(unsafe { pinnace_ctx_lost(self.raw(), lost.as_mut_ptr()) }).expect("numbers");
        lost
    }

    /// Terminates within a time; the handle is not used afterwards.
    pub fn term_within(self, timeout_ms: c_long) -> Outcome<Leftover> {
        let mut left = Leftover { size: size_of::<Leftover>(), ..Leftover::default() };
        let outcome = self.try_term_within(timeout_ms, Some(&mut left));
        std::mem::forget(self);
        outcome.map(|()| left)
    }

    /// The raw call; `None` passes NULL.
    pub fn try_term_within(&self, timeout_ms: c_long, left: Option<&mut Leftover>) -> Outcome<()> {
        let left = left.map_or(std::ptr::null_mut(), std::ptr::from_mut);
        // SAFETY: a context's handle in any state, and memory of the size said, or null.
        errno::check(unsafe { pinnace_ctx_term(self.raw(), timeout_ms, left) }).map(|_| ())
    }

    #[track_caller]
    pub fn held_bytes(&self) -> u64 {
        let mut held = 0;
        // SAFETY: an open context, and a number.
        errno::check(unsafe { pinnace_ctx_held_bytes(self.raw(), &mut held) }).expect("a number");
        held
    }
}

impl Socket {
    #[track_caller]
    pub fn stats(&self) -> Stats {
        let mut stats = Stats { size: size_of::<Stats>(), ..Stats::default() };
        // SAFETY: a socket's handle in any state, and memory of the size said.
        errno::check(unsafe { pinnace_socket_stats(self.raw(), &mut stats) }).expect("statistics");
        stats
    }

    #[track_caller]
    pub fn peers(&self) -> Vec<Peer> {
        let mut count = 0;
        let peers = pinnace_socket_peers;
        // SAFETY: a socket's handle in any state, and memory of the size said.
        errno::check(unsafe { peers(self.raw(), std::ptr::null_mut(), &mut count) }).expect("their number");
        let mut list = Vec::with_capacity(count + 8);
        let mut room = list.capacity();
        // SAFETY: a socket's handle in any state, and memory of the size said.
        errno::check(unsafe { peers(self.raw(), list.as_mut_ptr(), &mut room) }).expect("peers");
        // The library has written this many.
        // SAFETY: a socket's handle in any state, and memory of the size said.
        unsafe { list.set_len(room.min(list.capacity())) };
        list
    }

    pub fn json(&self) -> String {
        // SAFETY: a socket's handle in any state, and memory of the size said.
        self.text_of(|buffer, size| unsafe { pinnace_socket_stats_json(self.raw(), buffer, size) })
    }

    pub fn prometheus(&self, name: &str) -> String {
        let name = CString::new(name).expect("no NUL");
        // SAFETY: a socket's handle in any state, and memory of the size said.
        self.text_of(|buffer, size| unsafe {
            pinnace_socket_stats_prometheus(self.raw(), name.as_ptr(), buffer, size)
        })
    }

    /// Asks for the size first, then for the text.
    fn text_of(&self, call: impl Fn(*mut c_char, *mut size_t) -> c_int) -> String {
        let mut size = 0;
        let refused = errno::check(call(std::ptr::null_mut(), &mut size));
        assert_eq!(refused, Err(crate::Errno(libc::ENOBUFS)));
        let mut buffer = vec![0_u8; size + 64];
        let mut size = buffer.len();
        errno::check(call(buffer.as_mut_ptr().cast(), &mut size)).expect("a text");
        assert_eq!(buffer[size - 1], 0);
        buffer.truncate(size - 1);
        String::from_utf8(buffer).expect("UTF-8")
    }

    pub fn kick(&self, peer: u64) -> Outcome<()> {
        // SAFETY: a socket's handle in any state.
        errno::check(unsafe { pinnace_kick(self.raw(), peer) }).map(|_| ())
    }

    pub fn wait_peers(&self, count: usize) -> Outcome<()> {
        // SAFETY: a socket's handle in any state.
        errno::check(unsafe { pinnace_wait_peers(self.raw(), count, patience()) }).map(|_| ())
    }

    pub fn wait_subscribers(&self, topic: &str, count: usize, timeout_ms: c_long) -> Outcome<()> {
        let (at, size) = (topic.as_ptr().cast(), topic.len());
        let wait = pinnace_wait_subscribers;
        // SAFETY: a socket's handle in any state, and a buffer of the given size.
        errno::check(unsafe { wait(self.raw(), at, size, count, timeout_ms) }).map(|_| ())
    }

    pub fn wait_subscribed(&self, timeout_ms: c_long) -> Outcome<()> {
        // SAFETY: a socket's handle in any state.
        errno::check(unsafe { pinnace_wait_subscribed(self.raw(), timeout_ms) }).map(|_| ())
    }

    pub fn wait_ended(&self, count: u64, timeout_ms: c_long) -> Outcome<()> {
        // SAFETY: a socket's handle in any state.
        errno::check(unsafe { pinnace_wait_ended(self.raw(), count, timeout_ms) }).map(|_| ())
    }

    pub fn level_fd(&self, events: c_int) -> Outcome<c_int> {
        // SAFETY: a socket's handle in any state.
        errno::check(unsafe { pinnace_fd(self.raw(), events as c_short) })
    }

    pub fn send_whole(&self, parts: &[&[u8]], flags: c_int) -> Outcome<c_int> {
        let parts: Vec<_> =
            parts.iter().map(|part| Part { data: part.as_ptr().cast(), size: part.len() }).collect();
        // SAFETY: a socket's handle in any state, and an array of the given length.
        errno::check(unsafe { pinnace_send_parts(self.raw(), parts.as_ptr(), parts.len(), flags) })
    }
}
