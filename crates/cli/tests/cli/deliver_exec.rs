//! `deliver recv --exec`: what a command gets, and what becomes of its message.

use std::process::Command;

use crate::common::clients::Clients;
use crate::common::{run, start_limited};
use rustix::process::Signal;

#[test]
fn commands_get_messages_and_fail_at_them() {
    let clients = Clients::new();
    let told = "read body; echo \"$DELIVERY_FROM $DELIVERY_TOPIC $DELIVERY_COUNT $body\"";
    let command = &format!("{told}; test $DELIVERY_COUNT = 2");
    let receiver = clients.start("recv", "billing", &["orders", "-n", "1", "--exec", command]);
    clients.sent(&["a message"], b"");
    let done = receiver.end().expect(0);
    assert_eq!(done.out, "shop orders 1 a message\nshop orders 2 a message\n");
    assert!(
        done.err.contains(
            "the command failed (exit status: 1), for message 1.1.1 from shop on orders; deliveries: 1"
        ),
        "{done:?}"
    );
    let receiver = clients.start("recv", "billing", &["orders", "-n", "1", "--exec", "true"]);
    clients.sent(&["--raw"], &vec![7; 3 << 20]);
    receiver.end().expect(0);
}

/// A duplicate is known by its cursor.
#[test]
fn a_command_knows_its_message() {
    let clients = Clients::new();
    let command = "echo \"$DELIVERY_NUMBER $DELIVERY_CURSOR $DELIVERY_BYTES\"; test $DELIVERY_COUNT = 2";
    let receiver = clients.start("recv", "billing", &["orders", "-n", "2", "--exec", command]);
    clients.run("send", "shop", &["orders", "one", "three"], b"").expect(0);
    let pending =
        run(&["deliver", "peek", "shop", "--data-dir", &clients.folder.text("shop")], b"").expect(0).out;
    assert!(pending.contains("1.1.1 ") && pending.contains("1.1.2 "), "{pending}");
    clients.sent(&[], b"");
    let out = receiver.end().expect(0).out;
    let lines: Vec<Vec<&str>> = out.lines().map(|line| line.split(' ').collect()).collect();
    assert!(lines.len() == 4 && lines[0] == lines[1] && lines[2] == lines[3], "{out}");
    assert_eq!((lines[0][0], lines[0][2], lines[2][0], lines[2][2]), ("1.1.1", "3", "1.1.2", "5"));
    for line in [&lines[0], &lines[2]] {
        let (store, number) = line[1].split_once('.').unwrap();
        assert!(store.len() == 32 && number == line[0], "{out}");
    }
}

/// If the receiver is killed, its command goes on and reads the whole body, and the message is delivered again.
#[test]
fn a_command_whose_receiver_is_killed_gets_the_whole_body() {
    let clients = Clients::new();
    let gate = clients.folder.text("gate");
    assert!(Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let command = format!("echo begun; read go <'{gate}'; wc -c");
    let mut receiver = clients.start("recv", "billing", &["orders", "--exec", &command]);
    clients.run("send", "shop", &["orders", "--raw"], &vec![b'x'; 1_000_000]).expect(0);
    let sender = clients.start("send", "shop", &["orders", "--wait"]);
    assert_eq!(receiver.line(), "begun");
    receiver.signal(Signal::KILL);
    // It gets the store once the killed process is gone.
    let again = ["orders", "-n", "1", "--wait-store=30", "--exec", "wc -c"];
    assert_eq!(clients.run("recv", "billing", &again, b"").expect(0).out, "1000000\n");
    std::fs::write(&gate, "go\n").unwrap();
    assert_eq!(receiver.line(), "1000000");
    sender.end().expect(0);
}

/// A body that cannot be passed on is not acknowledged.
#[test]
fn a_body_that_cannot_be_passed_on_fails() {
    let clients = Clients::new();
    // Blocks of 512 bytes: less than the body, and enough for the store's files.
    let command = clients.arguments("recv", "billing", &["orders", "-n", "1", "--exec", "true"]);
    let mut receiver = start_limited("4096", &command, "");
    clients.run("send", "shop", &["orders", "--raw"], &vec![b'x'; 3 << 20]).expect(0);
    let sender = clients.start("send", "shop", &["orders", "--wait"]);
    let said = receiver.said();
    assert!(said.starts_with("the body cannot be passed on (") && said.contains("on orders"), "{said}");
    receiver.signal(Signal::KILL);
    receiver.end();
    let receiver =
        clients.start("recv", "billing", &["orders", "-n", "1", "--wait-store=30", "--exec", "wc -c"]);
    assert_eq!(receiver.end().expect(0).out, "3145728\n");
    sender.end().expect(0);
}
