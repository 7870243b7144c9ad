//! libzmq's C ABI as a table of functions, loaded from the library that this process tests.
//!
//! A symbol that the library lacks fails at its first call, not at loading, so that an incomplete library can be
//! tested.

use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libc::{c_char, c_int, c_long, c_short, c_ulong, size_t};

/// `zmq_msg_t`: 64 opaque bytes, relocatable.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub struct RawMsg(pub [u8; 64]);

impl RawMsg {
    pub const fn zeroed() -> RawMsg {
        RawMsg([0; 64])
    }
}

/// `zmq_pollitem_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PollItem {
    pub socket: *mut c_void,
    pub fd: c_int,
    pub events: c_short,
    pub revents: c_short,
}

/// `zmq_poller_event_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollerEvent {
    pub socket: *mut c_void,
    pub fd: c_int,
    pub user_data: *mut c_void,
    pub events: c_short,
}

pub type FreeFn = unsafe extern "C" fn(*mut c_void, *mut c_void);
pub type ThreadFn = unsafe extern "C" fn(*mut c_void);
pub type TimerFn = unsafe extern "C" fn(c_int, *mut c_void);
type P = *mut c_void;
type M = *mut RawMsg;

/// Defines one wrapper per C function, over a table of symbols loaded once; an entry is `None` if the library lacks
/// the symbol.
macro_rules! functions {
    ($($visible:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?;)*) => {
        struct Table { $($name: Option<unsafe extern "C" fn($($ty),*) $(-> $ret)?>,)* }

        fn table() -> &'static Table {
            static TABLE: std::sync::OnceLock<Table> = std::sync::OnceLock::new();
            // SAFETY: the signatures are those of the headers; the library is never unloaded.
            TABLE.get_or_init(|| unsafe {
                let library = $crate::api::library();
                Table { $($name: library.get(stringify!($name).as_bytes()).ok().map(|s| *s),)* }
            })
        }

        $(
            /// The C function of this name.
            /// # Safety
            /// As in C.
            $visible unsafe fn $name($($arg: $ty),*) $(-> $ret)? {
                let function = table().$name.expect(concat!("the library lacks ", stringify!($name)));
                // SAFETY: the library's own function of this name; the caller keeps its rules.
                unsafe { function($($arg),*) }
            }
        )*
    };
}
pub(crate) use functions;

/// The stable functions, then the draft functions, which a stable build of libzmq lacks.
macro_rules! table {
    (
        $(fn $stable:ident($($a:ident: $at:ty),*) $(-> $ar:ty)?;)*
        drafts
        $(fn $draft:ident($($d:ident: $dt:ty),*) $(-> $dr:ty)?;)*
    ) => {
        functions! {
            $(pub fn $stable($($a: $at),*) $(-> $ar)?;)*
            $(pub fn $draft($($d: $dt),*) $(-> $dr)?;)*
        }

        /// The names of the stable functions.
        pub const SYMBOLS: &[&str] = &[$(stringify!($stable)),*];
        /// The names of the draft functions.
        pub const DRAFTS: &[&str] = &[$(stringify!($draft)),*];
    };
}

table! {
    fn zmq_errno() -> c_int;
    fn zmq_strerror(number: c_int) -> *const c_char;
    fn zmq_version(major: *mut c_int, minor: *mut c_int, patch: *mut c_int);
    fn zmq_has(capability: *const c_char) -> c_int;

    fn zmq_ctx_new() -> P;
    fn zmq_ctx_term(ctx: P) -> c_int;
    fn zmq_ctx_shutdown(ctx: P) -> c_int;
    fn zmq_ctx_set(ctx: P, option: c_int, value: c_int) -> c_int;
    fn zmq_ctx_get(ctx: P, option: c_int) -> c_int;
    fn zmq_init(io_threads: c_int) -> P;
    fn zmq_term(ctx: P) -> c_int;
    fn zmq_ctx_destroy(ctx: P) -> c_int;

    fn zmq_msg_init(msg: M) -> c_int;
    fn zmq_msg_init_size(msg: M, size: size_t) -> c_int;
    fn zmq_msg_init_data(msg: M, data: P, size: size_t, free: Option<FreeFn>, hint: P) -> c_int;
    fn zmq_msg_send(msg: M, socket: P, flags: c_int) -> c_int;
    fn zmq_msg_recv(msg: M, socket: P, flags: c_int) -> c_int;
    fn zmq_msg_close(msg: M) -> c_int;
    fn zmq_msg_move(to: M, from: M) -> c_int;
    fn zmq_msg_copy(to: M, from: M) -> c_int;
    fn zmq_msg_data(msg: M) -> P;
    fn zmq_msg_size(msg: M) -> size_t;
    fn zmq_msg_more(msg: M) -> c_int;
    fn zmq_msg_get(msg: M, property: c_int) -> c_int;
    fn zmq_msg_set(msg: M, property: c_int, value: c_int) -> c_int;
    fn zmq_msg_gets(msg: M, property: *const c_char) -> *const c_char;

    fn zmq_socket(ctx: P, kind: c_int) -> P;
    fn zmq_close(socket: P) -> c_int;
    fn zmq_setsockopt(socket: P, option: c_int, value: *const c_void, size: size_t) -> c_int;
    fn zmq_getsockopt(socket: P, option: c_int, value: P, size: *mut size_t) -> c_int;
    fn zmq_bind(socket: P, endpoint: *const c_char) -> c_int;
    fn zmq_connect(socket: P, endpoint: *const c_char) -> c_int;
    fn zmq_unbind(socket: P, endpoint: *const c_char) -> c_int;
    fn zmq_disconnect(socket: P, endpoint: *const c_char) -> c_int;
    fn zmq_send(socket: P, data: *const c_void, size: size_t, flags: c_int) -> c_int;
    fn zmq_send_const(socket: P, data: *const c_void, size: size_t, flags: c_int) -> c_int;
    fn zmq_recv(socket: P, data: P, size: size_t, flags: c_int) -> c_int;
    fn zmq_socket_monitor(socket: P, endpoint: *const c_char, events: c_int) -> c_int;

    fn zmq_poll(items: *mut PollItem, count: c_int, timeout_ms: c_long) -> c_int;
    fn zmq_proxy(front: P, back: P, capture: P) -> c_int;
    fn zmq_proxy_steerable(front: P, back: P, capture: P, control: P) -> c_int;
    fn zmq_device(kind: c_int, front: P, back: P) -> c_int;
    fn zmq_sendmsg(socket: P, msg: M, flags: c_int) -> c_int;
    fn zmq_recvmsg(socket: P, msg: M, flags: c_int) -> c_int;
    fn zmq_sendiov(socket: P, parts: *mut libc::iovec, count: size_t, flags: c_int) -> c_int;
    fn zmq_recviov(socket: P, parts: *mut libc::iovec, count: *mut size_t, flags: c_int) -> c_int;

    fn zmq_z85_encode(to: *mut c_char, data: *const u8, size: size_t) -> *mut c_char;
    fn zmq_z85_decode(to: *mut u8, text: *const c_char) -> *mut u8;
    fn zmq_curve_keypair(public: *mut c_char, secret: *mut c_char) -> c_int;
    fn zmq_curve_public(public: *mut c_char, secret: *const c_char) -> c_int;

    fn zmq_atomic_counter_new() -> P;
    fn zmq_atomic_counter_set(counter: P, value: c_int);
    fn zmq_atomic_counter_inc(counter: P) -> c_int;
    fn zmq_atomic_counter_dec(counter: P) -> c_int;
    fn zmq_atomic_counter_value(counter: P) -> c_int;
    fn zmq_atomic_counter_destroy(counter: *mut P);

    fn zmq_timers_new() -> P;
    fn zmq_timers_destroy(timers: *mut P) -> c_int;
    fn zmq_timers_add(timers: P, interval_ms: size_t, handler: Option<TimerFn>, arg: P) -> c_int;
    fn zmq_timers_cancel(timers: P, timer: c_int) -> c_int;
    fn zmq_timers_set_interval(timers: P, timer: c_int, interval_ms: size_t) -> c_int;
    fn zmq_timers_reset(timers: P, timer: c_int) -> c_int;
    fn zmq_timers_timeout(timers: P) -> c_long;
    fn zmq_timers_execute(timers: P) -> c_int;

    fn zmq_stopwatch_start() -> P;
    fn zmq_stopwatch_intermediate(watch: P) -> c_ulong;
    fn zmq_stopwatch_stop(watch: P) -> c_ulong;
    fn zmq_threadstart(function: Option<ThreadFn>, arg: P) -> P;
    fn zmq_threadclose(thread: P);

    drafts

    fn zmq_poller_new() -> P;
    fn zmq_poller_destroy(poller: *mut P) -> c_int;
    fn zmq_poller_size(poller: P) -> c_int;
    fn zmq_poller_add(poller: P, socket: P, user: P, events: c_short) -> c_int;
    fn zmq_poller_modify(poller: P, socket: P, events: c_short) -> c_int;
    fn zmq_poller_remove(poller: P, socket: P) -> c_int;
    fn zmq_poller_add_fd(poller: P, fd: c_int, user: P, events: c_short) -> c_int;
    fn zmq_poller_modify_fd(poller: P, fd: c_int, events: c_short) -> c_int;
    fn zmq_poller_remove_fd(poller: P, fd: c_int) -> c_int;
    fn zmq_poller_wait(poller: P, event: *mut PollerEvent, timeout_ms: c_long) -> c_int;
    fn zmq_poller_wait_all(poller: P, events: *mut PollerEvent, count: c_int, timeout_ms: c_long) -> c_int;
    fn zmq_poller_fd(poller: P, fd: *mut c_int) -> c_int;
    fn zmq_ppoll(items: *mut PollItem, count: c_int, timeout_ms: c_long, mask: *const libc::sigset_t) -> c_int;
    fn zmq_ctx_set_ext(ctx: P, option: c_int, value: *const c_void, size: size_t) -> c_int;
    fn zmq_ctx_get_ext(ctx: P, option: c_int, value: P, size: *mut size_t) -> c_int;
    fn zmq_msg_init_buffer(msg: M, data: *const c_void, size: size_t) -> c_int;
    fn zmq_socket_monitor_versioned(s: P, endpoint: *const c_char, events: u64, version: c_int, kind: c_int) -> c_int;
    fn zmq_socket_monitor_pipes_stats(socket: P) -> c_int;
    fn zmq_socket_get_peer_state(socket: P, id: *const c_void, size: size_t) -> c_int;
    fn zmq_join(socket: P, group: *const c_char) -> c_int;
    fn zmq_leave(socket: P, group: *const c_char) -> c_int;
    fn zmq_connect_peer(socket: P, endpoint: *const c_char) -> u32;
    fn zmq_disconnect_peer(socket: P, routing_id: u32) -> c_int;
    fn zmq_msg_set_routing_id(msg: M, routing_id: u32) -> c_int;
    fn zmq_msg_routing_id(msg: M) -> u32;
    fn zmq_msg_set_group(msg: M, group: *const c_char) -> c_int;
    fn zmq_msg_group(msg: M) -> *const c_char;
}

/// Path of the library under test.
pub fn library_path() -> PathBuf {
    match std::env::var_os("PINNACE_LIB") {
        Some(path) => path.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/stage/lib/libzmq.so.5"),
    }
}

/// Path of the system's libzmq: `SYSTEM_LIBZMQ`, or what `ldconfig -p` lists.
pub fn system_library_path() -> PathBuf {
    if let Some(path) = std::env::var_os("SYSTEM_LIBZMQ") {
        return path.into();
    }
    let cache = ["/sbin/ldconfig", "ldconfig"]
        .iter()
        .find_map(|tool| std::process::Command::new(tool).arg("-p").output().ok())
        .expect("ldconfig runs; otherwise name the system's libzmq in SYSTEM_LIBZMQ");
    String::from_utf8_lossy(&cache.stdout)
        .lines()
        .filter(|line| line.trim_start().starts_with("libzmq.so.5 "))
        .find_map(|line| line.split(" => ").nth(1).map(PathBuf::from))
        .expect("the system has a libzmq.so.5 (Debian: libzmq5); otherwise name it in SYSTEM_LIBZMQ")
}

/// The library under test; loaded at the first call, never unloaded.
pub fn library() -> &'static libloading::Library {
    static LIBRARY: OnceLock<libloading::Library> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let path = library_path();
        // SAFETY: loading runs the initialisers of the library under test.
        unsafe { libloading::Library::new(&path) }.unwrap_or_else(|error| {
            panic!("no library to test at {}: {error}; set PINNACE_LIB or build it first", path.display())
        })
    })
}

/// Returns true if the library exports the symbol.
pub fn exports(name: &str) -> bool {
    // SAFETY: only the symbol's address is used.
    unsafe { library().get::<*const c_void>(name.as_bytes()) }.is_ok()
}

/// Version of the loaded library.
pub fn version() -> (c_int, c_int, c_int) {
    let (mut major, mut minor, mut patch) = (0, 0, 0);
    // SAFETY: three writable ints.
    unsafe { zmq_version(&mut major, &mut minor, &mut patch) };
    (major, minor, patch)
}
