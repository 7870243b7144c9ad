//! Hello, versions, violations, and the end of the input.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pinnace_engine::{Context, Error, SocketType};

use super::client::{Client, PATIENCE, bytes, frame};

/// The program tells what is wrong, and ends with exit code 1.
fn is_fatal(mut client: Client, octets: &[u8], text: &str) {
    client.write_raw(octets);
    let packet = client.next_of(255);
    assert!(String::from_utf8_lossy(&packet[1..]).contains(text), "{packet:?}");
    assert_eq!(client.ended().code(), Some(1), "{text}");
}

#[test]
fn violations_end_the_program() {
    is_fatal(Client::silent(&[]), &bytes(&[1, 0, 2]), "version");
    is_fatal(Client::silent(&[]), &bytes(&[6, 0, 0, 0, 0, 0, 0, 0, 1]), "hello");
    is_fatal(Client::start(), &bytes(&[1, 0, 1]), "hello");
    is_fatal(Client::start(), &bytes(&[77]), "kind");
    is_fatal(Client::start(), &bytes(&[6, 0]), "missing");
    is_fatal(Client::start(), &bytes(&[6, 0, 0, 0, 0, 0, 0, 0, 1, 1]), "follow");
    is_fatal(Client::start(), &[0, 0, 0, 0], "length");
    is_fatal(Client::start(), &[0, 16, 0, 1], "length");
    is_fatal(Client::start(), &[255; 4], "length");
    is_fatal(Client::start(), &bytes(&[3, 0, 0, 0, 1, 0, 0, 0, 2, b'x']), "cut off");
}

#[test]
fn flags_are_checked() {
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_pinnace-port"));
        command.args(arguments).output().unwrap()
    };
    assert_eq!(run(&["--nonsense"]).status.code(), Some(2));
    assert_eq!(run(&["--linger", "long"]).status.code(), Some(2));
    assert!(run(&["--help"]).stdout.starts_with(b"usage: pinnace-port"));
}

/// A packet may come in pieces of any size, and several at once.
#[test]
fn packets_may_be_cut_anywhere() {
    let mut client = Client::start();
    let octets = [bytes(&[6, 0, 0, 0, 0, 0, 0, 0, 1]), bytes(&[6, 0, 0, 0, 0, 0, 0, 0, 2])].concat();
    for octet in &octets {
        client.write_raw(&[*octet]);
    }
    client.write_raw(&octets);
    for number in [1, 2, 1, 2] {
        assert_eq!(client.next(), [135, 0, 0, 0, 0, 0, 0, 0, number]);
    }
    assert!(client.end().success());
}

#[test]
fn requests_are_answered_by_their_ids() {
    let mut client = Client::start();
    let ids: Vec<u32> = (0..100).map(|_| client.ask(999, &[])).collect();
    for id in ids.into_iter().rev() {
        assert_eq!(client.answer(id), Err(38), "ENOSYS");
    }
    // Arguments that are missing, or too many, are an error of the request alone.
    assert_eq!(client.request(2, &[0]), Err(22));
    assert_eq!(client.request(2, &[0; 5]), Err(22));
    client.context();
    assert_eq!(client.request(2, &1_u32.to_be_bytes()), Err(17), "EEXIST");
    assert_eq!(client.request(10, &[0, 0, 0, 1, 0, 0, 0, 9, 8]), Err(2), "no such context");
    assert_eq!(client.request(10, &[0, 0, 0, 1, 0, 0, 0, 1, 99]), Err(22), "no such type");
    assert_eq!(client.request(11, &[0, 0, 0, 1]), Err(88), "no such channel");
}

/// What was sent before the end of the input arrives.
#[test]
fn what_waits_is_sent_after_the_end_of_the_input() {
    let context = Context::new().unwrap();
    let pull = context.socket(SocketType::Pull).unwrap();
    let mut client = Client::start();
    client.context();
    client.socket(1, 8);
    let path = tempfile::tempdir().unwrap();
    let endpoint = format!("ipc://{}/pull", path.path().display());
    client.connect(1, &endpoint);
    for number in 0..3000_u32 {
        client.send(1, &frame(&number.to_be_bytes(), false));
    }
    client.input = None;
    pull.bind(&endpoint).unwrap();
    for number in 0..3000_u32 {
        let mut content = Vec::new();
        pull.recv(true, &mut |frame| content.extend_from_slice(frame.data())).unwrap();
        assert_eq!(content, number.to_be_bytes());
    }
    assert!(client.ended().success());
    pull.close().unwrap();
    context.terminate().unwrap();
}

/// Without a peer it ends after its linger, whatever the sockets' own lingers are.
#[test]
fn the_linger_ends() {
    let mut client = Client::silent(&["--linger", "200"]);
    client.write(&[1, 0, 1]);
    client.context();
    client.socket(1, 8);
    client.connect(1, "ipc:///nonexistent/pinnace-port");
    client.send(1, &frame(b"lost", false).repeat(5000));
    let began = Instant::now();
    assert!(client.end().success());
    assert!((Duration::from_millis(150)..PATIENCE).contains(&began.elapsed()), "{:?}", began.elapsed());
}

/// A client that has closed its end of the output is gone.
#[test]
fn a_closed_output_ends_the_program() {
    let mut process = Command::new(env!("CARGO_BIN_EXE_pinnace-port"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = process.stdin.take().unwrap();
    drop(process.stdout.take());
    // Whether it takes these depends on when it sees the end of its output.
    let _ = input.write_all(&bytes(&[1, 0, 1]));
    let _ = input.write_all(&bytes(&[6, 0, 0, 0, 0, 0, 0, 0, 1]));
    let output = process.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    drop(input);
}

/// What goes to the standard error comes as packets.
#[test]
fn the_standard_error_is_sent_to_the_client() {
    let mut client = Client::silent(&["--log"]);
    client.write(&[1, 0, 1]);
    client.nothing_of(138);
    let error = std::fs::OpenOptions::new().write(true).open(format!("/proc/{}/fd/2", client.process.id()));
    error.unwrap().write_all(b"one\ntwo\n").unwrap();
    assert_eq!(client.next_of(138), b"\x8aone");
    assert_eq!(client.next_of(138), b"\x8atwo");
    assert!(client.end().success());
}

#[test]
fn a_context_ends() {
    let mut client = Client::start();
    client.context();
    client.socket(1, 7);
    let endpoint = client.bind(1, "tcp://127.0.0.1:*");
    assert_eq!(client.request(5, &[0, 0, 0, 1, 0, 0, 0, 0]), Ok(vec![]));
    assert_eq!(client.request(12, &[&[0, 0, 0, 1], &bytes(b"tcp://127.0.0.1:*")[..]].concat()), Err(88));
    // The endpoint is free again.
    let context = Context::new().unwrap();
    let socket = context.socket(SocketType::Pull).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while socket.bind(&endpoint) == Err(Error::System(98)) {
        assert!(Instant::now() < deadline);
    }
    socket.close().unwrap();
    context.terminate().unwrap();
    client.context();
    assert!(client.end().success());
}
