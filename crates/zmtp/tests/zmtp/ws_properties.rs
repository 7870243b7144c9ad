//! WebSocket properties for arbitrary bytes: nothing panics, limits hold, and the split of a stream into pieces
//! makes no difference.

use crate::common::ws::{BINARY, CLIENT, CLOSE, CONTINUATION, FIN, NULL, PING, PONG, TEXT, raw, translate};
use crate::common::{cat, frame, pieces};
use pinnace_zmtp::frame as zmtp;
use pinnace_zmtp::ws::frame::{self as wire, Mask, Opcode};
use pinnace_zmtp::ws::{
    Close, Decoder, DecoderLimits, Encoder, Error, Role, Status, Subprotocol, Target, Upgrade,
};
use pinnace_zmtp::{Config, Handshake, SocketType};
use proptest::collection::vec;
use proptest::prelude::*;

fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..=max)
}

fn mask() -> impl Strategy<Value = Option<[u8; 4]>> {
    prop_oneof![9 => any::<[u8; 4]>().prop_map(Some), 1 => Just(None)]
}

/// A client's frames: mostly valid ones, sometimes arbitrary bytes.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let first = prop_oneof![
        6 => Just(FIN | BINARY),
        3 => Just(BINARY),
        3 => Just(CONTINUATION),
        3 => Just(FIN | CONTINUATION),
        2 => Just(FIN | PING),
        1 => Just(FIN | PONG),
        1 => prop_oneof![Just(FIN | CLOSE), Just(FIN | TEXT), any::<u8>()],
    ];
    let part = prop_oneof![
        12 => (first, mask(), bytes(200)).prop_map(|(first, mask, payload)| raw(first, mask, &payload)),
        1 => bytes(20),
        1 => (any::<u64>(), any::<[u8; 4]>()).prop_map(|(len, mask)| {
            cat(&[&[FIN | BINARY, 0xff], &len.to_be_bytes(), &mask])
        }),
    ];
    vec(part, 0..12).prop_map(|parts| parts.concat())
}

/// A minimal server's decoder: all bytes are available, and there are no limits. `None` if the input is invalid.
fn naive(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let (mut out, mut begun) = (Vec::new(), None::<Vec<u8>>);
    while let Some(header) = wire::parse(bytes) {
        let len = header.payload_len as usize;
        let Some(payload) = bytes.get(header.header_len..header.header_len.checked_add(len)?) else { break };
        let mask = header.mask?;
        let mut payload: Vec<u8> =
            payload.iter().zip(mask.into_iter().cycle()).map(|(byte, key)| byte ^ key).collect();
        bytes = &bytes[header.header_len + len..];
        match (header.opcode.ok()?, header.fin, &mut begun) {
            _ if header.reserved => return None,
            (Opcode::Close, true, _) if len <= 125 => return Some(out),
            (Opcode::Ping | Opcode::Pong, true, _) if len <= 125 => continue,
            (Opcode::Binary, false, None) => begun = Some(payload),
            (Opcode::Continuation, false, Some(begun)) => begun.append(&mut payload),
            (Opcode::Continuation, true, Some(_)) => {
                let whole = [begun.take()?, payload].concat();
                out.extend(frame(zws_flags(*whole.first()?), &whole[1..]));
            }
            (Opcode::Binary, true, None) => out.extend(frame(zws_flags(*payload.first()?), &payload[1..])),
            _ => return None,
        }
    }
    Some(out)
}

fn zws_flags(byte: u8) -> u8 {
    (byte & 1) * zmtp::MORE + (byte >> 1 & 1) * zmtp::COMMAND
}

fn thorough() -> ProptestConfig {
    ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(thorough())]

    #[test]
    fn pieces_make_no_difference(
        bytes in stream(),
        lengths in vec(0..60usize, 0..40),
        max_body in 0..300u64,
        max_fragmented in 0..300usize,
    ) {
        let limits = DecoderLimits { max_body, max_fragmented };
        let whole = translate(&Role::Server, limits, [&bytes[..]]);
        prop_assert_eq!(&whole, &translate(&Role::Server, limits, pieces(&bytes, &lengths)));
        prop_assert!(whole.replies.len() <= 3 * bytes.len() + 127);
        let mut rest = &whole.frames[..];
        while let Some(header) = zmtp::parse(rest) {
            prop_assert!(header.body_len <= max_body);
            rest = rest.get(header.header_len + header.body_len as usize..).unwrap_or_default();
        }
        let client = translate(&CLIENT, limits, [&bytes[..]]);
        prop_assert_eq!(client, translate(&CLIENT, limits, pieces(&bytes, &lengths)));
    }

    #[test]
    fn what_is_accepted_is_what_a_simple_decoder_reads(bytes in stream()) {
        let seen = translate(&Role::Server, DecoderLimits::default(), [&bytes[..]]);
        match (&seen.result, naive(&bytes)) {
            (Ok(_), Some(expected)) => prop_assert!(seen.frames.starts_with(&expected), "whole frames come first"),
            (result, None) => prop_assert!(result.is_err(), "what the simple one refuses is refused"),
            // Bodies of close frames, and frames that are invalid before they are complete.
            (Err(_), Some(_)) => {}
        }
        if let Err(Error::Violation(violation)) = seen.result {
            let (code, why) = (violation.close_code().to_be_bytes(), violation.to_string());
            let close = cat(&[&[FIN | CLOSE, why.len() as u8 + 2], &code, why.as_bytes()]);
            prop_assert!(seen.replies.ends_with(&close));
        }
    }

    #[test]
    fn masking_is_exclusive_or(key in any::<[u8; 4]>(), payload in bytes(300), lengths in vec(0..20usize, 0..20)) {
        let expected: Vec<u8> = payload.iter().zip(key.into_iter().cycle()).map(|(byte, key)| byte ^ key).collect();
        let (mut appended, mut applied) = (Vec::new(), Vec::new());
        let (mut one, mut other) = (Mask::new(Some(key)), Mask::new(Some(key)));
        for piece in pieces(&payload, &lengths) {
            one.append(piece, &mut appended);
            let mut piece = piece.to_vec();
            other.apply(&mut piece);
            applied.extend(piece);
        }
        prop_assert_eq!((&appended, &applied), (&expected, &expected));
    }

    #[test]
    fn frames_come_back(
        frames in vec((0..8u8, bytes(400)), 0..8),
        client in any::<bool>(),
        lengths in vec(0..60usize, 0..40),
    ) {
        let (ours, theirs) = if client { (CLIENT, Role::Server) } else { (Role::Server, CLIENT) };
        let plain: Vec<u8> = frames.iter().flat_map(|(flags, body)| frame(flags & !zmtp::LONG, body)).collect();
        let (mut encoder, mut out) = (Encoder::new(&ours), Vec::new());
        prop_assert_eq!(encoder.encode_frames(&plain, &mut out), plain.len());
        let seen = translate(&theirs, DecoderLimits::default(), pieces(&out, &lengths));
        prop_assert_eq!((seen.frames, seen.replies, seen.result), (plain, vec![], Ok(Status::Open)));
    }

    #[test]
    fn closes_come_back(code in any::<u16>(), reason in "\\PC{0,200}") {
        let mut out = Vec::new();
        Encoder::new(&Role::Server).close(code, &reason, &mut out);
        let mut decoder = Decoder::new(&CLIENT, DecoderLimits::default());
        if let Ok(status) = decoder.translate(&out, &mut Vec::new(), &mut Vec::new()) {
            prop_assert_eq!(status, Status::Closed);
            let Close { code: found, reason: cut } = decoder.closed().unwrap();
            prop_assert_eq!(*found, Some(code));
            prop_assert!(reason.starts_with(cut.as_str()) && (cut.len() == reason.len() || cut.len() > 119));
        } else {
            prop_assert!(!matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999));
        }
    }

    #[test]
    fn any_head_is_harmless_and_pieces_make_no_difference(
        lines in vec(prop_oneof![
            Just("GET / HTTP/1.1".to_owned()), Just("HTTP/1.1 101 x".to_owned()), Just("Upgrade: websocket".to_owned()),
            Just("Connection: a, Upgrade".to_owned()), Just("Host: a".to_owned()), "[ -~]{0,30}", "\\PC{0,10}",
            Just("Sec-WebSocket-Version: 13".to_owned()), Just("Sec-WebSocket-Protocol: ZWS2.0".to_owned()),
            Just("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==".to_owned()), Just(String::new()),
        ], 0..12),
        tail in bytes(30),
        lengths in vec(0..40usize, 0..40),
        client in any::<bool>(),
    ) {
        let bytes = cat(&[lines.join("\r\n").as_bytes(), &tail]);
        let feed = |pieces: Vec<&[u8]>| {
            let target = Target { host: "a", path: "/" };
            let mut upgrade =
                if client { Upgrade::client(&target, NULL, &[1; 16]).unwrap() } else { Upgrade::server(NULL) };
            let result = pieces.into_iter().try_fold(0, |sum, piece| upgrade.input(piece).map(|used| sum + used));
            (result, upgrade.output().to_vec(), upgrade.subprotocol())
        };
        let whole = feed(vec![&bytes]);
        prop_assert!(whole.0.as_ref().is_ok_and(|&used| used <= bytes.len()) || whole.2.is_none());
        prop_assert_eq!(whole, feed(pieces(&bytes, &lengths)));
    }

    #[test]
    fn any_frames_are_a_harmless_handshake(bare in any::<bool>(), frames in vec((0..8u8, bytes(300)), 0..4)) {
        let subprotocol = if bare { Subprotocol::Bare } else { Subprotocol::Mechanism };
        let bytes: Vec<u8> = frames.iter().flat_map(|(flags, body)| frame(flags & !zmtp::LONG, body)).collect();
        let run = |pieces: Vec<&[u8]>| {
            let mut handshake = Handshake::over_ws(Config::new(SocketType::Pull), subprotocol);
            let result = pieces.into_iter().try_fold(0, |sum, piece| handshake.input(piece).map(|used| sum + used));
            (result, handshake.into_parts().map(|(peer, _)| peer))
        };
        let whole = run(vec![&bytes]);
        prop_assert_eq!(&whole, &run(bytes.chunks(1).collect()));
        prop_assert!(whole.1.is_none_or(|peer| peer.routing_id.len() <= 255));
    }
}
