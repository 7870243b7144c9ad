//! `deliver send`, `recv` and `registry`: accepted messages arrive, even if processes are killed or closed
//! meanwhile.

use crate::common::clients::{Clients, fails};
use crate::common::{Folder, Running, run, start, start_limited};
use rustix::process::{Signal, kill_process};
use serde_json::Value;

#[test]
fn lines_arrive_and_are_waited_for() {
    let clients = Clients::new();
    let receiver = clients.start("recv", "billing", &["orders", "-n", "4"]);
    assert_eq!(clients.sent(&[], b"one\n\ntwo words\nno end").out, "");
    assert_eq!(receiver.end().expect(0).out, "one\n\ntwo words\nno end\n");
}

#[test]
fn what_nobody_receives_yet_is_kept_for_the_first_who_does() {
    let clients = Clients::new();
    clients.run("send", "shop", &["orders", "first", "second"], b"").expect(0);
    let receiver = clients.start("recv", "billing", &["orders", "-n", "3", "--timeout", "30000"]);
    clients.sent(&["third"], b"");
    assert_eq!(receiver.end().expect(0).out, "first\nsecond\nthird\n");
}

#[test]
fn bodies_of_any_bytes_and_sizes() {
    let clients = Clients::new();
    let mut receiver = clients.start("recv", "billing", &["orders", "refunds", "--json"]);
    let mut received = || -> Value { serde_json::from_str(&receiver.line()).unwrap() };
    clients.sent(&["--raw"], b"");
    assert_eq!(received()["body"], "");
    clients.sent(&["--raw", "-"], &[0xff, 0, b'\n']);
    assert_eq!(received()["body"]["base64"], "/wAK");
    clients.sent(&["-0"], b"a\nb\0");
    let message = received();
    assert_eq!(
        (&message["body"], &message["from"], &message["topic"]),
        (&"a\nb".into(), &"shop".into(), &"orders".into())
    );
    assert!(message["accepted_ms"].as_u64() > Some(1_700_000_000_000) && message["deliveries"] == 1);
    assert!(message.get("dead").is_none());
    let huge: Vec<u8> =
        (0..20 << 20).map(|at: u32| b'a' + (at.wrapping_mul(2_654_435_761) >> 28) as u8).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| clients.sent(&["--raw"], &huge));
        assert!(received()["body"].as_str().unwrap().as_bytes() == huge);
    });
    clients.run("send", "shop", &["refunds", "on another topic", "--wait"], b"").expect(0);
    assert_eq!(received()["topic"], "refunds");
}

#[test]
fn a_message_to_several_topics_is_one_on_each() {
    let clients = Clients::new();
    let several = ["orders", "--also", "audit", "--also", "orders.eu", "--id", "7", "one", "--wait"];
    let pages = [
        clients.start("recv", "billing", &["orders", "-n", "1"]),
        clients.start("recv", "auditor", &["audit", "orders.eu", "--json", "-n", "2"]),
    ];
    clients.run("send", "shop", &several, b"").expect(0);
    // A retry is not stored again, on any of them.
    clients.run("send", "shop", &several, b"").expect(0);
    let [billing, auditor] = pages.map(|receiver| receiver.end().expect(0).out);
    assert_eq!(billing, "one\n");
    let topic_of = |line: &str| serde_json::from_str::<Value>(line).unwrap()["topic"].to_string();
    let mut topics: Vec<String> = auditor.lines().map(topic_of).collect();
    topics.sort();
    assert_eq!(topics, ["\"audit\"", "\"orders.eu\""]);
    // One that nobody takes keeps it waiting.
    let late =
        clients.run("send", "shop", &["orders", "--also", "audit", "two", "--timeout", "100", "--wait"], b"");
    assert!(late.expect(3).err.contains("messages not handled: 2"));
}

/// If the store's files would exceed the file size limit: an error, and no SIGXFSZ. With enough room the message is
/// accepted.
#[test]
fn a_store_that_may_not_grow_is_an_error() {
    for (blocks, codes) in [("0", 1..=1), ("64", 1..=3), ("2048", 0..=3), ("1000000", 0..=0)] {
        let clients = Clients::new();
        let arguments = clients.arguments("send", "shop", &["orders", "hello", "--timeout", "1000"]);
        let done = start_limited(blocks, &arguments, "").end();
        assert!(codes.contains(&done.code), "{blocks} blocks: {done:?}");
    }
}

/// The started command must have the default signal actions, not ours.
#[test]
fn a_command_ignores_no_signal_that_we_handle() {
    let clients = Clients::new();
    let receiver =
        clients.start("recv", "billing", &["orders", "-n", "1", "--exec", "grep SigIgn /proc/self/status"]);
    clients.sent(&["one"], b"");
    let ignored = receiver.end().expect(0).out;
    let ignored = u64::from_str_radix(ignored.trim_start_matches("SigIgn:").trim(), 16).unwrap();
    assert_eq!(ignored >> (rustix::process::Signal::XFSZ.as_raw() - 1) & 1, 0, "{ignored:x}");
}

#[test]
fn all_or_one_in_turn() {
    let clients = Clients::new();
    let receivers = ["one", "two"].map(|name| clients.start("recv", name, &["orders", "-n", "2"]));
    let both =
        || run(&["deliver", "registry", &clients.registry(), "--json"], b"").out.matches("orders").count();
    while both() < 2 {}
    clients.sent(&["--all", "to both"], b"");
    clients.sent(&["to one", "to the other"], b"");
    let [one, two] = receivers.map(|receiver| receiver.end().expect(0).out);
    let second = ["to one", "to the other"].map(|body| format!("to both\n{body}\n"));
    assert!(one != two && second.contains(&one) && second.contains(&two), "{one} {two}");
}

#[test]
fn memory_is_waited_for_and_lost_in_words() {
    let clients = Clients::new();
    let receiver = clients.start("recv", "billing", &["orders", "-n", "1"]);
    let memory = ["orders", "fleeting", "--durability", "memory", "--timeout"];
    clients.run("send", "shop", &[&memory[..], &["30000"]].concat(), b"").expect(0);
    assert_eq!(receiver.end().expect(0).out, "fleeting\n");
    let done = clients.run("send", "shop", &[&memory[..], &["300"]].concat(), b"").expect(3);
    assert!(done.err.contains("; those in memory are lost"), "{done:?}");
    let done = clients.run("send", "shop", &["orders", "stays", "--wait", "--timeout", "300"], b"").expect(3);
    assert!(done.err.contains("; they stay in the store"), "{done:?}");
}

/// The numbers of all further lines that a receiver prints until the sender has ended.
fn numbers_until_the_end(receiver: Running, sender: Running) -> Vec<u32> {
    let process = receiver.id();
    let reader = std::thread::spawn(move || receiver.end().expect(128 + 15).out);
    sender.end().expect(0);
    kill_process(process, Signal::TERM).unwrap();
    reader.join().unwrap().lines().map(|line| line.parse().unwrap()).collect()
}

/// Lines printed before the kill but not acknowledged are printed again; none is missing.
#[test]
fn a_receiver_that_is_killed_in_the_middle() {
    let clients = Clients::new();
    let input: String = (0..20_000).map(|number| format!("{number}\n")).collect();
    clients.run("send", "shop", &["orders"], input.as_bytes()).expect(0);
    let sender = clients.start("send", "shop", &["orders", "--wait"]);
    let mut seen: Vec<u32> = Vec::new();
    for _ in 0..3 {
        let mut receiver = clients.start("recv", "billing", &["orders"]);
        seen.extend((0..2_000).map(|_| receiver.line().parse::<u32>().unwrap()));
        receiver.signal(Signal::KILL);
        // Read the lines written before the kill too, except an incomplete last line.
        let rest = receiver.end().expect(128 + 9).out;
        let whole = rest.rsplit_once('\n').map_or("", |(whole, _)| whole);
        seen.extend(whole.lines().map(|line| line.parse::<u32>().unwrap()));
    }
    seen.extend(numbers_until_the_end(clients.start("recv", "billing", &["orders"]), sender));
    seen.sort_unstable();
    seen.dedup();
    assert!(seen.iter().copied().eq(0..20_000), "{} of 20000", seen.len());
}

#[test]
fn a_closed_output_loses_and_acknowledges_nothing() {
    let clients = Clients::new();
    let input: String = (0..50_000).map(|number| format!("{number}\n")).collect();
    clients.run("send", "shop", &["orders"], input.as_bytes()).expect(0);
    let sender = clients.start("send", "shop", &["orders", "--wait"]);
    let mut receiver = clients.start("recv", "billing", &["orders"]);
    (0..10).for_each(|number| assert_eq!(receiver.line(), number.to_string()));
    receiver.close_out();
    receiver.end().expect(0);
    let numbers = numbers_until_the_end(clients.start("recv", "billing", &["orders"]), sender);
    // Lines in the pipe and its reader were printed. Nothing beyond them is acknowledged, so all the rest comes
    // again.
    assert!(numbers[0] < 40_000, "{}", numbers[0]);
    assert!(numbers.iter().copied().eq(numbers[0]..50_000));
}

#[test]
fn a_receiver_whose_output_is_closed_ends() {
    let clients = Clients::new();
    for (goal, code) in [(&["orders"][..], 0), (&["orders", "-n", "9"], 1)] {
        let mut receiver = clients.start("recv", "billing", goal);
        clients.sent(&["one"], b"");
        assert_eq!(receiver.line(), "one");
        receiver.close_out();
        receiver.end().expect(code);
    }
}

#[test]
fn what_is_given_up_is_a_failure_and_a_dead_letter() {
    let clients = Clients::new();
    let receiver = clients.start("recv", "billing", &["orders", "--exec", "false", "--max-deliveries", "2"]);
    let done =
        clients.run("send", "shop", &["orders", "poison", "--wait", "--timeout", "30000"], b"").expect(1);
    assert!(done.err.contains("given up by their receivers: 1"), "{done:?}");
    receiver.signal(Signal::INT);
    receiver.end().expect(128 + 2);
    let receiver = clients.start("recv", "clerk", &["orders.dead", "--json", "-n", "1"]);
    let sender = clients.start("send", "shop", &["orders.dead", "--wait"]);
    let letter: Value = serde_json::from_str(receiver.end().expect(0).out.trim()).unwrap();
    assert_eq!((&letter["body"], &letter["dead"]["reason"]), (&"poison".into(), &"deliveries".into()));
    assert_eq!(letter["dead"]["receiver"], "billing");
    sender.end().expect(0);
}

#[test]
fn who_is_there() {
    let clients = Clients::new();
    let registry = |more: &[&str]| run(&[&["deliver", "registry", &clients.registry()], more].concat(), b"");
    assert!(registry(&[]).expect(1).err.contains("no registry found"));
    let mut receiver =
        clients.start("recv", "billing", &["orders", "refunds", "--listen", "tcp://127.0.0.1:*"]);
    clients.sent(&["one"], b"");
    receiver.line();
    let mut watch = start(&["deliver", "registry", &clients.registry(), "--json", "--watch"]);
    let seen: Value = serde_json::from_str(&watch.line()).unwrap();
    let client = &seen["clients"][0];
    assert_eq!(
        (&client["name"], &client["topics"]),
        (&"billing".into(), &serde_json::json!(["orders", "refunds"]))
    );
    assert!(client["address"].as_str().unwrap().starts_with("tcp://127.0.0.1:"));
    let text = registry(&[]).expect(0).out;
    assert!(text.starts_with("NAME     ADDRESS") && text.contains("\nbilling  tcp://127.0.0.1:"), "{text}");
    receiver.signal(Signal::KILL);
    receiver.end().expect(128 + 9);
    let seen: Value = serde_json::from_str(&watch.line()).unwrap();
    assert_eq!((&seen["clients"], &seen["away"][0]["name"]), (&serde_json::json!([]), &"billing".into()));
    assert!(registry(&[]).expect(0).out.contains("\nbilling  away     orders refunds\n"));
    watch.signal(Signal::INT);
    watch.end().expect(0);
    assert_eq!(registry(&["--clear", "orders"]).expect(0).out, "1\n");
    assert_eq!(registry(&["--clear", "orders"]).expect(0).out, "0\n");
}

#[test]
fn wrong_arguments_and_places() {
    let clients = Clients::new();
    let long = "n".repeat(256);
    fails(clients.run("send", &long[..], &["orders", "a"], b""), 2, "1 to 255 bytes");
    fails(clients.run("send", "shop", &[&long, "a"], b""), 2, "at most 255");
    fails(
        clients.run("send", "shop", &["orders", "--max", "3"], b"long\n"),
        1,
        "longer than 3 bytes (--max)",
    );
    fails(clients.run("recv", "shop", &["orders", "--listen", "nonsense"], b""), 1, "nonsense");
    fails(clients.run("recv", "shop", &["orders", "--timeout", "100"], b""), 3, "no message received");
    assert!(
        clients
            .run("send", "shop", &["orders", "--ttl", "0", "a"], b"")
            .expect(2)
            .err
            .contains("at least 1 ms")
    );
    fails(clients.run("recv", "shop", &["orders", "--advertise", "nonsense"], b""), 1, "nonsense");
    for registry in ["carrier://pigeon", "sqlite://", "", "sqlite:/x"] {
        let send = ["deliver", "send", "--name", "a", "--data-dir", &clients.folder.text("a"), "orders", "b"];
        fails(run(&[&send[..], &["--registry", registry]].concat(), b""), 2, "invalid registry address");
        fails(run(&["deliver", "registry", registry], b""), 2, "invalid registry address");
    }
    let nobody = ["deliver", "registry", "redis://:hidden@127.0.0.1:9/"];
    let done = run(&nobody, b"").expect(1);
    assert!(done.err.contains("registry") && !done.err.contains("hidden"), "{done:?}");
    for arguments in [
        &["orders"][..],
        &["--name", "a"],
        &["--name", "a", "orders", "--ttl", "soon"],
        &["--name", "a", "orders", "--durability", "eternal"],
        &["--name", "a", "orders", "--raw", "-0"],
    ] {
        run(&[&["deliver", "send"], arguments].concat(), b"").expect(2);
    }
    run(&["deliver", "recv", "--name", "a", "orders", "--exec", "true", "--json"], b"").expect(2);
    run(&["deliver", "recv", "--name", "a", "orders", "-n", "0"], b"").expect(2);
    run(&["deliver", "registry", "--clear", "a", "--watch"], b"").expect(2);
    run(&["deliver"], b"").expect(2);
}

#[test]
fn a_store_and_a_name_are_one_client_s() {
    let clients = Clients::new();
    let mut receiver = clients.start("recv", "billing", &["orders"]);
    clients.sent(&["one"], b"");
    receiver.line();
    fails(clients.run("recv", "billing", &["orders"], b""), 1, "has the store open");
    let elsewhere =
        ["--data-dir", &clients.folder.text("elsewhere"), "orders", "--registry", &clients.registry()];
    let done = run(&[&["deliver", "recv", "--name", "billing"], &elsewhere[..]].concat(), b"");
    fails(done, 1, "billing: another client uses this name");
    receiver.signal(Signal::TERM);
    receiver.end().expect(128 + 15);
}

/// A receiver that was ended in order is subscribed still, until it is forgotten; with --transient it is not.
#[test]
fn subscriptions_last() {
    let clients = Clients::new();
    let registry = |more: &[&str]| run(&[&["deliver", "registry", &clients.registry()], more].concat(), b"");
    let forget = |name: &str| run(&["deliver", "forget", name, "--registry", &clients.registry()], b"");
    assert!(forget("billing").expect(1).err.contains("no registry found"));
    for (name, more) in [("billing", &["orders"][..]), ("audit", &["orders", "--transient"])] {
        let mut receiver = clients.start("recv", name, more);
        clients.sent(&["hello"], b"");
        assert_eq!(receiver.line(), "hello");
        assert!(forget(name).expect(1).err.contains("the client lives"));
        receiver.signal(Signal::TERM);
        receiver.end().expect(128 + 15);
    }
    let text = registry(&[]).expect(0).out;
    assert!(text.contains("\nbilling  away     orders\n") && !text.contains("audit"), "{text}");
    clients.run("send", "shop", &["orders", "--all", "one"], b"").expect(0);
    let receiver = clients.start("recv", "billing", &["orders", "-n", "2"]);
    clients.sent(&["--all", "two"], b"");
    assert_eq!(receiver.end().expect(0).out, "one\ntwo\n");
    forget("billing").expect(0);
    assert!(!registry(&[]).expect(0).out.contains("billing"));
}

/// A sender that runs does not wait for a worker that was killed and forgotten.
#[test]
fn what_a_forgotten_worker_had_goes_to_another() {
    let clients = Clients::new();
    let gate = clients.folder.text("gate");
    assert!(std::process::Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let command = format!("echo begun; read go <'{gate}'");
    let mut gone = clients.start("recv", "gone", &["orders", "--exec", &command]);
    // Less than `reassign_after`.
    let sender = clients.start("send", "shop", &["orders", "one", "--wait", "--timeout", "20000"]);
    assert_eq!(gone.line(), "begun");
    let here = clients.start("recv", "here", &["orders", "-n", "1"]);
    clients.until_registered("here");
    gone.signal(Signal::KILL);
    // It lives until the system has released its name.
    while run(&["deliver", "forget", "gone", "--registry", &clients.registry()], b"").code != 0 {}
    assert_eq!(here.end().expect(0).out, "one\n");
    sender.end().expect(0);
    // The killed worker's command goes on.
    std::fs::write(&gate, "go\n").unwrap();
    gone.end();
}

/// Without --registry and --data-dir, the user's defaults are used.
#[test]
fn the_user_s_own_places() {
    let folder = Folder::new();
    let state = format!("XDG_STATE_HOME={}", folder.text("state"));
    let command = |arguments: &[&str]| {
        let mut command = std::process::Command::new("env");
        crate::common::start_command(
            command.args([&state, crate::common::PINNACE, "deliver"]).args(arguments),
        )
    };
    let receiver = command(&["recv", "--name", "a/b", "orders", "-n", "1"]);
    command(&["send", "--name", "shop", "orders", "one", "--wait"]).end().expect(0);
    assert_eq!(receiver.end().expect(0).out, "one\n");
    assert!(folder.path("state/pinnace/delivery/a%2fb").is_dir());
    let away = "NAME  ADDRESS  TOPICS\na/b   away     orders\nshop  away     shop\n";
    assert_eq!(command(&["registry"]).end().expect(0).out, away);
}

/// Configured peers without a registry: with certificates, clients talk only to peers with trusted keys.
#[test]
fn given_peers_with_certificates() {
    let folder = Folder::new();
    for name in ["billing", "shop", "stranger"] {
        run(&["keygen", &folder.text(name)], b"").expect(0);
    }
    let here = format!("ipc://{}", folder.text("here"));
    let own = |command: &str, name: &str, more: &[&str]| -> Vec<String> {
        let (store, cert) = (folder.text(&format!("{name}'s")), folder.text(&format!("{name}_secret")));
        let own =
            ["deliver", command, "--name", name, "--registry", "none", "--data-dir", &store, "--cert", &cert];
        own.iter().chain(more).map(|word| (*word).to_owned()).collect()
    };
    let (peer, trust) = (format!("billing={here},orders"), format!("billing={}", folder.text("billing")));
    let trusted = format!("shop={}", folder.text("shop"));
    let receive = ["orders", "--listen", &here, "--trust", &trusted, "-n", "1"];
    let receiver = start(&own("recv", "billing", &receive));
    let send = |name: &str, more: &[&str]| {
        run(
            &own(
                "send",
                name,
                &[&["--peer", &peer, "--trust", &trust, "--wait", "orders", name], more].concat(),
            ),
            b"",
        )
    };
    fails(send("stranger", &["--timeout", "1500"]), 3, "timed out");
    send("shop", &["--timeout", "30000"]).expect(0);
    assert_eq!(receiver.end().expect(0).out, "shop\n");

    let elsewhere = start(&own("recv", "shop", &["orders", "--listen", &here, "--trust", &trust]));
    for (peer, code, words) in [
        ("keyless=tcp://127.0.0.1:9", 3, "keyless is not trusted here: "),
        ("nonsense=nonsense", 1, "cannot connect to nonsense: "),
    ] {
        let done = send("stranger", &["--timeout", "1500", "--peer", &format!("{peer},orders")]).expect(code);
        assert!(done.err.contains(words), "{done:?}");
    }
    elsewhere.signal(Signal::TERM);
    elsewhere.end().expect(128 + 15);
    let untrusting =
        ["deliver", "send", "--name", "a", "--cert", &folder.text("shop_secret"), "orders", "one"];
    assert!(run(&untrusting, b"").expect(2).err.contains("--trust"));

    let wrong = |more: &[&str], words: &str| {
        let done = run(&own("send", "shop", &[more, &["orders", "one"]].concat()), b"");
        assert!(done.expect(2).err.contains(words), "{words:?}");
    };
    wrong(&["--peer", "billing"], "must begin with NAME=");
    wrong(&["--trust", "billing"], "must begin with NAME=");
    let done = run(&own("send", "shop", &["--trust", "billing=/nowhere", "orders", "one"]), b"");
    fails(done, 1, "/nowhere");
    let alone = ["deliver", "send", "--name", "a", "--trust", &trust, "orders", "one"];
    assert!(run(&alone, b"").expect(2).err.contains("--cert"));
}
