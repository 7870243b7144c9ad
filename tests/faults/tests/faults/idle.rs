//! The cost of a socket with little or nothing to do: descriptors, and wake-ups of our threads.

use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use support::child;
use support::peer::{RawListener, RawPeer};
use support::*;

support::roles!(
    counts_descriptors,
    fills_the_limit,
    lingers,
    half_closes,
    was_refused,
    dials,
    dials_often,
    beats,
    has_shaken_hands,
    waits_for_a_name,
    dials_names
);

/// ZMQ_RECONNECT_STOP_CONN_REFUSED.
const STOP_CONN_REFUSED: i32 = 1;
/// Number of sockets counted together.
const SOCKETS: usize = 20;

/// Voluntary context switches of all threads of this process except the test's: each is a sleep that has ended.
fn wake_ups() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("this process");
    tasks
        .flatten()
        .filter_map(|task| {
            let status = std::fs::read_to_string(task.path().join("status")).ok()?;
            let value = |name: &str| {
                status.lines().find_map(|line| line.strip_prefix(name)).map(|rest| rest.trim().to_owned())
            };
            let name = value("Name:")?;
            let ours = name.starts_with("ZMQbg") || name.starts_with("pinnace");
            ours.then(|| value("voluntary_ctxt_switches:")?.parse::<u64>().ok()).flatten()
        })
        .sum()
}

/// How long to count: 1.5 seconds, ten in the long form.
fn a_while() -> Duration {
    if child::long() { Duration::from_secs(10) } else { Duration::from_millis(1500) }
}

/// Waits until nothing happens for a moment, then counts.
fn count_wake_ups() -> u64 {
    let mut last = wake_ups();
    until("it is quiet", || {
        deadline::pass(Duration::from_millis(200));
        std::mem::replace(&mut last, wake_ups()) == last
    });
    count_from(last)
}

fn count_from(before: u64) -> u64 {
    deadline::pass(a_while());
    wake_ups() - before
}

fn wait_for_peers(listener: &Socket, count: usize) {
    for _ in 0..count {
        listener.rx();
    }
}

/// Waits in vain until each socket has created its own poll set and what wakes it. On a busy machine a timeout may
/// be over before the call has begun to wait, so the number of waits is not known in advance.
fn wait_often(sockets: &[Socket]) {
    let before = open();
    until("their poll sets", || {
        for socket in sockets {
            socket.set(RCVTIMEO, 1).expect("RCVTIMEO");
            assert_eq!(socket.recv(0), Err(Errno(libc::EAGAIN)));
            socket.set(RCVTIMEO, PATIENCE_MS).expect("RCVTIMEO");
        }
        open() >= before + 2 * sockets.len()
    });
}

fn open() -> usize {
    process::descriptors(process::own())
}

/// Waits until `before + more` descriptors are open. Connection attempts may hold descriptors for a moment.
#[track_caller]
fn wait_for_open(before: usize, more: usize, what: &str) {
    until(what, || open() == before + more);
}

/// Counts the descriptors of sockets that are unconnected, are connected, have waited, or are watched through ZMQ_FD.
fn counts_descriptors(args: &[String]) {
    let transport = Transport::named(&args[0]);
    let ctx = Context::new();
    let router = ctx.socket(ROUTER);
    let endpoint = transport.bind(&router);
    let dealers = |count: usize, endpoint: &str| -> Vec<Socket> {
        let made = (0..count).map(|_| ctx.socket(DEALER).with(RECONNECT_IVL, -1));
        made.inspect(|dealer| dealer.connect(endpoint).expect("connect")).collect()
    };
    let fd = |dealer: &Socket| assert!(dealer.get(FD).expect("FD") >= 0);

    let before = open();
    let absent = dealers(SOCKETS, &transport.fresh());
    absent.iter().for_each(fd);
    wait_for_open(before, SOCKETS, "ZMQ_FD alone");
    drop(absent);
    wait_for_open(before, 0, "they are given back");

    // One end of each connection belongs to the router.
    let first = dealers(1, &endpoint);
    first[0].tx(&["here"]);
    router.rx();
    wait_often(std::slice::from_ref(&router));
    let with_one = open();
    drop(first);
    until("both ends are gone", || open() == with_one - 2);
    let before = open();
    let plain = dealers(SOCKETS, &endpoint);
    plain.iter().for_each(|dealer| dealer.tx(&["here"]));
    let names: Vec<_> = (0..SOCKETS).map(|_| router.rx().swap_remove(0)).collect();
    wait_for_open(before, 2 * SOCKETS, "its connection alone");
    plain.iter().for_each(fd);
    wait_for_open(before, 3 * SOCKETS, "its connection and ZMQ_FD");
    drop(plain);
    wait_for_open(before, 0, "they are given back");

    let waiting = dealers(SOCKETS, &endpoint);
    waiting.iter().for_each(|dealer| dealer.tx(&["here"]));
    wait_for_peers(&router, SOCKETS);
    wait_often(&waiting);
    wait_for_open(before, 4 * SOCKETS, "its connection, its poll set and what wakes it");
    waiting.iter().for_each(fd);
    wait_for_open(before, 4 * SOCKETS, "ZMQ_FD is what wakes it");
    drop(names);
}

/// libzmq needs one more for each unconnected socket, and as many for each connected one.
#[test]
fn descriptors_are_few() {
    for transport in [Transport::Tcp, Transport::Ipc] {
        child::alone("counts_descriptors", &[transport.name()]);
    }
}

/// Opens sockets without a peer, each watched through ZMQ_FD, until nearly all descriptors are used.
fn fills_the_limit(_: &[String]) {
    const LIMIT: u64 = 256;
    process::limit_descriptors(LIMIT);
    let ctx = Context::new();
    let endpoint = Transport::Tcp.fresh();
    let mut sockets = Vec::new();
    for _ in 0..LIMIT - 20 {
        let dealer = ctx.bare_socket(DEALER).with(LINGER, 0).with(RECONNECT_IVL, -1);
        dealer.connect(&endpoint).expect("connect");
        // Connection attempts of the other sockets may hold descriptors until they have failed.
        until("it has its descriptor", || dealer.get(FD).is_ok());
        sockets.push(dealer);
    }
}

#[test]
fn as_many_sockets_as_with_libzmq() {
    child::alone("fills_the_limit", &[]);
}

/// Closed sockets; their peers read nothing.
fn lingers(_: &[String]) {
    let ctx = Context::new();
    let listener = RawListener::bind(Transport::Tcp);
    let mut peers = Vec::new();
    for _ in 0..4 {
        let push = ctx.bare_socket(PUSH).with(SNDBUF, 1 << 16);
        push.connect(&listener.endpoint()).expect("connect");
        let mut peer = listener.accept();
        peer.handshake(0, "PULL");
        push.send(vec![1; 8 << 20], 0).expect("room");
        push.close().expect("close");
        peers.push(peer);
    }
    assert_eq!(count_wake_ups(), 0);
    // The lingering sockets still send everything.
    for mut peer in peers {
        assert_eq!(peer.read_message().len(), 8 << 20);
    }
    ctx.term().expect("all was sent");
}

#[test]
fn lingering_is_idle() {
    child::alone("lingers", &[]);
}

/// Connections that the peer, or we, have shut for writing.
fn half_closes(_: &[String]) {
    let ctx = Context::new();
    let listener = RawListener::bind(Transport::Tcp);
    let mut peers: Vec<RawPeer> = Vec::new();
    for number in 0..SOCKETS {
        let push = ctx.bare_socket(PUSH).with(RECONNECT_IVL, -1);
        push.connect(&listener.endpoint()).expect("connect");
        let mut peer = listener.accept();
        peer.handshake(0, "PULL");
        if number % 2 == 0 {
            push.send("the last", 0).expect("room");
            push.close().expect("close");
            assert_eq!(peer.read_message(), b"the last");
        } else {
            // SAFETY: the peer's descriptor is open.
            unsafe { libc::shutdown(peer.fd(), libc::SHUT_WR) };
        }
        peers.push(peer);
    }
    assert_eq!(count_wake_ups(), 0);
}

#[test]
fn half_closed_is_idle() {
    child::alone("half_closes", &[]);
}

/// Endpoints that are not dialed again.
fn was_refused(_: &[String]) {
    let ctx = Context::new();
    let endpoint = Transport::Tcp.fresh();
    let pushes: Vec<Socket> = (0..SOCKETS)
        .map(|_| {
            let push = ctx.bare_socket(PUSH).with(LINGER, 0).with(RECONNECT_STOP, STOP_CONN_REFUSED);
            push.connect(&endpoint).expect("connect");
            push
        })
        .collect();
    assert_eq!(count_wake_ups(), 0);
    drop(pushes);
}

#[test]
fn refused_is_idle() {
    child::alone("was_refused", &[]);
}

/// Endpoints without a peer: a wake-up for each attempt.
fn dials(_: &[String]) {
    const INTERVAL_MS: u128 = 100;
    let ctx = Context::new();
    let endpoint = Transport::Tcp.fresh();
    let push = ctx.bare_socket(PUSH).with(LINGER, 0).with(RECONNECT_IVL, INTERVAL_MS as i32);
    push.connect(&endpoint).expect("connect");
    deadline::pass(Duration::from_millis(200));
    let (began, before) = (Instant::now(), wake_ups());
    let counted = count_from(before);
    // The pause between two attempts is at least the interval.
    let attempts = began.elapsed().as_millis() / INTERVAL_MS + 1;
    assert!(u128::from(counted) <= attempts, "{counted} wake-ups for {attempts} attempts at most");
    assert!(counted > 0, "there are attempts");
}

#[test]
fn reconnecting_wakes_for_each_attempt() {
    child::alone("dials", &[]);
}

/// Many endpoints without a peer: several attempts fall due in each millisecond, and one wake-up serves them.
fn dials_often(_: &[String]) {
    let ctx = Context::new();
    let endpoint = Transport::Tcp.fresh();
    let pushes: Vec<Socket> = (0..400)
        .map(|_| {
            let push = ctx.bare_socket(PUSH).with(LINGER, 0).with(RECONNECT_IVL, 20);
            push.connect(&endpoint).expect("connect");
            push
        })
        .collect();
    let (began, before) = (Instant::now(), wake_ups());
    let counted = count_from(before);
    // At most one timer wake-up per millisecond, and the kernel may report a refused attempt later.
    let most = 2 * began.elapsed().as_millis();
    assert!(u128::from(counted) <= most, "{counted} wake-ups, {most} at most");
    drop(pushes);
}

#[test]
fn attempts_of_one_millisecond_share_a_wake_up() {
    child::alone("dials_often", &[]);
}

/// A connection with heartbeats: one wake-up to send each PING, and one for its answer.
fn beats(_: &[String]) {
    const INTERVAL_MS: u128 = 100;
    let ctx = Context::new();
    let pull = ctx.socket(PULL);
    let endpoint = Transport::Tcp.bind(&pull);
    let push = ctx.socket(PUSH).with(HEARTBEAT_IVL, INTERVAL_MS as i32).with(HEARTBEAT_TIMEOUT, 5_000);
    push.connect(&endpoint).expect("connect");
    push.put("here");
    pull.take();
    deadline::pass(Duration::from_millis(300));
    let (began, before) = (Instant::now(), wake_ups());
    let counted = count_from(before);
    let pings = began.elapsed().as_millis() / INTERVAL_MS + 1;
    // The other end, which answers the PING, is on the same I/O thread.
    assert!(u128::from(counted) <= 3 * pings, "{counted} wake-ups for {pings} heartbeats at most");
}

#[test]
fn a_heartbeat_wakes_once() {
    child::alone("beats", &[]);
}

/// A timer that is no longer needed must not wake the thread: here the handshake timer after the handshake.
fn has_shaken_hands(_: &[String]) {
    let ctx = Context::new();
    let listener = RawListener::bind(Transport::Tcp);
    let pushes: Vec<(Socket, RawPeer)> = (0..SOCKETS)
        .map(|_| {
            let push = ctx.socket(PUSH).with(HANDSHAKE_IVL, 1_000);
            push.connect(&listener.endpoint()).expect("connect");
            let mut peer = listener.accept();
            peer.handshake(0, "PULL");
            (push, peer)
        })
        .collect();
    let quiet = wake_ups();
    deadline::pass(Duration::from_millis(300));
    let before = wake_ups();
    deadline::pass(Duration::from_millis(1_500));
    assert_eq!(wake_ups(), before, "{} before", before - quiet);
    drop(pushes);
}

#[test]
fn a_handshake_that_is_over_wakes_nobody() {
    child::alone("has_shaken_hands", &[]);
}

/// Builds a library: its getaddrinfo(3) writes a byte to a descriptor at each call, and then fails, or never
/// returns.
fn resolver(returns: bool) -> PathBuf {
    let path = PathBuf::from(transport::socket_path()).with_extension("so");
    let source = path.with_extension("c");
    let text = "#include <unistd.h>\n#include <netdb.h>\n\
        int getaddrinfo(const char *n, const char *s, const struct addrinfo *h, struct addrinfo **r)\n\
        { write(LOG, \"x\", 1); if (!RETURNS) for (;;) pause(); return EAI_NONAME; }\n";
    std::fs::write(&source, text).expect("a file for the source");
    let built = Command::new("cc")
        .args([
            "-w",
            "-shared",
            "-fPIC",
            &format!("-DLOG={LOG}"),
            if returns { "-DRETURNS=1" } else { "-DRETURNS=0" },
            "-o",
        ])
        .args([&path, &source])
        .status();
    assert!(built.expect("a C compiler").success());
    path
}

/// Descriptors kept across exec: the resolver library writes to the first, the test reads from the second.
const LOG: i32 = 200;
const CALLS: i32 = 201;

/// Runs this program again with that library in LD_PRELOAD, unless it is set already.
fn preload_resolver(returns: bool) {
    if std::env::var_os("LD_PRELOAD").is_some() {
        return;
    }
    let (reader, writer) = std::io::pipe().expect("a pipe");
    // SAFETY: both descriptor numbers are unused; exec follows.
    unsafe {
        assert_eq!(libc::dup2(writer.as_raw_fd(), LOG), LOG);
        assert_eq!(libc::dup2(reader.as_raw_fd(), CALLS), CALLS);
    }
    let mut again = Command::new(std::env::current_exe().expect("own path"));
    let error = again.args(std::env::args().skip(1)).env("LD_PRELOAD", resolver(returns)).exec();
    panic!("the program does not start again: {error}");
}

/// Endpoints with a host name that never resolves.
fn waits_for_a_name(_: &[String]) {
    preload_resolver(false);
    let ctx = Context::new();
    let pushes: Vec<Socket> = (0..SOCKETS)
        .map(|_| {
            let push = ctx.bare_socket(PUSH).with(LINGER, 0);
            push.connect("tcp://a.name.that.takes.long:5555").expect("connect");
            push
        })
        .collect();
    assert!(poll::fd_readable(CALLS, PATIENCE_MS), "it is looked up");
    assert_eq!(count_wake_ups(), 0);
    assert!(process::threads(process::own()) < 8, "one thread looks names up");
    drop(pushes);
    ctx.term().expect("nobody waits for the resolver");
}

#[test]
fn waiting_for_a_name_is_idle() {
    child::alone("waits_for_a_name", &[]);
}

/// Many endpoints with the same host name, which does not exist, and one with another name.
fn dials_names(_: &[String]) {
    preload_resolver(true);
    let ctx = Context::new();
    ctx.set(MAX_SOCKETS, 5_000).expect("MAX_SOCKETS");
    let connect = |name: &str| {
        let push = ctx.bare_socket(PUSH).with(LINGER, 0).with(RECONNECT_IVL, 20);
        push.connect(name).expect("connect");
        push
    };
    let began = Instant::now();
    let mut pushes: Vec<Socket> = (0..200).map(|_| connect("tcp://no.such.name:5555")).collect();
    pushes.push(connect("tcp://another.name:5555"));
    deadline::pass(a_while());
    assert_eq!(process::threads(process::own()), 4, "the test's two, one for I/O, one for names");
    drop(pushes);
    ctx.term().expect("term");
    let mut asked = 0;
    // SAFETY: asks for the number of bytes in a pipe that is open.
    assert_eq!(unsafe { libc::ioctl(CALLS, libc::FIONREAD, &mut asked) }, 0);
    let asked = u128::try_from(asked).expect("a number");
    let most = 2 * (began.elapsed().as_millis() / 100 + 1);
    assert!(asked <= most, "{asked} calls, {most} at most");
    assert!(asked >= 2, "both names were looked up");
}

#[test]
fn an_answer_counts_for_equal_names() {
    child::alone("dials_names", &[]);
}
