//! Proxies between sockets of one context.

use std::ptr::null_mut;

use pinnace_engine::{Context, ETERM, Outgoing, SocketType};

use super::*;
use crate::error::errno;
use crate::handle::publish;

const PULL: SocketType = SocketType::Pull;
const PUSH: SocketType = SocketType::Push;
const REQ: SocketType = SocketType::Req;
const DEALER: SocketType = SocketType::Dealer;
const ROUTER: SocketType = SocketType::Router;

fn bound(context: &Context, kind: SocketType, endpoint: &str) -> Socket {
    let socket = context.socket(kind).unwrap();
    socket.bind(endpoint).unwrap();
    socket
}

fn connected(context: &Context, kind: SocketType, endpoint: &str) -> Socket {
    let socket = context.socket(kind).unwrap();
    socket.connect(endpoint).unwrap();
    socket
}

fn send(socket: Socket, parts: &[&[u8]]) {
    for (index, part) in parts.iter().enumerate() {
        socket.send(Outgoing::Bytes(part), index + 1 < parts.len(), true).unwrap();
    }
}

fn recv(socket: Socket) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    while socket.recv(true, &mut |frame| parts.push(frame.data().to_vec())).unwrap() {}
    parts
}

/// Runs `test` while a proxy runs on another thread, then terminates the context.
fn beside(context: &Context, front: Socket, back: Socket, capture: Option<Socket>, test: impl FnOnce()) {
    beside_and_measure(context, front, back, capture, |_| test());
}

/// As `beside`; the test can query the processor time that the proxy has used.
fn beside_and_measure(
    context: &Context,
    front: Socket,
    back: Socket,
    capture: Option<Socket>,
    test: impl FnOnce(&dyn Fn() -> Duration),
) {
    let [front, back, capture] = [Some(front), Some(back), capture]
        .map(|socket| socket.map_or(0, |s| publish(s).unwrap().expose_provenance()));
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let proxy = scope.spawn(move || {
            let mut clock = 0;
            // SAFETY: this thread, and room for its clock id.
            assert_eq!(unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &mut clock) }, 0);
            tell.send(clock).unwrap();
            let [front, back, capture] = [front, back, capture].map(std::ptr::with_exposed_provenance_mut);
            let outcome = (zmq_proxy(front, back, capture), errno());
            for socket in [front, back, capture] {
                crate::socket::zmq_close(socket);
            }
            outcome
        });
        let clock = told.recv().unwrap();
        let cpu_time = || {
            let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: the clock of a running thread, and room for its time.
            assert_eq!(unsafe { libc::clock_gettime(clock, &mut time) }, 0);
            Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
        };
        // A failed assertion must not leave the proxy running: the scope would wait forever.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(&cpu_time)));
        context.shutdown().unwrap();
        assert_eq!(proxy.join().unwrap(), (-1, ETERM));
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    context.terminate().unwrap();
}

#[test]
fn it_wants_two_sockets() {
    let no_socket = 8 as *mut c_void;
    assert_eq!((zmq_proxy(null_mut(), null_mut(), null_mut()), errno()), (-1, libc::EFAULT));
    assert_eq!((zmq_proxy(no_socket, no_socket, null_mut()), errno()), (-1, libc::ENOTSOCK));
    let steered = zmq_proxy_steerable(null_mut(), null_mut(), null_mut(), no_socket);
    assert_eq!((steered, errno()), (-1, libc::EFAULT));
}

#[test]
fn messages_pass_whole_and_in_order_and_are_captured() {
    let context = Context::new().unwrap();
    let (front, back) = (bound(&context, PULL, "inproc://front"), bound(&context, PUSH, "inproc://back"));
    let capture = bound(&context, PUSH, "inproc://capture");
    let source = connected(&context, PUSH, "inproc://front");
    let (sink, tap) =
        (connected(&context, PULL, "inproc://back"), connected(&context, PULL, "inproc://capture"));
    let large = vec![5; 100_000];
    beside(&context, front, back, Some(capture), || {
        for number in 0..5000_u32 {
            let number = number.to_ne_bytes();
            let parts: &[&[u8]] = &[&number, b"", &large[..number[0] as usize * 300]];
            send(source, parts);
            assert_eq!(recv(sink), parts);
            assert_eq!(recv(tap), parts);
        }
        for socket in [source, sink, tap] {
            socket.close().unwrap();
        }
    });
}

#[test]
fn requests_and_replies_find_their_way() {
    let context = Context::new().unwrap();
    let (front, back) = (bound(&context, ROUTER, "inproc://front"), bound(&context, DEALER, "inproc://back"));
    let client = connected(&context, REQ, "inproc://front");
    let service = connected(&context, SocketType::Rep, "inproc://back");
    beside(&context, front, back, None, || {
        for _ in 0..100 {
            send(client, &[b"question"]);
            assert_eq!(recv(service), [b"question"]);
            send(service, &[b"answer", b"in parts"]);
            assert_eq!(recv(client), [&b"answer"[..], b"in parts"]);
        }
        client.close().unwrap();
        service.close().unwrap();
    });
}

#[test]
fn the_same_socket_twice_is_an_echo() {
    let context = Context::new().unwrap();
    let echo = bound(&context, DEALER, "inproc://echo");
    let client = connected(&context, DEALER, "inproc://echo");
    let echo = publish(echo).unwrap().expose_provenance();
    std::thread::scope(|scope| {
        let proxy = scope.spawn(move || {
            let echo = std::ptr::with_exposed_provenance_mut(echo);
            let outcome = (zmq_proxy(echo, echo, null_mut()), errno());
            crate::socket::zmq_close(echo);
            outcome
        });
        send(client, &[b"hello", b"there"]);
        assert_eq!(recv(client), [b"hello", b"there"]);
        client.close().unwrap();
        context.shutdown().unwrap();
        assert_eq!(proxy.join().unwrap(), (-1, ETERM));
    });
    context.terminate().unwrap();
}

/// A receiver that takes nothing blocks only its own direction.
#[test]
fn one_full_direction_does_not_stop_the_other() {
    let context = Context::new().unwrap();
    let (front, back) = (bound(&context, DEALER, "inproc://front"), bound(&context, DEALER, "inproc://back"));
    let (left, right) =
        (connected(&context, DEALER, "inproc://front"), connected(&context, DEALER, "inproc://back"));
    beside(&context, front, back, None, || {
        // Until nothing moves any more: both pipes are full and the proxy holds a message.
        let mut patience = 100;
        while patience > 0 {
            match left.send(Outgoing::Bytes(b"to the right"), false, false) {
                Ok(()) => patience = 100,
                Err(Error::WouldBlock) => {
                    patience -= 1;
                    std::thread::yield_now();
                }
                Err(error) => panic!("{error}"),
            }
        }
        send(right, &[b"to the left"]);
        assert_eq!(recv(left), [b"to the left"]);
        left.close().unwrap();
        right.close().unwrap();
    });
}

/// The addressed peer is full and another has room, so POLLOUT of the mandatory ROUTER does not cover this message.
#[test]
fn a_mandatory_router_with_one_full_peer_is_waited_for() {
    const ROUTING_ID: c_int = 5;
    const SNDHWM: c_int = 23;
    const RCVHWM: c_int = 24;
    const ROUTER_MANDATORY: c_int = 33;
    const MESSAGES: u32 = 500;
    const WHILE: Duration = Duration::from_millis(150);
    let context = Context::new().unwrap();
    let front = bound(&context, PULL, "inproc://front");
    let back = context.socket(ROUTER).unwrap();
    for option in [ROUTER_MANDATORY, SNDHWM] {
        back.set_option(option, &1_i32.to_ne_bytes()).unwrap();
    }
    back.bind("inproc://back").unwrap();
    let peer = |name: &[u8]| {
        let peer = context.socket(DEALER).unwrap();
        peer.set_option(ROUTING_ID, name).unwrap();
        peer.set_option(RCVHWM, &1_i32.to_ne_bytes()).unwrap();
        peer.connect("inproc://back").unwrap();
        peer
    };
    let (full, free) = (peer(b"full"), peer(b"free"));
    let source = connected(&context, PUSH, "inproc://front");
    beside_and_measure(&context, front, back, None, |cpu_time| {
        send(source, &[b"free", b"first"]);
        assert_eq!(recv(free), [b"first"]);
        for number in 0..MESSAGES {
            send(source, &[b"full", &number.to_ne_bytes()]);
        }
        // A proxy that busy-polls is never quiet for this long.
        let is_quiet = || {
            let before = cpu_time();
            poll(&mut [], Some(WHILE), None, None).unwrap();
            cpu_time() - before < WHILE / 4
        };
        assert!((0..20).any(|_| is_quiet()), "the proxy never rests");
        for number in 0..MESSAGES {
            assert_eq!(recv(full), [number.to_ne_bytes()], "nothing is lost, and all of it comes");
        }
        for socket in [source, full, free] {
            socket.close().unwrap();
        }
    });
}
