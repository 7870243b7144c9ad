//! WebSocket against another implementation: tungstenite on either side, byte for byte and over a connection.

use crate::common::ws::{CLIENT, NULL, Ours, translate};
use crate::common::{cat, frame};
use pinnace_zmtp::frame::{COMMAND, MORE};
use pinnace_zmtp::ws::{DecoderLimits, Encoder, Role, Status, Subprotocol, Target, Upgrade};
use pinnace_zmtp::{Config, SocketType, Version};
use std::io::Cursor;
use std::os::unix::net::UnixStream;
use std::thread;
use tungstenite::handshake::server::{Request, Response};
use tungstenite::http::HeaderValue;
use tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tungstenite::protocol::frame::{CloseFrame, Frame};
use tungstenite::{ClientRequestBuilder, Message, WebSocket, protocol};

const READY: &[u8] = b"\x02\x05READY\x0bSocket-Type\x00\x00\x00\x04";

fn binary(bytes: &[u8]) -> Message {
    Message::Binary(bytes.to_vec().into())
}

#[test]
fn tungstenite_reads_what_we_write() {
    for (ours, theirs) in [(&CLIENT, protocol::Role::Server), (&Role::Server, protocol::Role::Client)] {
        let mut encoder = Encoder::new(ours);
        let mut out = Vec::new();
        let bodies: Vec<Vec<u8>> =
            [0, 1, 124, 125, 126, 65_534, 65_535, 70_000].map(|len| vec![len as u8; len]).into();
        bodies.iter().for_each(|body| encoder.encode(MORE, body, &mut out));
        encoder.ping(b"there?", &mut out);
        encoder.close(1001, "enough", &mut out);
        let mut socket = WebSocket::from_raw_socket(Cursor::new(out), theirs, None);
        for body in &bodies {
            assert_eq!(socket.read().unwrap(), binary(&cat(&[b"\x01", body])));
        }
        assert_eq!(socket.read().unwrap(), Message::Ping(b"there?".to_vec().into()));
        let close = CloseFrame { code: CloseCode::Away, reason: "enough".into() };
        assert_eq!(socket.read().unwrap(), Message::Close(Some(close)));
    }
}

#[test]
fn we_read_what_tungstenite_writes() {
    for (ours, theirs) in [(&CLIENT, protocol::Role::Server), (&Role::Server, protocol::Role::Client)] {
        let mut socket = WebSocket::from_raw_socket(Cursor::new(Vec::new()), theirs, None);
        let mut expected = Vec::new();
        for len in [0, 1, 124, 125, 126, 65_534, 65_535, 70_000] {
            let body = vec![len as u8; len];
            socket.send(binary(&cat(&[b"\x02", &body]))).unwrap();
            expected.extend(frame(COMMAND, &body));
        }
        let fragment = |bytes: &[u8], data, last| {
            Message::Frame(Frame::message(bytes.to_vec(), OpCode::Data(data), last))
        };
        socket.send(fragment(b"\0in ", Data::Binary, false)).unwrap();
        socket.send(Message::Ping(b"!".to_vec().into())).unwrap();
        socket.send(fragment(b"two", Data::Continue, true)).unwrap();
        expected.extend(frame(0, b"in two"));
        socket.close(Some(CloseFrame { code: CloseCode::Normal, reason: "done".into() })).unwrap();
        let bytes = socket.get_ref().get_ref().clone();
        let seen = translate(ours, DecoderLimits::default(), [&bytes[..]]);
        assert_eq!((seen.frames, seen.result), (expected, Ok(Status::Closed)));
        // tungstenite can read our replies.
        let mut replies = WebSocket::from_raw_socket(Cursor::new(seen.replies), theirs, None);
        assert_eq!(replies.read().unwrap(), Message::Pong(b"!".to_vec().into()));
        assert!(
            matches!(replies.read().unwrap(), Message::Close(Some(close)) if close.reason.as_str() == "done")
        );
    }
}

#[test]
fn a_client_of_tungstenite_is_served() {
    for (offer, expected) in [("ZWS2.0", Subprotocol::Bare), ("ZWS2.0/NULL", Subprotocol::Mechanism)] {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let client = thread::spawn(move || {
            let uri = "ws://localhost:5555/anywhere".parse().unwrap();
            let request = ClientRequestBuilder::new(uri).with_sub_protocol("mqtt").with_sub_protocol(offer);
            let (mut socket, response) = tungstenite::client(request, theirs).unwrap();
            assert_eq!(response.headers()["Sec-WebSocket-Protocol"], offer);
            match expected {
                Subprotocol::Bare => {
                    socket.send(binary(b"\0me")).unwrap();
                    assert_eq!(socket.read().unwrap(), binary(b"\0you"));
                }
                Subprotocol::Mechanism => {
                    socket.send(binary(&cat(&[READY, b"PUSH"]))).unwrap();
                    assert_eq!(socket.read().unwrap(), binary(&cat(&[READY, b"PULL"])));
                }
            }
            socket.send(binary(b"\x01first")).unwrap();
            socket.send(Message::Ping(b"now".to_vec().into())).unwrap();
            socket.send(binary(b"\0last")).unwrap();
            assert_eq!(socket.read().unwrap(), Message::Pong(b"now".to_vec().into()));
            socket.close(None).unwrap();
            assert!(matches!(socket.read().unwrap(), Message::Close(_)), "our answer to its close");
        });
        let config = Config { routing_id: b"you".to_vec(), ..Config::new(SocketType::Pull) };
        let mut ours = Ours::start(ours, Upgrade::server(NULL), &Role::Server, config);
        assert_eq!(ours.subprotocol, expected);
        match expected {
            Subprotocol::Bare => {
                assert_eq!((ours.peer.version, &ours.peer.routing_id[..]), (Version::V2_0, &b"me"[..]));
            }
            Subprotocol::Mechanism => {
                assert_eq!(
                    (ours.peer.version, ours.peer.socket_type),
                    (Version::V3_0, Some(SocketType::Push))
                );
            }
        }
        assert_eq!(ours.receive(), Some((MORE, b"first".to_vec())));
        assert_eq!(ours.receive(), Some((0, b"last".to_vec())));
        assert_eq!(ours.receive(), None);
        client.join().unwrap();
    }
}

#[test]
#[allow(clippy::result_large_err)] // tungstenite's own.
fn a_server_of_tungstenite_serves_us() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let server = thread::spawn(move || {
        let choose = |request: &Request, mut response: Response| {
            assert_eq!(request.uri().path(), "/zeromq");
            assert_eq!(request.headers()["Sec-WebSocket-Protocol"], "ZWS2.0/NULL,ZWS2.0");
            assert_eq!(request.headers()["Host"], "example.org");
            response.headers_mut().insert("Sec-WebSocket-Protocol", HeaderValue::from_static("ZWS2.0/NULL"));
            Ok(response)
        };
        let mut socket = tungstenite::accept_hdr(theirs, choose).unwrap();
        socket.send(binary(&cat(&[READY, b"PULL"]))).unwrap();
        assert_eq!(socket.read().unwrap(), binary(&cat(&[READY, b"PUSH"])));
        assert_eq!(socket.read().unwrap(), binary(&cat(&[b"\0", &[5; 70_000]])));
        socket.close(None).unwrap();
        assert!(matches!(socket.read().unwrap(), Message::Close(_)));
    });
    let upgrade = Upgrade::client(&Target { host: "example.org", path: "/zeromq" }, NULL, &[9; 16]).unwrap();
    let mut ours = Ours::start(ours, upgrade, &CLIENT, Config::new(SocketType::Push));
    assert_eq!(ours.peer.socket_type, Some(SocketType::Pull));
    ours.send(0, &[5; 70_000]);
    assert_eq!(ours.receive(), None);
    server.join().unwrap();
}
