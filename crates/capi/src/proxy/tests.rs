//! Proxies between sockets of one context.

use std::ptr::null_mut;

use pinnace_engine::{Context, ETERM, Outgoing};

use super::*;
use crate::error::errno;
use crate::handle::publish;

const PULL: c_int = 7;
const PUSH: c_int = 8;
const REQ: c_int = 3;
const DEALER: c_int = 5;
const ROUTER: c_int = 6;

fn bound(context: &Context, kind: c_int, endpoint: &str) -> Socket {
    let socket = context.socket(kind).unwrap();
    socket.bind(endpoint).unwrap();
    socket
}

fn connected(context: &Context, kind: c_int, endpoint: &str) -> Socket {
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

/// Runs a proxy until the context ends, and `test` beside it.
fn beside(context: &Context, front: Socket, back: Socket, capture: Option<Socket>, test: impl FnOnce()) {
    let [front, back, capture] = [Some(front), Some(back), capture]
        .map(|socket| socket.map_or(0, |s| publish(s).unwrap().expose_provenance()));
    std::thread::scope(|scope| {
        let proxy = scope.spawn(move || {
            let [front, back, capture] = [front, back, capture].map(std::ptr::with_exposed_provenance_mut);
            let outcome = (zmq_proxy(front, back, capture), errno());
            for socket in [front, back, capture] {
                crate::socket::zmq_close(socket);
            }
            outcome
        });
        test();
        context.shutdown().unwrap();
        assert_eq!(proxy.join().unwrap(), (-1, ETERM));
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
    let service = connected(&context, 4, "inproc://back");
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

/// A receiver that takes nothing holds up its own direction alone.
#[test]
fn one_full_direction_does_not_stop_the_other() {
    let context = Context::new().unwrap();
    let (front, back) = (bound(&context, DEALER, "inproc://front"), bound(&context, DEALER, "inproc://back"));
    let (left, right) =
        (connected(&context, DEALER, "inproc://front"), connected(&context, DEALER, "inproc://back"));
    beside(&context, front, back, None, || {
        // Until nothing moves any more: both pipes and the proxy's hands are full.
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
