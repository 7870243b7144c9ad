//! Messages that `send` cannot deliver and `recv` does not read: every loss is reported, and no wait exceeds the
//! given time.

use std::time::Duration;

use crate::common::{Running, run, start};
use pinnace::{Context, Dealer, Pull, Push, Sub};

const LONG: Duration = Duration::from_secs(20);
/// Size of a large message in bytes; a few hundred exceed what the kernel buffers for a connection.
const LARGE: usize = 64 << 10;

fn sender(arguments: &[&str]) -> (Running, String) {
    let mut sender = start(&[&["send", "-v", "-b", "tcp://127.0.0.1:*"], arguments].concat());
    let endpoint = sender.said_after("bound to");
    (sender, endpoint)
}

#[test]
fn a_bad_line_does_not_make_the_wait_endless() {
    let lines = b"{\"frames\":[\"fine\"]}\nbad\n";
    let done = run(&["send", "--json", "--linger", "100", "tcp://127.0.0.1:9"], lines).expect(1);
    assert!(done.err.contains("expected value") && done.err.contains("not delivered: 1"), "{done:?}");
}

#[test]
fn what_was_accepted_and_is_given_up_is_counted() {
    let lines = "line\n".repeat(1500);
    let done =
        run(&["send", "--timeout", "100", "--hwm", "1000", "tcp://127.0.0.1:9"], lines.as_bytes()).expect(3);
    assert!(done.err.contains("not delivered: 1000"), "{done:?}");
    assert!(done.err.contains("no peer accepted message 1001"), "{done:?}");
}

#[test]
fn what_comes_in_beside_the_messages_asked_for_is_counted() {
    let context = Context::new().unwrap();
    let push = Push::builder(&context).send_high_water_mark(1).build().unwrap();
    let endpoint = push.bind("tcp://127.0.0.1:*").unwrap();
    let receiver = start(&["recv", "-n", "1", &endpoint]);
    // The first message exceeds a pipe's capacity, so `recv` blocks until we read. All together exceed the kernel's
    // and the sender's buffers.
    let text = "x".repeat(4 * LARGE);
    (0..200).for_each(|_| push.send_timeout(text.as_str(), LONG).unwrap());
    let done = receiver.end().expect(0);
    assert_eq!(done.out, text + "\n");
    assert!(done.err.contains("messages lost: "), "{done:?}");
}

#[test]
fn a_router_waits_for_whom_it_names() {
    let context = Context::new().unwrap();
    let dealer = Dealer::builder(&context).routing_id("worker").build().unwrap();
    let endpoint = dealer.bind("tcp://127.0.0.1:*").unwrap();
    let to = |name: &str, more: &[&str]| {
        let message = format!("{name}\thello");
        run(&[&["send", &endpoint, "-t", "router", "--frames", "-m", &message], more].concat(), b"")
    };
    to("worker", &[]).expect(0);
    assert_eq!(dealer.recv_timeout(LONG).unwrap(), "hello");
    let done = to("nobody", &["--timeout", "200"]).expect(3);
    assert!(done.err.contains("no peer with this routing id"), "{done:?}");
    // With router_mandatory off, messages are dropped, and the loss is reported.
    let done = to("nobody", &["-o", "router_mandatory=0"]).expect(1);
    assert!(done.err.contains("messages lost: 1 (unroutable)"), "{done:?}");
    let done = run(&["send", &endpoint, "-t", "router", "-m", "worker"], b"").expect(1);
    assert!(done.err.contains("messages lost: 1 (malformed)"), "{done:?}");
}

#[test]
fn what_a_lost_peer_did_not_get_is_no_success() {
    const COUNT: usize = 1000;
    let (near, far) = (Context::new().unwrap(), Context::new().unwrap());
    let text = "x".repeat(LARGE);
    let count = COUNT.to_string();
    let (sender, endpoint) = sender(&["--hwm", "0", "-w", "2", "-m", &text, "-n", &count]);
    let lost = Pull::builder(&far).receive_high_water_mark(1).connect(&endpoint).unwrap();
    let other = Pull::builder(&near).connect(&endpoint).unwrap();
    // The peers take turns: after this one's last message, all are in the sender's socket, or gone.
    (0..COUNT / 2).for_each(|_| assert_eq!(other.recv_timeout(LONG).unwrap(), text));
    lost.recv_timeout(LONG).unwrap();
    drop(lost);
    far.terminate_within(LONG).unwrap();
    let done = sender.end().expect(1);
    assert!(done.err.contains("messages lost: ") && done.err.contains("peer_lost"), "{done:?}");
}

#[test]
fn what_a_publisher_drops_is_said_and_no_failure() {
    let context = Context::new().unwrap();
    let (mut sender, endpoint) = sender(&["-t", "pub", "--hwm", "1", "-w", "1", "-"]);
    let slow = Sub::builder(&context).receive_high_water_mark(1).subscribe("").connect(&endpoint).unwrap();
    let line = "x".repeat(LARGE) + "\n";
    (0..1000).for_each(|_| sender.write(line.as_bytes()));
    slow.recv_timeout(LONG).unwrap();
    drop(slow);
    context.terminate_within(LONG).unwrap();
    let done = sender.end().expect(0);
    assert!(done.err.contains("messages dropped") && done.err.contains("(full)"), "{done:?}");
}
