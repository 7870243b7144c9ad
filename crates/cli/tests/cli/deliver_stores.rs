//! `deliver status`, `dead-letters` and `requeue`: what stores hold, also while other processes have them open.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::common::clients::{Clients, fails};
use crate::common::{Folder, Running, run, start, start_command};
use rustix::process::{Signal, kill_process};
use serde_json::Value;

/// The output of `status --json` for the shop's store.
fn status(clients: &Clients) -> Value {
    json(
        &run(&["deliver", "status", "--json", "--data-dir", &clients.folder.text("shop")], b"").expect(0).out,
    )
}

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
}

/// Pending messages: the topic, the receiver if known, and the number.
type Pending = (String, Option<String>, u64);

/// From a line of `status --json`, for the first store: the process that has it open, and its first client's
/// pending messages.
fn seen(line: &Value) -> (Option<u64>, Vec<Pending>) {
    let store = &line["stores"][0];
    let pending = store["clients"][0]["pending"].as_array().unwrap();
    let one = |one: &Value| {
        let receiver = one["receiver"].as_str().map(str::to_owned);
        (one["topic"].as_str().unwrap().to_owned(), receiver, one["messages"].as_u64().unwrap())
    };
    (store["process"].as_u64(), pending.iter().map(one).collect())
}

fn process(running: &Running) -> Option<u64> {
    Some(u64::try_from(running.id().as_raw_nonzero().get()).unwrap())
}

#[test]
fn what_waits_is_counted_beside_who_has_the_store() {
    let clients = Clients::new();
    let orders = |count| ("orders".to_owned(), None, count);
    clients.run("send", "shop", &["orders", "one", "two"], b"").expect(0);
    assert_eq!(seen(&status(&clients)), (None, vec![orders(2)]));
    let mut sender = clients.start("send", "shop", &["orders"]);
    let mut watch =
        start(&["deliver", "status", "--watch", "--json", "--data-dir", &clients.folder.text("shop")]);
    // The sender may or may not have the store open yet in the first lines.
    let mut line = || seen(&json(&watch.line()));
    let mut last = line();
    while last != (process(&sender), vec![orders(2)]) {
        last = line();
    }
    sender.write(b"three\nfour\n");
    while last.1 != [orders(4)] {
        last = line();
    }
    fails(clients.run("send", "shop", &["orders", "five"], b""), 1, &format!("process {}", last.0.unwrap()));
    let text = run(&["deliver", "status", "--data-dir", &clients.folder.text("shop")], b"").expect(0).out;
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["CLIENT", "PROCESS", "TOPIC", "RECEIVER", "PENDING", "BYTES", "OLDEST"]);
    assert_eq!(lines[1][..5], ["shop", &last.0.unwrap().to_string(), "orders", "-", "4"]);
    assert!(
        lines[1][5] == "271" && lines[1][6].ends_with('s'),
        "4 * 64 bytes and the bodies: {:?}",
        lines[1]
    );
    sender.signal(Signal::KILL);
    sender.end().expect(128 + 9);
    while last != (None, vec![orders(4)]) {
        last = line();
    }
    // And down to zero.
    let receiver = clients.start("recv", "billing", &["orders", "-n", "4"]);
    clients.sent(&[], b"");
    receiver.end().expect(0);
    while last != (None, vec![orders(0)]) {
        last = line();
    }
    watch.signal(Signal::INT);
    watch.end().expect(0);
}

#[test]
fn a_busy_store_is_looked_at_all_the_same() {
    let clients = Clients::new();
    let receiver = clients.start("recv", "billing", &["orders", "--raw"]);
    let billing = receiver.id();
    let reader = std::thread::spawn(move || receiver.end().expect(128 + 15).out.len());
    let mut sender = clients.start("send", "shop", &["orders", "--durability", "interval", "--wait"]);
    let (mut written, until) = (0, Instant::now() + Duration::from_secs(2));
    let mut line = vec![b'x'; 20_000];
    line.push(b'\n');
    while Instant::now() < until {
        (0..100).for_each(|_| sender.write(&line));
        written += 100 * 20_000;
        assert_eq!(seen(&status(&clients)).0, process(&sender));
    }
    sender.end().expect(0);
    kill_process(billing, Signal::TERM).unwrap();
    assert_eq!(reader.join().unwrap(), written);
}

#[test]
fn what_there_is_not() {
    let folder = Folder::new();
    for command in ["status", "dead-letters"] {
        let none = run(&["deliver", command, "--data-dir", &folder.text("none")], b"");
        fails(none, 1, "none: no store found");
        let empty = run(&["deliver", command, "--data-dir", &folder.text("")], b"");
        fails(empty, 1, "no store found");
    }
    fails(
        run(&["deliver", "send", "--name", "shop", "-0", "news", "body"], b""),
        2,
        "cannot be used with BODY",
    );
    run(&["deliver", "status", "--data-dir"], b"").expect(2);
    fails(
        run(&["deliver", "requeue", "--name", "shop", "--data-dir", &folder.text("none"), "--all"], b""),
        1,
        "no store found",
    );
    for wrong in [&[][..], &["7"], &["1.1.x"], &["1.1.1", "--all"], &["--all", "--topic", "a"]] {
        run(&[&["deliver", "requeue", "--name", "shop"], wrong].concat(), b"").expect(2);
    }
    // Of all of the user's stores, those that can be read are printed; for the others the error is printed.
    let state = format!("XDG_STATE_HOME={}", folder.text("state"));
    let command = |arguments: &[&str]| {
        let mut command = std::process::Command::new("env");
        start_command(command.args([&state, crate::common::PINNACE, "deliver"]).args(arguments)).end()
    };
    assert_eq!(
        command(&["status"]).expect(0).out,
        "CLIENT  PROCESS  TOPIC  RECEIVER  PENDING  BYTES  OLDEST\n"
    );
    for name in ["ill", "well"] {
        command(&["send", "--name", name, "orders", &"x".repeat(50_000)]).expect(0);
    }
    for entry in std::fs::read_dir(folder.path("state/pinnace/delivery/ill")).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        if bytes.len() > 30_000 {
            bytes[30_000] ^= 1;
            std::fs::write(path, bytes).unwrap();
        }
    }
    let done = command(&["status"]).expect(1);
    assert!(done.out.contains("\nwell") && !done.out.contains("\nill"), "{done:?}");
    assert!(done.err.contains("ill: the store is damaged") && done.err.lines().count() == 1, "{done:?}");
    assert!(done.err.contains(".log cannot be read from byte"), "{done:?}");
    let send = ["send", "--name", "ill", "orders", "well again"];
    assert!(command(&send).expect(1).err.contains("damaged"));
    command(&[&send[..], &["--skip-damage"]].concat()).expect(0);
}

/// The dead letters of the shop's store.
fn letters(clients: &Clients) -> Vec<Value> {
    let listed = run(&["deliver", "dead-letters", "--json", "--data-dir", &clients.folder.text("shop")], b"");
    listed.expect(0).out.lines().map(json).collect()
}

/// Sends messages to `orders` and one to `refunds`, which the receiver gives up.
fn give_up(clients: &Clients, orders: &[u8]) {
    let receiver =
        clients.start("recv", "billing", &["orders", "refunds", "--exec", "false", "--max-deliveries", "1"]);
    let wait = ["--wait", "--timeout", "30000"];
    clients.run("send", "shop", &[&["orders"], &wait[..]].concat(), orders).expect(1);
    clients.run("send", "shop", &[&["refunds", "caf\u{e9}"], &wait[..]].concat(), b"").expect(1);
    receiver.signal(Signal::TERM);
    receiver.end();
}

#[test]
fn dead_letters_are_listed_and_sent_again() {
    let clients = Clients::new();
    give_up(&clients, b"one\ntwo\nthree\n");
    let letters = || letters(&clients);
    let listed = letters();
    let field =
        |name: &str| listed.iter().map(|letter| letter[name].as_str().unwrap_or("?")).collect::<Vec<_>>();
    assert_eq!(field("preview"), ["one", "two", "three", "caf\u{e9}"]);
    assert_eq!(field("topic"), ["orders", "orders", "orders", "refunds"]);
    assert_eq!((listed[0]["from"].as_str(), listed[0]["receiver"].as_str()), (Some("shop"), Some("billing")));
    assert_eq!((&listed[2]["bytes"], &listed[2]["deliveries"]), (&5.into(), &1.into()));
    assert_eq!(listed[0]["reason"], "deliveries");
    let text =
        run(&["deliver", "dead-letters", "--data-dir", &clients.folder.text("shop")], b"").expect(0).out;
    assert!(
        text.starts_with("FROM  NUMBER") && text.contains("billing   deliveries  1           3      two\n"),
        "{text}"
    );

    let numbers = field("number");
    let again = |more: &[&str]| clients.run("requeue", "shop", more, b"");
    assert_eq!(again(&[numbers[1]]).expect(0).out, format!("{}\n", numbers[1]));
    let done = again(&[numbers[1], numbers[2]]).expect(1);
    assert_eq!(done.out, format!("{}\n", numbers[2]));
    assert!(done.err.contains(&format!("{}: no such dead letter", numbers[1])), "{done:?}");
    assert_eq!(again(&["--topic", "refunds"]).expect(0).out, format!("{}\n", numbers[3]));
    assert_eq!(again(&["--topic", "nothing"]).expect(0).out, "");
    assert_eq!(letters().len(), 1);
    assert_eq!(again(&["--all"]).expect(0).out, format!("{}\n", numbers[0]));
    assert!(letters().is_empty());
    let receiver = clients.start("recv", "billing", &["orders", "refunds"]);
    clients.sent(&[], b"");
    clients.run("send", "shop", &["refunds", "--wait"], b"").expect(0);
    receiver.signal(Signal::TERM);
    let received = receiver.end().expect(128 + 15).out;
    let received: BTreeSet<&str> = received.lines().collect();
    assert_eq!(received, ["one", "two", "three", "caf\u{e9}"].into());
}

#[test]
fn a_store_that_is_in_use_says_by_whom() {
    let clients = Clients::new();
    give_up(&clients, b"one\n");
    let mut sender = clients.start("send", "shop", &["elsewhere"]);
    sender.write(b"has the store\n");
    while seen(&status(&clients)).0.is_none() {}
    assert_eq!(letters(&clients).len(), 2, "they can be listed");
    let words = format!("process {} has the store open", sender.id().as_raw_nonzero());
    fails(clients.run("requeue", "shop", &["--all"], b""), 1, &words);
    sender.end().expect(0);
    let store = clients.folder.text("shop");
    let other = run(&["deliver", "requeue", "--name", "other", "--data-dir", &store, "--all"], b"");
    fails(other, 1, "no messages of other");
    assert_eq!(clients.run("requeue", "shop", &["--all"], b"").expect(0).out.lines().count(), 2);
}

/// Whenever the process is killed, each letter is still a dead letter, or was sent again, or both.
#[test]
fn requeueing_that_is_killed_loses_no_letter() {
    let clients = Clients::new();
    let count = 300;
    give_up(&clients, (0..count).map(|number| format!("{number}\n")).collect::<String>().as_bytes());
    for kill_after in [1, 20, 50] {
        let mut requeue = clients.start("requeue", "shop", &["--topic", "orders"]);
        (0..kill_after).for_each(|_| drop(requeue.line()));
        requeue.signal(Signal::KILL);
        requeue.end();
    }
    let body = |letter: &Value| letter["preview"].as_str().unwrap().to_owned();
    let left = letters(&clients);
    let mut there: Vec<String> = left.iter().map(body).collect();
    assert!(there.len() > 1 && there.len() < count, "{}", there.len());
    let receiver = clients.start("recv", "billing", &["orders"]);
    let process = receiver.id();
    let reader = std::thread::spawn(move || receiver.end().out);
    clients.sent(&[], b"");
    kill_process(process, Signal::TERM).unwrap();
    there.extend(reader.join().unwrap().lines().map(str::to_owned));
    let there: BTreeSet<String> = there.into_iter().collect();
    assert!((0..count).all(|number| there.contains(&number.to_string())));
}
