//! Guaranteed delivery through the pipes.

use std::collections::HashMap;
use std::path::Path;

use super::client::{Client, bytes, frame};

const START: u16 = 50;
const SEND: u16 = 51;
const SETTLE: u16 = 52;
const WITHDRAW: u16 = 22;
const STATISTICS: u16 = 56;
const DRAIN: u16 = 57;
const CLOSE: u16 = 58;
const WAIT_LISTENERS: u16 = 59;
const WAIT_PENDING: u16 = 60;
const CLEAR_PENDING: u16 = 61;
const FORGET: u16 = 62;
const ADDRESSES: u16 = 63;
const NEW_BODY: u16 = 64;
const SEND_BODY: u16 = 65;
const DROP_BODY: u16 = 66;
const TOGETHER: u16 = 67;
const PENDING_BY_PEER: u16 = 68;
const ABOUT: u16 = 69;

/// Starts a client with a store and a registry below a directory.
fn start(client: &mut Client, channel: u32, place: &Path, name: &str, topic: &str) -> Result<Vec<u8>, u32> {
    let text = |path: &str| place.join(path).display().to_string();
    let options = [
        ("data_dir", text(name)),
        ("registry", format!("dir://{}", text("registry"))),
        // Failed deliveries are counted in the store.
        ("max_deliveries", "9".to_owned()),
    ];
    let options: Vec<u8> = options
        .iter()
        .flat_map(|(key, value)| [bytes(key.as_bytes()), bytes(value.as_bytes())].concat())
        .collect();
    let arguments =
        [&channel.to_be_bytes()[..], &bytes(name.as_bytes()), &bytes(topic.as_bytes()), &options].concat();
    client.request(START, &arguments)
}

/// The arguments of a message to one listener: on the disk, without a time to live, without a deadline.
fn message(channel: u32, topic: &str, properties: &[u8], body: &[u8]) -> Vec<u8> {
    let how = [&[0, 0][..], &0_u32.to_be_bytes(), &(-1_i32).to_be_bytes()].concat();
    [&channel.to_be_bytes()[..], &bytes(topic.as_bytes()), &how, &bytes(properties), body].concat()
}

/// The frames of the next delivery, which is alone in its packet.
fn delivery(client: &mut Client, channel: u32) -> Vec<Vec<u8>> {
    frames(&client.delivered(channel))
}

fn frames(mut octets: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    while !octets.is_empty() {
        let length = u32::from_be_bytes(octets[..4].try_into().unwrap()) & 0x7fff_ffff;
        let (content, rest) = octets[4..].split_at(length as usize);
        found.push(content.to_vec());
        octets = rest;
    }
    found
}

fn settle(client: &mut Client, channel: u32, about: &[u8], verdict: u8) -> Result<Vec<u8>, u32> {
    let arguments = [&channel.to_be_bytes()[..], &about[..8], &[verdict], &0_i32.to_be_bytes()].concat();
    client.request(SETTLE, &arguments)
}

/// The arguments that close a client, and settle what it has.
fn closing(channel: u32, verdict: u8) -> Vec<u8> {
    [&channel.to_be_bytes()[..], &[verdict], &20_000_i32.to_be_bytes()].concat()
}

fn pair(place: &Path) -> Client {
    let mut client = Client::start();
    start(&mut client, 1, place, "billing", "orders").expect("billing");
    start(&mut client, 2, place, "shop", "offers").expect("shop");
    let arguments =
        [&2_u32.to_be_bytes()[..], &bytes(b"orders"), &1_u32.to_be_bytes(), &20_000_i32.to_be_bytes()]
            .concat();
    client.request(WAIT_LISTENERS, &arguments).expect("it listens");
    client
}

/// Waits until nothing is pending.
fn all_is_handled(client: &mut Client, channel: u32) {
    let arguments = [&channel.to_be_bytes()[..], &0_u64.to_be_bytes(), &20_000_i32.to_be_bytes()].concat();
    client.request(WAIT_PENDING, &arguments).expect("nothing is pending");
}

#[test]
fn a_message_is_delivered_until_it_is_handled() {
    let place = tempfile::tempdir().unwrap();
    let mut client = pair(place.path());
    let properties = [&[1][..], &bytes(b"order-1"), &[6], &bytes(b"key"), &bytes(b"\xff\x00")].concat();
    let sent = client.request(SEND, &message(2, "orders", &properties, b"3 pinnaces"));
    assert_eq!(sent, Ok(1_u32.to_be_bytes().to_vec()));
    client.nothing_of(132);
    client.grant(1, 10, 10_000);
    let first = delivery(&mut client, 1);
    assert_eq!(first[0][8..12], 1_u32.to_be_bytes(), "the first delivery");
    assert_eq!(first[1..], [&b"shop"[..], b"orders", &properties, b"3 pinnaces"]);
    // It failed, and comes again.
    settle(&mut client, 1, &first[0], 5).expect("it has failed");
    let again = delivery(&mut client, 1);
    assert_eq!((&again[0][8..12], &again[1..]), (&2_u32.to_be_bytes()[..], &first[1..]));
    assert_eq!(settle(&mut client, 1, &first[0], 0), Err(2), "the token was used");
    settle(&mut client, 1, &again[0], 0).expect("it is handled");
    all_is_handled(&mut client, 2);
    for channel in [1, 2_u32] {
        client.request(CLOSE, &closing(channel, 5)).expect("it is closed");
    }
    assert!(client.end().success());
}

/// What a program that is killed had delivered, and what was sent to it, comes to the next one.
#[test]
fn a_killed_program_loses_nothing() {
    let place = tempfile::tempdir().unwrap();
    let mut client = pair(place.path());
    let ids: Vec<u32> = (0..100_u32)
        .map(|number| client.ask(SEND, &message(2, "orders", &[], &number.to_be_bytes())))
        .collect();
    for id in ids {
        client.answer(id).expect("it is on the disk");
    }
    client.grant(1, 10, 10_000);
    let mut handled = Vec::new();
    let first = delivery(&mut client, 1);
    settle(&mut client, 1, &first[0], 0).expect("it is handled");
    handled.push(first[4].clone());
    client.process.kill().unwrap();
    drop(client);
    let mut client = pair(place.path());
    client.grant(1, 1000, 1_000_000);
    while handled.len() < 100 {
        for found in frames(&client.delivered(1)).chunks(5) {
            settle(&mut client, 1, &found[0], 0).expect("it is handled");
            // The first one may come again: its acknowledgement may not have reached the disk.
            if !handled.contains(&found[4]) {
                handled.push(found[4].clone());
            }
        }
    }
    all_is_handled(&mut client, 2);
    let all: Vec<Vec<u8>> = (0..100_u32).map(|number| number.to_be_bytes().to_vec()).collect();
    assert_eq!(handled, all);
    assert!(client.end().success());
}

#[test]
fn large_bodies_travel_in_parts() {
    let place = tempfile::tempdir().unwrap();
    let mut client = pair(place.path());
    let body: Vec<u8> = (0..900_000_u32).map(|at| (at * 7) as u8).collect();
    for _ in 0..3 {
        client.request(SEND, &message(2, "orders", &[], &body)).expect("it is on the disk");
    }
    client.grant(1, 1, 1);
    let alone = delivery(&mut client, 1);
    assert!(alone[4] == body);
    client.nothing_of(132);
    client.grant(1, 100, 100_000_000);
    for _ in 0..2 {
        let found = delivery(&mut client, 1);
        assert!(found[4] == body);
    }
}

/// A body that is too large for a request.
#[test]
fn bodies_are_sent_in_parts() {
    let place = tempfile::tempdir().unwrap();
    let mut client = pair(place.path());
    let body: Vec<u8> = (0..3_000_000_u32).map(|at| (at * 7) as u8).collect();
    let with_body = |number: u32| {
        let plain = message(2, "orders", &[], b"");
        [&plain[..4], &number.to_be_bytes(), &plain[4..]].concat()
    };
    let new = |number: u32| number.to_be_bytes();
    assert_eq!(client.request(NEW_BODY, &new(2)), Err(17), "EEXIST, the channel of a client");
    client.request(NEW_BODY, &new(7)).expect("a body");
    assert_eq!(client.request(NEW_BODY, &new(7)), Err(17));
    client.send_part(7, 0, b"given up");
    client.send_part(7, 2, b"");
    body.chunks(1 << 19).for_each(|part| client.send_part(7, 0, part));
    client.send_part(7, 1, b"");
    client.request(SEND_BODY, &with_body(7)).expect("it is on the disk");
    client.grant(1, 1, 10_000_000);
    let mut found = Vec::new();
    loop {
        let part = client.next_of(133);
        found.extend_from_slice(&part[6..]);
        if part[5] == 1 {
            break;
        }
    }
    assert!(frames(&found)[4] == body);
    assert_eq!(client.request(SEND_BODY, &with_body(7)), Err(22), "it was sent");
    client.request(NEW_BODY, &new(7)).expect("another one");
    client.send_part(7, 0, b"begin");
    assert_eq!(client.request(SEND_BODY, &with_body(7)), Err(22), "its last part has not come");
    client.request(NEW_BODY, &new(7)).expect("another one");
    client.request(DROP_BODY, &new(7)).expect("it is dropped");
    client.send_part(7, 1, b"late");
    assert_eq!(client.request(SEND_BODY, &with_body(7)), Err(22), "it was dropped");
}

#[test]
fn requests_with_the_id_0_are_not_answered() {
    let place = tempfile::tempdir().unwrap();
    let mut client = pair(place.path());
    client.request(SEND, &message(2, "orders", &[], b"x")).expect("it is on the disk");
    client.grant(1, 1, 10_000);
    let found = delivery(&mut client, 1);
    let arguments = [&1_u32.to_be_bytes()[..], &found[0][..8], &[0], &0_i32.to_be_bytes()].concat();
    client.write(&[&[2, 0, 0, 0, 0][..], &SETTLE.to_be_bytes(), &arguments].concat());
    client.write(&[2, 0, 0, 0, 0, 0xff, 0xff]);
    assert_eq!(settle(&mut client, 1, &found[0], 0), Err(2), "it was settled");
    client.nothing_of(130);
    client.nothing_of(131);
}

#[test]
fn wrong_arguments_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let mut client = pair(place.path());
    assert_eq!(start(&mut client, 2, place.path(), "other", "orders"), Err(17), "EEXIST, the channel");
    assert_eq!(start(&mut client, 3, place.path(), "shop", "orders"), Err(17), "EEXIST, the name");
    assert_eq!(start(&mut client, 3, place.path(), "", "orders"), Err(22));
    let unknown =
        [&3_u32.to_be_bytes()[..], &bytes(b"x"), &bytes(b"y"), &bytes(b"nonsense"), &bytes(b"1")].concat();
    assert_eq!(client.request(START, &unknown), Err(22));
    assert_eq!(client.request(SEND, &message(9, "orders", &[], b"")), Err(125), "ECANCELED");
    assert_eq!(client.request(SEND, &message(2, &"t".repeat(256), &[], b"")), Err(22));
    assert_eq!(client.request(SEND, &message(2, "orders", &[99, 0, 0, 0, 0], b"")), Err(22));
    assert_eq!(settle(&mut client, 1, &[0; 8], 0), Err(2));
    assert_eq!(settle(&mut client, 1, &[0; 8], 77), Err(22));
    assert_eq!(client.request(10, &[0, 0, 0, 1, 0, 0, 0, 1, 8]), Err(2), "no context");
    client.context();
    assert_eq!(client.request(10, &[0, 0, 0, 1, 0, 0, 0, 1, 8]), Err(17), "the channel is a client's");
    // The client that is there works.
    client.grant(1, 10, 1000);
    client.request(SEND, &message(2, "orders", &[], &frame(b"x", false))).expect("it is on the disk");
    delivery(&mut client, 1);
}

/// The entries of statistics, with their values as text.
fn entries(mut octets: &[u8]) -> HashMap<String, String> {
    fn text<'a>(octets: &mut &'a [u8]) -> &'a str {
        let (length, rest) = octets.split_at(4);
        let (text, rest) = rest.split_at(u32::from_be_bytes(length.try_into().unwrap()) as usize);
        *octets = rest;
        str::from_utf8(text).unwrap()
    }
    let mut found = HashMap::new();
    while !octets.is_empty() {
        let name = text(&mut octets).to_owned();
        let kind = octets[0];
        octets = &octets[1..];
        let value = match kind {
            0 => {
                let (number, rest) = octets.split_at(8);
                octets = rest;
                u64::from_be_bytes(number.try_into().unwrap()).to_string()
            }
            _ => text(&mut octets).to_owned(),
        };
        found.insert(name, value);
    }
    found
}

#[test]
fn a_message_that_is_given_up_is_a_dead_letter() {
    let place = tempfile::tempdir().unwrap();
    let mut client = pair(place.path());
    start(&mut client, 3, place.path(), "auditor", "orders.dead").expect("auditor");
    client.request(SEND, &message(2, "orders", &[], b"bad")).expect("it is on the disk");
    client.grant(1, 1, 10_000);
    let found = delivery(&mut client, 1);
    settle(&mut client, 1, &found[0], 2).expect("it is given up");
    client.grant(3, 1, 10_000);
    let letter = delivery(&mut client, 3);
    let why = [&b"orders"[..], b"billing", b"terminated", b"1"].map(bytes).concat();
    assert_eq!(letter[1..], [&b"shop"[..], b"orders.dead", &[&[7], &why[..]].concat(), b"bad"]);
    settle(&mut client, 3, &letter[0], 0).expect("it is handled");
    all_is_handled(&mut client, 2);
    let statistics = entries(&client.request(STATISTICS, &2_u32.to_be_bytes()).expect("statistics"));
    assert_eq!(statistics["client"], "shop");
    assert_eq!(statistics["outgoing.0.topic"], "orders");
    assert_eq!(statistics["outgoing.0.dead_letters"], "1");
    assert_eq!(statistics["outgoing.0.pending"], "0");
}

#[test]
fn what_waits_is_cleared_by_its_topic() {
    let place = tempfile::tempdir().unwrap();
    let mut client = pair(place.path());
    for topic in ["nobody", "nobody", "orders"] {
        client.request(SEND, &message(2, topic, &[], b"x")).expect("it is on the disk");
    }
    let topic = [&2_u32.to_be_bytes()[..], &bytes(b"nobody")].concat();
    assert_eq!(client.request(CLEAR_PENDING, &topic), Ok(2_u64.to_be_bytes().to_vec()));
    assert_eq!(client.request(CLEAR_PENDING, &topic), Ok(0_u64.to_be_bytes().to_vec()));
    let topic = [&2_u32.to_be_bytes()[..], &bytes(b"orders")].concat();
    let addresses = String::from_utf8(client.request(ADDRESSES, &topic).expect("addresses")).unwrap();
    assert_eq!(addresses.lines().count(), 1, "{addresses}");
    let name = [&2_u32.to_be_bytes()[..], &bytes(b"billing")].concat();
    assert_eq!(client.request(FORGET, &name), Err(17), "EEXIST: it lives");
}

/// How often a delivery came, which is not counted if it was given back.
#[test]
fn a_closed_client_gives_back_or_fails_what_it_has() {
    let place = tempfile::tempdir().unwrap();
    let mut client = pair(place.path());
    client.request(SEND, &message(2, "orders", &[], b"x")).expect("it is on the disk");
    for (verdict, deliveries) in [(3, 1_u32), (5, 1), (3, 2)] {
        client.grant(1, 1, 10_000);
        let found = delivery(&mut client, 1);
        assert_eq!(found[0][8..12], deliveries.to_be_bytes(), "after verdict {verdict}");
        assert_eq!(client.request(CLOSE, &closing(1, 77)), Err(22), "no verdict");
        client.request(CLOSE, &closing(1, verdict)).expect("it is closed");
        start(&mut client, 1, place.path(), "billing", "orders").expect("billing");
    }
}

#[test]
fn withdrawn_credit_delivers_no_message_of_a_client() {
    let place = tempfile::tempdir().unwrap();
    let mut client = pair(place.path());
    client.grant(1, 1, 10_000);
    client.request(WITHDRAW, &1_u32.to_be_bytes()).expect("it is withdrawn");
    client.request(SEND, &message(2, "orders", &[], b"x")).expect("it is on the disk");
    client.nothing_of(132);
    client.grant(1, 1, 10_000);
    assert_eq!(delivery(&mut client, 1)[4], b"x");
}

/// A close waits for what is in hand, and what is settled after it counts.
#[test]
fn a_closed_client_may_keep_what_is_in_hand() {
    let place = tempfile::tempdir().unwrap();
    let mut client = pair(place.path());
    for _ in 0..2 {
        client.request(SEND, &message(2, "orders", &[], b"x")).expect("it is on the disk");
    }
    client.grant(1, 2, 10_000);
    let both: Vec<Vec<u8>> = frames(&client.delivered_octets(1, 180));
    let at_once = [&1_u32.to_be_bytes()[..], &[4], &0_i32.to_be_bytes()].concat();
    assert_eq!(client.request(CLOSE, &at_once), Err(11), "EAGAIN");
    settle(&mut client, 1, &both[0], 0).expect("a late acknowledgement");
    let waits = client.ask(CLOSE, &closing(1, 4));
    settle(&mut client, 1, &both[5], 0).expect("the last one");
    client.answer(waits).expect("nothing is in hand");
    all_is_handled(&mut client, 2);
    client.request(CLOSE, &closing(1, 5)).expect("the channel ends");
    assert_eq!(client.request(CLOSE, &closing(1, 5)), Err(125), "ECANCELED");
    start(&mut client, 1, place.path(), "billing", "orders").expect("billing");
    client.grant(1, 2, 10_000);
    client.nothing_of(132);
}

/// Of the thread of the sockets and pipes, in ns.
fn processor_time(client: &Client) -> u64 {
    let path = format!("/proc/{}/schedstat", client.process.id());
    std::fs::read_to_string(path).unwrap().split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_drained_client_costs_no_processor_time() {
    let place = tempfile::tempdir().unwrap();
    let mut client = pair(place.path());
    client.grant(1, 10, 10_000);
    client
        .request(DRAIN, &[1_u32.to_be_bytes(), (-1_i32).to_be_bytes()].concat())
        .expect("nothing is in hand");
    client.grant(1, 10, 10_000);
    let before = processor_time(&client);
    (0..3).for_each(|_| client.nothing_of(132));
    let used = processor_time(&client) - before;
    assert!(used < 20_000_000, "{used} ns");
}

/// An order is acknowledged and its invoice sent in one step, or neither.
#[test]
fn an_acknowledgement_and_messages_are_one_step() {
    let place = tempfile::tempdir().unwrap();
    let mut client = pair(place.path());
    start(&mut client, 3, place.path(), "printer", "invoices").expect("printer");
    client.request(SEND, &message(2, "orders", &[], b"3 pinnaces")).expect("it is on the disk");
    client.grant(1, 1, 10_000);
    let order = delivery(&mut client, 1);
    let together = |messages: &[Vec<u8>]| {
        let texts: Vec<u8> = messages.iter().flat_map(|message| bytes(&message[4..])).collect();
        [&1_u32.to_be_bytes()[..], &order[0][..8], &texts].concat()
    };
    let invoice = message(1, "invoices", &[], b"invoice: 3 pinnaces");
    let wrong = message(1, &"t".repeat(256), &[], b"");
    assert_eq!(client.request(TOGETHER, &together(&[invoice.clone(), wrong])), Err(22));
    assert_eq!(client.request(TOGETHER, &together(&[b"1234nonsense".to_vec()])), Err(22));
    // It can still be settled.
    client.request(TOGETHER, &together(std::slice::from_ref(&invoice))).expect("both are on the disk");
    assert_eq!(client.request(TOGETHER, &together(&[invoice])), Err(2), "it was settled");
    all_is_handled(&mut client, 2);
    client.grant(3, 10, 10_000);
    let found = delivery(&mut client, 3);
    assert_eq!(found[4], b"invoice: 3 pinnaces");
    settle(&mut client, 3, &found[0], 0).expect("it is handled");
    all_is_handled(&mut client, 1);
}

#[test]
fn a_client_tells_what_it_is_and_what_is_pending() {
    let place = tempfile::tempdir().unwrap();
    let mut client = pair(place.path());
    for _ in 0..2 {
        client.request(SEND, &message(2, "orders", &[], b"x")).expect("it is on the disk");
    }
    let pending = entries(&client.request(PENDING_BY_PEER, &2_u32.to_be_bytes()).expect("pending"));
    assert_eq!((&*pending["0.topic"], &*pending["0.messages"]), ("orders", "2"));
    client.grant(1, 1, 10_000);
    delivery(&mut client, 1);
    let about = entries(&client.request(ABOUT, &1_u32.to_be_bytes()).expect("about"));
    assert_eq!((&*about["name"], &*about["in_hand"], about["store_id"].len()), ("billing", "1", 32));
    assert!(!about.contains_key("metrics") && !about.contains_key("registry_error"), "{about:?}");
}

/// The property that names the channel of a body.
fn body_of(number: u32) -> Vec<u8> {
    [&[8], &number.to_be_bytes()[..]].concat()
}

/// Bodies that are too large for a request come before it.
#[test]
fn an_acknowledgement_goes_with_large_bodies() {
    let place = tempfile::tempdir().unwrap();
    let mut client = pair(place.path());
    start(&mut client, 3, place.path(), "printer", "invoices").expect("printer");
    client.request(SEND, &message(2, "orders", &[], b"x")).expect("it is on the disk");
    client.grant(1, 1, 10_000);
    let order = delivery(&mut client, 1);
    let together = |messages: &[Vec<u8>]| {
        let texts: Vec<u8> = messages.iter().flat_map(|message| bytes(&message[4..])).collect();
        [&1_u32.to_be_bytes()[..], &order[0][..8], &texts].concat()
    };
    let named = |number| message(1, "invoices", &body_of(number), b"");
    assert_eq!(client.request(SEND, &named(7)), Err(22), "a single message has an operation of its own");
    assert_eq!(client.request(TOGETHER, &together(&[named(7)])), Err(22), "no such body");
    let both = message(1, "invoices", &body_of(7), b"x");
    assert_eq!(client.request(TOGETHER, &together(&[both])), Err(22), "two bodies");
    let (large, small) = (vec![7; 700_000], message(1, "invoices", &[], b"small"));
    for (number, content) in [(7, &large[..]), (8_u32, &large[1..])] {
        client.request(NEW_BODY, &number.to_be_bytes()).expect("a body");
        client.send_part(number, 1, content);
    }
    client.request(TOGETHER, &together(&[named(8), small, named(7)])).expect("all is on the disk");
    client.request(NEW_BODY, &7_u32.to_be_bytes()).expect("the bodies were taken");
    client.grant(3, 3, 10_000_000);
    assert!(delivery(&mut client, 3)[4] == large[1..]);
    assert_eq!(delivery(&mut client, 3)[4], b"small");
    assert!(delivery(&mut client, 3)[4] == large);
}

/// The deadline of its messages is that of the answer. The disk is slower at the latest after some attempts.
#[test]
fn an_acknowledgement_with_messages_has_a_deadline() {
    let place = tempfile::tempdir().unwrap();
    let mut client = pair(place.path());
    let how = [&[0, 0][..], &0_u32.to_be_bytes(), &0_i32.to_be_bytes()].concat();
    let invoice = bytes(&[&bytes(b"invoices")[..], &how, &bytes(b""), b"x"].concat());
    for _ in 0..1000 {
        client.request(SEND, &message(2, "orders", &[], b"x")).expect("it is on the disk");
        client.grant(1, 1, 10_000);
        let order = delivery(&mut client, 1);
        let together = [&1_u32.to_be_bytes()[..], &order[0][..8], &invoice].concat();
        if let Err(errno) = client.request(TOGETHER, &together) {
            assert_eq!(errno, 115, "EINPROGRESS");
            assert_eq!(settle(&mut client, 1, &order[0], 0), Err(2), "it was settled");
            return all_is_handled(&mut client, 2);
        }
    }
    panic!("the disk is always faster");
}
