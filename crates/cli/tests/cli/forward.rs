//! `forward`: lines of TCP connections become messages, and messages become lines.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use crate::common::{Running, run, start};
use rustix::process::Signal;

const DEADLINE: Duration = Duration::from_secs(20);

/// A receiver, and a forwarder to it with its address.
fn forwarder(receive: &[&str], forward: &[&str]) -> (Running, Running, String) {
    let mut receiver = start(&[&["recv", "-v", "-b", "tcp://127.0.0.1:*"], receive].concat());
    let endpoint = receiver.said_after("bound to");
    let mut forwarder = start(&[&["forward", "127.0.0.1:0", &endpoint], forward].concat());
    let address = forwarder.said_after("listening on");
    (receiver, forwarder, address)
}

fn client(address: &str) -> TcpStream {
    let client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(DEADLINE)).unwrap();
    client
}

fn ended(forwarder: Running) -> String {
    forwarder.signal(Signal::TERM);
    forwarder.end().expect(0).err
}

/// Sends `text`, closes the sending direction, and reads everything that arrives.
fn conversation(address: &str, text: &str) -> String {
    let mut client = client(address);
    client.write_all(text.as_bytes()).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    answer
}

fn sorted_lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn lines_become_messages() {
    let (receiver, forwarder, address) = forwarder(&["--json", "-n", "4"], &[]);
    assert_eq!(conversation(&address, "one\r\n\ntwo words\nno end"), "");
    let lines = ["one", "", "two words", "no end"].map(|text| format!("{{\"frames\":[\"{text}\"]}}\n"));
    assert_eq!(receiver.end().expect(0).out, lines.concat());
    let said = ended(forwarder);
    assert!(said.contains("4 lines forwarded"), "{said}");
}

/// Only the first thread handles signals.
#[test]
fn other_threads_leave_signals_to_the_first() {
    let (receiver, forwarder, address) = forwarder(&["-n", "1"], &[]);
    let mut client = client(&address);
    client.write_all(b"one\n").unwrap();
    receiver.end().expect(0);
    // The forwarder now has a thread for this connection.
    let process = forwarder.id().as_raw_nonzero().to_string();
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let mut others = 0;
    for task in tasks.map(Result::unwrap).filter(|task| *task.file_name() != *process) {
        let status = std::fs::read_to_string(task.path().join("status")).unwrap();
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:\t")).unwrap();
        // All signals except those for faults, and those that cannot be blocked.
        assert_eq!(blocked, "fffffffe3ffbfa07", "{status}");
        others += 1;
    }
    assert!(others >= 2, "{others}");
    drop(client);
    ended(forwarder);
}

#[test]
fn lines_may_keep_their_end() {
    let (receiver, forwarder, address) = forwarder(&["--raw", "-n", "1"], &["--keep-newline"]);
    conversation(&address, "as it was\r\n");
    assert_eq!(receiver.end().expect(0).out, "as it was\r\n");
    ended(forwarder);
}

#[test]
fn many_connections_at_once() {
    const CLIENTS: usize = 20;
    const LINES: usize = 500;
    let (receiver, forwarder, address) = forwarder(&["-n", "10000"], &["--connections", "7"]);
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let address = address.clone();
            std::thread::spawn(move || {
                let text: String = (0..LINES).map(|line| format!("{client} {line}\n")).collect();
                assert_eq!(conversation(&address, &text), "");
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    let mut next = [0; CLIENTS];
    for line in receiver.end().expect(0).out.lines() {
        let (client, number) = line.split_once(' ').unwrap();
        let next = &mut next[client.parse::<usize>().unwrap()];
        assert_eq!(number.parse::<usize>().unwrap(), *next, "of client {client}");
        *next += 1;
    }
    assert_eq!(next, [LINES; CLIENTS]);
    ended(forwarder);
}

#[test]
fn answers_become_lines() {
    let (mut receiver, forwarder, address) = forwarder(&["-t", "rep", "--echo"], &["-t", "req"]);
    assert_eq!(conversation(&address, "a\nb\nc\n"), "a\nb\nc\n");
    let mut client = client(&address);
    let mut answers = BufReader::new(client.try_clone().unwrap());
    for text in ["hello\n", "again\n"] {
        client.write_all(text.as_bytes()).unwrap();
        let mut answer = String::new();
        answers.read_line(&mut answer).unwrap();
        assert_eq!(answer, text);
    }
    drop((client, answers));
    assert_eq!(receiver.line(), "a");
    let said = ended(forwarder);
    assert!(said.contains("5 lines forwarded, 5 returned"), "{said}");
    receiver.signal(Signal::INT);
    receiver.end().expect(130);
}

#[test]
fn an_answer_that_does_not_come_is_told() {
    let (receiver, mut forwarder, address) =
        forwarder(&["-t", "dealer", "-n", "1"], &["-t", "dealer", "--linger", "100"]);
    assert_eq!(conversation(&address, "anybody?\n"), "");
    assert!(forwarder.said().contains("an answer is missing"));
    assert_eq!(receiver.end().expect(0).out, "anybody?\n");
    ended(forwarder);
}

#[test]
fn a_subscriber_brings_lines_alone() {
    let mut publisher = start(&["send", "-v", "-b", "tcp://127.0.0.1:*", "-t", "pub", "-w", "1", "-"]);
    let endpoint = publisher.said_after("bound to");
    let mut forwarder = start(&["forward", "127.0.0.1:0", &endpoint, "-t", "sub", "-s", "a"]);
    let address = forwarder.said_after("listening on");
    let client = client(&address);
    publisher.write(b"a1\nb1\na2\n");
    let lines: Vec<String> = BufReader::new(&client).lines().take(2).map(Result::unwrap).collect();
    assert_eq!(lines, ["a1", "a2"]);
    publisher.end().expect(0);
    client.shutdown(Shutdown::Both).unwrap();
    ended(forwarder);
}

#[test]
fn a_long_line_is_cut_off_and_others_go_on() {
    let (receiver, forwarder, address) = forwarder(&["-n", "2"], &["--max", "10"]);
    let mut long = client(&address);
    long.write_all(b"fine\nthis is far too long").unwrap();
    // The forwarder closes the connection; whether with FIN or RST depends on unread data.
    let mut rest = Vec::new();
    let _ = long.read_to_end(&mut rest);
    assert!(rest.is_empty());
    conversation(&address, "short\n");
    // Each client has its own socket: nothing orders one client's lines and another's.
    assert_eq!(sorted_lines(&receiver.end().expect(0).out), ["fine", "short"]);
    forwarder.signal(Signal::TERM);
    let said = forwarder.end().expect(1).err;
    assert!(said.contains("longer than 10 bytes") && said.contains("not delivered: 1"), "{said}");
}

#[test]
fn a_bound_socket_serves_all_connections() {
    let mut forwarder = start(&["forward", "127.0.0.1:0", "tcp://127.0.0.1:*", "--bind"]);
    let endpoint = forwarder.said_after("bound to");
    let address = forwarder.said_after("listening on");
    let receiver = start(&["recv", &endpoint, "-n", "2"]);
    conversation(&address, "one\n");
    conversation(&address, "two\n");
    assert_eq!(sorted_lines(&receiver.end().expect(0).out), ["one", "two"]);
    ended(forwarder);
}

#[test]
fn what_nobody_takes_is_told() {
    let mut forwarder = start(&["forward", "127.0.0.1:0", "tcp://127.0.0.1:9", "--linger", "100"]);
    let address = forwarder.said_after("listening on");
    conversation(&address, "lost\n");
    assert!(forwarder.said().contains("messages not delivered: 1"));
    forwarder.signal(Signal::TERM);
    assert!(forwarder.end().expect(1).err.contains("lines not delivered: 1"));
}

#[test]
fn wrong_arguments() {
    let somewhere = "tcp://127.0.0.1:9";
    run(&["forward", "nonsense", somewhere], b"").expect(2);
    run(&["forward", "127.0.0.1:0", "nonsense"], b"").expect(2);
    run(&["forward", "127.0.0.1:0", somewhere, "-b", "-t", "req"], b"").expect(2);
    run(&["forward", "127.0.0.1:0", somewhere, "-s", "a"], b"").expect(2);
    run(&["forward", "127.0.0.1:0", somewhere, "-o", "wings=2"], b"").expect(2);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    run(&["forward", &taken.local_addr().unwrap().to_string(), somewhere], b"").expect(1);
}
