//! `deliver run`: an agent sends what is pending in stores whose process is gone, and gives a store back to its owner.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::common::clients::{Clients, fails};
use crate::common::{Folder, Running, run, start};

const DEADLINE: Duration = Duration::from_secs(30);

fn agent(clients: &Clients, more: &[&str]) -> Running {
    start(&[&["deliver", "run", "--dir", &clients.folder.text("")], more].concat())
}

/// Ends an agent in order; returns what it has printed on standard error.
fn end(agent: Running) -> String {
    agent.signal(Signal::TERM);
    agent.end().expect(0).err
}

/// The process that has the shop's store open, and the number of its pending messages. No store yet: none, and 0.
fn status(clients: &Clients) -> (Option<u64>, u64) {
    let shown = run(&["deliver", "status", "--json", "--data-dir", &clients.folder.text("shop")], b"");
    if shown.err.contains("no store found") {
        return (None, 0);
    }
    let shown: Value = serde_json::from_str(&shown.expect(0).out).unwrap();
    let store = &shown["stores"][0];
    let pending = store["clients"][0]["pending"].as_array().into_iter().flatten();
    (store["process"].as_u64(), pending.map(|one| one["messages"].as_u64().unwrap()).sum())
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
    }
}

fn lines(numbers: std::ops::Range<u32>) -> String {
    numbers.map(|number| format!("{number}\n")).collect()
}

fn process(running: &Running) -> Option<u64> {
    Some(u64::try_from(running.id().as_raw_nonzero().get()).unwrap())
}

/// The receiver gets the remaining numbers, each once and in order, and nothing else; then nothing is pending.
fn ends_exactly(clients: &Clients, mut receiver: Running, agent: Running, rest: std::ops::Range<u32>) {
    for number in rest {
        assert_eq!(receiver.line(), number.to_string());
    }
    until("nothing is pending", || status(clients) == (None, 0));
    receiver.signal(Signal::TERM);
    assert_eq!(receiver.end().expect(128 + 15).out, "");
    assert_eq!(end(agent), "");
}

#[test]
fn a_sender_may_exit_before_there_is_a_receiver() {
    let clients = Clients::new();
    let agent = agent(&clients, &[]);
    clients.run("send", "shop", &["orders"], lines(0..1000).as_bytes()).expect(0);
    clients.run("send", "shop", &["orders", "last"], b"").expect(0);
    let receiver = clients.start("recv", "billing", &["orders", "-n", "1001", "--timeout", "30000"]);
    assert_eq!(receiver.end().expect(0).out, lines(0..1000) + "last\n");
    until("it is closed", || status(&clients) == (None, 0));
    // Next time too, without a start of the agent.
    clients.run("send", "shop", &["orders", "again"], b"").expect(0);
    let receiver = clients.start("recv", "billing", &["orders", "-n", "1", "--timeout", "30000"]);
    assert_eq!(receiver.end().expect(0).out, "again\n");
    assert_eq!(end(agent), "");
    assert!(!clients.folder.path(".agent").exists());
}

/// A sender for each message takes little room for each, and none once the agent has drained the store.
#[test]
fn senders_that_exit_leave_small_files() {
    let clients = Clients::new();
    for number in 0..40 {
        clients.run("send", "shop", &["orders", &number.to_string()], b"").expect(0);
    }
    let files =
        || std::fs::read_dir(clients.folder.path("shop")).unwrap().map(|entry| entry.unwrap().metadata());
    let bytes: u64 = files().map(|file| file.unwrap().len()).sum();
    assert!(bytes <= 50 << 20, "{bytes}");
    let agent = agent(&clients, &[]);
    let receiver = clients.start("recv", "billing", &["orders", "-n", "40", "--timeout", "30000"]);
    assert_eq!(receiver.end().expect(0).out, lines(0..40));
    until("it is closed", || status(&clients) == (None, 0));
    assert!(files().count() <= 6, "{}", files().count());
    assert_eq!(end(agent), "");
}

#[test]
fn an_owner_takes_its_store_back_while_the_agent_sends() {
    let clients = Clients::new();
    let count = 20_000;
    clients.run("send", "shop", &["orders"], lines(0..count).as_bytes()).expect(0);
    let agent = agent(&clients, &[]);
    let mut receiver = clients.start("recv", "billing", &["orders"]);
    let mut expected = 0;
    for taken in 0..5 {
        // The receiver waits for its output to be read, so the agent is not done.
        for _ in 0..500 {
            assert_eq!(receiver.line(), expected.to_string());
            expected += 1;
        }
        until("the agent has the store", || status(&clients).0 == process(&agent));
        let began = Instant::now();
        clients.run("send", "shop", &["orders", &format!("{}", count + taken)], b"").expect(0);
        let time = began.elapsed();
        assert!(time < Duration::from_secs(1), "{time:?}");
    }
    ends_exactly(&clients, receiver, agent, expected..count + 5);
}

#[test]
fn an_agent_that_is_killed_loses_and_doubles_nothing() {
    let clients = Clients::new();
    let count = 20_000;
    clients.run("send", "shop", &["orders"], lines(0..count).as_bytes()).expect(0);
    let mut receiver = clients.start("recv", "billing", &["orders"]);
    let (mut expected, mut sent) = (0, count);
    for round in 0..20 {
        let agent = agent(&clients, &[]);
        for _ in 0..200 {
            assert_eq!(receiver.line(), expected.to_string());
            expected += 1;
        }
        // In each other round an owner asks for its store meanwhile.
        let number = sent.to_string();
        let owner = (round % 2 == 1).then(|| clients.start("send", "shop", &["orders", &number]));
        agent.signal(Signal::KILL);
        agent.end().expect(128 + 9);
        if let Some(owner) = owner {
            owner.end().expect(0);
            sent += 1;
        }
    }
    let agent = agent(&clients, &[]);
    ends_exactly(&clients, receiver, agent, expected..sent);
}

#[test]
fn a_store_whose_owner_lives_is_left_alone() {
    let clients = Clients::new();
    let mut owner = clients.start("send", "shop", &["orders"]);
    owner.write(lines(0..100).as_bytes());
    until("all is accepted", || status(&clients) == (process(&owner), 100));
    // It lives, and does nothing.
    owner.signal(Signal::STOP);
    let agent = agent(&clients, &[]);
    clients.run("recv", "billing", &["orders", "--timeout", "1000"], b"").expect(3);
    let another = run(
        &[
            "deliver",
            "send",
            "--name",
            "other",
            "--data-dir",
            &clients.folder.text("other"),
            "--registry",
            &clients.registry(),
            "orders",
            "of another",
        ],
        b"",
    );
    another.expect(0);
    let receiver = clients.start("recv", "billing", &["orders", "-n", "101", "--timeout", "30000"]);
    // The agent works, on the other store.
    until("the other store is drained", || {
        !run(&["deliver", "peek", "other", "--data-dir", &clients.folder.text("other")], b"")
            .out
            .contains("of another")
    });
    assert_eq!(status(&clients), (process(&owner), 100));
    fails(
        clients.run("send", "shop", &["orders", "x"], b""),
        1,
        &format!("process {}", process(&owner).unwrap()),
    );
    owner.signal(Signal::KILL);
    owner.end().expect(128 + 9);
    assert_eq!(receiver.end().expect(0).out, format!("of another\n{}", lines(0..100)));
    assert_eq!(end(agent), "");
}

/// What the client listens on stays, and nothing is received for it; the registry does not show the agent.
#[test]
fn the_client_s_subscriptions_stay() {
    let clients = Clients::new();
    let mut shop = clients.start("recv", "shop", &["replies"]);
    clients.run("send", "billing", &["replies", "heard", "--wait"], b"").expect(0);
    assert_eq!(shop.line(), "heard");
    shop.signal(Signal::KILL);
    shop.end().expect(128 + 9);
    // A message of the shop, which does not end its subscription.
    let clients_of = || -> Value {
        let shown = run(&["deliver", "registry", &clients.registry(), "--json"], b"").expect(0).out;
        serde_json::from_str(&shown).unwrap()
    };
    let mut sender = clients.start("send", "shop", &["orders", "--topic", "replies"]);
    sender.write(b"from the shop\n");
    until("it is accepted", || status(&clients).1 == 1);
    sender.signal(Signal::KILL);
    sender.end().expect(128 + 9);
    clients.run("send", "billing", &["replies", "--all", "while it is away"], b"").expect(0);
    let agent = agent(&clients, &[]);
    let mut receiver = clients.start("recv", "clerk", &["orders"]);
    assert_eq!(receiver.line(), "from the shop");
    let seen = clients_of();
    let names: Vec<&str> =
        seen["clients"].as_array().unwrap().iter().map(|client| client["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["clerk"], "{seen}");
    until("it is drained", || status(&clients) == (None, 0));
    let away = clients_of()["away"].clone();
    let shop = away.as_array().unwrap().iter().find(|client| client["name"] == "shop");
    assert!(shop.is_some_and(|shop| shop["topics"].to_string().contains("replies")), "{away}");
    // The message to the shop waited for it, and the agent sends it.
    let shop = clients.start("recv", "shop", &["replies", "-n", "1", "--timeout", "30000"]);
    assert_eq!(shop.end().expect(0).out, "while it is away\n");
    assert_eq!(end(agent), "");
}

#[test]
fn problems_are_reported_and_the_other_stores_are_drained() {
    let clients = Clients::new();
    clients.run("send", "ill", &["orders", &"x".repeat(50_000)], b"").expect(0);
    clients.run("send", "shop", &["orders", "well"], b"").expect(0);
    for entry in std::fs::read_dir(clients.folder.path("ill")).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        if bytes.len() > 30_000 {
            bytes[30_000] ^= 1;
            std::fs::write(path, bytes).unwrap();
        }
    }
    let mut agent = agent(&clients, &[]);
    let said = agent.said();
    assert!(said.contains("/ill: the store is damaged"), "{said}");
    let second = run(&["deliver", "run", "--dir", &clients.folder.text("")], b"");
    fails(second, 1, &format!("process {} drains the stores in it", process(&agent).unwrap()));
    fails(
        run(&["deliver", "run", "--dir", &clients.folder.text("shop")], b""),
        1,
        "not a directory of stores",
    );
    let receiver = clients.start("recv", "billing", &["orders", "-n", "1", "--timeout", "30000"]);
    assert_eq!(receiver.end().expect(0).out, "well\n");
    assert_eq!(end(agent).lines().count(), 1, "it is reported once");
    fails(run(&["deliver", "run", "--registry", "dir:///x"], b""), 2, "only that of a Redis server");
    run(&["deliver", "run", "--most-open", "0"], b"").expect(2);
    fails(run(&["deliver", "run", "--cert", "/nowhere"], b""), 1, "/nowhere");
}

/// Secret keys are not in the store: the agent is given them, or says which it needs.
#[test]
fn keys_are_given_to_the_agent() {
    let (clients, keys) = (Clients::new(), Folder::new());
    for name in ["billing", "shop"] {
        run(&["keygen", &keys.text(name)], b"").expect(0);
    }
    let (cert, secret) = (keys.text("shop_secret"), keys.text("billing_secret"));
    let trust = |name: &str| format!("{name}={}", keys.text(name));
    let own = ["orders", "sealed", "--cert", &cert, "--trust", &trust("billing")];
    clients.run("send", "shop", &own, b"").expect(0);
    let receive = ["orders", "-n", "1", "--timeout", "30000", "--cert", &secret, "--trust", &trust("shop")];
    let receiver = clients.start("recv", "billing", &receive);
    let mut without = agent(&clients, &[]);
    let said = without.said();
    assert!(said.contains("/shop: the secret key of shop is not known"), "{said}");
    end(without);
    assert_eq!(status(&clients).1, 1);
    let agent = agent(&clients, &["--cert", &cert]);
    assert_eq!(receiver.end().expect(0).out, "sealed\n");
    until("it is drained", || status(&clients) == (None, 0));
    assert_eq!(end(agent), "");
    // No file of the store has the secret key.
    let text = std::fs::read_to_string(&cert).unwrap();
    let key =
        text.lines().find_map(|line| line.trim().strip_prefix("secret-key = ")).unwrap().trim_matches('"');
    let raw = pinnace_key(key);
    for entry in std::fs::read_dir(clients.folder.path("shop")).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(
            !bytes.windows(32).any(|window| window == raw) && !bytes.windows(40).any(|w| w == key.as_bytes())
        );
    }
}

/// A password of a registry is not in the store: the agent is given it, or says which registry needs one.
#[test]
fn passwords_are_given_to_the_agent() {
    let clients = Clients::new();
    let url = "redis://:hidden@127.0.0.1:9/2";
    let store = clients.folder.text("shop");
    let send =
        ["deliver", "send", "--name", "shop", "--data-dir", &store, "--registry", url, "orders", "kept"];
    run(&send, b"").expect(0);
    for entry in std::fs::read_dir(&store).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(6).any(|window| window == b"hidden"));
    }
    let mut without = agent(&clients, &[]);
    assert!(
        without.said().ends_with("/shop: the password of its registry redis://127.0.0.1:9/2 is not known")
    );
    end(without);
    let file = clients.folder.write("addresses", format!("{url}\n").as_bytes());
    let with = agent(&clients, &["--registry-file", &file]);
    // It takes the store for ready, and waits for the registry.
    clients.run("send", "other", &["orders", "one"], b"").expect(0);
    let receiver = clients.start("recv", "billing", &["orders", "-n", "1", "--timeout", "30000"]);
    assert_eq!(receiver.end().expect(0).out, "one\n");
    assert_eq!(end(with), "");
    assert_eq!(status(&clients), (None, 1));
}

/// What connects to the agent's socket and sends nonsense, or nothing, changes nothing.
#[test]
fn nonsense_from_owners() {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    let clients = Clients::new();
    let agent = agent(&clients, &[]);
    let socket = clients.folder.path(".agent");
    until("it listens", || UnixStream::connect(&socket).is_ok());
    let silent = UnixStream::connect(&socket).unwrap();
    for nonsense in [&b"\0"[..], b"..\0", b"../shop\0", &[b'x'; 300], b"a\0b\0"] {
        let mut connection = UnixStream::connect(&socket).unwrap();
        connection.write_all(nonsense).unwrap();
        let mut answer = Vec::new();
        let _ = connection.read_to_end(&mut answer);
        assert!(answer.is_empty(), "{answer:?}");
    }
    let mut unknown = UnixStream::connect(&socket).unwrap();
    unknown.write_all(b"none").unwrap();
    unknown.write_all(b"\0").unwrap();
    let mut answer = [0];
    unknown.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"n");
    clients.run("send", "shop", &["orders", "one"], b"").expect(0);
    // While an owner's connection lasts, its store is not opened.
    let mut owner = UnixStream::connect(&socket).unwrap();
    owner.write_all(b"shop\0").unwrap();
    owner.read_exact(&mut answer).unwrap();
    clients.run("recv", "billing", &["orders", "--timeout", "500"], b"").expect(3);
    drop(owner);
    let receiver = clients.start("recv", "billing", &["orders", "-n", "1", "--timeout", "30000"]);
    assert_eq!(receiver.end().expect(0).out, "one\n");
    drop(silent);
    assert_eq!(end(agent), "");
}

/// A key from its Z85 text (RFC 32).
fn pinnace_key(text: &str) -> Vec<u8> {
    const DIGITS: &str =
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
    let digit = |character: &u8| DIGITS.find(char::from(*character)).unwrap() as u32;
    let group =
        |group: &[u8]| group.iter().fold(0_u32, |sum, character| sum.wrapping_mul(85) + digit(character));
    text.as_bytes().chunks(5).flat_map(|five| group(five).to_be_bytes()).collect()
}

/// A store whose receiver answers nothing does not keep the others from their turn.
#[test]
fn stores_take_turns() {
    let clients = Clients::new();
    let stuck = clients.start("recv", "stuck", &["refunds"]);
    until("it is registered", || {
        run(&["deliver", "registry", &clients.registry()], b"").out.contains("stuck")
    });
    stuck.signal(Signal::STOP);
    clients.run("send", "shop", &["refunds", "one"], b"").expect(0);
    let agent = agent(&clients, &["--most-open", "1"]);
    until("it is open", || status(&clients).0 == process(&agent));
    let receiver = clients.start("recv", "billing", &["orders", "-n", "1", "--timeout", "30000"]);
    clients.run("send", "other", &["orders", "two"], b"").expect(0);
    assert_eq!(receiver.end().expect(0).out, "two\n");
    stuck.signal(Signal::KILL);
    stuck.end();
    end(agent);
    assert_eq!(status(&clients), (None, 1));
}
