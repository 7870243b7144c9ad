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

#[test]
fn withdrawn_credit_delivers_nothing() {
    let (mut client, _) = pair();
    client.grant(1, 5, 1000);
    client.request(22, &1_u32.to_be_bytes()).expect("it is withdrawn");
    client.send(2, &frame(&[7], false));
    client.nothing_of(132);
    client.grant(1, 1, 1000);
    assert_eq!(client.delivered(1), frame(&[7], false));
    assert_eq!(client.request(22, &9_u32.to_be_bytes()), Err(88), "ENOTSOCK");
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
        client.send_part(2, is_last, part);
        if is_last == 0 {
            // Whole messages pass between the parts.
            client.send(2, &small);
        }
    }
    client.grant(1, 100, 100_000_000);
    assert_eq!(client.delivered_octets(1, small.len() * 6), small.repeat(6));
    let found = delivered_parts(&mut client);
    assert!(found == message);
    let (messages, octets) = client.room(2, u32::try_from(message.len() + 6 * small.len()).unwrap());
    assert_eq!((messages, octets as usize), (7, message.len() + 6 * small.len()));
}

/// The parts of a message that is given up leave nothing behind, nor do they take room.
#[test]
fn a_message_that_has_begun_is_given_up() {
    let (mut client, window) = pair();
    client.grant(1, 100, 1 << 30);
    // In the middle of a frame, of a header, and with all but the last part.
    for begun in [&frame(&[7; 5000], false)[..2000], &[0, 0], &frame(&[7; 5000], false)] {
        client.send_part(2, 0, begun);
        client.send_part(2, 2, &[]);
    }
    let message = frame(&vec![7; window as usize - 4], false);
    client.send_part(2, 0, &message[..1 << 19]);
    client.send_part(2, 0, &message[1 << 19..]);
    client.send_part(2, 1, &[]);
    // Without a message that has begun, there is nothing to give up.
    client.send_part(2, 2, &[]);
    assert_eq!(delivered_parts(&mut client), message);
    assert_eq!(client.room(2, window), (1, window));
    client.nothing_of(133);
}

#[test]
fn parts_are_of_one_message() {
    let two = [frame(b"one", false), frame(b"two", false)].concat();
    for parts in [&[&two[..]][..], &[&two[..5], &[]], &[&[]]] {
        let (mut client, _) = pair();
        for part in parts {
            client.send_part(2, u8::from(part.is_empty()), part);
        }
        let fatal = client.next_of(255);
        assert!(String::from_utf8_lossy(&fatal[1..]).contains("cut off"), "{parts:?}");
    }
}

/// The content of the parts of a delivered message.
fn delivered_parts(client: &mut Client) -> Vec<u8> {
    let mut found = Vec::new();
    loop {
        let packet = client.next_of(133);
        assert!(packet.len() <= 1 << 20);
        found.extend_from_slice(&packet[6..]);
        if packet[5] == 1 {
            return found;
        }
    }
}

/// A second pair of sockets, as channels 3 and 4.
fn two_pairs() -> Client {
    let (mut client, _) = pair();
    client.socket(3, 7);
    client.socket(4, 8);
    let endpoint = client.bind(3, "inproc://other");
    client.connect(4, &endpoint);
    client
}

/// Pings are answered, and another channel's messages are delivered, between the parts of a message.
#[test]
fn parts_hold_up_nothing_else() {
    let mut client = two_pairs();
    client.grant(3, u32::MAX, u32::MAX);
    let (content, small) = (vec![7; 1 << 25], frame(b"x", false));
    client.send_part(2, 0, &frame(&content, false)[..4]);
    for part in content.chunks(1 << 19) {
        client.send_part(2, 0, part);
        client.ping();
        client.send(4, &small);
        assert_eq!(client.delivered(3), small);
    }
    client.send_part(2, 1, &[]);
    client.grant(1, 1, 1);
    // The client reads one packet at a time, so little has come but what is in the pipe.
    assert_eq!(client.next_of(133)[5], 0);
    client.send(4, &small);
    client.ping();
    assert_eq!(client.delivered(3), small);
    assert!(client.kept(133).iter().all(|part| part[5] == 0));
}

/// Of two messages that are delivered in parts, neither waits for the end of the other.
#[test]
fn large_messages_take_turns() {
    let mut client = two_pairs();
    for channel in [2, 4] {
        client.send_part(channel, 0, &frame(&[7; 1 << 23], false)[..1 << 19]);
        (1..16).for_each(|_| client.send_part(channel, 0, &[7; 1 << 19]));
        client.send_part(channel, 1, &[7; 4]);
        client.room(channel, 1);
    }
    client.grant(1, 1, 1);
    client.grant(3, 1, 1);
    let mut parts = [0; 4];
    loop {
        let packet = client.next_of(133);
        parts[usize::from(packet[4])] += 1;
        if packet[5] == 1 {
            break;
        }
    }
    assert!(parts[1].min(parts[3]) > parts[1].max(parts[3]) / 2, "{parts:?}");
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
