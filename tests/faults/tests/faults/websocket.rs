//! Hostile bytes at a ws:// listener, before and after the upgrade: each costs only its own connection, and the good
//! peer is served all the time.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use support::deadline::PATIENCE_MS;
use support::filler::{Chance, drain, numbered};
use support::*;

struct Listener {
    pull: Socket,
    push: Socket,
    sent: u64,
    address: String,
    _ctx: Context,
}

impl Listener {
    fn start() -> Listener {
        let ctx = Context::new();
        let pull = ctx.socket(PULL).with(HANDSHAKE_IVL, 400);
        pull.set_bytes(MAXMSGSIZE, &100_000i64.to_ne_bytes()).expect("MAXMSGSIZE");
        let push = ctx.socket(PUSH);
        Transport::Ws.join(&pull, &push);
        let endpoint = pull.endpoint();
        let address = endpoint.trim_start_matches("ws://").split('/').next().expect("an address").to_owned();
        Listener { pull, push, sent: 0, address, _ctx: ctx }
    }

    /// Asserts that the good peer's messages arrive.
    fn serves(&mut self) {
        (self.sent..self.sent + 10).for_each(|n| self.push.put(numbered(n, 100)));
        drain(&self.pull, self.sent, 10);
        self.sent += 10;
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("connect");
        stream.set_read_timeout(Some(Duration::from_millis(PATIENCE_MS as u64))).expect("a timeout");
        stream.set_write_timeout(Some(Duration::from_millis(PATIENCE_MS as u64))).expect("a timeout");
        stream
    }

    /// A connection after the upgrade and the handshake as a PUSH.
    fn opened(&self) -> TcpStream {
        let mut stream = self.connect();
        stream.write_all(request("ZWS2.0/NULL").as_bytes()).expect("sent");
        assert!(head(&mut stream).starts_with("HTTP/1.1 101 "));
        stream
            .write_all(&frame(0x82, &[b"\x02", &support::wire::ready("PUSH")[2..]].concat()))
            .expect("sent");
        let mut theirs = [0; 2];
        stream.read_exact(&mut theirs).expect("a frame");
        assert_eq!(theirs[0], 0x82, "a whole binary message, without a mask");
        let mut ready = vec![0; theirs[1].into()];
        stream.read_exact(&mut ready).expect("READY");
        assert_eq!(&ready[..7], b"\x02\x05READY");
        stream
    }
}

fn request(protocols: &str) -> String {
    format!(
        "GET /here HTTP/1.1\r\nHost: here\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: {protocols}\r\n\
         Sec-WebSocket-Version: 13\r\n\r\n"
    )
}

/// A client's frame, masked.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [1, 2, 3, 4];
    let mut bytes = vec![first];
    match payload.len() {
        len @ 0..126 => bytes.push(0x80 | len as u8),
        len => {
            bytes.push(0x80 | 126);
            bytes.extend((len as u16).to_be_bytes());
        }
    }
    bytes.extend(mask);
    bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    bytes
}

/// The head of an HTTP response.
fn head(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("an answer");
        bytes.push(byte[0]);
    }
    String::from_utf8(bytes).expect("text")
}

/// All bytes until the library hangs up.
fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "it does not hang up"),
    }
    bytes
}

#[test]
fn bad_requests_are_answered_and_cut() {
    let mut listener = Listener::start();
    let good = request("ZWS2.0/NULL");
    let endless = format!("{}X: {}\r\n", &good[..good.len() - 2], "x".repeat(100_000));
    for (request, status) in [
        ("POST / HTTP/1.1\r\nHost: h\r\n\r\n".to_owned(), "405"),
        ("GET / HTTP/1.1\r\nHost: h\r\n\r\n".to_owned(), "426"),
        (good.replace("Version: 13", "Version: 8"), "426"),
        (good.replace("ZWS2.0/NULL", "mqtt"), "400"),
        (good.replace("dGhlIHNhbXBsZSBub25jZQ==", "short"), "400"),
        (good.replace("Host: here\r\n", ""), "400"),
        (format!("GET /{} HTTP/1.1\r\n", "x".repeat(100_000)), "414"),
        (endless, "431"),
        (good.replace("\r\n\r\n", &"\r\nA: b".repeat(200)) + "\r\n\r\n", "431"),
        ("\x16\x03\x01 this is TLS".to_owned(), "400"),
    ] {
        let mut stream = listener.connect();
        let _ = stream.write_all(request.as_bytes());
        let answer = rest(&mut stream);
        // A peer that sends more than is read may be reset before the response arrives.
        if request.len() < 10_000 {
            let start = format!("HTTP/1.1 {status} ");
            assert!(answer.starts_with(start.as_bytes()), "{status}: {}", String::from_utf8_lossy(&answer));
        }
        listener.serves();
    }
}

#[test]
fn slow_requests_are_cut() {
    let mut listener = Listener::start();
    let good = request("ZWS2.0/NULL");
    for count in [0, 1, 20, good.len() - 1, good.len()] {
        let mut stream = listener.connect();
        stream.write_all(&good.as_bytes()[..count]).expect("sent");
        rest(&mut stream);
        listener.serves();
    }
}

/// Fragmented messages are accepted, with pings between fragments; a violation is answered with a close frame.
#[test]
fn frames_that_break_the_rules_are_cut() {
    let mut listener = Listener::start();
    let mut stream = listener.opened();
    for piece in [frame(0x02, b"\0fra"), frame(0x89, b"alive?"), frame(0x00, b"gmen"), frame(0x80, b"ted")] {
        stream.write_all(&piece).expect("sent");
    }
    assert_eq!(listener.pull.take(), b"fragmented");
    let mut pong = [0; 8];
    stream.read_exact(&mut pong).expect("a pong");
    assert_eq!(&pong, b"\x8a\x06alive?");
    let unmasked = [&[0x82, 2, 0, b'x'][..]].concat();
    let huge = [&[0x82, 0xFF][..], &(1u64 << 40).to_be_bytes(), &[0; 4]].concat();
    let negative = [&[0x82, 0xFF, 0x80][..], &[0; 11]].concat();
    for (bytes, code) in [
        (frame(0x81, b"\0text"), 1003),
        (unmasked, 1002),
        (huge, 1009),
        (negative, 1002),
        (frame(0x82, b""), 1002),
        (frame(0xC2, b"\0reserved bit"), 1002),
        (frame(0x83, b"\0reserved opcode"), 1002),
        (frame(0x80, b"\0continues nothing"), 1002),
        (frame(0x09, b"a ping in fragments"), 1002),
        (frame(0x89, &[0; 126]), 1002),
        (frame(0x88, &[1]), 1002),
        ([frame(0x02, b"\0one"), frame(0x82, b"\0another")].concat(), 1002),
    ] {
        let mut stream = listener.opened();
        stream.write_all(&bytes).expect("sent");
        let answer = rest(&mut stream);
        assert_eq!(
            answer[0],
            0x88,
            "a close frame for {:02x?}: {answer:02x?}",
            &bytes[..bytes.len().min(20)]
        );
        assert_eq!(
            u16::from_be_bytes([answer[2], answer[3]]),
            code,
            "{:02x?}",
            &bytes[..bytes.len().min(20)]
        );
        listener.serves();
    }
    let mut stream = listener.opened();
    stream.write_all(&frame(0x88, &1000u16.to_be_bytes())).expect("sent");
    assert_eq!(rest(&mut stream)[..4], [0x88, 2, 3, 0xE8], "a close is answered by one");
    listener.serves();
}

#[test]
fn garbage_is_cut() {
    let listener = Listener::start();
    let mut chance = Chance::new();
    for turn in 0..if child::long() { 3_000 } else { 150 } {
        let mut stream = if turn % 3 == 0 { listener.connect() } else { listener.opened() };
        if turn % 3 == 2 {
            let _ = stream.write_all(&frame(0x82, &chance.bytes(60)));
        }
        let count = 1 + chance.below(3_000) as usize;
        let _ = stream.write_all(&chance.bytes(count));
        if turn % 10 == 0 {
            while listener.pull.recv_parts(DONTWAIT).is_ok() {} // Garbage can be a message.
        }
    }
    let word = "the good peer";
    listener.push.put(word);
    until("it comes through", || listener.pull.rx().concat() == word.as_bytes());
}

/// A peer that pings without reading the pongs is cut off, and delays no other peer.
#[test]
fn endless_pings_are_cut() {
    let mut listener = Listener::start();
    let mut stream = listener.opened();
    let pings = frame(0x89, &[7; 125]).repeat(100);
    until("it is cut", || stream.write_all(&pings).is_err());
    listener.serves();
}

/// As above, before the ZMTP handshake inside, where the peer has no identity yet.
#[test]
fn pings_instead_of_a_handshake_are_cut() {
    let mut listener = Listener::start();
    let endless = [frame(0x89, &[7; 125]), frame(0x8A, b""), frame(0x02, b"")];
    for kind in endless {
        let mut stream = listener.connect();
        stream.write_all(request("ZWS2.0/NULL").as_bytes()).expect("sent");
        assert!(head(&mut stream).starts_with("HTTP/1.1 101 "));
        let many = kind.repeat(100);
        until("it is cut", || stream.write_all(&many).is_err());
        listener.serves();
    }
}
