//! Statistics of clients: `deliver status --prometheus`, `--metrics` of send and recv, and `status --metrics`.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::common::clients::{Clients, fails};
use crate::common::{Done, run, start};

/// A port of 127.0.0.1 on which nothing listens.
fn free_port() -> String {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap().port().to_string()
}

fn status(more: &[&str]) -> Done {
    run(&[&["deliver", "status"], more].concat(), b"")
}

/// The statistics of a running client, once it serves them and they fulfil a condition.
fn statistics(port: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let shown = status(&["--metrics", port, "--json"]).out;
        match serde_json::from_str::<Value>(&shown) {
            Ok(found) if is_so(&found) => return found,
            _ => assert!(Instant::now() < deadline, "it did not come: {shown}"),
        }
    }
}

#[test]
fn stores_are_shown_to_prometheus() {
    let clients = Clients::new();
    clients.run("send", "shop", &["orders", "one", "two"], b"").expect(0);
    let store = clients.folder.text("shop");
    let shown = status(&["--prometheus", "--data-dir", &store]).expect(0).out;
    let labels = format!("{{store=\"{store}\",client=\"shop\",topic=\"orders\",receiver=\"\"}}");
    for line in [
        "# TYPE pinnace_delivery_pending_messages gauge".to_owned(),
        format!("pinnace_delivery_pending_messages{labels} 2"),
        format!("pinnace_delivery_pending_bytes{labels} {}", 2 * 64 + 6),
    ] {
        assert!(shown.lines().any(|other| other == line), "{line} in {shown}");
    }
    // Its sender runs.
    let mut sender = clients.start("send", "shop", &["orders"]);
    sender.write(b"three\n");
    let three = format!("pinnace_delivery_pending_messages{labels} 3\n");
    let deadline = Instant::now() + Duration::from_secs(30);
    while !status(&["--prometheus", "--data-dir", &store]).expect(0).out.contains(&three) {
        assert!(Instant::now() < deadline, "the third is not shown");
    }
    sender.end().expect(0);
    fails(status(&["--prometheus", "--data-dir", &clients.folder.text("none")]), 1, "no store found");
    status(&["--prometheus", "--json"]).expect(2);
}

#[test]
fn running_clients_are_asked() {
    let clients = Clients::new();
    let port = free_port();
    let receiver = clients.start("recv", "billing", &["orders", "--metrics", &port]);
    clients.until_registered("billing");
    clients.sent(&["one", "two"], b"");
    let found = statistics(&port, |of| of["incoming"][0]["acknowledged"] == 2);
    assert_eq!((&found["client"], &found["incoming"][0]["sender"]), (&"billing".into(), &"shop".into()));
    let shown = status(&["--metrics", &format!("127.0.0.1:{port}"), "--prometheus"]).expect(0).out;
    let line =
        "pinnace_delivery_handled_messages_total{client=\"billing\",topic=\"orders\",sender=\"shop\"} 2\n";
    assert!(shown.contains(line), "{shown}");
    let shown = status(&["--metrics", &port]).expect(0).out;
    let rows: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0][..3], ["CLIENT", "TOPIC", "SENDER"], "it has sent nothing");
    assert_eq!(rows[1][..7], ["billing", "orders", "shop", "0", "0", "2", "2"]);
    // The port is taken, and then it is free.
    fails(
        clients.run("recv", "other", &["orders", "--metrics", &port], b""),
        1,
        &format!("127.0.0.1:{port}"),
    );
    fails(clients.run("recv", "other", &["orders", "--metrics", "here"], b""), 2, "must be a port");
    receiver.signal(Signal::TERM);
    receiver.end().expect(128 + 15);
    fails(status(&["--metrics", &port]), 1, &format!("127.0.0.1:{port}"));
}

#[test]
fn a_peer_that_is_not_reached_is_shown_within_5_s() {
    let clients = Clients::new();
    let (port, endpoint) = (free_port(), format!("tcp://127.0.0.1:{}", free_port()));
    let peer = format!("billing={endpoint},orders");
    let began = Instant::now();
    let mut sender = clients.start("send", "shop", &["orders", "--peer", &peer, "--metrics", &port]);
    sender.write(b"one\n");
    // The first is the message, which is bound to no receiver; the second is the receiver.
    let found = statistics(&port, |of| of["outgoing"][1]["connection"] == "refused");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let reason = format!("no answer at {endpoint}: nothing listens there, or there is no route to it");
    assert_eq!(found["outgoing"][1]["reason"], reason);
    let shown = status(&["--metrics", &port]).expect(0).out;
    assert!(shown.lines().nth(2).is_some_and(|line| line.ends_with(&reason)), "{shown}");
    let done = sender.end().expect(0);
    assert!(
        done.err.contains(&format!("billing does not answer at {endpoint}: nothing listens")),
        "{done:?}"
    );
}

#[test]
fn an_agent_serves_the_statistics_of_its_stores() {
    let clients = Clients::new();
    let (port, store) = (free_port(), clients.folder.text("shop"));
    let lines: String = (0..20_000).map(|number| format!("{number}\n")).collect();
    clients.run("send", "shop", &["orders"], lines.as_bytes()).expect(0);
    let agent = start(&["deliver", "run", "--dir", &clients.folder.text(""), "--metrics", &port]);
    assert_eq!(statistics(&port, |_| true), serde_json::json!({ "clients": [] }));
    // The receiver waits for its output to be read, so the agent is not done.
    let receiver = clients.start("recv", "billing", &["orders"]);
    let sent =
        |of: &Value| of["clients"][0]["outgoing"][0]["acknowledged"].as_u64().is_some_and(|count| count > 0);
    let found = statistics(&port, sent);
    let shop = &found["clients"][0];
    assert_eq!((&shop["client"], &shop["dir"]), (&"shop".into(), &store.as_str().into()));
    let shown = status(&["--metrics", &port, "--prometheus"]).expect(0).out;
    let labels = format!("{{store=\"{store}\",client=\"shop\",topic=\"orders\",receiver=\"billing\"}}");
    assert!(shown.contains(&format!("pinnace_delivery_pending_messages{labels} ")), "{shown}");
    receiver.signal(Signal::TERM);
    receiver.end().expect(128 + 15);
    agent.signal(Signal::TERM);
    agent.end().expect(0);
    let taken = start(&["deliver", "run", "--dir", &clients.folder.text(""), "--metrics", "nowhere"]);
    fails(taken.end(), 2, "metrics must be a port");
}
