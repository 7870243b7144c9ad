//! Peers of other versions of the protocol, played with raw frames: each conversation takes place in the highest
//! version that both sides speak, with the features that both have.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use pinnace_delivery::{Client, Durability, Error, Options};
use pinnace_engine::{Context, Label, Outgoing};

use crate::checker::next;
use crate::common::{client, kept, soon};
use crate::liars::{BEGINS, DEAD, ENDS, Frame, Mouth, false_receiver, heard};

/// The flag of a part with properties.
const PROPERTIES: u8 = 128;

/// Frames from a sender, and from a receiver.
const HELLO: u8 = 0x01;
const OPEN: u8 = 0x02;
const DATA: u8 = 0x03;
const SHARE: u8 = 0x05;
const WELCOME: u8 = 0x10;
const REFUSED: u8 = 0x16;

/// The code of a refusal.
const VERSION: u8 = 0;

/// Sends a frame on a connection of a scripted receiver.
fn say(mouth: &Mouth, to: u32, frame: &Frame) {
    let label = Label { routing_id: to, ..Label::default() };
    mouth.0.send_labelled(Outgoing::Bytes(&frame.0), &label, false, true).unwrap();
}

/// The version of a hello, with its features, and the fields after it.
fn version_and_fields(hello: &[u8]) -> (u64, &[u8]) {
    let len = 1 + hello[1..].iter().take_while(|byte| **byte & 0x80 != 0).count();
    let number = hello[1..=len].iter().rev().fold(0, |number, byte| number << 7 | u64::from(byte & 0x7f));
    (number, &hello[len + 1..])
}

/// A client that sends to a scripted receiver, and its errors.
fn sender_to(endpoint: &str, dir: &std::path::Path) -> (Client, Receiver<Error>) {
    let (tell, told) = channel();
    let sender = client("sender", dir).peer("old", endpoint, &["news"]);
    let sender = sender.on_error(move |error| tell.send(error.clone()).unwrap()).start().unwrap();
    (sender, told)
}

fn welcome(version: u64) -> Frame {
    Frame::of(WELCOME).number(version).counted(b"old").bytes(&[5; 16]).number(0).number(0)
}

/// Welcomes a sender, and takes its first message.
fn takes_a_message(mouth: &Mouth, from: u32, welcome: &Frame, body: &[u8]) {
    say(mouth, from, welcome);
    say(mouth, from, &Frame::of(0x13).number(1 << 20));
    let (_, open) = heard(mouth, OPEN);
    say(mouth, from, &Frame::of(0x11).number(u64::from(open[1])).number(0).number(0).number(0));
    let (_, data) = heard(mouth, DATA);
    assert!(data.ends_with(body), "{data:?}");
}

/// Receivers of the first version refuse each other number by its version, if the hello has the fields that they know.
#[test]
fn an_old_receiver_is_asked_again_in_its_version() {
    let dir = tempfile::tempdir().unwrap();
    let context = Context::new().unwrap();
    let (mouth, endpoint) = false_receiver(&context);
    let (sender, errors) = sender_to(&endpoint, dir.path());
    sender.send("news", b"the first", &kept(Durability::Sync)).unwrap();
    for _ in 0..2 {
        let (from, hello) = heard(&mouth, HELLO);
        let (version, fields) = version_and_fields(&hello);
        assert_eq!((version & 0xff, &fields[..7]), (2, &b"\x06sender"[..]));
        say(&mouth, from, &Frame::of(REFUSED).byte(VERSION).counted(b"only version 1 is supported"));
        let (again_from, again) = heard(&mouth, HELLO);
        assert_eq!(again_from, from, "on the same connection");
        assert_eq!(version_and_fields(&again), (1, fields), "the same fields");
        takes_a_message(&mouth, from, &welcome(1), b"the first");
        // The next connection begins in the second version again.
        mouth.0.disconnect_peer(from).unwrap();
    }
    assert_eq!(errors.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty), "nothing to report");
}

#[test]
fn a_peer_that_refuses_the_first_version_too_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let context = Context::new().unwrap();
    let (mouth, endpoint) = false_receiver(&context);
    let (sender, errors) = sender_to(&endpoint, dir.path());
    sender.send("news", b"the first", &kept(Durability::Sync)).unwrap();
    for version in [2, 1] {
        let (from, hello) = heard(&mouth, HELLO);
        assert_eq!(version_and_fields(&hello).0 & 0xff, version);
        say(&mouth, from, &Frame::of(REFUSED).byte(VERSION).counted(b"only version 9"));
    }
    match errors.recv_timeout(Duration::from_secs(60)).unwrap() {
        Error::Refused { peer, text } => assert_eq!((&*peer, text.contains("only version 9")), ("old", true)),
        error => panic!("{error:?}"),
    }
}

#[test]
fn an_old_sender_is_answered_in_its_version() {
    let dir = tempfile::tempdir().unwrap();
    let context = Context::new().unwrap();
    let receiver = client("receiver", dir.path()).listen("tcp://127.0.0.1:*").start().unwrap();
    let mouth = Mouth::connect(&context, &receiver);
    mouth.say(Frame::hello("old", 1, 1, "receiver"));
    // The version, the name, the id, and no opening; no features follow.
    let welcome = mouth.wait_for(WELCOME);
    assert_eq!(welcome[..11], *b"\x10\x01\x08receiver");
    assert_eq!(welcome[27..], [0, 0]);
    mouth.say(Frame::open(1, "news"));
    mouth.say(Frame::data(1, 0).entry(1, BEGINS | ENDS, b"one"));
    assert_eq!(receiver.recv(soon()).unwrap().body(), b"one");
}

#[test]
fn unknown_features_and_later_versions() {
    let dir = tempfile::tempdir().unwrap();
    let context = Context::new().unwrap();
    let receiver = client("receiver", dir.path()).listen("tcp://127.0.0.1:*").start().unwrap();
    let mouth = Mouth::connect(&context, &receiver);
    let hello = |version| {
        let first = Frame::hello("new", 1, 1, "receiver");
        Frame::of(HELLO).number(version).bytes(&first.0[2..])
    };
    // A later version may have further fields; version 1 has no features.
    mouth.say(hello(3).number(u64::MAX).bytes(b"more"));
    mouth.is_refused(VERSION);
    for version in [0, 1 | 1 << 8, 3 | u64::MAX << 8] {
        mouth.say(hello(version));
        mouth.is_refused(VERSION);
    }
    mouth.say(hello(2 | u64::MAX << 8));
    let welcome = mouth.wait_for(WELCOME);
    let (version, fields) = version_and_fields(&welcome);
    assert_eq!((version & 0xff, &fields[..9]), (2, &b"\x08receiver"[..]));
    assert!(version >> 8 < 1 << 20, "its own features");
    mouth.say(Frame::open(1, "news"));
    mouth.say(Frame::data(1, 0).entry(1, BEGINS | ENDS, b"one"));
    assert_eq!(receiver.recv(soon()).unwrap().body(), b"one");

    let (mouth, endpoint) = false_receiver(&context);
    let (sender, _errors) = sender_to(&endpoint, dir.path());
    sender.send("news", b"the first", &kept(Durability::Sync)).unwrap();
    let (from, _) = heard(&mouth, HELLO);
    // All features but shared streams.
    takes_a_message(&mouth, from, &self::welcome(2 | !2 << 8), b"the first");
}

/// A peer without the feature gets the bodies alone, wherever they come from, and is reported once.
#[test]
fn properties_are_left_out_for_an_old_receiver() {
    let dir = tempfile::tempdir().unwrap();
    let context = Context::new().unwrap();
    let (mouth, endpoint) = false_receiver(&context);
    let (sender, errors) = sender_to(&endpoint, dir.path());
    // Compression would make one part of another body.
    let body = incompressible((1 << 20) + 9);
    let options = |id, durability| {
        let headers: &[(&str, &[u8])] = &[("region", b"north")];
        Options { id: Some(id), headers, ..kept(durability) }
    };
    for (id, durability) in [("the-id 1", Durability::Sync), ("the-id 2", Durability::Memory)] {
        sender.send("news", b"one", &options(id, durability)).unwrap();
        sender.send("news", b"two", &kept(durability)).unwrap();
    }
    sender.send("news", &body, &options("the-id 3", Durability::Sync)).unwrap();
    for _ in 0..2 {
        let (from, _) = heard(&mouth, HELLO);
        say(&mouth, from, &Frame::of(REFUSED).byte(VERSION).counted(b"only version 1 is supported"));
        heard(&mouth, HELLO);
        say(&mouth, from, &welcome(1));
        say(&mouth, from, &Frame::of(0x13).number(8 << 20));
        let (_, open) = heard(&mouth, OPEN);
        say(&mouth, from, &Frame::of(0x11).number(u64::from(open[1])).number(0).number(0).number(0));
        let mut all = Vec::new();
        while !all.ends_with(&body[body.len() - 9..]) {
            let (_, data) = heard(&mouth, DATA);
            assert!(!contains(&data, b"the-id") && !contains(&data, b"region"), "{:?}", &data[..40]);
            all.extend_from_slice(&data);
        }
        assert!(contains(&all, &body[..9]));
        for body in [&b"\x03one"[..], b"\x03two"] {
            assert_eq!(
                all.windows(4).filter(|part| *part == body).count(),
                2,
                "one on the disk, one in memory"
            );
        }
        mouth.0.disconnect_peer(from).unwrap();
    }
    match errors.recv_timeout(Duration::from_secs(60)).unwrap() {
        Error::PeerLacks { peer, feature } => {
            assert_eq!((&*peer, feature.contains("headers")), ("old", true))
        }
        error => panic!("{error:?}"),
    }
    assert_eq!(errors.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty), "once");
}

/// The first entry of a data frame, from its flags on: stream, previous number, time and step are before it.
fn first_entry(data: &[u8]) -> &[u8] {
    let after_number = |rest: &[u8]| rest.iter().take_while(|byte| **byte & 0x80 != 0).count() + 1;
    &data[(0..4).fold(1, |at, _| at + after_number(&data[at..]))..]
}

#[test]
fn a_message_without_properties_has_none_on_the_wire() {
    let dir = tempfile::tempdir().unwrap();
    let context = Context::new().unwrap();
    let (mouth, endpoint) = false_receiver(&context);
    let (sender, _errors) = sender_to(&endpoint, dir.path());
    let options = Options { all: true, ..kept(Durability::Sync) };
    sender.send("news", b"plain", &options).unwrap();
    let (from, _) = heard(&mouth, HELLO);
    say(&mouth, from, &welcome(2 | !2 << 8));
    say(&mouth, from, &Frame::of(0x13).number(1 << 20));
    let (_, open) = heard(&mouth, OPEN);
    say(&mouth, from, &Frame::of(0x11).number(u64::from(open[1])).number(0).number(0).number(0));
    let (_, data) = heard(&mouth, DATA);
    assert_eq!(first_entry(&data), [&[BEGINS | ENDS, 0, 5], &b"plain"[..]].concat());
    sender.send("news", b"keyed", &Options { ordering_key: Some("key"), ..options }).unwrap();
    let (_, data) = heard(&mouth, DATA);
    // The block has 5 bytes: property 6 and its 3 bytes.
    let block = [&[BEGINS | ENDS | PROPERTIES, 0, 11, 5, 6, 3], &b"keykeyed"[..]].concat();
    assert_eq!(first_entry(&data), block);
}

fn contains(bytes: &[u8], some: &[u8]) -> bool {
    bytes.windows(some.len()).any(|part| part == some)
}

fn incompressible(len: usize) -> Vec<u8> {
    let mut random = 7;
    (0..len).map(|_| next(&mut random) as u8).collect()
}

/// A message whose properties cannot be read is given up, and its sender makes it a dead letter.
#[test]
fn malformed_properties_are_unreadable() {
    let dir = tempfile::tempdir().unwrap();
    let context = Context::new().unwrap();
    let receiver = client("receiver", dir.path()).listen("tcp://127.0.0.1:*").start().unwrap();
    let mouth = Mouth::connect(&context, &receiver);
    mouth.say(Frame::hello("liar", 1, 1, "receiver"));
    mouth.say(Frame::open(1, "news"));
    let whole = BEGINS | ENDS | PROPERTIES;
    let malformed = [&b""[..], b"\x7f", b"\x03\x01\x02a", b"\x03\x01\x01\xff", b"\xff\xff\xff\xff\xff"];
    let data = malformed.iter().fold(Frame::data(1, 0), |data, body| data.entry(1, whole, body));
    mouth.say(data.entry(1, whole, b"\x06\x63\x01?\x01\x017fine").entry(1, whole | DEAD, b"\xff"));
    let last = malformed.len() as u64 + 1;
    let delivery = receiver.recv(soon()).unwrap();
    assert_eq!((delivery.body(), delivery.id(), delivery.cursor().number), (&b"fine"[..], Some("7"), last));
    delivery.ack();
    assert!(receiver.recv(Some(std::time::Instant::now())).is_err());
    for number in 1..=malformed.len() as u8 {
        let given_up = mouth.wait_for(0x15);
        assert_eq!(given_up, [0x15, 1, number, number, 3, 1], "unreadable, at its first delivery");
    }
    let letter = last as u8 + 1;
    assert_eq!(mouth.wait_for(0x15), [0x15, 1, letter, letter, 3, 1]);
}

/// A receiver of an earlier build is replaced by one of this build: it first gets what is bound to it, in order, and
/// then its part of the others.
#[test]
fn what_is_bound_to_an_old_receiver_comes_first() {
    const COPIES: u64 = 100;
    let dir = tempfile::tempdir().unwrap();
    let context = Context::new().unwrap();
    let (mouth, endpoint) = false_receiver(&context);
    let (sender, errors) = sender_to(&endpoint, dir.path());
    for _ in 0..COPIES {
        sender.send("news", b"some", &kept(Durability::Sync)).unwrap();
    }
    let (from, _) = heard(&mouth, HELLO);
    takes_a_message(&mouth, from, &welcome(2), b"some");
    mouth.0.disconnect_peer(from).unwrap();

    let (from, _) = heard(&mouth, HELLO);
    say(&mouth, from, &welcome(2 | !0 << 8));
    say(&mouth, from, &Frame::of(0x13).number(1 << 20));
    // The only stream that is opened is the one with the copies.
    let (mut kinds, mut stream) = (Vec::new(), 0);
    while !kinds.contains(&DATA) {
        let frame = next_frame(&mouth, from);
        if frame[0] == DATA && stream == 0 {
            // Written for the former connection.
            continue;
        }
        kinds.push(frame[0]);
        if frame[0] == OPEN {
            stream = u64::from(frame[1]);
            say(&mouth, from, &Frame::of(0x11).number(stream).number(0).number(0).number(0));
        }
    }
    assert_eq!(kinds, [OPEN, DATA]);
    // They are small, and were copied at once. Numbers begin above the epoch's.
    say(&mouth, from, &Frame::of(0x12).number(stream).number((1 << 40) + COPIES).number(0));
    let (_, share) = heard(&mouth, SHARE);
    assert_ne!(u64::from(share[1]), stream);
    assert_eq!(errors.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty), "nothing to report");
}

/// The next frame of this connection. Those of an earlier one may still come.
fn next_frame(mouth: &Mouth, connection: u32) -> Vec<u8> {
    loop {
        let mut frame = Vec::new();
        let received = mouth.0.recv_labelled(true, &mut |from| frame.extend_from_slice(from.data()));
        if received.unwrap().label.routing_id == connection {
            return frame;
        }
    }
}
