//! A peer's bytes, in pieces of any size, yield exactly its frames, or exactly its error.

use crate::common::peer::{Expected, Way, expect, on_command, put};
use crate::common::{drain, frame_size, pattern, write};
use pinnace_ring::{COMMAND, COMMAND_MAX, INLINE_MAX, Intake, LONG, Limits, MAX_PARTS, MORE, Refused, queue};
use proptest::prelude::*;

const NO_LIMIT: Limits = Limits { messages: 0, ahead_bytes: 0 };
const MAX_BODY: u64 = 3 * INLINE_MAX as u64;

/// A frame as a peer may send it.
#[derive(Debug, Clone)]
struct Sent {
    len: usize,
    more: bool,
    /// The first byte of the body, if it is a command.
    command: Option<u8>,
    /// Use the long form even if the short one would do; reserved bits to set.
    long: bool,
    reserved: u8,
    /// A length in the header that is not the body's.
    claims: Option<u64>,
}

impl Sent {
    fn encode(&self, serial: u64, wire: &mut Vec<u8>) {
        let mut data = pattern(self.len, serial);
        let mut flags = self.reserved & !(MORE | LONG | COMMAND);
        flags |= if self.more { MORE } else { 0 };
        if let Some(kind) = self.command {
            flags |= COMMAND;
            if let Some(first) = data.first_mut() {
                *first = kind;
            }
        }
        let claimed = self.claims.unwrap_or(data.len() as u64);
        if self.long || claimed > 255 {
            wire.push(flags | LONG);
            wire.extend_from_slice(&claimed.to_be_bytes());
        } else {
            wire.extend_from_slice(&[flags, claimed as u8]);
        }
        wire.extend_from_slice(&data);
    }
}

/// Valid frames. Commands to drop come anywhere, commands to keep mostly between messages.
fn good() -> impl Strategy<Value = Sent> {
    let command = prop_oneof![12 => Just(None), 2 => Just(Some(b'D')), 1 => Just(Some(b'K'))];
    let reserved = prop_oneof![4 => Just(0u8), 1 => any::<u8>()];
    let len = prop_oneof![12 => frame_size(), 1 => INLINE_MAX..MAX_BODY as usize + 1];
    (len, prop::bool::weighted(0.3), command, prop::bool::weighted(0.2), reserved).prop_map(
        |(len, more, command, long, reserved)| {
            let len = if command.is_some() { len.min(INLINE_MAX) } else { len };
            Sent { len, more, command, long, reserved, claims: None }
        },
    )
}

fn bad() -> impl Strategy<Value = Option<Sent>> {
    let frame =
        |len, command, claims| Some(Sent { len, more: false, command, long: false, reserved: 0, claims });
    prop_oneof![
        4 => Just(None),
        1 => (MAX_BODY + 1..u64::MAX).prop_map(move |claims| frame(100, None, Some(claims))),
        1 => Just(frame(9, Some(b'K'), Some(COMMAND_MAX + 1))),
        1 => Just(frame(9, Some(b'R'), None)),
    ]
}

fn stream(frames: &[Sent]) -> Vec<u8> {
    let mut wire = Vec::new();
    for (serial, frame) in frames.iter().enumerate() {
        frame.encode(serial as u64, &mut wire);
    }
    wire
}

/// The pieces in which a stream arrives.
fn pieces() -> impl Strategy<Value = Vec<(usize, Way)>> {
    let bytes = prop_oneof![1 => 1usize..4, 2 => 1usize..600, 2 => 1usize..9000, 1 => 1usize..300_000];
    let way = prop_oneof![Just(Way::Feed), Just(Way::Read), Just(Way::ReadFirst)];
    prop::collection::vec((bytes, way), 1..20)
}

/// Feeds `stream` in `pieces`, over and over, and compares the results after each piece.
fn compare(stream: &[u8], pieces: &[(usize, Way)], expected: &Expected, lag: usize) {
    let (tx, mut rx) = queue(NO_LIMIT);
    let mut intake = Intake::new(tx, MAX_BODY);
    let (mut at, mut commands, mut got) = (0, 0, 0);
    for (turn, (bytes, way)) in pieces.iter().cycle().enumerate() {
        let piece = &stream[at..stream.len().min(at + bytes)];
        at += put(&mut intake, piece, *way);
        let outcome = intake.parse(|body| {
            let (needs, command) = &expected.commands[commands];
            assert!(body == command && *needs <= at);
            commands += 1;
            on_command(body)
        });
        let is_last = at == stream.len() || outcome.is_err();
        if is_last || turn % lag == 0 {
            for (flags, data) in drain(&mut rx) {
                let frame = &expected.frames[got];
                assert!((flags, &data) == (frame.1, &frame.2) && frame.0 <= at, "frame {got}");
                got += 1;
            }
            assert_eq!(got, expected.frames.iter().take_while(|frame| frame.0 <= at).count(), "at {at}");
        }
        assert_eq!(commands, expected.commands.iter().take_while(|command| command.0 <= at).count());
        match &expected.refused {
            Some((needs, why)) if *needs <= at => assert_eq!(outcome.as_ref().err(), Some(why)),
            _ => assert!(outcome.is_ok(), "{outcome:?}"),
        }
        if is_last {
            assert_eq!(intake.queue().backlog(), 0);
            return;
        }
    }
}

proptest! {
    #![proptest_config(crate::common::config(256))]

    #[test]
    fn a_stream_in_any_pieces_becomes_its_frames(
        mut frames in prop::collection::vec(good(), 0..30),
        bad in bad(),
        pieces in pieces(),
        lag in 1usize..5,
    ) {
        frames.extend(bad);
        let stream = stream(&frames);
        compare(&stream, &pieces, &expect(&stream, MAX_BODY), lag);
    }

    /// Small frames, each of them split.
    #[test]
    fn a_stream_byte_by_byte_becomes_its_frames(
        frames in prop::collection::vec(good().prop_filter("small", |frame| frame.len < 300), 0..30),
        way in prop_oneof![Just(Way::Feed), Just(Way::Read)],
    ) {
        let stream = stream(&frames);
        compare(&stream, &[(1, way)], &expect(&stream, MAX_BODY), 3);
    }

    #[test]
    fn noise_is_read_as_the_rfc_says(
        noise in prop::collection::vec(prop_oneof![3 => 0u8..10, 1 => any::<u8>()], 0..3000),
        pieces in pieces(),
        lag in 1usize..5,
    ) {
        compare(&noise, &pieces, &expect(&noise, MAX_BODY), lag);
    }

    /// A link writes what came in, in the canonical form of the encoding.
    #[test]
    fn what_came_in_goes_out(
        frames in prop::collection::vec(good(), 0..30),
        pieces in pieces(),
        kernel in 1usize..100_000,
    ) {
        let stream = stream(&frames);
        let expected = expect(&stream, MAX_BODY);
        let (tx, mut rx) = queue(NO_LIMIT);
        let mut intake = Intake::new(tx, MAX_BODY);
        let (mut at, mut written) = (0, Vec::new());
        for (bytes, way) in pieces.iter().cycle() {
            at += put(&mut intake, &stream[at..stream.len().min(at + bytes)], *way);
            let refused = intake.parse(on_command).is_err();
            written.extend(write(&mut rx, kernel));
            if refused || at == stream.len() {
                break;
            }
        }
        loop {
            let more = write(&mut rx, kernel);
            if more.is_empty() {
                break;
            }
            written.extend(more);
        }
        prop_assert_eq!(intake.queue().backlog(), 0);
        let visible = expected.frames.iter().map(|frame| (frame.1, frame.2.clone())).collect::<Vec<_>>();
        prop_assert!(decode(&written) == visible);
    }
}

/// Decodes a stream of whole frames.
fn decode(stream: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let (mut rest, mut frames) = (stream, Vec::new());
    while let [flags, short, ..] = *rest {
        let (header, len) = match flags & LONG {
            0 => (2, short as usize),
            _ => (9, u64::from_be_bytes(rest[1..9].try_into().unwrap()) as usize),
        };
        frames.push((flags & !LONG, rest[header..header + len].to_vec()));
        rest = &rest[header + len..];
    }
    frames
}

#[test]
fn a_message_has_so_many_frames_and_no_more() {
    for (parts, refused) in [(MAX_PARTS, None), (MAX_PARTS + 1, Some(Refused::TooManyParts))] {
        let (tx, mut rx) = queue(NO_LIMIT);
        let mut intake = Intake::new(tx, 10);
        let mut stream = b"\0\x04good".to_vec();
        stream.extend([MORE, 0].repeat(parts as usize - 1));
        stream.extend([0, 0]);
        let outcome = stream.chunks(100_000).find_map(|piece| {
            intake.feed(piece).unwrap();
            intake.parse(|_| Err(())).err()
        });
        assert_eq!(outcome, refused);
        assert_eq!(rx.pop(|frame| frame.data().to_vec()).as_deref(), Some(&b"good"[..]));
        let frames = std::iter::from_fn(|| rx.pop(|_| ())).count();
        assert_eq!(frames, if outcome.is_none() { parts as usize } else { 0 });
    }
}

#[test]
fn a_claim_of_any_length_is_refused_or_waited_for() {
    for claim in [MAX_BODY, u64::MAX / 2 - 8, u64::MAX / 2, u64::MAX / 2 + 2, u64::MAX - 9, u64::MAX] {
        for command in [0, COMMAND] {
            let (tx, _rx) = queue(NO_LIMIT);
            let mut intake = Intake::new(tx, u64::MAX);
            intake.feed(&[LONG | command]).unwrap();
            intake.feed(&claim.to_be_bytes()).unwrap();
            intake.feed(b"some of it").unwrap();
            match intake.parse(|_| Err(())) {
                Ok(_) => assert!(command == 0 && claim == MAX_BODY),
                Err(Refused::TooLarge(len)) => assert!(command != 0 && len == claim),
                Err(why) => assert_eq!(why, Refused::NoMemory),
            }
        }
    }
}

#[test]
fn what_is_refused_stays_refused() {
    let (tx, mut rx) = queue(NO_LIMIT);
    let mut intake = Intake::new(tx, 10);
    intake.feed(b"\0\x02ok\x01\x01a\x04\x01K\0\x01b").unwrap();
    for _ in 0..3 {
        assert_eq!(intake.parse(on_command), Err(Refused::CommandInsideMessage));
    }
    assert_eq!(drain(&mut rx), [(0, b"ok".to_vec())]);
    let mut tx = intake.into_queue();
    tx.push(0, b"after").unwrap();
    tx.commit();
    assert_eq!(drain(&mut rx), [(0, b"after".to_vec())]);
}
