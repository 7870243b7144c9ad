//! The socket types with single-frame messages, between `send` and `recv`: groups, routing ids, datagrams.

use crate::common::{Done, Running, run, start};

/// A bound receiver and its endpoint.
fn receiver(arguments: &[&str]) -> (Running, String) {
    receiver_at("tcp://127.0.0.1:*", arguments)
}

fn receiver_at(endpoint: &str, arguments: &[&str]) -> (Running, String) {
    let mut receiver = start(&[&["recv", "--bind", "-v", endpoint], arguments].concat());
    let endpoint = receiver.said_after("bound to");
    (receiver, endpoint)
}

fn sent(endpoint: &str, arguments: &[&str], input: &[u8]) -> Done {
    run(&[&["send", endpoint, "--timeout", "20000"], arguments].concat(), input).expect(0)
}

#[test]
fn a_dish_prints_the_groups_it_has_joined() {
    let (dish, endpoint) = receiver(&["-t", "dish", "-g", "news", "-g", "weather", "-n", "3", "--json"]);
    let lines = b"{\"frames\":[\"1\"]}\n{\"frames\":[\"no\"],\"group\":\"sports\"}\n{\"frames\":[\"2\"]}\n";
    sent(&endpoint, &["-t", "radio", "-g", "news", "-w", "1", "--json"], lines);
    sent(
        &endpoint,
        &["-t", "radio", "-w", "1", "--json"],
        b"{\"frames\":[\"rain\"],\"group\":\"weather\"}\n",
    );
    let line = |text: &str, group: &str| format!("{{\"frames\":[\"{text}\"],\"group\":\"{group}\"}}\n");
    let wanted = [line("1", "news"), line("2", "news"), line("rain", "weather")].concat();
    assert_eq!(dish.end().expect(0).out, wanted);
}

#[test]
fn groups_over_udp() {
    let (dish, endpoint) = receiver_at("udp://127.0.0.1:*", &["-t", "dish", "-g", "news", "-n", "1"]);
    sent(&endpoint, &["-t", "radio", "-g", "news", "-m", "datagram"], b"");
    assert_eq!(dish.end().expect(0).out, "datagram\n");
}

#[test]
fn clients_are_answered_by_a_server() {
    let (server, endpoint) = receiver(&["-t", "server", "--echo", "-n", "3"]);
    for text in ["first", "second"] {
        let asked = sent(&endpoint, &["-t", "client", "--await-reply", "-m", text], b"");
        assert_eq!(asked.out, format!("{text}\n"));
    }
    sent(&endpoint, &["-t", "client", "-m", "and gone"], b"");
    assert_eq!(server.end().expect(0).out, "first\nsecond\nand gone\n");
    let (server, endpoint) = receiver(&["-t", "server", "--reply", "yes", "-n", "1", "--json"]);
    assert_eq!(sent(&endpoint, &["-t", "client", "--await-reply", "-m", "?"], b"").out, "yes\n");
    let line = server.end().expect(0).out;
    assert!(line.starts_with("{\"frames\":[\"?\"],\"routing_id\":"), "{line}");
}

#[test]
fn a_peer_sends_to_whom_it_connects_to_in_turn() {
    let (first, to_first) = receiver(&["-t", "peer", "--echo", "-n", "2"]);
    let (second, to_second) = receiver(&["-t", "peer", "--echo", "-n", "2"]);
    let asked = sent(&to_first, &[&to_second, "-t", "peer", "--await-reply"], b"1\n2\n3\n4\n");
    assert_eq!(asked.out, "1\n2\n3\n4\n");
    assert_eq!((first.end().expect(0).out, second.end().expect(0).out), ("1\n3\n".into(), "2\n4\n".into()));
    run(&["send", "-b", "tcp://127.0.0.1:*", "-t", "peer", "-m", "a"], b"").expect(2);
}

#[test]
fn scatter_gather_and_channel() {
    let (gather, endpoint) = receiver(&["-t", "gather", "-n", "2"]);
    sent(&endpoint, &["-t", "scatter"], b"one\ntwo\n");
    assert_eq!(gather.end().expect(0).out, "one\ntwo\n");
    let (channel, endpoint) = receiver(&["-t", "channel", "--reply", "over", "-n", "1"]);
    assert_eq!(sent(&endpoint, &["-t", "channel", "--await-reply", "-m", "hello"], b"").out, "over\n");
    assert_eq!(channel.end().expect(0).out, "hello\n");
    let refused = run(&["send", "-b", "tcp://127.0.0.1:*", "-t", "scatter", "--frames", "-m", "a\tb"], b"");
    assert!(refused.expect(1).err.contains("sending"));
}

#[test]
fn datagrams_have_an_address_in_front() {
    let (dgram, endpoint) = receiver_at("udp://127.0.0.1:*", &["-t", "dgram", "--reply", "heard", "-n", "1"]);
    let message = format!("{}\thello", endpoint.trim_start_matches("udp://"));
    let arguments = ["-t", "dgram", "-b", "--frames", "--await-reply", "-m", &message];
    let answer = sent("udp://127.0.0.1:*", &arguments, b"").out;
    let (address, text) = answer.split_once('\t').unwrap();
    assert_eq!((format!("udp://{address}"), text), (endpoint, "heard\n"));
    assert!(dgram.end().expect(0).out.ends_with("\thello\n"));
}

#[test]
fn groups_are_for_whom_they_are_for() {
    let somewhere = "tcp://127.0.0.1:9";
    for (arguments, words) in [
        (&["send", somewhere, "-t", "radio", "-m", "a"][..], "radio requires --group"),
        (&["send", somewhere, "-g", "a", "-m", "a"], "--group applies only to radio"),
        (&["recv", somewhere, "-t", "dish"], "--group applies only to dish, and dish requires it"),
        (&["recv", somewhere, "-g", "a"], "--group applies only to dish"),
        (&["recv", somewhere, "-t", "dish", "-g", "a", "-g", "a"], "--group a"),
        (&["send", somewhere, "--await-reply", "-m", "a"], "--await-reply applies only to"),
        (&["recv", somewhere, "-t", "gather", "--echo"], "--reply and --echo apply only to"),
    ] {
        let done = run(arguments, b"").expect(2);
        assert!(done.err.contains(words), "{words:?} is not in {done:?}");
    }
    let wrong = run(&["send", somewhere, "-t", "radio", "--json"], b"{\"frames\":[\"a\"],\"group\":1}\n");
    assert!(wrong.expect(1).err.contains("must be a string"));
}
