//! WebSocket frames to ZMTP frames and back: RFC 6455's examples, every violation, every split, the limits.

use crate::common::ws::{
    BINARY, CLIENT, CLOSE, CONTINUATION, FIN, MASK, PING, PONG, Seen, TEXT, raw, translate,
};
use crate::common::{cat, frame, hex};
use pinnace_zmtp::frame::{COMMAND, MORE};
use pinnace_zmtp::ws::frame::{self as wire, Opcode};
use pinnace_zmtp::ws::{Close, Decoder, DecoderLimits, Encoder, Error, Role, Status, Violation};

fn serve(bytes: &[u8]) -> Seen {
    translate(&Role::Server, DecoderLimits::default(), [bytes])
}

fn limited(max_body: u64, max_fragmented: usize) -> DecoderLimits {
    DecoderLimits { max_body, max_fragmented }
}

/// The code of a server's close frame, which is not masked.
fn close_code(replies: &[u8]) -> Option<u16> {
    match replies {
        [0x88, len, high, low, reason @ ..] => {
            assert_eq!(usize::from(*len), 2 + reason.len());
            Some(u16::from_be_bytes([*high, *low]))
        }
        _ => None,
    }
}

#[test]
fn the_examples_of_rfc_6455() {
    // Section 5.7. Text messages are rejected, so the fragments are made binary.
    assert_eq!(raw(FIN | TEXT, MASK, b"Hello"), hex("81 85 37 fa 21 3d 7f 9f 4d 51 58"));
    let ping = hex("89 05 48 65 6c 6c 6f");
    let pong = hex("8a 85 37 fa 21 3d 7f 9f 4d 51 58");
    assert_eq!(raw(FIN | PING, None, b"Hello"), ping);
    assert_eq!(raw(FIN | PONG, MASK, b"Hello"), pong);
    let seen = serve(&pong);
    assert_eq!((seen.frames, seen.replies, seen.result), (vec![], vec![], Ok(Status::Open)));
    let seen = translate(&CLIENT, DecoderLimits::default(), [&ping[..]]);
    let header = wire::parse(&seen.replies).unwrap();
    assert_eq!((header.opcode, header.fin, header.payload_len), (Ok(Opcode::Pong), true, 5));
    assert_eq!(raw(FIN | PONG, header.mask, b"Hello"), seen.replies);

    let mut out = Vec::new();
    wire::encode(Opcode::Pong, &[b"He", b"", b"llo"], MASK, &mut out);
    assert_eq!(out, pong);
    for (len, header) in [(256, "82 7e 01 00"), (65_536, "82 7f 00 00 00 00 00 01 00 00")] {
        out.clear();
        wire::encode(Opcode::Binary, &[&vec![9; len]], None, &mut out);
        assert_eq!(out, cat(&[&hex(header), &vec![9; len]]));
    }
    let fragments = cat(&[&hex("02 03 48 65 6c"), &hex("80 02 6c 6f")]);
    let seen = translate(&CLIENT, DecoderLimits::default(), [&fragments[..]]);
    assert_eq!(
        seen.frames,
        frame(0, b"ello"),
        "the first byte is the flags, whose unknown bits mean nothing"
    );
}

#[test]
fn each_message_becomes_a_frame_and_back() {
    for len in [0, 1, 124, 125, 126, 254, 255, 256, 65_534, 65_535, 65_536, 100_000] {
        for (flags, zws) in [(0, 0), (MORE, 1), (COMMAND, 2)] {
            let body: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            let message = cat(&[&[zws], &body]);
            let seen = serve(&raw(FIN | BINARY, MASK, &message));
            assert_eq!(seen, Seen { frames: frame(flags, &body), replies: vec![], result: Ok(Status::Open) });

            let mut out = Vec::new();
            Encoder::new(&Role::Server).encode(flags, &body, &mut out);
            assert_eq!(out, raw(FIN | BINARY, None, &message));
            out.clear();
            let mut encoder = Encoder::new(&CLIENT);
            assert_eq!(encoder.encode_frames(&seen.frames, &mut out), seen.frames.len());
            let mask = wire::parse(&out).unwrap().mask;
            assert_eq!(out, raw(FIN | BINARY, mask, &message));
            let mut pieces = Vec::new();
            let mut body_out = Encoder::new(&CLIENT).begin(flags, body.len() as u64, &mut pieces);
            body.chunks(7).for_each(|chunk| body_out.append(chunk, &mut pieces));
            assert_eq!(pieces, out);
        }
    }
}

#[test]
fn frames_that_are_not_whole_are_left() {
    let mut out = Vec::new();
    let frames = cat(&[&frame(0, b"one"), &frame(COMMAND, &[5; 300]), &frame(0, b"two")]);
    for end in 0..frames.len() {
        out.clear();
        let used = Encoder::new(&Role::Server).encode_frames(&frames[..end], &mut out);
        assert_eq!(used, [0, 5, 5 + 309].into_iter().filter(|&whole| whole <= end).max().unwrap());
        assert_eq!(translate(&CLIENT, DecoderLimits::default(), [&out[..]]).frames, frames[..used]);
    }
}

#[test]
fn masks_do_not_repeat_and_depend_on_the_seed() {
    let masks = |seed| {
        let (mut encoder, mut out) = (Encoder::new(&Role::Client { seed }), Vec::new());
        (0..1000)
            .map(|_| {
                out.clear();
                encoder.encode(0, b"", &mut out);
                wire::parse(&out).unwrap().mask.unwrap()
            })
            .collect::<std::collections::HashSet<_>>()
    };
    let (one, other) = (masks([1; 32]), masks([2; 32]));
    assert_eq!((one.len(), other.len()), (1000, 1000));
    assert!(one.is_disjoint(&other));
}

#[test]
fn violations_and_the_codes_that_tell_them() {
    use Violation::*;
    let giant = |len: u64| cat(&[&[FIN | BINARY, 0xff], &len.to_be_bytes(), &[0; 4]]);
    let close = |body: &[u8]| raw(FIN | CLOSE, MASK, body);
    let begun = raw(BINARY, MASK, b"\0begun");
    let violations = [
        (raw(FIN | TEXT, MASK, b"Hello"), Text, 1003),
        (raw(TEXT, MASK, b"Hel"), Text, 1003),
        (raw(0xc0 | BINARY, MASK, b"\0"), ReservedBits, 1002),
        (raw(0xa0 | PING, MASK, b""), ReservedBits, 1002),
        (raw(FIN | 3, MASK, b"\0"), ReservedOpcode(3), 1002),
        (raw(FIN | 0xf, MASK, b""), ReservedOpcode(15), 1002),
        (raw(FIN | BINARY, None, b"\0bare"), Unmasked, 1002),
        (raw(FIN | PING, None, b""), Unmasked, 1002),
        (giant(1 << 63), Length, 1002),
        (giant(u64::MAX), Length, 1002),
        (raw(FIN | PING, MASK, &[0; 126]), LongControl, 1002),
        (raw(PING, MASK, b""), FragmentedControl, 1002),
        (raw(CLOSE, MASK, b""), FragmentedControl, 1002),
        (raw(FIN | CONTINUATION, MASK, b"\0"), StrayContinuation, 1002),
        (raw(CONTINUATION, MASK, b"\0"), StrayContinuation, 1002),
        (cat(&[&begun, &raw(FIN | BINARY, MASK, b"\0")]), Interrupted, 1002),
        (cat(&[&begun, &raw(FIN | TEXT, MASK, b"")]), Interrupted, 1002),
        (raw(FIN | BINARY, MASK, b""), MissingFlags, 1002),
        (cat(&[&raw(BINARY, MASK, b""), &raw(FIN | CONTINUATION, MASK, b"")]), MissingFlags, 1002),
        (close(&[3]), CloseCode, 1002),
        (close(&1005u16.to_be_bytes()), CloseCode, 1002),
        (close(&999u16.to_be_bytes()), CloseCode, 1002),
        (close(&5000u16.to_be_bytes()), CloseCode, 1002),
        (close(&[3, 0xe8, 0xc3]), CloseReason, 1007),
    ];
    for (bytes, violation, code) in violations {
        let whole = serve(&bytes);
        assert_eq!(whole.result, Err(Error::Violation(violation)), "{bytes:?}");
        assert_eq!(close_code(&whole.replies), Some(code), "{violation:?}");
        assert_eq!(whole.frames, b"", "{violation:?}");
        assert_eq!(translate(&Role::Server, DecoderLimits::default(), bytes.chunks(1)), whole);
        assert_eq!(violation.close_code(), code);
    }
    let seen = translate(&CLIENT, DecoderLimits::default(), [&raw(FIN | BINARY, MASK, b"\0")[..]]);
    assert_eq!(seen.result, Err(Violation::Masked.into()));
}

#[test]
fn a_limit_is_seen_at_the_header() {
    let large = |len, limit| Err(Violation::TooLarge { len, limit }.into());
    let head = |first: u8, len: u64| cat(&[&[first, 0xff], &len.to_be_bytes(), &[0; 4]]);
    let limits = limited(1000, 600);
    let whole = |len: usize| raw(FIN | BINARY, MASK, &vec![0; len + 1]);
    assert_eq!(translate(&Role::Server, limits, [&whole(1000)[..]]).frames, frame(0, &[0; 1000]));
    let seen = translate(&Role::Server, limits, [&whole(1001)[..]]);
    assert_eq!((seen.result, close_code(&seen.replies)), (large(1001, 1000), Some(1009)));
    assert_eq!(seen.frames, b"");
    let most = i64::MAX as u64;
    assert_eq!(
        translate(&Role::Server, limits, [&head(FIN | BINARY, most)[..]]).result,
        large(most - 1, 1000)
    );
    assert_eq!(translate(&Role::Server, limits, [&head(BINARY, 601)[..]]).result, large(601, 600));
    // Without a limit the message begins, and no memory is reserved for bytes that have not arrived.
    let mut decoder = Decoder::new(&Role::Server, DecoderLimits::default());
    let (mut frames, mut replies) = (Vec::new(), Vec::new());
    let bytes = cat(&[&head(FIN | BINARY, most), &[0; 100]]);
    assert_eq!(decoder.translate(&bytes, &mut frames, &mut replies), Ok(Status::Open));
    assert_eq!(frames.len(), 9 + 99);
    assert!(frames.capacity() < 1000, "{}", frames.capacity());
}

#[test]
fn fragments_are_put_together_within_the_limit() {
    let fragments = |count: usize, len: usize| {
        let mut bytes = raw(BINARY, MASK, &[1]);
        for _ in 0..count {
            bytes.extend(raw(CONTINUATION, Some([1, 2, 3, 4]), &vec![b'x'; len]));
            bytes.extend(raw(FIN | PING, MASK, b"?"));
        }
        cat(&[&bytes, &raw(FIN | CONTINUATION, MASK, b"")])
    };
    let limits = limited(u64::MAX, 601);
    let seen = translate(&Role::Server, limits, [&fragments(6, 100)[..]]);
    assert_eq!(seen.frames, frame(MORE, &[b'x'; 600]));
    assert_eq!(seen.replies, raw(FIN | PONG, None, b"?").repeat(6), "pings between fragments are answered");
    let seen = translate(&Role::Server, limits, [&fragments(7, 100)[..]]);
    assert_eq!(seen.result, Err(Violation::TooLarge { len: 701, limit: 601 }.into()));
    let seen = translate(&Role::Server, limited(599, 601), [&fragments(6, 100)[..]]);
    assert_eq!(seen.result, Err(Violation::TooLarge { len: 600, limit: 599 }.into()));
    assert_eq!(translate(&Role::Server, limits, [&fragments(100_000, 0)[..]]).frames, frame(MORE, b""));
    // A second fragmented message, and an unfragmented one.
    let twice = cat(&[&fragments(1, 3), &fragments(2, 3), &raw(FIN | BINARY, MASK, b"\0end")]);
    let expected = cat(&[&frame(MORE, b"xxx"), &frame(MORE, b"xxxxxx"), &frame(0, b"end")]);
    assert_eq!(serve(&twice).frames, expected);
}

#[test]
fn a_close_is_answered_once_and_ends_all() {
    let close = |body: &[u8]| raw(FIN | CLOSE, MASK, body);
    for (body, expected) in [
        (&b""[..], Close::default()),
        (&[3, 0xe8], Close { code: Some(1000), reason: String::new() }),
        (b"\x0f\xa0gone \xc3\xa9", Close { code: Some(4000), reason: "gone é".into() }),
    ] {
        let bytes = cat(&[&raw(FIN | BINARY, MASK, b"\0last"), &close(body), b"anything"]);
        let seen = serve(&bytes);
        let replies = raw(FIN | CLOSE, None, body);
        assert_eq!(seen, Seen { frames: frame(0, b"last"), replies, result: Ok(Status::Closed) });
        assert_eq!(translate(&Role::Server, DecoderLimits::default(), bytes.chunks(1)), seen);
        let mut decoder = Decoder::new(&Role::Server, DecoderLimits::default());
        decoder.closing();
        let (mut frames, mut replies) = (Vec::new(), Vec::new());
        let bytes = cat(&[&raw(FIN | PING, MASK, b""), &raw(FIN | BINARY, MASK, b"\0late"), &close(body)]);
        assert_eq!(decoder.translate(&bytes, &mut frames, &mut replies), Ok(Status::Closed));
        assert_eq!(
            (decoder.closed(), &replies[..]),
            (Some(&expected), &b""[..]),
            "nothing follows our own close"
        );
        assert_eq!(frames, frame(0, b"late"), "what was under way still comes");
    }
}

#[test]
fn control_frames_that_we_send() {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&Role::Server);
    encoder.ping(&[1; 200], &mut out);
    assert_eq!(out, raw(FIN | PING, None, &[1; 125]));
    out.clear();
    encoder.close(1001, &"é".repeat(100), &mut out);
    assert_eq!(out, raw(FIN | CLOSE, None, &cat(&[&[3, 0xe9], "é".repeat(61).as_bytes()])));
}

/// Messages, fragments, pings and a close in sequence.
fn conversation() -> Vec<u8> {
    let long = [7; 300];
    cat(&[
        &raw(FIN | BINARY, MASK, b"\x02\x05READY"),
        &raw(FIN | PING, Some([0, 0, 0, 1]), b"are you there"),
        &raw(FIN | BINARY, Some([0xff; 4]), &cat(&[b"\x01", &long])),
        &raw(BINARY, MASK, b""),
        &raw(CONTINUATION, MASK, b"\0to"),
        &raw(FIN | PONG, MASK, b""),
        &raw(FIN | CONTINUATION, MASK, b"gether"),
        &raw(FIN | BINARY, MASK, b"\0"),
        &raw(FIN | CLOSE, MASK, b"\x03\xe8bye"),
    ])
}

#[test]
fn every_split_is_the_same_and_every_truncation_a_beginning() {
    let bytes = conversation();
    let whole = serve(&bytes);
    assert_eq!(whole.result, Ok(Status::Closed));
    for at in 0..bytes.len() {
        let (first, second) = bytes.split_at(at);
        assert_eq!(translate(&Role::Server, DecoderLimits::default(), [first, second]), whole, "at {at}");
        let part = serve(first);
        assert_eq!(part.result, Ok(Status::Open));
        assert!(whole.frames.starts_with(&part.frames) && whole.replies.starts_with(&part.replies));
    }
}
