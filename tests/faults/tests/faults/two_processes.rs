//! Shared memory between processes: messages arrive unchanged, a stream runs to its end, and a process of another
//! user is served over the socket.

use support::child::{self, Child, long};
use support::deadline::until_some;
use support::filler::Chance;
use support::memory::{ARMED, AT_BELL, BELL, SENT, sharing_at, switched, way};
use support::pinnace::SHARED_MEMORY;
use support::*;

support::roles!(echoer, lurker, stranger, taker);

fn messages() -> u64 {
    if long() { 200_000 } else { 3_000 }
}

fn echoer(args: &[String]) {
    let ctx = Context::new();
    let pair = ctx.bare_socket(PAIR);
    pair.connect(&args[0]).expect("connect");
    loop {
        pair.tx(&pair.rx());
    }
}

/// A message by its number: one to three parts of any size, mostly around the sizes at which the transfer method
/// changes.
fn parts_of(number: u64) -> Vec<Vec<u8>> {
    let mut chance = Chance::of(number + 1);
    (0..1 + chance.below(3))
        .map(|_| {
            let around = [0, 1, 255, 4_096, 32_768, 65_536, 1 << 20][chance.below(7) as usize];
            let size = (around + chance.below(64)).saturating_sub(chance.below(64));
            filler::body(number, size as usize)
        })
        .collect()
}

#[test]
fn messages_cross_to_another_process_and_back() {
    let ctx = Context::new();
    let pair = ctx.socket(PAIR);
    let child = Child::start("echoer", &[&Transport::Ipc.bind(&pair)]);
    let (mut sent, mut received) = (0, 0);
    while received < messages() {
        // Alternately far ahead and one message at a time.
        let ahead = if (received / 500) % 2 == 0 { 1 } else { 60 };
        while sent < messages() && sent < received + ahead {
            pair.tx(&parts_of(sent));
            sent += 1;
        }
        assert!(pair.rx() == parts_of(received), "message {received}");
        received += 1;
    }
    switched(&pair);
    drop(child);
}

/// Messages of 1,032 bytes: the memory between the two processes becomes full, and empty, again and again.
fn streamed() -> u64 {
    if long() { 300_000_000 } else { 2_000_000 }
}

fn taker(args: &[String]) {
    let ctx = Context::new();
    let pull = ctx.socket(PULL).with(BUSY_POLL, -1);
    pull.connect(&args[0]).expect("connect");
    let mut body = [0; 1032];
    for number in 0..streamed() {
        assert_eq!(pull.recv_into(&mut body, 0), Ok(1032), "message {number} in time");
        assert_eq!(body[..8], number.to_le_bytes());
    }
    child::say("all");
}

/// Either side sometimes catches up with the other, sleeps, and is woken.
#[test]
fn a_stream_never_stands_still() {
    let ctx = Context::new();
    let push = ctx.socket(PUSH);
    let mut child = Child::start("taker", &[&Transport::Ipc.bind(&push)]);
    let mut body = [0; 1032];
    for number in 0..streamed() {
        body[..8].copy_from_slice(&number.to_le_bytes());
        assert_eq!(push.send(body, 0), Ok(1032), "message {number} in time");
    }
    switched(&push);
    assert_eq!(child.line(), "all");
    child.succeeds();
}

const NOBODY: libc::uid_t = 65_534;

/// A process of another user. The second argument is its SHARED_MEMORY option, the third the expected medium.
fn stranger(args: &[String]) {
    let ctx = Context::new();
    let push = ctx.socket(PUSH);
    // SAFETY: a system call, for all threads.
    assert_eq!(unsafe { libc::setresuid(NOBODY, NOBODY, NOBODY) }, 0);
    push.set(SHARED_MEMORY, args[1].parse().expect("a number")).expect("the option");
    push.connect(&args[0]).expect("connect");
    push.put(filler::body(0, 100_000));
    // Memory is offered before the next write, once enough was written.
    child::hear();
    push.put("more");
    if args[2] == "memory" {
        switched(&push);
    }
    push.put(format!("{} {}", way(&push).0, way(&push).1));
    child::hear();
}

#[test]
fn another_users_process_is_served_over_the_socket_unless_both_say_otherwise() {
    // SAFETY: a system call.
    if unsafe { libc::geteuid() } != 0 {
        return println!("only root can be somebody else");
    }
    let another = ("socket", "the peer belongs to another user");
    let none = ("socket", "the peer does not offer it");
    let memory = ("memory", "");
    for (ours, theirs, expected) in [
        (1, 1, [another, another]),
        (2, 1, [none, another]),
        (1, 2, [another, none]),
        (2, 2, [memory, memory]),
    ] {
        let ctx = Context::new();
        let pull = ctx.socket(PULL).with(SHARED_MEMORY, ours);
        let endpoint = Transport::Ipc.bind(&pull);
        open_to_all(endpoint.strip_prefix("ipc://").expect("a path"));
        let mut child = Child::start("stranger", &[&endpoint, &theirs.to_string(), expected[0].0]);
        assert!(pull.take() == filler::body(0, 100_000), "{ours} {theirs}");
        child.tell("all was written");
        assert_eq!(pull.take_text(), "more");
        if expected[0] == memory {
            switched(&pull);
        }
        let (medium, reason) = way(&pull);
        assert_eq!((medium.as_str(), reason.as_str()), expected[0], "{ours} {theirs}");
        assert_eq!(pull.take_text(), format!("{} {}", expected[1].0, expected[1].1));
        child.tell("enough");
        child.succeeds();
    }
}

/// A process of another user that shares memory and sends messages: the receiver must not sleep on a futex that this
/// process could requeue (FUTEX_REQUEUE).
fn lurker(args: &[String]) {
    // SAFETY: a system call, for all threads.
    assert_eq!(unsafe { libc::setresuid(NOBODY, NOBODY, NOBODY) }, 0);
    let (mut peer, memory, theirs) = sharing_at(&args[0], "PUSH");
    let message = wire::message(&[b"one"]);
    memory.write(&message.repeat(LURKS));
    for number in 1..=LURKS {
        let before = theirs.get(ARMED);
        memory.set(SENT, (number * message.len()) as u64);
        peer.send(b"!");
        let armed = until_some("it waits again", || Some(theirs.get(ARMED)).filter(|now| *now != before));
        assert_eq!((armed & AT_BELL, theirs.wake(BELL)), (1, false), "message {number}: by the socket");
    }
    child::hear();
}

const LURKS: usize = 20;

#[test]
fn nobody_sleeps_where_another_users_process_could_lay_hands_on_it() {
    // SAFETY: a system call.
    if unsafe { libc::geteuid() } != 0 {
        return println!("only root can be somebody else");
    }
    let ctx = Context::new();
    let pull = ctx.socket(PULL).with(SHARED_MEMORY, 2).with(BUSY_POLL, -1);
    let endpoint = Transport::Ipc.bind(&pull);
    open_to_all(endpoint.strip_prefix("ipc://").expect("a path"));
    let mut child = Child::start("lurker", &[&endpoint]);
    (0..LURKS).for_each(|_| pull.expect(&["one"]));
    child.tell("enough");
    child.succeeds();
}

/// Lets any user connect to a socket, in a directory that any user may traverse.
fn open_to_all(path: &str) {
    use std::os::unix::fs::PermissionsExt;
    let open = |path: &std::path::Path| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).expect("our own");
    };
    let path = std::path::Path::new(path);
    open(path);
    open(path.parent().expect("a directory"));
}
