//! `monitor`, `bench`, `keygen`, security, and the pages generated from the table of flags.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use crate::common::{Folder, repository, run, start};
use rustix::process::Signal;
use serde_json::Value;

#[test]
fn events_as_they_come() {
    let mut monitor = start(&["monitor", "-v", "-b", "tcp://127.0.0.1:*", "-t", "pull", "--json", "-n", "4"]);
    let endpoint = monitor.said_after("bound to");
    run(&["send", &endpoint, "-m", "a"], b"").expect(0);
    let seen: Vec<Value> =
        monitor.end().expect(0).out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<_> = seen.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["listening", "accepted", "handshake_succeeded", "disconnected"]);
    assert_eq!(seen[0]["local"], endpoint.as_str());
    assert!(seen[1]["remote"].as_str().unwrap().starts_with("tcp://127.0.0.1:"));
}

#[test]
fn a_monitor_tells_a_script_whether_somebody_answers() {
    let mut receiver = start(&["recv", "-v", "-b", "tcp://127.0.0.1:*"]);
    let endpoint = receiver.said_after("bound to");
    let until = |event, socket_type, timeout| {
        run(&["monitor", &endpoint, "-t", socket_type, "--until", event, "--timeout", timeout], b"")
    };
    let seen = until("handshake_succeeded", "push", "20000").expect(0).out;
    assert!(seen.lines().last().unwrap().starts_with("handshake_succeeded "), "{seen}");
    let seen = until("handshake_failed_protocol", "pull", "20000").expect(0).out;
    assert!(seen.lines().last().unwrap().starts_with("handshake_failed_protocol code=0x"), "{seen}");
    until("handshake_succeeded", "pull", "300").expect(3);
    until("sunrise", "pull", "300").expect(2);
    let endless = start(&["monitor", "-v", "-b", "tcp://127.0.0.1:*"]);
    let mut endless = endless;
    endless.said();
    endless.signal(Signal::TERM);
    endless.end().expect(0);
}

/// A connection's end is queued behind all its messages, which exceed the socket's and the kernel's buffers.
#[test]
fn a_monitor_of_a_busy_connection_sees_its_end() {
    let context = pinnace::Context::new().unwrap();
    let publisher = pinnace::Pub::builder(&context).send_high_water_mark(0).build().unwrap();
    let endpoint = publisher.bind("tcp://127.0.0.1:*").unwrap();
    let monitor = start(
        &[
            &["monitor", &endpoint, "-t", "sub", "--until", "disconnected", "--timeout", "20000"][..],
            &["--hwm", "10", "-o", "reconnect_ivl=-1"],
        ]
        .concat(),
    );
    publisher.wait_subscribers("", 1, Duration::from_secs(20)).unwrap();
    for _ in 0..2000 {
        publisher.send(vec![0; 16 << 10]).unwrap();
    }
    drop(publisher);
    let seen = monitor.end().expect(0).out;
    assert!(seen.lines().last().unwrap().starts_with("disconnected "), "{seen}");
    let left = context.terminate_within(Duration::from_secs(20)).unwrap();
    assert_eq!(left.messages, 0);
}

/// Parses the printed figures of a measurement.
fn figures(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn both_ends_in_one_process() {
    let folder = Folder::new();
    for endpoint in ["inproc://here", "tcp://127.0.0.1:*", &folder.ipc("bench")] {
        let arguments = ["bench", "thr", "--self", endpoint, "--count", "2000", "--size", "100", "--json"];
        let found = figures(&run(&arguments, b"").expect(0).out);
        assert!(found["messages_per_second"].as_u64().unwrap() > 0, "{found}");
        assert!(found["processor_seconds"].as_f64().unwrap() > 0.0, "{found}");
        let arguments = ["bench", "lat", "--self", endpoint, "--count", "200", "--json"];
        let found = figures(&run(&arguments, b"").expect(0).out);
        assert!(found["p50_us"].as_f64().unwrap() > 0.0, "{found}");
        assert!(found["p50_us"].as_f64() <= found["p99_us"].as_f64(), "{found}");
    }
    assert!(run(&["bench", "lat", "--self", "--count", "10"], b"").expect(0).out.contains("p99_us: "));
}

#[test]
fn two_processes() {
    for (measure, printed_by_bound) in [("thr", true), ("lat", false)] {
        let numbers = ["--count", "1000", "--size", "10"];
        let mut bound =
            start(&[&["bench", measure, "-v", "--bind", "tcp://127.0.0.1:*"], &numbers[..]].concat());
        let endpoint = bound.said_after("bound to");
        let connected =
            run(&[&["bench", measure, "--connect", &endpoint], &numbers[..]].concat(), b"").expect(0);
        let bound = bound.end().expect(0);
        let (with, without) = if printed_by_bound { (bound, connected) } else { (connected, bound) };
        assert!(with.out.contains("size: 10\ncount: 1000\n"), "{with:?}");
        assert_eq!(without.out, "");
    }
}

#[test]
fn a_measurement_that_does_not_come_about() {
    run(&["bench", "thr", "--self", "nonsense"], b"").expect(2);
    run(&["bench", "thr", "--bind", "tcp://127.0.0.1:*", "--timeout", "100"], b"").expect(3);
    run(&["bench", "lat", "--connect", "tcp://127.0.0.1:9", "--timeout", "100"], b"").expect(3);
    let mut bound = start(&["bench", "thr", "-v", "--bind", "tcp://127.0.0.1:*", "--size", "10"]);
    let endpoint = bound.said_after("bound to");
    run(&["send", &endpoint, "-m", "four"], b"").expect(0);
    assert!(bound.end().expect(1).err.contains("4 bytes"));
}

#[test]
fn keys_are_printed() {
    let text = run(&["keygen"], b"").expect(0).out;
    let keys: Vec<_> = text.lines().map(|line| line.split_once(' ').unwrap()).collect();
    assert_eq!(keys.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["public", "secret"]);
    assert!(keys.iter().all(|(_, key)| key.len() == 40));
    assert_ne!(text, run(&["keygen"], b"").expect(0).out);
}

#[test]
fn certificates_are_written_for_us_alone_and_once() {
    let folder = Folder::new();
    let file = folder.text("cert");
    run(&["keygen", &file, "--meta", "email=a@b.c"], b"").expect(0);
    let mode = |name| std::fs::metadata(folder.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("cert_secret"), 0o600);
    let read = |name| std::fs::read_to_string(folder.path(name)).unwrap();
    let (public, secret) = (read("cert"), read("cert_secret"));
    assert!(public.contains("email = \"a@b.c\"") && !public.contains("secret-key"), "{public}");
    assert!(secret.contains("secret-key = \""), "{secret}");
    run(&["keygen", &file], b"").expect(1);
    assert_eq!((read("cert"), read("cert_secret")), (public.clone(), secret));
    run(&["keygen", &file, "--force"], b"").expect(0);
    assert_ne!(read("cert"), public);
    run(&["keygen", &file, "--force", "--meta", "no value"], b"").expect(2);
    run(&["keygen", &file, "--force", "--meta", "a=1", "--meta", "a=2"], b"").expect(2);
    run(&["keygen", &folder.text("no/folder")], b"").expect(1);
}

#[test]
fn curve_between_two_of_us() {
    let folder = Folder::new();
    let (server, client) = (folder.text("server"), folder.text("client"));
    let (server_secret, client_secret) = (folder.text("server_secret"), folder.text("client_secret"));
    run(&["keygen", &server], b"").expect(0);
    run(&["keygen", &client], b"").expect(0);
    let arguments =
        ["recv", "-v", "-b", "tcp://127.0.0.1:*", "-n", "2", "--curve-server", "--cert", &server_secret];
    let mut receiver = start(&arguments);
    let endpoint = receiver.said_after("bound to");
    let sent =
        |more: &[&str]| run(&[&["send", &endpoint, "--timeout", "300", "-m", "sealed"], more].concat(), b"");
    // Clients without the server's key, or with another key, are rejected.
    sent(&[]).expect(3);
    sent(&["--curve-server-key", &client]).expect(3);
    let long = &["--timeout", "20000"];
    let sent = |more: &[&str]| run(&[&["send", &endpoint, "-m", "sealed"], &long[..], more].concat(), b"");
    sent(&["--curve-server-key", &server]).expect(0);
    sent(&["--curve-server-key", &server, "--cert", &client_secret]).expect(0);
    assert_eq!(receiver.end().expect(0).out, "sealed\nsealed\n");
    run(&["send", &endpoint, "-m", "a", "--curve-server", "--cert", &server], b"").expect(1);
    run(&["send", &endpoint, "-m", "a", "--curve-server-key", "nokey"], b"").expect(1);
    run(&["recv", &endpoint, "--curve-server"], b"").expect(2);
}

#[test]
fn only_who_is_on_the_list_gets_in() {
    let folder = Folder::new();
    for name in ["server", "friend", "stranger"] {
        run(&["keygen", &folder.text(name)], b"").expect(0);
    }
    let (server, secret) = (folder.text("server"), folder.text("server_secret"));
    let friends = folder.text("friends");
    std::fs::create_dir(&friends).unwrap();
    std::fs::copy(folder.path("friend"), folder.path("friends/friend")).unwrap();
    folder.write("friends/notes", b"no certificate");
    for allowed in [folder.text("friend"), friends] {
        let guarded = ["--curve-server", "--cert", &secret, "--allow", &allowed];
        let mut receiver =
            start(&[&["recv", "-v", "-b", "tcp://127.0.0.1:*", "-n", "1"], &guarded[..]].concat());
        if allowed.ends_with("friends") {
            let said = receiver.said();
            assert!(said.contains("friends/notes: accepts no client: "), "{said}");
        }
        let endpoint = receiver.said_after("bound to");
        let sent = |cert: &str, timeout| {
            let own = folder.text(cert);
            let arguments = ["send", &endpoint, "-m", cert, "--cert", &own, "--curve-server-key", &server];
            run(&[&arguments[..], &["--timeout", timeout]].concat(), b"")
        };
        assert!(sent("stranger_secret", "1000").expect(3).err.contains("refused"));
        sent("friend_secret", "20000").expect(0);
        assert_eq!(receiver.end().expect(0).out, "friend_secret\n");
    }
    let guarded = ["recv", "--timeout", "1", "tcp://127.0.0.1:9", "--curve-server", "--cert", &secret];
    run(&[&guarded[..], &["--allow", "none"]].concat(), b"").expect(1);
    let empty = folder.text("empty");
    std::fs::create_dir(&empty).unwrap();
    let done = run(&[&guarded[..], &["--allow", &empty]].concat(), b"").expect(3);
    assert!(done.err.contains("empty: accepts no client: the folder contains no certificate"), "{done:?}");
}

#[test]
fn plain_has_names_and_passwords() {
    let folder = Folder::new();
    let users = folder.write("users", b"# who\nyou:other\nme:open:sesame\n");
    let password = folder.write("password", b"open:sesame\n");
    let mut receiver = start(&["recv", "-v", "-b", "tcp://127.0.0.1:*", "-n", "2", "--plain-users", &users]);
    let endpoint = receiver.said_after("bound to");
    let sent = |name: &str, timeout: &str, password: &[&str]| {
        let arguments = ["send", &endpoint, "-m", name, "--timeout", timeout, "--plain-username", name];
        run(&[&arguments[..], password].concat(), b"")
    };
    assert!(sent("me", "1000", &["--plain-password", "other"]).expect(3).err.contains("refused"));
    sent("me", "20000", &["--plain-password-file", &password]).expect(0);
    sent("you", "20000", &["--plain-password", "other"]).expect(0);
    assert_eq!(receiver.end().expect(0).out, "me\nyou\n");
    sent("me", "100", &[]).expect(2);
    let wrong = folder.write("wrong", b"me\n");
    assert!(
        run(&["recv", "tcp://127.0.0.1:9", "--plain-users", &wrong], b"").expect(1).err.contains("line 1")
    );
}

#[test]
fn the_table_makes_every_page() {
    let folder = Folder::new();
    run(&["man", &folder.text("man")], b"").expect(0);
    let page = |name: &str| std::fs::read_to_string(folder.path("man").join(name)).unwrap();
    let commands = ["send", "recv", "proxy", "forward", "monitor", "bench", "keygen", "deliver", "version"];
    for command in commands {
        assert!(page(&format!("pinnace-{command}.1")).contains(".SH NAME"), "{command}");
        assert!(page("pinnace.1").contains(command));
    }
    for command in
        ["send", "recv", "status", "dead-letters", "peek", "clear", "requeue", "run", "registry", "forget"]
    {
        assert!(page(&format!("pinnace-deliver-{command}.1")).contains(".SH OPTIONS"), "{command}");
    }
    assert!(page("pinnace-recv.1").contains("subscribe") && !page("pinnace.1").contains("completions"));
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&["completions", shell], b"").expect(0).out;
        assert!(commands.iter().all(|command| script.contains(command)), "{shell}");
    }
    assert!(run(&["version"], b"").expect(0).out.contains("libzmq 4.3.5"));
    assert!(run(&["help"], b"").expect(0).out.contains("Exit codes: 0 done"));
}

#[test]
fn the_reference_is_that_of_the_table() {
    let made = run(&["reference"], b"").expect(0).out;
    let kept = std::fs::read_to_string(repository("docs/cli.md")).unwrap();
    for shown in [
        "`--stats[=FORMAT]`",
        "`--frames[=SEPARATOR]`",
        "`--self [ENDPOINT]`",
        "<--bind <ENDPOINT>|--connect",
    ] {
        assert!(made.contains(shown), "{shown}");
    }
    assert!(made == kept, "docs/cli.md is old: pinnace reference > docs/cli.md");
}
