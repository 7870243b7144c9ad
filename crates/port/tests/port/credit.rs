//! Credit and room: neither side is sent more than it has granted.

use super::client::{Client, frame};

/// A PULL as channel 1 and a PUSH as channel 2, connected.
fn pair() -> (Client, u32) {
    let mut client = Client::start();
    client.context();
    client.socket(1, 7);
    let window = client.socket(2, 8);
    let endpoint = client.bind(1, "inproc://pair");
    client.connect(2, &endpoint);
    (client, window)
}

#[test]
fn nothing_is_delivered_without_credit() {
    let (mut client, _) = pair();
    let messages: Vec<u8> = (0..5).flat_map(|number| frame(&[number], false)).collect();
    client.send(2, &messages);
    client.nothing_of(132);
    client.grant(1, 2, 1000);
    assert_eq!(client.delivered(1), messages[..10]);
    client.nothing_of(132);
    // Credit of octets alone, or of messages alone, is none.
    client.grant(1, 0, 1000);
    client.nothing_of(132);
    client.grant(1, 3, 0);
    assert_eq!(client.delivered_octets(1, 15), messages[10..]);
}

/// The last message may take more octets than are left.
#[test]
fn a_message_may_be_larger_than_the_credit() {
    let (mut client, _) = pair();
    let large = frame(&[7; 5000], false);
    client.send(2, &[&large[..], &large, &large].concat());
    client.grant(1, 10, 1);
    assert_eq!(client.delivered(1), large);
    client.nothing_of(132);
    client.grant(1, 0, 5003);
    client.nothing_of(132);
    client.grant(1, 0, 1);
    assert_eq!(client.delivered(1), large);
}

#[test]
fn room_is_told_for_what_was_taken() {
    let (mut client, window) = pair();
    client.grant(1, u32::MAX, u32::MAX);
    let message = frame(&[7; 500], false);
    let octets = u32::try_from(message.len()).unwrap();
    // Much more than the window, but never more than the room.
    let (mut room, mut sent, mut taken) = (window, 0, 0);
    while taken < 10_000 {
        while sent < 10_000 && room >= octets {
            client.send(2, &message);
            room -= octets;
            sent += 1;
        }
        let (messages, octets) = client.room(2, 1);
        taken += messages;
        room += octets;
    }
    assert_eq!((taken, room), (10_000, window));
}

/// A socket without a peer takes nothing, and a client that goes on sending violates the protocol.
#[test]
fn more_than_the_room_is_refused() {
    let mut client = Client::start();
    client.context();
    let window = client.socket(1, 8);
    client.nothing_of(134);
    let message = frame(&vec![7; (1 << 20) - 100], false);
    client.send(1, &message);
    assert!(window <= 1 << 20);
    client.nothing_of(134);
    client.send(1, &frame(&[7; 200], false));
    client.send(1, &frame(b"beyond", false));
    let fatal = client.next_of(255);
    assert!(String::from_utf8_lossy(&fatal[1..]).contains("room"));
}

/// Messages beyond one packet travel in parts, both ways.
#[test]
fn large_messages_travel_in_parts() {
    let (mut client, _) = pair();
    let first: Vec<u8> = (0..3_000_000_u32).map(|at| (at / 7) as u8).collect();
    let message = [frame(&first, true), frame(b"", true), frame(&first[..1_500_000], false)].concat();
    let small = frame(b"small", false);
    let mut parts = message.chunks(700_000).peekable();
    while let Some(part) = parts.next() {
        let is_last = u8::from(parts.peek().is_none());
        client.write(&[&[4, 0, 0, 0, 2, is_last], part].concat());
        if is_last == 0 {
            // Whole messages pass between the parts.
            client.send(2, &small);
        }
    }
    client.grant(1, 100, 100_000_000);
    assert_eq!(client.delivered_octets(1, small.len() * 6), small.repeat(6));
    let mut found = Vec::new();
    loop {
        let packet = client.next_of(133);
        assert!(packet.len() <= 1 << 20);
        found.extend_from_slice(&packet[6..]);
        if packet[5] == 1 {
            break;
        }
    }
    assert!(found == message);
    let (messages, octets) = client.room(2, u32::try_from(message.len() + 6 * small.len()).unwrap());
    assert_eq!((messages, octets as usize), (7, message.len() + 6 * small.len()));
}

/// A client that does not read is sent what it has granted, and is heard nevertheless.
#[test]
fn batches_are_at_most_60_kib() {
    let (mut client, _) = pair();
    let message = frame(&[7; 1000], false);
    client.send(2, &message.repeat(900));
    client.grant(1, 1000, 10_000_000);
    let mut octets = 0;
    while octets < message.len() * 900 {
        let packet = client.next_of(132);
        assert!(packet.len() <= 60 * 1024, "{}", packet.len());
        octets += packet.len() - 5;
    }
}
