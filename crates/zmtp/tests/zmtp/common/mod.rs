//! Shared by the tests: a scripted handshake, and the bytes that peers of each version send.
pub mod forge;
pub mod live;
pub mod secure;
pub mod ws;

use pinnace_zmtp::{Config, Error, Handshake, Peer, SocketType};

/// Parses hex digits; whitespace is ignored.
pub fn hex(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let digit = |byte: u8| (byte as char).to_digit(16).expect("a hex digit") as u8;
    digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

pub fn cat(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// Cuts `bytes` into pieces of the given lengths; the rest is the last piece.
pub fn pieces<'a>(mut bytes: &'a [u8], lengths: &[usize]) -> Vec<&'a [u8]> {
    let mut out = Vec::new();
    for &len in lengths {
        let (piece, rest) = bytes.split_at(len.min(bytes.len()));
        out.push(piece);
        bytes = rest;
    }
    out.push(bytes);
    out
}

/// The signature of a peer without identity: `FF`, eight arbitrary bytes, `7F`.
pub const SIGNATURE: &[u8] = b"\xff\0\0\0\0\0\0\0\x01\x7f";

/// A greeting of ZMTP 3 (RFC 37, "Formal Grammar").
pub fn greeting(minor: u8, mechanism: &str) -> Vec<u8> {
    let mut out = cat(&[SIGNATURE, &[3, minor], mechanism.as_bytes()]);
    out.resize(64, 0);
    out
}

pub fn property(name: &str, value: &[u8]) -> Vec<u8> {
    cat(&[&[name.len() as u8], name.as_bytes(), &(value.len() as u32).to_be_bytes(), value])
}

/// Builds a frame by hand, so that the tests do not depend on the encoder under test.
pub fn frame(flags: u8, body: &[u8]) -> Vec<u8> {
    match u8::try_from(body.len()) {
        Ok(len) => cat(&[&[flags, len], body]),
        Err(_) => cat(&[&[flags | 2], &(body.len() as u64).to_be_bytes(), body]),
    }
}

pub fn ready_with(metadata: &[u8]) -> Vec<u8> {
    frame(4, &cat(&[b"\x05READY", metadata]))
}

pub fn ready(socket_type: &str) -> Vec<u8> {
    ready_with(&property("Socket-Type", socket_type.as_bytes()))
}

pub fn config(socket_type: SocketType, routing_id: &[u8]) -> Config {
    Config { routing_id: routing_id.to_vec(), ..Config::new(socket_type) }
}

pub fn handshake(socket_type: SocketType, routing_id: &[u8]) -> Handshake {
    Handshake::new(config(socket_type, routing_id))
}

/// Takes all output.
pub fn drain(handshake: &mut Handshake) -> Vec<u8> {
    let out = handshake.output().to_vec();
    handshake.sent(out.len());
    out
}

/// Everything observable of a handshake.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    pub consumed: usize,
    pub output: Vec<u8>,
    pub result: Result<Option<Peer>, Error>,
}

/// Feeds `pieces` one after the other, until one is not completely consumed.
pub fn feed<'a>(config: Config, pieces: impl IntoIterator<Item = &'a [u8]>) -> Seen {
    let mut handshake = Handshake::new(config);
    let mut consumed = 0;
    let mut output = drain(&mut handshake);
    for piece in pieces {
        let result = handshake.input(piece);
        output.extend(drain(&mut handshake));
        match result {
            Ok(used) => {
                assert!(used <= piece.len(), "consumed bytes that were not there");
                consumed += used;
                if used < piece.len() {
                    assert!(handshake.peer().is_some(), "left bytes without an end");
                    break;
                }
            }
            Err(error) => {
                assert_eq!(handshake.input(b"more"), Err(error.clone()), "an error is final");
                assert!(handshake.peer().is_none());
                return Seen { consumed: 0, output, result: Err(error) };
            }
        }
    }
    let peer = handshake.peer().cloned();
    assert_eq!(handshake.into_parts().map(|(peer, _)| peer), peer);
    Seen { consumed, output, result: Ok(peer) }
}
