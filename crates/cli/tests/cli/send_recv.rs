//! `send` and `recv` against each other: formats, patterns, inputs, and what arrives.

use crate::common::{Done, Folder, Running, run, start};

/// A bound receiver and its endpoint.
fn receiver(arguments: &[&str]) -> (Running, String) {
    let mut receiver = start(&[&["recv", "--bind", "-v", "tcp://127.0.0.1:*"], arguments].concat());
    let endpoint = receiver.said_after("bound to");
    (receiver, endpoint)
}

fn sent(endpoint: &str, arguments: &[&str], input: &[u8]) -> Done {
    run(&[&["send", endpoint, "--timeout", "20000"], arguments].concat(), input).expect(0)
}

/// What `recv` prints for `count` messages that `send` makes from `input`.
fn carried(count: &str, receive: &[&str], send: &[&str], input: &[u8]) -> String {
    let (receiver, endpoint) = receiver(&[&["-n", count], receive].concat());
    sent(&endpoint, send, input);
    receiver.end().expect(0).out
}

#[test]
fn lines_arrive_as_they_were() {
    assert_eq!(carried("4", &[], &[], b"one\n\ntwo words\nno end"), "one\n\ntwo words\nno end\n");
}

#[test]
fn messages_of_the_command_line() {
    assert_eq!(carried("2", &[], &["-m", "a", "-m", "b c"], b""), "a\nb c\n");
    assert_eq!(carried("5", &[], &["-m", "a", "-m", "b", "-n", "5"], b""), "a\nb\na\nb\na\n");
}

#[test]
fn frames_are_cut_at_tabs_or_nuls_and_joined_again() {
    assert_eq!(carried("1", &["--json"], &["--frames"], b"a\tb\t\n"), "{\"frames\":[\"a\",\"b\",\"\"]}\n");
    assert_eq!(
        carried("1", &["--json"], &["--frames=nul"], b"a\tb\0c\n"),
        "{\"frames\":[\"a\\tb\",\"c\"]}\n"
    );
    assert_eq!(carried("1", &[], &["--frames"], b"a\tb\n"), "a\tb\n");
    assert_eq!(carried("1", &["--frames", "nul"], &["--frames"], b"a\tb\n"), "a\0b\n");
    assert_eq!(carried("1", &["--hex"], &["--frames"], b"a\t\x01\n"), "61\t01\n");
}

#[test]
fn inputs_as_a_whole_and_ended_by_nul() {
    let folder = Folder::new();
    let (one, two) = (folder.write("one", b"1\n2\n"), folder.write("two", b"3\n"));
    assert_eq!(
        carried("2", &["--json"], &["--raw", &one, &two], b""),
        "{\"frames\":[\"1\\n2\\n\"]}\n{\"frames\":[\"3\\n\"]}\n"
    );
    assert_eq!(carried("4", &[], &[&one, "-", &two], b"in"), "1\n2\nin\n3\n");
    assert_eq!(
        carried("2", &["--json"], &["-0"], b"a\nb\0c"),
        "{\"frames\":[\"a\\nb\"]}\n{\"frames\":[\"c\"]}\n"
    );
    assert_eq!(carried("1", &["--raw"], &["--raw", "-"], b"no line's end"), "no line's end");
}

#[test]
fn json_brings_back_any_bytes() {
    let (receiver, endpoint) = receiver(&["-n", "1", "--json"]);
    sent(&endpoint, &["--raw", "-"], &[0xff, 0, b'\n', b'"']);
    let line = receiver.end().expect(0).out;
    assert_eq!(line, "{\"frames\":[{\"base64\":\"/wAKIg==\"}]}\n");
    assert_eq!(carried("1", &["--hex"], &["--json"], line.as_bytes()), "ff000a22\n");
}

#[test]
fn many_lines_keep_their_order() {
    let input: String = (0..100_000).map(|number| format!("line {number}\n")).collect();
    let (receiver, endpoint) = receiver(&["-n", "100000"]);
    let (given, to) = (input.clone(), endpoint.clone());
    let sender = std::thread::spawn(move || sent(&to, &["-"], given.as_bytes()));
    assert!(receiver.end().expect(0).out == input);
    sender.join().unwrap();
}

#[test]
fn a_sender_waits_for_who_comes_later() {
    let folder = Folder::new();
    let endpoint = folder.ipc("later");
    let mut sender = start(&["send", "-v", &endpoint, "-m", "early"]);
    sender.said_after("connecting to");
    assert_eq!(run(&["recv", "-b", &endpoint, "-n", "1"], b"").expect(0).out, "early\n");
    sender.end().expect(0);
}

#[test]
fn publishers_wait_for_their_subscribers() {
    let mut publisher = start(&["send", "-v", "-b", "tcp://127.0.0.1:*", "-t", "pub", "--wait", "2", "-"]);
    let endpoint = publisher.said_after("bound to");
    let wanted = start(&["recv", &endpoint, "-t", "sub", "-s", "a", "-n", "2"]);
    let all = start(&["recv", &endpoint, "-t", "xsub", "-n", "3"]);
    publisher.write(b"a1\nb1\na2\n");
    publisher.end().expect(0);
    assert_eq!(wanted.end().expect(0).out, "a1\na2\n");
    assert_eq!(all.end().expect(0).out, "a1\nb1\na2\n");
}

#[test]
fn requests_are_answered() {
    let (replier, endpoint) = receiver(&["-t", "rep", "--echo", "-n", "2"]);
    let asked = sent(&endpoint, &["-t", "req", "-m", "a\tb", "-m", "c", "--frames", "--reply-json"], b"");
    assert_eq!(asked.out, "{\"frames\":[\"a\",\"b\"]}\n{\"frames\":[\"c\"]}\n");
    assert_eq!(replier.end().expect(0).out, "a\tb\nc\n");
    let (replier, endpoint) = receiver(&["-t", "rep", "--reply", "yes", "-n", "1"]);
    assert_eq!(sent(&endpoint, &["-t", "req", "-m", "?"], b"").out, "yes\n");
    replier.end().expect(0);
}

#[test]
fn a_router_prints_who_sent_it() {
    let (router, endpoint) = receiver(&["-t", "router", "-n", "1"]);
    sent(&endpoint, &["-t", "dealer", "-o", "routing_id=me", "-m", "hello"], b"");
    assert_eq!(router.end().expect(0).out, "me\thello\n");
}

#[test]
fn a_sign_in_front_binds_and_connects() {
    let folder = Folder::new();
    let (bound, connected) = (folder.ipc("bound"), folder.ipc("connected"));
    let receiver = start(&["recv", &format!("@{bound}"), &connected, "-n", "2"]);
    sent(&format!(">{bound}"), &["-m", "same"], b"");
    run(&["send", "-b", &connected, "-m", "same", "--timeout", "20000"], b"").expect(0);
    assert_eq!(receiver.end().expect(0).out, "same\nsame\n");
}

#[test]
fn statistics_are_one_line_of_json_or_prometheus_text() {
    for format in ["--stats", "--stats=json"] {
        let (receiver, endpoint) = receiver(&["-n", "2", format]);
        sent(&endpoint, &["-m", "a", "-m", "b"], b"");
        let said = receiver.end().expect(0).err;
        let stats: serde_json::Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
        assert_eq!(stats["received"]["messages"], 2);
    }
    let (receiver, endpoint) = receiver(&["-n", "2"]);
    let said = sent(&endpoint, &["-m", "a", "-m", "b", "--stats=prometheus"], b"").err;
    let line = "pinnace_messages_total{socket=\"send\",type=\"PUSH\",direction=\"out\"} 2";
    assert!(said.lines().any(|said| said == line), "{said}");
    receiver.end().expect(0);
    run(&["send", &endpoint, "--stats=text"], b"").expect(2);
}

#[test]
fn what_is_printed_is_out_before_the_next_message() {
    let (mut receiver, endpoint) = receiver(&[]);
    let mut sender = start(&["send", &endpoint]);
    for text in ["one", "two"] {
        sender.write(format!("{text}\n").as_bytes());
        assert_eq!(receiver.line(), text);
    }
    sender.end().expect(0);
}
