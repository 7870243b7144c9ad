//! STREAM and the raw ROUTER: peers that speak no ZMTP.

use std::io::{Read, Write};
use std::net::TcpStream;

use support::peer::{RawListener, RawPeer};
use support::*;

over_wires!(
    serves,
    connects,
    tells_of_peers_that_come_and_go,
    hangs_up_when_asked_to,
    refuses_names_that_nobody_has,
    keeps_peers_apart,
    takes_and_gives_large_bodies,
    names_the_peer_it_connects_to,
    comes_back,
    a_raw_router_does_the_same,
);

/// The name of the peer that the socket has just reported as connected.
#[track_caller]
fn newcomer(stream: &Socket) -> Vec<u8> {
    let parts = stream.rx();
    assert_eq!(parts.len(), 2);
    assert_eq!((parts[0].len(), parts[0][0]), (5, 0), "a name made up by the socket");
    assert_eq!(parts[1], b"", "nothing but the news");
    parts[0].clone()
}

/// Receives this many bytes of a peer.
#[track_caller]
fn take_bytes(stream: &Socket, name: &[u8], count: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < count {
        let parts = stream.rx();
        assert_eq!((parts.len(), parts[0].as_slice()), (2, name));
        assert!(!parts[1].is_empty(), "the peer is there still");
        bytes.extend_from_slice(&parts[1]);
    }
    bytes
}

/// Runs `work` while this thread calls the library repeatedly: libzmq ends a connection only in such calls.
fn meanwhile<T: Send>(socket: &Socket, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let worker = scope.spawn(work);
        while !worker.is_finished() {
            poll::ready(socket, POLLIN, 5);
        }
        worker.join().expect("the work")
    })
}

fn serves(transport: Transport) {
    let ctx = Context::new();
    let stream = ctx.socket(STREAM);
    let mut peer = RawPeer::connect(&transport.bind(&stream));
    let name = newcomer(&stream);
    peer.send(b"hello");
    assert_eq!(take_bytes(&stream, &name, 5), b"hello");
    stream.tx(&[name.as_slice(), b"and "]);
    stream.tx(&[name.as_slice(), b"you"]);
    peer.expect(b"and you");
}

/// ZMQ_ROUTING_ID is the name of the peer most recently connected to.
fn connects(transport: Transport) {
    let ctx = Context::new();
    let stream = ctx.socket(STREAM);
    let listener = RawListener::bind(transport);
    stream.connect(&listener.endpoint()).expect("connect");
    let name = stream.get_bytes(ROUTING_ID, 255).expect("ROUTING_ID");
    let mut peer = listener.accept();
    assert_eq!(newcomer(&stream), name);
    stream.tx(&[name.as_slice(), b"ping"]);
    peer.expect(b"ping");
    peer.send(b"pong");
    assert_eq!(take_bytes(&stream, &name, 4), b"pong");
}

fn tells_of_peers_that_come_and_go(transport: Transport) {
    let ctx = Context::new();
    let stream = ctx.socket(STREAM);
    let peer = RawPeer::connect(&transport.bind(&stream));
    let name = newcomer(&stream);
    drop(peer);
    assert_eq!(stream.rx(), [name.as_slice(), b""]);

    let silent = ctx.socket(STREAM).with(STREAM_NOTIFY, 0);
    let mut peer = RawPeer::connect(&transport.bind(&silent));
    peer.send(b"first");
    assert_eq!(silent.rx()[1], b"first");
    drop(peer);
    silent.expect_nothing();
}

/// An empty message ends the connection, after what was sent before has been written.
fn hangs_up_when_asked_to(transport: Transport) {
    let ctx = Context::new();
    let stream = ctx.socket(STREAM);
    let mut peer = RawPeer::connect(&transport.bind(&stream));
    let name = newcomer(&stream);
    let last = vec![b'x'; 300_000];
    stream.tx(&[name.as_slice(), &last]);
    stream.tx(&[name.as_slice(), b""]);
    let got = meanwhile(&stream, move || peer.expect_end());
    assert!(got == last, "all that was sent before the end");
    assert_eq!(stream.send(&name, SNDMORE), Err(Errno(libc::EHOSTUNREACH)));
}

fn refuses_names_that_nobody_has(transport: Transport) {
    let ctx = Context::new();
    let stream = ctx.socket(STREAM);
    transport.bind(&stream);
    assert_eq!(stream.send("nobody", SNDMORE), Err(Errno(libc::EHOSTUNREACH)));
    assert_eq!(poll::ready(&stream, POLLOUT, 0), POLLOUT);
}

fn keeps_peers_apart(transport: Transport) {
    let ctx = Context::new();
    let stream = ctx.socket(STREAM);
    let endpoint = transport.bind(&stream);
    let mut peers: Vec<(RawPeer, Vec<u8>)> = (0..8)
        .map(|_| {
            let peer = RawPeer::connect(&endpoint);
            (peer, newcomer(&stream))
        })
        .collect();
    for (index, (peer, name)) in peers.iter_mut().enumerate() {
        peer.send(format!("I am {index}").as_bytes());
        assert_eq!(take_bytes(&stream, name, 6), format!("I am {index}").as_bytes());
    }
    for (index, (_, name)) in peers.iter().enumerate() {
        stream.tx(&[name.as_slice(), format!("you are {index}").as_bytes()]);
    }
    for (index, (peer, _)) in peers.iter_mut().enumerate() {
        peer.expect(format!("you are {index}").as_bytes());
    }
}

fn takes_and_gives_large_bodies(transport: Transport) {
    let ctx = Context::new();
    let stream = ctx.socket(STREAM);
    let mut peer = RawPeer::connect(&transport.bind(&stream));
    let name = newcomer(&stream);
    let sent: Vec<u8> = (0..3_000_000u32).map(|n| (n * 7 + n / 251) as u8).collect();
    let expected = sent.clone();
    let back = std::thread::spawn(move || {
        peer.send(&sent);
        peer.read(sent.len())
    });
    let got = take_bytes(&stream, &name, expected.len());
    assert!(got == expected, "bytes come as they were sent");
    stream.tx(&[name.as_slice(), &got]);
    assert!(back.join().expect("the peer") == expected, "and go as they were");
}

fn names_the_peer_it_connects_to(transport: Transport) {
    let ctx = Context::new();
    let stream = ctx.socket(STREAM);
    let listener = RawListener::bind(transport);
    stream.set_bytes(CONNECT_ROUTING_ID, b"there").expect("CONNECT_ROUTING_ID");
    stream.connect(&listener.endpoint()).expect("connect");
    let mut peer = listener.accept();
    stream.expect(&["there", ""]);
    stream.tx(&["there", "ping"]);
    peer.expect(b"ping");
}

/// A lost connection is made again, and its peer keeps the name.
fn comes_back(transport: Transport) {
    let ctx = Context::new();
    let stream = ctx.socket(STREAM).with(RECONNECT_IVL, 10);
    let listener = RawListener::bind(transport);
    stream.connect(&listener.endpoint()).expect("connect");
    let name = stream.get_bytes(ROUTING_ID, 255).expect("ROUTING_ID");
    for turn in 0..3 {
        let mut peer = listener.accept();
        assert_eq!(stream.rx(), [name.as_slice(), b""], "it has come, turn {turn}");
        stream.tx(&[name.as_slice(), b"ping"]);
        peer.expect(b"ping");
        drop(peer);
        assert_eq!(stream.rx(), [name.as_slice(), b""], "it has gone, turn {turn}");
    }
}

fn a_raw_router_does_the_same(transport: Transport) {
    let ctx = Context::new();
    let router = ctx.socket(ROUTER).with(ROUTER_RAW, 1);
    let mut peer = RawPeer::connect(&transport.bind(&router));
    let name = newcomer(&router);
    peer.send(b"hello");
    assert_eq!(take_bytes(&router, &name, 5), b"hello");
    router.tx(&[name.as_slice(), b"and you"]);
    peer.expect(b"and you");
    router.tx(&[name.as_slice(), b""]);
    assert_eq!(meanwhile(&router, move || peer.expect_end()), b"");
}

/// Two STREAMs: neither speaks ZMTP, so they understand each other.
#[test]
fn two_streams_talk() {
    within(60, || {
        let ctx = Context::new();
        let (server, client) = Transport::Tcp.pair(&ctx, STREAM, STREAM);
        let at_server = newcomer(&server);
        let at_client = newcomer(&client);
        client.tx(&[at_client.as_slice(), b"question"]);
        assert_eq!(take_bytes(&server, &at_server, 8), b"question");
        server.tx(&[at_server.as_slice(), b"answer"]);
        assert_eq!(take_bytes(&client, &at_client, 6), b"answer");
    });
}

/// The example of zmq_socket(3): a web server. The client is the standard library's TCP stream.
#[test]
fn answers_http() {
    within(60, || {
        let ctx = Context::new();
        let stream = ctx.socket(STREAM);
        let endpoint = Transport::Tcp.bind(&stream);
        let address = endpoint.trim_start_matches("tcp://").to_owned();
        for _ in 0..20 {
            let address = address.clone();
            let client = std::thread::spawn(move || {
                let mut tcp = TcpStream::connect(&address).expect("connect");
                write!(tcp, "GET / HTTP/1.0\r\nHost: {address}\r\n\r\n").expect("a request");
                let mut answer = String::new();
                tcp.read_to_string(&mut answer).expect("an answer, and its end");
                answer
            });
            let name = newcomer(&stream);
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                request.extend(take_bytes(&stream, &name, 1));
            }
            assert!(request.starts_with(b"GET / HTTP/1.0\r\n"));
            let answer = "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nHello, World!";
            stream.tx(&[name.as_slice(), answer.as_bytes()]);
            stream.tx(&[name.as_slice(), b""]);
            assert_eq!(meanwhile(&stream, || client.join().expect("the client")), answer);
        }
    });
}
