//! PGM packets: messages arrive intact, late joiners and receivers with losses get whole messages, and no input
//! does harm.

use pinnace_zmtp::frame::{self, MORE};
use pinnace_zmtp::pgm::{Assembler, AssemblerLimits, Packer, Refused};
use proptest::collection::vec;
use proptest::prelude::*;

const LIMITS: AssemblerLimits = AssemblerLimits { max_body: 1 << 20, max_message: 1 << 22, max_parts: 100 };

type Message = Vec<Vec<u8>>;

fn messages() -> impl Strategy<Value = Vec<Message>> {
    let body = prop_oneof![vec(any::<u8>(), 0..20), vec(any::<u8>(), 200..700)];
    vec(vec(body, 1..4), 1..20)
}

/// Each frame with its flags, in order.
fn frames(messages: &[Message]) -> Vec<(u8, &[u8])> {
    let of = |message: &'_ Message| -> Vec<u8> {
        (1..=message.len()).map(|n| if n < message.len() { MORE } else { 0 }).collect()
    };
    messages.iter().flat_map(|m| of(m).into_iter().zip(m.iter().map(Vec::as_slice))).collect()
}

/// Packs into APDUs of at most `max` bytes, with at most `batch` frames waiting at once.
fn pack(messages: &[Message], max: usize, batch: usize) -> Vec<Vec<u8>> {
    let (frames, mut packer, mut next, mut apdus) = (frames(messages), Packer::new(max), 0, Vec::new());
    while next < frames.len() {
        for (flags, body) in frames[next..].iter().take(batch) {
            if !packer.push(*flags, body) {
                break;
            }
        }
        let apdu = packer.apdu().expect("there was a frame").to_vec();
        assert!(apdu.len() > 2 && apdu.len() <= max.max(3));
        apdus.push(apdu);
        next += packer.sent();
    }
    assert_eq!(packer.apdu(), None);
    apdus
}

fn in_zmtp3(messages: &[Message]) -> Vec<u8> {
    let mut out = Vec::new();
    for (flags, body) in frames(messages) {
        frame::append(flags, &[body], &mut out);
    }
    out
}

/// Parses ZMTP 3 frames into messages.
fn messages_of(mut bytes: &[u8]) -> Vec<Message> {
    let (mut messages, mut message) = (Vec::new(), Vec::new());
    while let Some(header) = frame::parse(bytes) {
        let (whole, rest) = bytes.split_at(header.header_len + header.body_len as usize);
        message.push(whole[header.header_len..].to_vec());
        if !header.has_more() {
            messages.push(std::mem::take(&mut message));
        }
        bytes = rest;
    }
    assert!(bytes.is_empty() && message.is_empty(), "only whole messages come out");
    messages
}

proptest! {
    #[test]
    fn what_goes_in_comes_out(messages in messages(), max in 0..600_usize, batch in 1..9_usize) {
        let (mut assembler, mut out) = (Assembler::new(LIMITS), Vec::new());
        for apdu in pack(&messages, max, batch) {
            prop_assert_eq!(assembler.take(&apdu, &mut out), Ok(()));
        }
        prop_assert_eq!(out, in_zmtp3(&messages));
    }

    /// A late joiner gets the tail, from the first message that begins in the received APDUs.
    #[test]
    fn who_comes_late_begins_with_a_message(messages in messages(), max in 3..600_usize, late in 0..60_usize) {
        let (mut assembler, mut out) = (Assembler::new(LIMITS), Vec::new());
        let apdus = pack(&messages, max, 3);
        for apdu in apdus.iter().skip(late) {
            prop_assert_eq!(assembler.take(apdu, &mut out), Ok(()));
        }
        let got = messages_of(&out);
        prop_assert!(messages.ends_with(&got));
        let begins = |apdu: &Vec<u8>| apdu[..2] != [0xff; 2];
        prop_assert_eq!(got.is_empty(), !apdus.iter().skip(late).any(begins));
    }

    /// A gap loses the messages that it cuts, and no others.
    #[test]
    fn a_gap_costs_what_it_cuts(messages in messages(), max in 3..600_usize, gap in 0..60_usize) {
        let (mut assembler, mut out) = (Assembler::new(LIMITS), Vec::new());
        for (index, apdu) in pack(&messages, max, 3).iter().enumerate() {
            if index == gap {
                prop_assert_eq!(assembler.lose(), index > 0);
                prop_assert!(!assembler.lose());
            } else {
                prop_assert_eq!(assembler.take(apdu, &mut out), Ok(()));
            }
        }
        let got = messages_of(&out);
        let front = got.iter().zip(&messages).take_while(|(one, other)| one == other).count();
        prop_assert!(messages.ends_with(&got[front..]), "a front and a tail");
    }

    #[test]
    fn no_bytes_do_harm(apdus in vec(vec(any::<u8>(), 0..40), 0..40), small in any::<bool>()) {
        let limits = if small { AssemblerLimits { max_body: 5, max_message: 12, max_parts: 3 } } else { LIMITS };
        let mut assembler = Assembler::new(limits);
        for apdu in apdus {
            let mut out = Vec::new();
            let _ = assembler.take(&apdu, &mut out);
            messages_of(&out);
        }
    }
}

#[test]
fn what_is_malformed_is_refused() {
    let refused = |apdu: &[u8]| {
        let mut out = Vec::new();
        let taken = Assembler::new(AssemblerLimits { max_body: 4, max_message: 11, max_parts: 3 })
            .take(apdu, &mut out);
        (taken, out)
    };
    let malformed = (Err(Refused::Malformed), vec![]);
    for apdu in [&b""[..], b"\0", b"\0\x03\x02\0", b"\xff\xfe", b"\0\0\0\0", b"\0\0\xff\0\0\0\0\0\0\0\0\0"] {
        assert_eq!(refused(apdu), malformed, "{apdu:?}");
    }
    for apdu in [&b"\0\0\x06\0hello"[..], b"\0\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\0"] {
        assert_eq!(refused(apdu), (Err(Refused::TooLarge), vec![]), "{apdu:?}");
    }
    // Two frames within the limit, of a message that exceeds it; the complete message before them is delivered.
    let apdu = b"\0\0\x02\0a\x05\x01next\x05\0four";
    assert_eq!(refused(apdu), (Err(Refused::TooLarge), b"\0\x01a".to_vec()));
    let apdu = [b"\0\0".as_slice(), &[1, 1].repeat(4)].concat();
    assert_eq!(refused(&apdu), (Err(Refused::TooLarge), vec![]), "more frames than it may have");
    // The APDU ends exactly at its offset: no message yet, and no error.
    assert_eq!(refused(b"\0\x01x"), (Ok(()), vec![]));
}

#[test]
fn after_a_fault_it_joins_anew() {
    let (mut assembler, mut out) = (Assembler::new(LIMITS), Vec::new());
    assert_eq!(assembler.take(b"\0\0\x03\0a", &mut out), Ok(()));
    assert_eq!(assembler.take(b"\xff\xffb\0", &mut out), Err(Refused::Malformed));
    assert_eq!(assembler.take(b"\xff\xff rest of it", &mut out), Ok(()));
    assert_eq!(assembler.take(b"\0\x04rest\x02\0x", &mut out), Ok(()));
    assert_eq!(messages_of(&out), [[b"ab".to_vec()], [b"x".to_vec()]]);
}

/// As in libzmq's encoder: the offset is that of the first message, not of the first frame.
#[test]
fn the_offset_is_of_a_message() {
    let mut packer = Packer::new(8);
    assert!(packer.push(MORE, b"abc"));
    assert!(!packer.push(0, b"de"));
    assert_eq!(packer.apdu(), Some(&b"\0\0\x04\x01abc\x03"[..]));
    assert_eq!(packer.sent(), 1);
    assert!(packer.push(0, b"de"));
    assert!(!packer.push(0, b"fg"));
    assert_eq!(packer.apdu(), Some(&b"\0\x03\0de\x03\0f"[..]));
    assert_eq!(packer.sent(), 1);
    assert!(packer.push(0, b"fg"));
    assert_eq!(packer.apdu(), Some(&b"\xff\xffg"[..]));
    assert_eq!(packer.sent(), 1);
}
