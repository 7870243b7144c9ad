//! `proxy`: both directions, with captured copies and statistics.

use crate::common::{Folder, Running, run, start};
use rustix::process::Signal;

/// A proxy, its front and its back.
fn proxy(arguments: &[&str]) -> (Running, String, String) {
    let any = "tcp://127.0.0.1:*";
    let mut proxy = start(&[&["proxy", any, any], arguments].concat());
    let (front, back) = (proxy.said_after("bound to"), proxy.said_after("bound to"));
    (proxy, front, back)
}

fn ended(proxy: Running, signal: Signal) -> String {
    proxy.signal(signal);
    proxy.end().expect(0).err.lines().last().unwrap().to_owned()
}

#[test]
fn requests_go_through_and_answers_come_back() {
    let (proxy, front, back) = proxy(&[]);
    let worker = start(&["recv", &back, "-t", "rep", "--reply", "pong!", "-n", "2"]);
    let asked = run(&["send", &front, "-t", "req", "-m", "ping", "-m", "ping"], b"").expect(0);
    assert_eq!(asked.out, "pong!\npong!\n");
    assert_eq!(worker.end().expect(0).out, "ping\nping\n");
    let last = ended(proxy, Signal::INT);
    assert!(
        last.contains("front to back: 2 messages") && last.contains("back to front: 2 messages"),
        "{last}"
    );
}

#[test]
fn one_way_with_a_copy_and_statistics_meanwhile() {
    let any = "tcp://127.0.0.1:*";
    let (mut proxy, front, back) = proxy(&["--front-type", "pull", "--capture", any, "--json"]);
    let copies = proxy.said_after("bound to");
    let mut copied = start(&["recv", &copies, "-t", "sub"]);
    let mut receiver = start(&["recv", &back]);
    let mut sender = start(&["send", &front, "-"]);
    // Nothing is copied before the subscription has arrived.
    let mut sent = 0;
    let (told, seen) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        told.send(copied.line()).unwrap();
        copied
    });
    while seen.try_recv().is_err() {
        sender.write(b"again\n");
        assert_eq!(receiver.line(), "again");
        sent += 1;
    }
    let copied = reader.join().unwrap();
    proxy.signal(Signal::USR1);
    let report: serde_json::Value = serde_json::from_str(&proxy.said()).unwrap();
    assert_eq!(report["front_to_back"]["messages"], sent);
    assert_eq!(report["front_to_back"]["bytes"], sent * 5);
    assert_eq!(report["back_to_front"]["messages"], 0);
    sender.end().expect(0);
    for receiver in [receiver, copied] {
        receiver.signal(Signal::INT);
        receiver.end().expect(130);
    }
    ended(proxy, Signal::TERM);
}

#[test]
fn subscriptions_go_through_to_publishers() {
    let (proxy, front, back) = proxy(&["--front-type", "xsub"]);
    let subscriber = start(&["recv", &back, "-t", "sub", "-s", "b", "-n", "1"]);
    // The publisher's wait ends when the subscription has reached it through the proxy.
    run(&["send", &front, "-t", "pub", "-w", "1", "-m", "b1"], b"").expect(0);
    assert_eq!(subscriber.end().expect(0).out, "b1\n");
    ended(proxy, Signal::TERM);
}

/// Captured copies have the same security as the original messages.
#[test]
fn copies_are_published_with_the_same_security() {
    let folder = Folder::new();
    let server = folder.text("server");
    run(&["keygen", &server], b"").expect(0);
    let (any, secret) = ("tcp://127.0.0.1:*", folder.text("server_secret"));
    let (mut proxy, ..) = proxy(&["--capture", any, "--curve-server", "--cert", &secret]);
    let copies = proxy.said_after("bound to");
    let seen = ["monitor", &copies, "-t", "sub", "--until", "handshake_succeeded", "--timeout", "20000"];
    run(&[&seen[..], &["--curve-server-key", &server]].concat(), b"").expect(0);
    ended(proxy, Signal::TERM);
}

#[test]
fn what_cannot_be_bound_is_told() {
    let (proxy, front, _) = proxy(&[]);
    let done = run(&["proxy", &front, "tcp://127.0.0.1:*"], b"").expect(1);
    assert!(done.err.contains("in use"), "{done:?}");
    run(&["proxy", "nonsense", "tcp://127.0.0.1:*"], b"").expect(2);
    ended(proxy, Signal::INT);
}
