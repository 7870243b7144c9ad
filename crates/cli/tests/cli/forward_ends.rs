//! How `forward` ends: with many connections, with lines that were read but not delivered yet, and with lines that
//! cannot be delivered.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::common::{Running, start};
use pinnace::{Context, Error, Pull, Rep};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};

const LONG: Duration = Duration::from_secs(20);

fn forwarder(endpoint: &str, more: &[&str]) -> (Running, String) {
    let mut forwarder = start(&[&["forward", "127.0.0.1:0", endpoint], more].concat());
    if more.contains(&"--bind") {
        forwarder.said_after("bound to");
    }
    let address = forwarder.said_after("listening on");
    (forwarder, address)
}

/// A connection that has sent these lines, and may send more.
fn client(address: &str, lines: &str) -> TcpStream {
    let mut client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(LONG)).unwrap();
    client.write_all(lines.as_bytes()).unwrap();
    client
}

/// The number before these words.
fn number(text: &str, words: &str) -> u64 {
    let at = text.find(words).unwrap_or_else(|| panic!("{words:?} is not in {text:?}"));
    text[..at].trim_end().rsplit(' ').next().unwrap().parse().unwrap()
}

/// Ensures at least this many descriptors, for us and our children.
fn with_descriptors(count: u64) {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < count) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(count), ..limit }).expect("so many descriptors");
    }
}

#[test]
fn a_signal_ends_any_number_of_connections() {
    const CLIENTS: usize = 400;
    with_descriptors(1024);
    let folder = crate::common::Folder::new();
    let endpoint = folder.ipc("lines");
    let (forwarder, address) = forwarder(&endpoint, &["--bind"]);
    let context = Context::new().unwrap();
    let pull = Pull::builder(&context).connect(&endpoint).unwrap();
    let clients: Vec<TcpStream> = (0..CLIENTS).map(|_| client(&address, "here\n")).collect();
    clients.iter().for_each(|_| assert_eq!(pull.recv_timeout(LONG).unwrap(), "here"));
    forwarder.signal(Signal::TERM);
    let said = forwarder.end().expect(0).err;
    assert_eq!(number(&said, "lines forwarded"), CLIENTS as u64, "{said}");
}

#[test]
fn lines_that_were_read_are_asked_after_a_signal() {
    let context = Context::new().unwrap();
    let rep = Rep::new(&context).unwrap();
    let endpoint = rep.bind("tcp://127.0.0.1:*").unwrap();
    let (forwarder, address) = forwarder(&endpoint, &["-t", "req"]);
    // Written in one call, so they are read in one call.
    let client = client(&address, "1\n2\n3\n4\n5\nno end");
    assert_eq!(rep.recv_timeout(LONG).unwrap(), "1");
    forwarder.signal(Signal::TERM);
    rep.send("answer").unwrap();
    for line in ["2", "3", "4", "5"] {
        assert_eq!(rep.recv_timeout(LONG).unwrap(), line);
        rep.send("answer").unwrap();
    }
    let said = forwarder.end().expect(0).err;
    assert!(said.contains("5 lines forwarded"), "{said}");
    let answers: Vec<String> = BufReader::new(client).lines().map_while(Result::ok).collect();
    assert!(answers.len() >= 4, "{answers:?}");
}

#[test]
fn lines_that_nobody_takes_after_a_signal_are_told() {
    let context = Context::new().unwrap();
    let rep = Rep::new(&context).unwrap();
    let endpoint = rep.bind("tcp://127.0.0.1:*").unwrap();
    let (forwarder, address) = forwarder(&endpoint, &["-t", "req", "--linger", "200"]);
    let _client = client(&address, "1\n2\n3\n");
    assert_eq!(rep.recv_timeout(LONG).unwrap(), "1");
    forwarder.signal(Signal::TERM);
    let said = forwarder.end().expect(1).err;
    assert!(said.contains("1 lines forwarded") && said.contains("lines not delivered: 2"), "{said}");
}

#[test]
fn what_a_socket_still_holds_at_its_end_is_told() {
    const LINE: usize = 1 << 20;
    let context = Context::new().unwrap();
    let pull = Pull::builder(&context).receive_high_water_mark(1).build().unwrap();
    let endpoint = pull.bind("tcp://127.0.0.1:*").unwrap();
    let (forwarder, address) = forwarder(&endpoint, &["--hwm", "0", "--linger", "200"]);
    // More than the kernel buffers on both connections, so the forwarder has read lines that nobody receives.
    let _client = client(&address, &("x".repeat(LINE - 1) + "\n").repeat(64));
    pull.recv_timeout(LONG).unwrap();
    forwarder.signal(Signal::TERM);
    let said = forwarder.end().expect(1).err;
    let (forwarded, lost) = (number(&said, "lines forwarded"), said.lines().last().unwrap());
    let lost: u64 = lost.rsplit(' ').next().unwrap().parse().unwrap();
    (1..forwarded - lost).for_each(|_| drop(pull.recv_timeout(LONG).unwrap()));
    pull.wait_ended(1, LONG).unwrap();
    assert_eq!(pull.try_recv(), Err(Error::WouldBlock), "not one more");
}

#[test]
fn as_many_connections_as_are_asked_for() {
    const CLIENTS: usize = 1100;
    // Ours: a client and a peer each. The forwarder raises its own limit.
    with_descriptors(2 * CLIENTS as u64 + 200);
    let context = Context::new().unwrap();
    let pull = Pull::new(&context).unwrap();
    let endpoint = pull.bind("tcp://127.0.0.1:*").unwrap();
    let (forwarder, address) = forwarder(&endpoint, &["--connections", "1100"]);
    let clients: Vec<TcpStream> = (0..CLIENTS).map(|_| client(&address, "here\n")).collect();
    clients.iter().for_each(|_| assert_eq!(pull.recv_timeout(LONG).unwrap(), "here"));
    forwarder.signal(Signal::TERM);
    forwarder.end().expect(0);
}

/// The line counts whatever follows it, and whether or not it has ended.
#[test]
fn a_line_that_is_too_long_is_not_delivered() {
    let context = Context::new().unwrap();
    let pull = Pull::new(&context).unwrap();
    let endpoint = pull.bind("tcp://127.0.0.1:*").unwrap();
    for (rest, left) in
        [("a line that is too long", 1), ("a line that is too long\n", 1), ("much too long\nmore\n", 2)]
    {
        let (mut forwarder, address) = forwarder(&endpoint, &["--max", "10"]);
        let _client = client(&address, &format!("short\n{rest}"));
        assert_eq!(pull.recv_timeout(LONG).unwrap(), "short");
        assert!(forwarder.said().contains("disconnected: a line is longer than 10 bytes"));
        forwarder.signal(Signal::TERM);
        let said = forwarder.end().expect(1).err;
        assert!(said.contains(&format!("lines not delivered: {left}\n")), "{said}");
    }
}
