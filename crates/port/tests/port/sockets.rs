//! Sockets: patterns, options, monitors, statistics, errors.

use super::client::{Client, bytes, frame};

fn started() -> Client {
    let mut client = Client::start();
    client.context();
    client
}

fn number(octets: &[u8]) -> u32 {
    u32::from_be_bytes(octets[..4].try_into().unwrap())
}

#[test]
fn requests_and_replies() {
    let mut client = started();
    client.socket(1, 4);
    client.socket(2, 3);
    let endpoint = client.bind(1, "tcp://127.0.0.1:*");
    assert!(endpoint.starts_with("tcp://127.0.0.1:"), "{endpoint}");
    client.connect(2, &endpoint);
    for channel in [1, 2] {
        client.grant(channel, 100, 10_000);
    }
    for _ in 0..3 {
        client.send(2, &frame(b"question", false));
        assert_eq!(client.delivered(1), frame(b"question", false));
        client.send(1, &[frame(b"one", true), frame(b"two", false)].concat());
        assert_eq!(client.delivered(2), [frame(b"one", true), frame(b"two", false)].concat());
    }
    // A second request before the reply.
    client.send(2, &frame(b"first", false));
    client.send(2, &frame(b"second", false));
    let unsent = client.next_of(136);
    assert_eq!([number(&unsent[1..]), number(&unsent[5..]), number(&unsent[9..])], [2, 1, 156_384_763]);
    // The same with a confirmation.
    let confirmed = [&[0, 0, 0, 2][..], &frame(b"third", false)].concat();
    assert_eq!(client.request(40, &confirmed), Err(156_384_763));
}

/// Types whose messages have an address have it as a first frame.
#[test]
fn addressed_messages() {
    let mut client = started();
    client.socket(1, 12); // SERVER
    client.socket(2, 13); // CLIENT
    let endpoint = client.bind(1, "inproc://server");
    client.connect(2, &endpoint);
    client.grant(1, 10, 1000);
    client.grant(2, 10, 1000);
    client.send(2, &frame(b"question", false));
    let question = client.delivered(1);
    assert_eq!(question[..4], [0x80, 0, 0, 4]);
    assert_eq!(question[8..], frame(b"question", false));
    client.send(1, &[&question[..8], &frame(b"answer", false)].concat());
    assert_eq!(client.delivered(2), frame(b"answer", false));
    client.send(1, &[frame(&[0, 0, 0, 99], true), frame(b"nobody", false)].concat());
    assert_eq!(number(&client.next_of(136)[9..]), 113, "EHOSTUNREACH");

    client.socket(3, 14); // RADIO
    client.socket(4, 15); // DISH
    let endpoint = client.bind(3, "inproc://radio");
    client.connect(4, &endpoint);
    client.request(18, &[&[0, 0, 0, 4], &bytes(b"news")[..]].concat()).expect("it joins");
    client.grant(4, 10, 1000);
    client.send(3, &[frame(b"other", true), frame(b"no", false)].concat());
    client.send(3, &[frame(b"news", true), frame(b"yes", false)].concat());
    assert_eq!(client.delivered(4), [frame(b"news", true), frame(b"yes", false)].concat());
    client.send(3, &frame(b"without a group", false));
    assert_eq!(number(&client.next_of(136)[9..]), 22, "EINVAL");
}

#[test]
fn options_are_set_and_read() {
    let mut client = started();
    client.socket(1, 2);
    let table = client.request(1, &[]).expect("the table");
    let (mut rows, mut at) = (Vec::new(), 2);
    while at < table.len() {
        let length = number(&table[at + 5..]) as usize;
        rows.push((number(&table[at..]), table[at + 4], table[at + 9..at + 9 + length].to_vec()));
        at += 9 + length;
    }
    assert_eq!(rows.len(), usize::from(u16::from_be_bytes([table[0], table[1]])));
    assert!(rows.contains(&(23, 1, b"SNDHWM".to_vec())) && rows.contains(&(6, 5, b"SUBSCRIBE".to_vec())));
    let option = |option: u32, value: &[u8]| [&[0, 0, 0, 1], &option.to_be_bytes()[..], value].concat();
    assert_eq!(client.request(16, &option(23, &7_u32.to_be_bytes())), Ok(vec![]));
    assert_eq!(client.request(17, &option(23, &[])), Ok(7_u32.to_be_bytes().to_vec()));
    assert_eq!(client.request(16, &option(6, b"topic")), Ok(vec![]));
    assert_eq!(client.request(16, &option(22, &(-1_i64).to_be_bytes())), Ok(vec![]), "MAXMSGSIZE");
    assert_eq!(client.request(17, &option(22, &[])), Ok((-1_i64).to_be_bytes().to_vec()));
    assert_eq!(client.request(16, &option(23, &[1, 2])), Err(22), "too short");
    assert_eq!(client.request(16, &option(23, &[0; 5])), Err(22), "too long");
    assert_eq!(client.request(16, &option(9999, &[0; 4])), Err(22), "unknown");
    assert_eq!(client.request(17, &option(6, &[])), Err(22), "it cannot be read");
    client.bind(1, "inproc://options");
    assert_eq!(client.request(17, &option(32, &[])), Ok(b"inproc://options".to_vec()));
}

/// What a monitor reports comes through a channel of its own.
#[test]
fn a_socket_is_monitored() {
    let mut client = started();
    client.socket(1, 7);
    let arguments = [&[0, 0, 0, 1][..], &[0, 0, 0, 9], &0xffff_u64.to_be_bytes()].concat();
    client.request(20, &arguments).expect("it is monitored");
    let endpoint = client.bind(1, "tcp://127.0.0.1:*");
    client.grant(9, 1, 1000);
    // ZMQ_EVENT_LISTENING: the event in native byte order, then its endpoint (zmq_socket_monitor(3)).
    let event = client.delivered(9);
    assert_eq!(u16::from_ne_bytes([event[4], event[5]]), 8);
    assert!(event.ends_with(endpoint.as_bytes()));
}

#[test]
fn statistics_are_entries() {
    let mut client = started();
    client.socket(1, 8);
    let entries = client.request(21, &[0, 0, 0, 1]).expect("statistics");
    let first = [&bytes(b"socket_type")[..], &[1], &bytes(b"PUSH")].concat();
    assert_eq!(entries[..first.len()], first);
    let sent = [&bytes(b"sent.messages")[..], &[0; 9]].concat();
    assert!(entries.windows(sent.len()).any(|window| window == sent));
}

#[test]
fn errors_are_those_of_the_call() {
    let mut client = started();
    client.socket(1, 7);
    client.socket(2, 7);
    let endpoint = client.bind(1, "tcp://127.0.0.1:*");
    assert_eq!(client.with_text(12, 2, &endpoint), Err(98), "EADDRINUSE");
    assert_eq!(client.with_text(12, 2, "tcp://127.0.0.1:99999"), Err(22), "EINVAL");
    assert_eq!(client.with_text(12, 2, "nonsense://x"), Err(93), "EPROTONOSUPPORT");
    assert_eq!(client.with_text(15, 2, "tcp://127.0.0.1:1"), Err(2), "ENOENT");
    client.with_text(13, 1, &endpoint).expect("it is bound no longer");
    // A PULL does not send.
    client.send(1, &frame(b"x", false));
    assert_eq!(number(&client.next_of(136)[9..]), 95, "ENOTSUP");
    // A closed channel.
    assert_eq!(client.request(11, &[0, 0, 0, 1]), Ok(vec![]));
    client.send(1, &frame(b"x", false));
    assert_eq!(number(&client.next_of(136)[9..]), 88, "ENOTSOCK");
    client.socket(1, 8);
}

/// A socket of an ended context sends what its high-water mark has kept in the program.
#[test]
fn an_ended_context_sends_what_waits() {
    let mut client = started();
    client.request(2, &2_u32.to_be_bytes()).expect("another context");
    client.request(10, &[0, 0, 0, 1, 0, 0, 0, 2, 8]).expect("a PUSH in it");
    let high_water_mark = [&1_u32.to_be_bytes()[..], &23_i32.to_be_bytes(), &1_i32.to_be_bytes()].concat();
    client.request(16, &high_water_mark).expect("ZMQ_SNDHWM");
    let endpoint = client.bind(1, "tcp://127.0.0.1:*");
    let messages: Vec<u8> = (0..100_u8).flat_map(|at| frame(&[at], false)).collect();
    client.send(1, &messages);
    let without_limit = [2_u32.to_be_bytes(), (-1_i32).to_be_bytes()].concat();
    client.request(5, &without_limit).expect("it ends");
    assert_eq!(client.request(10, &[0, 0, 0, 3, 0, 0, 0, 2, 8]), Err(2), "the context has ended");
    client.socket(2, 7);
    client.connect(2, &endpoint);
    client.grant(2, 1000, 10_000);
    assert_eq!(client.delivered_octets(2, messages.len()), messages);
    assert!(client.end().success());
}
