//! WebSocket for the tests: hand-made frames, and our side of a connection on a blocking stream.

use pinnace_zmtp::ws::{Decoder, DecoderLimits, Encoder, Error, Offer, Role, Status, Subprotocol, Upgrade};
use pinnace_zmtp::{Config, Handshake, Peer, SocketType, frame};
use std::io::{ErrorKind, Read, Write};

pub const NULL: Offer = Offer { mechanism: "NULL", bare: true };
pub const CLIENT: Role = Role::Client { seed: [7; 32] };
pub const FIN: u8 = 0x80;
pub const CONTINUATION: u8 = 0;
pub const TEXT: u8 = 1;
pub const BINARY: u8 = 2;
pub const CLOSE: u8 = 8;
pub const PING: u8 = 9;
pub const PONG: u8 = 10;
pub const MASK: Option<[u8; 4]> = Some([0x37, 0xfa, 0x21, 0x3d]);

/// Builds a frame by hand, masked byte by byte, so that the tests do not depend on the code under test.
pub fn raw(first: u8, mask: Option<[u8; 4]>, payload: &[u8]) -> Vec<u8> {
    let bit = if mask.is_some() { 0x80 } else { 0 };
    let mut out = match payload.len() {
        len @ 0..126 => vec![first, bit | len as u8],
        len @ 126..0x1_0000 => vec![first, bit | 126, (len >> 8) as u8, len as u8],
        len => [&[first, bit | 127][..], &(len as u64).to_be_bytes()].concat(),
    };
    let mask = mask.inspect(|mask| out.extend_from_slice(mask)).unwrap_or_default();
    out.extend(payload.iter().enumerate().map(|(at, byte)| byte ^ mask[at % 4]));
    out
}

/// Everything observable of a decoder.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    pub frames: Vec<u8>,
    pub replies: Vec<u8>,
    pub result: Result<Status, Error>,
}

/// Translates `pieces` one after the other.
pub fn translate<'a>(role: &Role, limits: DecoderLimits, pieces: impl IntoIterator<Item = &'a [u8]>) -> Seen {
    let mut decoder = Decoder::new(role, limits);
    let mut seen = Seen { frames: vec![], replies: vec![], result: Ok(Status::Open) };
    for piece in pieces {
        seen.result = decoder.translate(piece, &mut seen.frames, &mut seen.replies);
        assert_eq!(decoder.closed().is_some(), seen.result == Ok(Status::Closed));
    }
    seen
}

/// Our side of a connection over WebSocket, after its ZMTP handshake.
pub struct Ours<S> {
    pub stream: S,
    pub peer: Peer,
    pub subprotocol: Subprotocol,
    pub encoder: Encoder,
    decoder: Decoder,
    /// Received ZMTP frames that were not taken yet.
    frames: Vec<u8>,
}

impl<S: Read + Write> Ours<S> {
    /// Performs the upgrade and the handshake.
    pub fn start(mut stream: S, mut upgrade: Upgrade, role: &Role, config: Config) -> Ours<S> {
        let mut behind = Vec::new();
        loop {
            let output = upgrade.output().to_vec();
            stream.write_all(&output).unwrap();
            upgrade.sent(output.len());
            if upgrade.subprotocol().is_some() {
                break;
            }
            let mut bytes = [0; 300];
            let len = stream.read(&mut bytes).expect("the upgrade");
            assert!(len > 0, "the peer left during the upgrade");
            let used = upgrade.input(&bytes[..len]).expect("the upgrade");
            behind.extend_from_slice(&bytes[used..len]);
        }
        let subprotocol = upgrade.subprotocol().unwrap();
        let mut ours = Ours {
            stream,
            peer: feed_nothing(),
            subprotocol,
            encoder: Encoder::new(role),
            decoder: Decoder::new(role, DecoderLimits::default()),
            frames: Vec::new(),
        };
        let mut replies = Vec::new();
        ours.decoder.translate(&behind, &mut ours.frames, &mut replies).expect("frames");
        ours.shake(Handshake::over_ws(config, subprotocol));
        ours
    }

    fn shake(&mut self, mut handshake: Handshake) {
        let mut bytes = Vec::new();
        assert_eq!(self.encoder.encode_frames(handshake.output(), &mut bytes), handshake.output().len());
        self.stream.write_all(&bytes).unwrap();
        loop {
            let used = handshake.input(&self.frames).expect("the handshake");
            self.frames.drain(..used);
            if let Some(peer) = handshake.peer() {
                self.peer = peer.clone();
                return;
            }
            assert_eq!(self.fill(), Status::Open);
        }
    }

    /// Reads once.
    pub fn fill(&mut self) -> Status {
        let mut bytes = [0; 1000];
        let len = match self.stream.read(&mut bytes) {
            Ok(len) => len,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => 0,
            Err(error) => panic!("{error}"),
        };
        if len == 0 {
            return Status::Closed;
        }
        let mut replies = Vec::new();
        let status = self.decoder.translate(&bytes[..len], &mut self.frames, &mut replies).expect("frames");
        self.stream.write_all(&replies).unwrap();
        status
    }

    pub fn send(&mut self, flags: u8, body: &[u8]) {
        let mut bytes = Vec::new();
        self.encoder.encode(flags, body, &mut bytes);
        self.stream.write_all(&bytes).unwrap();
    }

    /// The next frame: its flags, MORE and COMMAND, and its body. `None` if the peer has closed.
    pub fn receive(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut closed = false;
        loop {
            if let Some(header) = frame::parse(&self.frames)
                && self.frames.len() >= header.header_len + header.body_len as usize
            {
                let end = header.header_len + header.body_len as usize;
                let body = self.frames.drain(..end).skip(header.header_len).collect();
                return Some((header.flags & !frame::LONG, body));
            }
            if closed {
                return None;
            }
            closed = self.fill() == Status::Closed; // Frames before the close must still be received.
        }
    }
}

/// The initial value of the field `peer`, which the end of the handshake replaces.
fn feed_nothing() -> Peer {
    let seen = super::feed(Config::new(SocketType::Pull), [&b"\x01\0"[..]]);
    seen.result.unwrap().unwrap()
}
