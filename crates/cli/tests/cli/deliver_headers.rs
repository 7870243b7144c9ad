//! `deliver send` with an id, a content type, trace context, an ordering key and headers, and where they are printed.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::common::clients::{Clients, fails};
use crate::common::run;

const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// All flags, with the id.
const ALL: [&str; 14] = [
    "--id",
    "order-7",
    "--content-type",
    "text/plain",
    "--traceparent",
    TRACEPARENT,
    "--tracestate",
    "vendor=1",
    "--ordering-key",
    "customer 3",
    "--header",
    "region=north=west",
    "--header",
    "empty=",
];

/// Each command is a client of its own, which reads the ids from its store.
#[test]
fn a_retry_with_the_same_id_is_not_stored_again() {
    let clients = Clients::new();
    let send = |more: &[&str]| {
        clients.run("send", "shop", &[&["orders", "--id", "7"], more].concat(), b"").expect(0);
    };
    (0..3).for_each(|_| send(&["one"]));
    send(&["two", "--deduplicate-for", "0"]);
    send(&["two", "--deduplicate-for", "forever"]);
    clients.run("send", "shop", &["orders", "end"], b"").expect(0);
    let receiver = clients.start("recv", "billing", &["orders", "-n", "3"]);
    clients.sent(&[], b"");
    assert_eq!(receiver.end().expect(0).out, "one\ntwo\nend\n");
}

/// A message or a letter that was sent with all flags.
fn has_all(object: &Value) {
    assert_eq!((&object["id"], &object["content_type"]), (&json!("order-7"), &json!("text/plain")));
    assert_eq!((&object["traceparent"], &object["tracestate"]), (&json!(TRACEPARENT), &json!("vendor=1")));
    assert_eq!(object["ordering_key"], json!("customer 3"));
    assert_eq!(object["headers"], json!({"region": "north=west", "empty": ""}));
}

#[test]
fn they_are_printed_with_the_message() {
    let clients = Clients::new();
    let mut receiver = clients.start("recv", "billing", &["orders", "--json"]);
    let mut received = || -> Value { serde_json::from_str(&receiver.line()).unwrap() };
    clients.sent(&[&["one"], &ALL[..]].concat(), b"");
    has_all(&received());
    clients.sent(&["--raw", "--id", "8"], b"two");
    let message = received();
    assert_eq!((&message["id"], &message["body"]), (&json!("8"), &json!("two")));
    for absent in ["headers", "traceparent", "ordering_key"] {
        assert!(message.get(absent).is_none(), "{message}");
    }
    // Without an id the flags are those of each line.
    clients.sent(&["--header", "all=of them"], b"three\nfour\n");
    assert_eq!([received(), received()].map(|message| message["headers"]["all"].clone()), ["of them"; 2]);
}

#[test]
fn a_command_has_them_as_variables() {
    let clients = Clients::new();
    let show = "echo \"$DELIVERY_ID $DELIVERY_CONTENT_TYPE $DELIVERY_TRACEPARENT $DELIVERY_TRACESTATE \
                $DELIVERY_ORDERING_KEY.\"";
    let receiver = clients.start("recv", "billing", &["orders", "-n", "2", "--exec", show]);
    clients.sent(&[&["one"], &ALL[..]].concat(), b"");
    clients.sent(&["two"], b"");
    let all = format!("order-7 text/plain {TRACEPARENT} vendor=1 customer 3.");
    assert_eq!(receiver.end().expect(0).out, format!("{all}\n    .\n"));
}

#[test]
fn dead_letters_have_them() {
    let clients = Clients::new();
    let receiver = clients.start("recv", "billing", &["orders", "--exec", "false", "--max-deliveries", "1"]);
    let wait = ["orders", "refused", "--wait", "--timeout", "30000"];
    clients.run("send", "shop", &[&wait[..], &ALL].concat(), b"").expect(1);
    receiver.signal(Signal::TERM);
    receiver.end();
    let listed = run(&["deliver", "dead-letters", "--json", "--data-dir", &clients.folder.text("shop")], b"");
    let letter: Value = serde_json::from_str(&listed.expect(0).out).unwrap();
    has_all(&letter);
    assert_eq!((&letter["preview"], &letter["bytes"]), (&json!("refused"), &json!(7)));
    clients.run("requeue", "shop", &["--all"], b"").expect(0);
    let mut receiver = clients.start("recv", "billing", &["orders", "-n", "1", "--json"]);
    clients.run("send", "shop", &["orders", "--wait", "--timeout", "30000"], b"").expect(0);
    has_all(&serde_json::from_str(&receiver.line()).unwrap());
}

#[test]
fn what_is_wrong_is_refused() {
    let clients = Clients::new();
    let send = |more: &[&str]| clients.run("send", "shop", &[&["orders"], more].concat(), b"one\ntwo\n");
    for several in [&["--id", "7"][..], &["--id", "7", "one", "two"], &["--id", "7", "-0"]] {
        fails(send(several), 2, "--id is for one message");
    }
    fails(send(&["one", "--traceparent", "00"]), 2, "W3C Trace Context");
    fails(send(&["one", "--header", "a=1", "--header", "a=2"]), 2, "same key");
    fails(send(&["one", "--header", "=1"]), 2, "1 to 255 bytes");
    fails(send(&["one", "--id", ""]), 2, "1 to 255 bytes");
    for key in ["", &"k".repeat(256)] {
        fails(send(&["one", "--ordering-key", key]), 2, "ordering key must have 1 to 255 bytes");
    }
    send(&["one", "--header", "none"]).expect(2);
    send(&["one", "--tracestate", "a=1"]).expect(2);
    let status = run(&["deliver", "status", "--json", "--data-dir", &clients.folder.text("shop")], b"");
    assert!(!status.expect(0).out.contains("orders"), "nothing was accepted");
}
