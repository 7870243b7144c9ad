//! `deliver peek`, `clear`, `requeue --wait` and `--wait-store`: operating stores from the command line.

use rustix::process::Signal;
use serde_json::Value;

use crate::common::clients::{Clients, fails};
use crate::common::{Done, run};

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
}

/// A command for the client of this name, which is given as a word and not by --name.
fn of_name(clients: &Clients, command: &str, name: &str, more: &[&str]) -> Done {
    let store = clients.folder.text(name);
    run(&[&["deliver", command, name, "--data-dir", &store], more].concat(), b"")
}

fn peeked(clients: &Clients, more: &[&str]) -> Vec<Value> {
    let done = of_name(clients, "peek", "shop", &[&["--json"], more].concat()).expect(0);
    done.out.lines().map(json).collect()
}

fn bodies(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["body"].as_str().unwrap()).collect()
}

#[test]
fn pending_messages_are_shown_while_their_sender_runs() {
    let clients = Clients::new();
    let receiver = clients.start("recv", "billing", &["orders"]);
    clients.sent(&["handled"], b"");
    receiver.signal(Signal::KILL);
    receiver.end().expect(128 + 9);
    let described = ["--all", "--ttl", "600000", "--content-type", "text/plain", "--header", "a=1"];
    let described = [&["orders", "--ordering-key", "k"], &described[..]].concat();
    let mut sender = clients.start("send", "shop", &described);
    sender.write(b"one\ntwo\n");
    while peeked(&clients, &[]).len() < 2 {}
    clients.run("send", "other", &["orders", "of another store"], b"").expect(0);
    let all = peeked(&clients, &[]);
    assert_eq!(bodies(&all), ["one", "two"]);
    let (one, is_recent) = (&all[0], |ms: u64| ms > 1_700_000_000_000);
    assert_eq!((&one["topic"], &one["receiver"]), (&"orders".into(), &"billing".into()));
    assert_eq!((&one["bytes"], &one["ttl_ms"]), (&3.into(), &600_000.into()));
    assert_eq!((&one["content_type"], &one["headers"]["a"]), (&"text/plain".into(), &"1".into()));
    assert_eq!(one["ordering_key"], "k");
    assert!(one["accepted_ms"].as_u64().is_some_and(is_recent) && one["number"].as_str().is_some());
    sender.end().expect(0);
    // Peeking has changed nothing: both arrive.
    let receiver = clients.start("recv", "billing", &["orders", "-n", "2"]);
    clients.run("send", "shop", &["orders", "--wait"], b"").expect(0);
    assert_eq!(receiver.end().expect(0).out, "one\ntwo\n");
    assert!(peeked(&clients, &[]).is_empty());
}

#[test]
fn pending_messages_are_selected_and_cut() {
    let clients = Clients::new();
    let long = "\u{e4}".repeat(100);
    clients.run("send", "shop", &["orders", "one", "two", &long], b"").expect(0);
    clients.run("send", "shop", &["refunds", "--raw"], &[0xff, 0]).expect(0);
    assert_eq!(bodies(&peeked(&clients, &["--topic", "orders", "-n", "2"])), ["one", "two"]);
    assert!(peeked(&clients, &["--receiver", "billing"]).is_empty());
    let refund = &peeked(&clients, &["--topic", "refunds"])[0];
    assert_eq!((&refund["body"]["base64"], &refund["receiver"]), (&"/wA=".into(), &Value::Null));
    assert_eq!(peeked(&clients, &["--topic", "refunds", "--hex"])[0]["body"]["hex"], "ff00");
    let cut = &peeked(&clients, &["--bytes", "5"])[2];
    assert_eq!((&cut["body"], &cut["bytes"]), (&"\u{e4}\u{e4}".into(), &200.into()), "whole characters");
    let done = of_name(&clients, "peek", "shop", &["-n", "1"]).expect(0);
    let lines: Vec<Vec<&str>> = done.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["TOPIC", "RECEIVER", "NUMBER", "AGE", "BYTES", "BODY"]);
    assert_eq!((&lines[1][..2], &lines[1][4..]), (&["orders", "-"][..], &["3", "one"][..]));
    assert!(done.err.contains("pending messages not shown: 3 (--count)"), "{done:?}");
    // A body that is large enough for parts and compression.
    clients.run("send", "shop", &["parts", "--raw"], "0123456789".repeat(900_000).as_bytes()).expect(0);
    let large = &peeked(&clients, &["--topic", "parts", "--bytes", "12"])[0];
    assert_eq!((&large["body"], &large["bytes"]), (&"012345678901".into(), &9_000_000.into()));
    fails(of_name(&clients, "peek", "none", &[]), 1, "none: no store found");
    let store = clients.folder.text("shop");
    fails(run(&["deliver", "peek", "billing", "--data-dir", &store], b""), 1, "no messages of billing");
}

#[test]
fn pending_messages_are_dropped_by_topic_and_receiver() {
    let clients = Clients::new();
    let receivers = ["one", "two"].map(|name| clients.start("recv", name, &["orders"]));
    clients.sent(&["--all", "first"], b"");
    clients.until_registered("two");
    clients.sent(&["--all", "second"], b"");
    receivers.iter().for_each(|receiver| receiver.signal(Signal::KILL));
    receivers.into_iter().for_each(|receiver| drop(receiver.end().expect(128 + 9)));
    clients.run("send", "shop", &["orders", "--all", "a", "b"], b"").expect(0);
    clients.run("send", "shop", &["refunds", "c"], b"").expect(0);
    let clear = |more: &[&str]| of_name(&clients, "clear", "shop", more).expect(0).out;
    assert_eq!(clear(&["--topic", "orders", "--receiver", "one"]), "2\n");
    assert_eq!(clear(&["--topic", "orders", "--receiver", "one"]), "0\n");
    assert_eq!(clear(&["--topic", "nothing"]), "0\n");
    let left = peeked(&clients, &[]);
    assert_eq!(bodies(&left), ["a", "b", "c"]);
    assert!(left[..2].iter().all(|message| message["receiver"] == "two"), "{left:?}");
    assert_eq!(clear(&["--topic", "orders"]), "2\n");
    assert_eq!(clear(&["--topic", "refunds"]), "1\n");
    assert!(peeked(&clients, &[]).is_empty());
    fails(of_name(&clients, "clear", "none", &["--topic", "a"]), 1, "none: no store found");
    of_name(&clients, "clear", "shop", &[]).expect(2);
    // What was dropped does not arrive; what is sent afterwards does.
    let receiver = clients.start("recv", "two", &["orders", "-n", "1"]);
    clients.until_registered("two");
    clients.sent(&["later"], b"");
    assert_eq!(receiver.end().expect(0).out, "later\n");
}

/// Makes the messages dead letters of the shop.
fn give_up(clients: &Clients, orders: &[&str]) {
    let receiver = clients.start("recv", "billing", &["orders", "--exec", "false", "--max-deliveries", "1"]);
    clients.run("send", "shop", &[&["orders", "--wait"], orders].concat(), b"").expect(1);
    receiver.signal(Signal::TERM);
    receiver.end();
}

#[test]
fn requeueing_waits_until_letters_are_handled() {
    let clients = Clients::new();
    give_up(&clients, &["one", "two"]);
    let again = ["--all", "--wait", "--timeout", "30000"];
    let receiver = clients.start("recv", "billing", &["orders", "-n", "2"]);
    assert_eq!(clients.run("requeue", "shop", &again, b"").expect(0).out.lines().count(), 2);
    assert_eq!(receiver.end().expect(0).out, "one\ntwo\n");
    assert!(peeked(&clients, &[]).is_empty());
    // Given up again.
    give_up(&clients, &["three"]);
    let receiver = clients.start("recv", "billing", &["orders", "--exec", "false", "--max-deliveries", "1"]);
    let done = clients.run("requeue", "shop", &again, b"").expect(1);
    assert!(done.err.contains("given up by their receivers: 1"), "{done:?}");
    receiver.signal(Signal::TERM);
    receiver.end();
    assert_eq!(peeked(&clients, &[])[0]["dead"]["reason"], "deliveries");
    // With no receiver.
    let done = clients.run("requeue", "shop", &["--all", "--wait", "--timeout", "300"], b"").expect(3);
    assert!(done.err.contains("messages not handled: 1; they stay in the store"), "{done:?}");
    assert_eq!(bodies(&peeked(&clients, &[])), ["three"]);
    let listening = clients.run("requeue", "shop", &["--all", "--listen", "tcp://127.0.0.1:*"], b"");
    fails(listening, 2, "requeue does not");
}

/// A client that was killed keeps its subscription while its letters are sent again and its messages are dropped.
#[test]
fn operating_a_store_changes_no_subscription() {
    let clients = Clients::new();
    give_up(&clients, &["letter"]);
    let mut shop = clients.start("recv", "shop", &["replies"]);
    clients.run("send", "billing", &["replies", "heard", "--wait"], b"").expect(0);
    assert_eq!(shop.line(), "heard");
    shop.signal(Signal::KILL);
    shop.end().expect(128 + 9);
    let away = || {
        let shown = run(&["deliver", "registry", &clients.registry(), "--json"], b"").expect(0).out;
        let away = json(&shown)["away"].as_array().unwrap().clone();
        away.into_iter().find(|client| client["name"] == "shop").map(|client| client["topics"].to_string())
    };
    let before = away();
    assert!(before.as_deref().is_some_and(|topics| topics.contains("replies")), "{before:?}");
    clients.run("requeue", "shop", &["--all"], b"").expect(0);
    of_name(&clients, "clear", "shop", &["--topic", "orders"]).expect(0);
    assert_eq!(away(), before);
    clients.run("send", "billing", &["replies", "--all", "while it is away"], b"").expect(0);
    let shop = clients.start("recv", "shop", &["replies", "-n", "1"]);
    clients.run("send", "billing", &["replies", "--wait"], b"").expect(0);
    assert_eq!(shop.end().expect(0).out, "while it is away\n");
}

#[test]
fn a_store_in_use_is_waited_for() {
    let clients = Clients::new();
    let mut owner = clients.start("send", "shop", &["orders"]);
    owner.write(b"one\n");
    while peeked_or_none(&clients).is_none() {}
    let holder = format!("process {} has the store open", owner.id().as_raw_nonzero());
    fails(clients.run("send", "shop", &["orders", "two"], b""), 1, &holder);
    fails(of_name(&clients, "clear", "shop", &["--topic", "orders"]), 1, &holder);
    fails(clients.run("send", "shop", &["orders", "two", "--wait-store=0.3"], b""), 1, &holder);
    for wrong in ["-1", "soon", "inf"] {
        let wait = format!("--wait-store={wrong}");
        assert!(
            clients.run("send", "shop", &["orders", &wait], b"").expect(2).err.contains("number of seconds")
        );
    }
    let store = clients.folder.text("shop");
    let clear = ["deliver", "clear", "shop", "--data-dir", &store, "--topic", "orders", "--wait-store"];
    let waiting = crate::common::start(&clear);
    let second = clients.start("send", "shop", &["refunds", "two", "--wait-store=30"]);
    owner.end().expect(0);
    assert_eq!(waiting.end().expect(0).out, "1\n");
    second.end().expect(0);
    assert_eq!(bodies(&peeked(&clients, &[])), ["two"]);
    // A signal ends the wait.
    let mut owner = clients.start("send", "shop", &["orders"]);
    owner.write(b"three\n");
    while peeked(&clients, &[]).len() < 2 {}
    let waiting = crate::common::start(&clear);
    waiting.signal(Signal::TERM);
    waiting.end().expect(128 + 15);
    owner.end().expect(0);
}

/// The pending messages; None: there is no store yet, or none of the shop.
fn peeked_or_none(clients: &Clients) -> Option<String> {
    let done = of_name(clients, "peek", "shop", &[]);
    (done.code == 0 && done.out.contains("one")).then_some(done.out)
}
