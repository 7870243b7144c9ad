//! How commands end: exit codes, one clear line on standard error, signals, closed pipes.

use std::process::Command;

use crate::common::{Folder, run, start, start_limited};
use rustix::process::Signal;

/// Asserts that the command ends with `code` and prints one error line that contains `words`.
fn fails(code: i32, words: &str, arguments: &[&str], input: &[u8]) {
    let done = run(arguments, input).expect(code);
    assert!(done.err.starts_with("pinnace: ") && done.err.lines().count() == 1, "{done:?}");
    assert!(done.err.contains(words), "{words:?} is not in {done:?}");
}

#[test]
fn wrong_arguments() {
    let somewhere = "tcp://127.0.0.1:9";
    fails(2, "an endpoint is required", &["send", "file"], b"");
    fails(2, "invalid endpoint", &["recv", "tcp://127.0.0.1:99999"], b"");
    fails(2, "unknown transport", &["recv", "carrier://pigeon"], b"");
    fails(2, "unknown socket option wings", &["recv", somewhere, "-o", "wings=2"], b"");
    fails(2, "NAME=VALUE", &["recv", somewhere, "-o", "linger"], b"");
    fails(2, "is read-only", &["recv", somewhere, "-o", "type=1"], b"");
    fails(2, "0 or more", &["recv", somewhere, "-o", "sndhwm=-1"], b"");
    fails(2, "must be a number", &["recv", somewhere, "-o", "sndhwm=many"], b"");
    fails(2, "out of range", &["recv", somewhere, "-o", "sndhwm=99999999999"], b"");
    fails(2, "hexadecimal", &["recv", somewhere, "-o", "routing_id=hex:abc"], b"");
    fails(2, "not an option of REP", &["recv", "-t", "rep", somewhere, "-o", "req_relaxed=1"], b"");
    for endpoint in ["wss://127.0.0.1:*", "tls+tcp://127.0.0.1:*"] {
        fails(2, "no certificate could be read: set -o wss_cert_pem", &["recv", "-b", endpoint], b"");
    }
    let client = ["send", "-t", "client", somewhere, "--frames=tab", "-m", "a\tb", "--linger", "100"];
    fails(1, "CLIENT must have one frame", &client, b"");
    let dgram = ["send", "-t", "dgram", "-b", "udp://127.0.0.1:*", "-m", "a"];
    fails(1, "the first being the address", &dgram, b"");
    fails(2, "only to sub and xsub", &["recv", somewhere, "-s", "a"], b"");
    fails(2, "apply only to rep", &["recv", somewhere, "--echo"], b"");
    fails(2, "--message cannot be used with a file", &["send", somewhere, "-", "-m", "a"], b"");
    for arguments in [&["recv"][..], &["fly"], &["recv", somewhere, "-t", "bird"], &["bench", "thr"]] {
        run(arguments, b"").expect(2);
    }
}

/// Beyond the file size limit: an error, and no SIGXFSZ.
#[test]
fn an_output_that_may_not_grow_is_an_error() {
    let folder = Folder::new();
    let done = start_limited("0", &["keygen"], &format!("> {}", folder.text("keys"))).end().expect(1);
    assert!(done.err.starts_with("pinnace: standard output: File too large"), "{done:?}");
    let done = start_limited("0", &["keygen", &folder.text("pair")], "").end().expect(1);
    assert!(done.err.contains("File too large"), "{done:?}");
}

/// A RADIO would drop messages to such a group.
#[test]
fn a_group_that_is_too_long_is_refused() {
    let group = "g".repeat(256);
    let radio = ["send", "tcp://127.0.0.1:9", "-t", "radio", "--timeout", "100"];
    fails(2, "at most 255 bytes", &[&radio[..], &["-m", "a", "-g", &group]].concat(), b"");
    let line = format!("{{\"frames\":[\"a\"],\"group\":\"{group}\"}}\n");
    fails(1, "at most 255 bytes", &[&radio[..], &["--json"]].concat(), line.as_bytes());
}

#[test]
fn what_json_has_beyond_a_message_is_refused() {
    for (line, words) in [
        ("{\"frames\":[\"a\"],\"frame\":1}\n", "unknown field"),
        ("{\"frames\":[\"a\"],\"frames\":[\"b\"]}\n", "duplicate field"),
        ("{\"frames\":[{\"base64\":\"YQ==\",\"text\":\"b\"}]}\n", "an object with \"base64\""),
    ] {
        fails(1, words, &["send", "tcp://127.0.0.1:9", "--json", "--linger", "100"], line.as_bytes());
    }
}

#[test]
fn secrets_are_not_repeated() {
    let password = "p".repeat(300);
    let somewhere = ["send", "tcp://127.0.0.1:9", "-m", "a", "--plain-username", "me", "--plain-password"];
    let done = run(&[&somewhere[..], &[&password]].concat(), b"").expect(2);
    assert!(!done.err.contains("ppp"), "{done:?}");
    let short = "p".repeat(39);
    for option in [
        format!("CURVE_SECRETKEY={short}"),
        format!("zmq_Curve_SecretKey={short}"),
        format!("ZMQ_PLAIN_PASSWORD={password}"),
        format!("Socks_Password={password}"),
        format!("plain_password=hex:{short}"),
    ] {
        let done = run(&["send", "tcp://127.0.0.1:9", "-m", "a", "-o", &option], b"").expect(2);
        assert!(!done.err.contains("ppp") && done.err.contains("its value"), "{done:?}");
    }
}

#[test]
fn curve_and_plain_are_not_both_asked_for() {
    let folder = Folder::new();
    run(&["keygen", &folder.text("server")], b"").expect(0);
    let (key, secret) = (folder.text("server"), folder.text("server_secret"));
    let plain = ["--timeout", "200", "--plain-username", "me", "--plain-password", "mine"];
    for curve in
        [&["--curve-server-key", &key][..], &["--cert", &secret], &["--cert", &secret, "--curve-server"]]
    {
        let done =
            run(&[&["send", "tcp://127.0.0.1:9", "-m", "a"], &plain[..], curve].concat(), b"").expect(2);
        assert!(done.err.contains("cannot be used with"), "{done:?}");
    }
}

/// A truncated password would admit anyone with only its beginning.
#[test]
fn a_file_with_secrets_is_read_whole_or_not_at_all() {
    let folder = Folder::new();
    let users = "a".repeat((1 << 20) - "\nme:".len()) + "\nme:secret\n";
    let large = folder.write("users", users.as_bytes());
    fails(1, "too large", &["recv", "tcp://127.0.0.1:9", "--plain-users", &large], b"");
    let long = folder.write("password", "p".repeat(1 << 20).as_bytes());
    let send =
        ["send", "tcp://127.0.0.1:9", "-m", "a", "--plain-username", "me", "--plain-password-file", &long];
    fails(1, "too large", &send, b"");
}

#[test]
fn what_the_network_and_the_input_do() {
    let folder = Folder::new();
    let endpoint = folder.ipc("taken");
    let mut first = start(&["recv", "-v", "-b", "tcp://127.0.0.1:*"]);
    let taken = first.said_after("bound to");
    fails(1, "in use", &["recv", "-b", &taken], b"");
    fails(1, "No such file", &["send", &taken, &folder.text("nowhere")], b"");
    fails(1, "longer than 10 bytes", &["send", &taken, "--max", "10"], b"short\nbut this is long\n");
    fails(1, "longer than 10 bytes", &["send", &taken, "--max", "10", "--raw"], b"this is long");
    fails(1, "must be an object with \"frames\"", &["send", &taken, "--json"], b"{}\n");
    fails(1, "expected", &["send", &taken, "--json"], b"nonsense\n");
    fails(
        1,
        "no valid public key",
        &["send", &endpoint, "--curve-server", "--cert", &folder.write("empty", b"")],
        b"",
    );
    first.signal(Signal::TERM);
    assert_eq!(first.end().expect(143).out, "short\n");
}

#[test]
fn time_runs_out() {
    let folder = Folder::new();
    let endpoint = folder.ipc("nobody");
    fails(3, "no message received (no connection)", &["recv", &endpoint, "--timeout", "100"], b"");
    fails(3, "no message received (no peer)", &["recv", "-b", &endpoint, "--timeout", "100"], b"");
    fails(3, "not delivered: 2", &["send", &endpoint, "-m", "a", "-m", "b", "--timeout", "100"], b"");
    fails(3, "not delivered: 1", &["send", &endpoint, "-m", "a", "--linger", "100"], b"");
    fails(3, "no peer accepted message 1", &["send", "-b", &endpoint, "-m", "a", "--timeout", "100"], b"");
    fails(3, "fewer than 1", &["send", &endpoint, "-m", "a", "-w", "1", "--timeout", "100"], b"");
    fails(3, "no reply received", &["send", &endpoint, "-t", "req", "-m", "a", "--timeout", "100"], b"");
}

#[test]
fn a_peer_that_does_not_fit_is_named_as_the_reason() {
    let mut receiver = start(&["recv", "-v", "-b", "tcp://127.0.0.1:*"]);
    let endpoint = receiver.said_after("bound to");
    let arguments = ["send", &endpoint, "-t", "req", "-m", "a", "--timeout", "300"];
    fails(3, "socket type, key, mechanism or protocol does not match", &arguments, b"");
}

#[test]
fn signals_end_whatever_waits() {
    let folder = Folder::new();
    let endpoint = folder.ipc("quiet");
    let waiting = [
        vec!["recv", "-v", "-b", &endpoint],
        vec!["send", "-v", &endpoint, "-"],
        vec!["send", "-v", &endpoint, "-m", "a"],
        vec!["send", "-v", "-b", &endpoint, "-m", "a"],
        vec!["send", "-v", &endpoint, "-m", "a", "-w", "1"],
        vec!["send", "-v", &endpoint, "-m", "a", "-m", "b", "-i", "1000000"],
    ];
    for arguments in waiting {
        for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
            let mut running = start(&arguments);
            running.said();
            running.signal(signal);
            assert_eq!(running.end().expect(code).err.lines().count(), 1, "{arguments:?}");
        }
    }
}

/// As with nohup: ignored signals stay ignored.
#[test]
fn ignored_signals_stay_ignored() {
    let mut command = Command::new("env");
    command.args([
        "--ignore-signal=HUP,INT",
        crate::common::PINNACE,
        "recv",
        "-v",
        "-b",
        "tcp://127.0.0.1:*",
    ]);
    let mut receiver = crate::common::start_command(&mut command);
    let endpoint = receiver.said_after("bound to");
    for signal in [Signal::HUP, Signal::INT] {
        receiver.signal(signal);
        run(&["send", &endpoint, "-m", "still there", "--timeout", "20000"], b"").expect(0);
        assert_eq!(receiver.line(), "still there");
    }
    receiver.signal(Signal::TERM);
    receiver.end().expect(143);
}

#[test]
fn who_stops_reading_ends_the_receiver_quietly() {
    for arguments in
        [&["recv", "-v", "-b", "tcp://127.0.0.1:*"][..], &["monitor", "-v", "-b", "tcp://127.0.0.1:*"]]
    {
        let mut idle = start(arguments);
        idle.said();
        idle.close_out();
        assert_eq!(idle.end().expect(0).err.lines().count(), 1);
    }
    let mut busy = start(&["recv", "-v", "-b", "tcp://127.0.0.1:*"]);
    let endpoint = busy.said_after("bound to");
    let sender = start(&["send", &endpoint, "-m", "a", "-n", "1000000000"]);
    assert_eq!(busy.line(), "a");
    busy.close_out();
    busy.end().expect(0);
    sender.signal(Signal::INT);
    assert_eq!(sender.end().expect(130).err, "");
    assert!(run(&["version"], b"").expect(0).out.starts_with("pinnace "));
}

/// The command with a memory limit in kilobytes.
fn with_memory(kilobytes: u32, arguments: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -v {kilobytes}; exec {} {arguments}", crate::common::PINNACE)]);
    command
}

#[test]
fn what_memory_does_not_hold_is_an_error_and_no_abort() {
    let done = run(&["bench", "thr", "--self", "--size", "99999999999999"], b"").expect(2);
    assert!(done.err.contains("--size"), "{done:?}");
    let done = crate::common::start_command(&mut with_memory(
        500_000,
        "bench lat --self --size 1000000000 --count 1 --timeout 500",
    ));
    assert!(done.end().expect(1).err.contains("cannot allocate 1000000000 bytes"));
    for cut in ["--raw", ""] {
        // Endless zeros contain no line end either.
        let send = format!("send tcp://127.0.0.1:9 {cut} --max 500000000 --timeout 500 /dev/zero");
        let done = crate::common::start_command(&mut with_memory(300_000, &send)).end().expect(1);
        assert!(done.err.contains("too large for the available memory"), "{done:?}");
    }
}

/// If the command has a goal that it did not reach, a closed output is a failure.
#[test]
fn a_closed_output_is_a_failure_where_a_goal_is_left() {
    let bound = ["-v", "-b", "tcp://127.0.0.1:*"];
    for command in
        [&["recv", "-n", "2"][..], &["monitor", "--until", "disconnected"], &["monitor", "-n", "9"]]
    {
        let mut waiting = start(&[command, &bound].concat());
        waiting.said();
        waiting.close_out();
        assert!(waiting.end().expect(1).err.contains("closed before the command was done"));
    }
    let mut answering = start(&[&["recv", "-t", "rep"], &bound[..]].concat());
    let endpoint = answering.said_after("bound to");
    let mut asking = start(&["send", "-t", "req", &endpoint, "-"]);
    asking.close_out();
    asking.write(b"first\n");
    assert!(asking.end().expect(1).err.contains("closed before the command was done"));
}

/// The message distinguishes the side that refused from the side that was refused.
#[test]
fn a_failed_handshake_is_told_by_the_part_that_was_played() {
    let folder = Folder::new();
    for name in ["server", "other"] {
        run(&["keygen", &folder.text(name)], b"").expect(0);
    }
    let users = folder.write("users", b"me:mine\n");
    let (secret, wrong) = (folder.text("server_secret"), folder.text("other"));
    let plain = ["--plain-username", "me", "--plain-password", "other"];
    for (server, client, said) in [
        (&["--plain-users", &users][..], &plain[..], "we refused a peer"),
        (&["--curve-server", "--cert", &secret], &["--curve-server-key", &wrong], "its socket type, key"),
    ] {
        let bound = ["recv", "-v", "-b", "tcp://127.0.0.1:*", "--timeout", "4000"];
        let mut receiver = start(&[&bound[..], server].concat());
        let endpoint = receiver.said_after("bound to");
        run(&[&["send", &endpoint, "-m", "a", "--timeout", "1000"], client].concat(), b"").expect(3);
        let done = receiver.end().expect(3);
        assert!(done.err.contains(said), "{said:?} is not in {done:?}");
    }
}
