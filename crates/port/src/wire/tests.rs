//! Packets and messages, written and read.

use proptest::prelude::*;

use super::*;

fn packet(kind: ProgramPacket<'_>) -> Vec<u8> {
    let mut octets = Vec::new();
    kind.write(&mut octets);
    octets
}

/// The octets of docs/port.md.
#[test]
fn packets_are_those_of_the_documentation() {
    let hello = packet(ProgramPacket::Hello { release: "0.1.0" });
    assert_eq!(hello, b"\0\0\0\x16\x81pinnace-port\0\x01\0\x010.1.0");
    let result = packet(ProgramPacket::Result { id: 7, values: b"x" });
    assert_eq!(result, b"\0\0\0\x06\x82\0\0\0\x07x");
    let failure = packet(ProgramPacket::Failure { id: 7, errno: 22, text: "no" });
    assert_eq!(failure, b"\0\0\0\x0b\x83\0\0\0\x07\0\0\0\x16no");
    let part = packet(ProgramPacket::DeliverPart { channel: 1, is_last: true, content: b"ab" });
    assert_eq!(part, b"\0\0\0\x08\x85\0\0\0\x01\x01ab");
    let room = packet(ProgramPacket::Room { channel: 1, messages: 2, octets: 3 });
    assert_eq!(room, b"\0\0\0\x0d\x86\0\0\0\x01\0\0\0\x02\0\0\0\x03");
    assert_eq!(packet(ProgramPacket::Pong { number: 9 }), b"\0\0\0\x09\x87\0\0\0\0\0\0\0\x09");
    let unsent = packet(ProgramPacket::Unsent { channel: 1, messages: 2, errno: 11 });
    assert_eq!(unsent, b"\0\0\0\x0d\x88\0\0\0\x01\0\0\0\x02\0\0\0\x0b");
    let ended = packet(ProgramPacket::Ended { channel: 1, errno: 88 });
    assert_eq!(ended, b"\0\0\0\x09\x89\0\0\0\x01\0\0\0\x58");
    assert_eq!(packet(ProgramPacket::Log { text: "no" }), b"\0\0\0\x03\x8ano");
    assert_eq!(packet(ProgramPacket::Fatal { text: "no" }), b"\0\0\0\x03\xffno");
    let mut delivery = Vec::new();
    let at = begin_delivery(&mut delivery, 1);
    delivery.extend_from_slice(&frame_header(2, false).expect("short"));
    delivery.extend_from_slice(b"ab");
    end_packet(&mut delivery, at);
    assert_eq!(delivery, b"\0\0\0\x0b\x84\0\0\0\x01\0\0\0\x02ab");
}

#[test]
fn packets_of_a_client_are_parsed() {
    let parsed = |octets: &'static [u8]| ClientPacket::parse(octets);
    assert_eq!(parsed(b"\x01\0\x01"), Ok(ClientPacket::Hello { version: 1 }));
    let arguments = Fields::new(b"xy");
    assert_eq!(
        parsed(b"\x02\0\0\0\x05\0\x0cxy"),
        Ok(ClientPacket::Request { id: 5, operation: 12, arguments })
    );
    assert_eq!(parsed(b"\x03\0\0\0\x01m"), Ok(ClientPacket::Send { channel: 1, messages: b"m" }));
    let part = |part, content| Ok(ClientPacket::SendPart { channel: 1, part, content });
    assert_eq!(parsed(b"\x04\0\0\0\x01\0m"), part(Part::Middle, b"m"));
    assert_eq!(parsed(b"\x04\0\0\0\x01\x01m"), part(Part::Last, b"m"));
    assert_eq!(parsed(b"\x04\0\0\0\x01\x02"), part(Part::GivenUp, b""));
    let credit = ClientPacket::Credit { channel: 1, messages: 2, octets: 3 };
    assert_eq!(parsed(b"\x05\0\0\0\x01\0\0\0\x02\0\0\0\x03"), Ok(credit));
    assert_eq!(parsed(b"\x06\0\0\0\0\0\0\0\x09"), Ok(ClientPacket::Ping { number: 9 }));
    assert_eq!(parsed(b""), Err(Malformed::Short));
    assert_eq!(parsed(b"\x00"), Err(Malformed::Kind));
    assert_eq!(parsed(b"\x01\0\x01\0"), Err(Malformed::Long));
    assert_eq!(parsed(b"\x04\0\0\0\x01\x02m"), Err(Malformed::Long));
    assert_eq!(parsed(b"\x04\0\0\0\x01\x03"), Err(Malformed::Part));
    assert_eq!(parsed(b"\x05\0\0\0\x01\0\0\0\x02"), Err(Malformed::Short));
}

#[test]
fn fields_are_read_in_order() {
    let mut fields = Fields::new(b"\xff\xff\xff\xfe\0\0\0\x02\xc3\xa4\0\0\0\x01\xff");
    assert_eq!(fields.i32(), Ok(-2));
    assert_eq!(fields.text(), Ok("ä"));
    assert_eq!(fields.text(), Err(Malformed::Text));
    assert_eq!(fields.end(), Ok(()));
    assert_eq!(Fields::new(b"\0\0\0\x05abcd").bytes(), Err(Malformed::Short));
}

#[test]
fn frames_that_are_cut_off_are_refused() {
    assert!(Messages::new(b"").is_ok());
    assert!(Messages::new(b"\0\0\0\x01a\0\0\0\0").is_ok());
    for bad in [&b"\0"[..], b"\0\0\0\x02a", b"\x80\0\0\x01a", b"\0\0\0\x01ab", b"\x7f\xff\xff\xff"] {
        assert_eq!(Messages::new(bad).map(|_| ()), Err(Malformed::Frame), "{bad:?}");
    }
    assert_eq!(frame_header(1 << 31, false), None);
}

fn encoded(message: &[Vec<u8>]) -> Vec<u8> {
    let mut octets = Vec::new();
    for (index, frame) in message.iter().enumerate() {
        octets.extend_from_slice(&frame_header(frame.len(), index + 1 < message.len()).expect("short"));
        octets.extend_from_slice(frame);
    }
    octets
}

#[test]
fn a_message_in_parts_has_a_limit() {
    let mut parts = Parts::default();
    assert_eq!(parts.add(b"\x80\0\0\0\x7f\xff\xff\xff"), Err(Malformed::Length));
    assert_eq!(Parts::default().finish(), Err(Malformed::Frame));
}

proptest! {
    #[test]
    fn messages_come_back(messages in proptest::collection::vec(
        proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..9), 1..4), 0..9))
    {
        let mut octets = Vec::new();
        for message in &messages {
            octets.extend(encoded(message));
        }
        let mut left = Messages::new(&octets).expect("whole messages");
        let (mut frames, mut length) = (Vec::new(), 0);
        for message in &messages {
            length += left.next(&mut frames);
            prop_assert_eq!(&frames, message);
        }
        prop_assert_eq!((length, left.next(&mut frames)), (octets.len(), 0));
    }

    /// Wherever a message is cut into parts, its frames are the same.
    #[test]
    fn parts_are_cut_anywhere(
        message in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..9), 1..5),
        cuts in proptest::collection::vec(0..40_usize, 0..5))
    {
        let octets = encoded(&message);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(octets.len())).collect();
        cuts.extend([0, octets.len()]);
        cuts.sort_unstable();
        let mut parts = Parts::default();
        for cut in cuts.windows(2) {
            prop_assert_eq!(parts.add(&octets[cut[0]..cut[1]]), Ok(()));
        }
        prop_assert_eq!(parts.finish(), Ok(message));
        let mut parts = Parts::default();
        prop_assert_eq!(parts.add(&octets[..octets.len() - 1]), Ok(()));
        prop_assert_eq!(parts.finish(), Err(Malformed::Frame), "cut off");
        let mut parts = Parts::default();
        prop_assert_eq!(parts.add(&octets), Ok(()));
        prop_assert_eq!(parts.add(b"x"), Err(Malformed::Frame), "a second message");
    }

    #[test]
    fn no_packet_panics(octets in proptest::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(ClientPacket::Send { messages, .. }) = ClientPacket::parse(&octets)
            && let Ok(mut messages) = Messages::new(messages)
        {
            let mut frames = Vec::new();
            while messages.next(&mut frames) > 0 {
                prop_assert!(!frames.is_empty());
            }
        }
    }
}
