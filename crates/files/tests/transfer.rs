//! Transfers between a server and a client over sockets.

mod common;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use common::Gate;
use pinnace_files::client::{Client, Event, Transfer};
use pinnace_files::error::Code;
use pinnace_files::rules::Rules;
use pinnace_files::server::Server;
use pinnace_files::tree::parts::part_name;

const PATIENCE: Duration = Duration::from_secs(20);
const WINDOW: u64 = 2 << 20;

fn octets(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

fn connect(endpoint: &str) -> Client {
    Client::builder(endpoint).patience(PATIENCE).window_max(WINDOW).connect().unwrap()
}

fn serve(folder: &Path, endpoint: &str) -> (Server, Client) {
    let server = Server::builder().writable_folder("/data", folder).unwrap().bind(endpoint).start().unwrap();
    let client = connect(&server.endpoints()[0]);
    (server, client)
}

#[test]
fn a_file_arrives_whole() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (len, seed) in [(0, 1), (1, 2), (16 << 10, 3), ((16 << 10) + 1, 4), (5_000_001, 5), (9 << 20, 6)] {
        let content = octets(len, seed);
        fs::write(from.path().join("file"), &content).unwrap();
        let (_server, client) = serve(from.path(), "tcp://127.0.0.1:*");
        let report = client.get("/data/file", &to.path().join("copy")).wait().unwrap();
        assert_eq!((report.files, report.bytes, report.failed), (1, len as u64, vec![]));
        assert!(fs::read(to.path().join("copy")).unwrap() == content);
        assert_eq!(fs::read_dir(to.path()).unwrap().count(), 1, "a part is left");
    }
}

#[test]
fn times_may_be_of_any_length() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("a"), "content").unwrap();
    let server = Server::builder().folder("/data", from.path()).unwrap().bind("tcp://127.0.0.1:*");
    let server = server.quiet(Duration::MAX).rescan(Duration::MAX).part_age(Duration::MAX).start().unwrap();
    let client = Client::builder(&server.endpoints()[0]).patience(Duration::MAX).part_age(Duration::MAX);
    let client = client.connect().unwrap();
    let following = client.follow("/data/", to.path(), Rules::default());
    assert!((&following).into_iter().any(|event| matches!(event, Event::Current)));
    // Its writer closes it, so the server does not wait for `quiet`.
    fs::write(from.path().join("b"), "more").unwrap();
    assert!((&following).into_iter().any(|event| matches!(event, Event::Finished { .. })));
}

#[test]
fn a_tree_arrives_with_its_attributes() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir_all(from.path().join("a/b c/d")).unwrap();
    for number in 0..700 {
        fs::write(from.path().join(format!("a/b c/{number}")), octets(number * 3, number as u64)).unwrap();
    }
    fs::write(from.path().join("large"), octets(1_000_000, 7)).unwrap();
    symlink("a/b c/1", from.path().join("link")).unwrap();
    let (_server, client) = serve(from.path(), "tcp://127.0.0.1:*");
    let report = client.get("/data/", &to.path().join("copy")).wait().unwrap();
    assert_eq!((report.files, report.failed), (701, vec![]));
    let differs = std::process::Command::new("diff")
        .args(["-r", "--no-dereference"])
        .args([from.path(), &to.path().join("copy")])
        .status()
        .unwrap();
    assert!(differs.success());
    let modified = |folder: &Path| fs::symlink_metadata(folder.join("a/b c/5")).unwrap().modified().unwrap();
    assert_eq!(modified(from.path()), modified(&to.path().join("copy")));
    // Nothing differs: nothing is sent again.
    let report = client.get("/data/", &to.path().join("copy")).wait().unwrap();
    assert_eq!((report.files, report.bytes), (0, 0));
}

#[test]
fn what_is_not_there_is_told() {
    let from = tempfile::tempdir().unwrap();
    let (_server, client) = serve(from.path(), "tcp://127.0.0.1:*");
    for (path, code) in
        [("/data/none", Code::NotFound), ("/other", Code::NotFound), ("/data/../x", Code::Invalid)]
    {
        let report = client.get(path, &from.path().join("copy")).wait().unwrap();
        let codes: Vec<Code> = report.failed.iter().map(|(_, error)| error.code).collect();
        assert_eq!(codes, [code], "{path}");
    }
}

/// Waits until so many octets have arrived.
fn await_bytes(transfer: &Transfer, least: u64) {
    let mut arrived = 0;
    while arrived < least {
        match transfer.next_event() {
            Some(Event::Progress { bytes }) => arrived += bytes,
            Some(Event::Begun { .. }) => {}
            other => panic!("{other:?} after {arrived} octets"),
        }
    }
}

/// It may be the same transfer, over a connection whose loss the server has not noticed yet.
#[test]
fn a_file_that_another_transfer_writes_is_waited_for() {
    const LARGE: u64 = 3 << 20;
    let from = tempfile::tempdir().unwrap();
    fs::write(from.path().join("small"), "small").unwrap();
    fs::write(from.path().join("large"), octets(LARGE as usize, 8)).unwrap();
    let (server, client) = serve(from.path(), "tcp://127.0.0.1:*");
    // So many octets are sent before the other transfer ends: some are sent again.
    for (name, path, least) in [
        ("large", "/data/large", 2 * LARGE),
        ("small", "/data/", LARGE + 2 * 5),
        ("large", "/data/", 2 * LARGE + 5),
        ("large", "", 2 * LARGE),
    ] {
        let to = tempfile::tempdir().unwrap();
        let part = part_name(name.as_bytes());
        let other = fs::File::create(to.path().join(OsStr::from_bytes(&part))).unwrap();
        other.lock().unwrap();
        let (_receiver, sender) = serve(to.path(), "tcp://127.0.0.1:*");
        let (before, began) = (server.sent_bytes(), Instant::now());
        let transfer = match path {
            "" => sender.put(&from.path().join("large"), "/data/large"),
            _ => client.get(path, to.path()),
        };
        match path {
            "" => await_bytes(&transfer, least),
            _ => {
                while server.sent_bytes() - before < least {
                    assert!(began.elapsed() < PATIENCE, "{name} of {path} is sent once");
                    std::thread::yield_now();
                }
            }
        }
        drop(other);
        let report = transfer.wait().unwrap();
        assert_eq!(report.failed, vec![], "{name} of {path}");
        assert!(fs::read(to.path().join(name)).unwrap() == fs::read(from.path().join(name)).unwrap());
    }
}

#[test]
fn a_transfer_goes_on_where_it_ended() {
    const SIZE: usize = 64 << 20;
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let content = octets(SIZE, 9);
    fs::write(from.path().join("file"), &content).unwrap();
    let (server, _) = serve(from.path(), "tcp://127.0.0.1:*");
    let gate = Gate::new(&server.endpoints()[0]);
    let client = connect(&gate.endpoint);
    for _ in 1..4 {
        gate.allow(12 << 20);
        let transfer = client.get("/data/file", &to.path().join("file"));
        await_bytes(&transfer, 8 << 20);
        transfer.cancel();
        assert!(transfer.wait().is_err());
        assert!(fs::metadata(to.path().join("file")).is_err(), "it is not whole");
    }
    gate.open();
    let report = client.get("/data/file", &to.path().join("file")).wait().unwrap();
    assert_eq!(report.failed, vec![]);
    assert!(fs::read(to.path().join("file")).unwrap() == content);
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 1, "a part is left");
    let twice = server.sent_bytes() - SIZE as u64;
    assert!(twice <= 3 * WINDOW, "{twice} octets were sent twice");
}

#[test]
fn a_transfer_survives_a_restart_of_the_server() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let content = octets(64 << 20, 10);
    fs::write(from.path().join("file"), &content).unwrap();
    let (server, _) = serve(from.path(), "tcp://127.0.0.1:*");
    let endpoint = server.endpoints()[0].clone();
    let gate = Gate::new(&endpoint);
    let client = connect(&gate.endpoint);
    gate.allow(12 << 20);
    let transfer = client.get("/data/file", &to.path().join("file"));
    await_bytes(&transfer, 10 << 20);
    drop(server);
    let server = Server::builder().folder("/data", from.path()).unwrap().bind(&endpoint).start().unwrap();
    gate.open();
    let report = transfer.wait().unwrap();
    assert_eq!((report.files, report.failed), (1, vec![]));
    assert!(fs::read(to.path().join("file")).unwrap() == content);
    assert!((1..=54 << 20).contains(&server.sent_bytes()), "{}", server.sent_bytes());
}

/// To another server, the file is another version: it has another inode, and perhaps another time.
#[test]
fn a_transfer_goes_on_at_another_server() {
    const SIZE: u64 = 20 << 20;
    let (one, other, to) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut content = octets(SIZE as usize, 15);
    fs::write(one.path().join("file"), &content).unwrap();
    // A block that has arrived is another one there.
    content[1_000_000] ^= 1;
    fs::write(other.path().join("file"), &content).unwrap();
    let (first, _) = serve(one.path(), "tcp://127.0.0.1:*");
    let (second, _) = serve(other.path(), "tcp://127.0.0.1:*");
    for is_tree in [false, true] {
        let (to, path) = match is_tree {
            false => (to.path().join("file"), "/data/file"),
            true => (to.path().join("tree"), "/data/"),
        };
        let gate = Gate::new(&first.endpoints()[0]);
        gate.allow(12 << 20);
        let transfer = connect(&gate.endpoint).get(path, &to);
        await_bytes(&transfer, 10 << 20);
        transfer.cancel();
        assert!(transfer.wait().is_err());
        let before = second.sent_bytes();
        let report = connect(&second.endpoints()[0]).get(path, &to).wait().unwrap();
        assert_eq!(report.failed, vec![]);
        assert!(fs::read(if is_tree { to.join("file") } else { to.clone() }).unwrap() == content);
        let (sent, missing) = (second.sent_bytes() - before, SIZE - (10 << 20));
        assert!(sent < missing + (1 << 20), "{sent} octets were sent, {missing} were missing");
    }
}

#[test]
fn a_part_of_another_version_is_not_used() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("file"), octets(32 << 20, 11)).unwrap();
    let (server, _) = serve(from.path(), "tcp://127.0.0.1:*");
    let gate = Gate::new(&server.endpoints()[0]);
    let client = connect(&gate.endpoint);
    gate.allow(8 << 20);
    let transfer = client.get("/data/file", &to.path().join("file"));
    await_bytes(&transfer, 5 << 20);
    transfer.cancel();
    assert!(transfer.wait().is_err());
    gate.open();
    let content = octets(31 << 20, 12);
    fs::write(from.path().join("file"), &content).unwrap();
    let report = client.get("/data/file", &to.path().join("file")).wait().unwrap();
    assert_eq!(report.failed, vec![]);
    assert!(fs::read(to.path().join("file")).unwrap() == content);
}

#[test]
fn a_file_and_a_tree_are_uploaded() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir_all(from.path().join("tree/inner")).unwrap();
    for number in 0..700 {
        fs::write(from.path().join(format!("tree/inner/{number}")), octets(number * 3, number as u64))
            .unwrap();
    }
    fs::write(from.path().join("tree/large"), octets(5_000_000, 20)).unwrap();
    symlink("large", from.path().join("tree/link")).unwrap();
    let (_server, client) = serve(to.path(), "tcp://127.0.0.1:*");
    let report = client.put(&from.path().join("tree/"), "/data/copy").wait().unwrap();
    assert_eq!((report.files, report.failed), (701, vec![]));
    let same = |one: &Path, other: &Path| {
        let done =
            std::process::Command::new("diff").args(["-r", "--no-dereference"]).args([one, other]).status();
        done.unwrap().success()
    };
    assert!(same(&from.path().join("tree"), &to.path().join("copy")));
    let report = client.put(&from.path().join("tree/"), "/data/copy").wait().unwrap();
    assert_eq!((report.files, report.bytes, report.failed), (0, 0, vec![]));
    // A single file: under a name, and into a directory.
    for (path, place) in [("/data/one", "one"), ("/data/copy", "copy/large")] {
        let _ = fs::remove_file(to.path().join(place));
        let report = client.put(&from.path().join("tree/large"), path).wait().unwrap();
        assert_eq!((report.files, report.bytes, report.failed), (1, 5_000_000, vec![]), "{path}");
        assert!(same(&from.path().join("tree/large"), &to.path().join(place)));
    }
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 2, "parts are left");
}

#[test]
fn an_upload_goes_on_where_it_ended() {
    const SIZE: u64 = 64 << 20;
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let content = octets(SIZE as usize, 21);
    fs::write(from.path().join("file"), &content).unwrap();
    let (server, _) = serve(to.path(), "tcp://127.0.0.1:*");
    let gate = Gate::new(&server.endpoints()[0]);
    let client = connect(&gate.endpoint);
    gate.allow(24 << 20);
    let transfer = client.put(&from.path().join("file"), "/data/file");
    await_bytes(&transfer, 20 << 20);
    transfer.cancel();
    assert!(transfer.wait().is_err());
    gate.open();
    assert!(fs::metadata(to.path().join("file")).is_err(), "it is not whole");
    let transfer = client.put(&from.path().join("file"), "/data/file");
    let mut sent = 0;
    while let Some(event) = transfer.next_event() {
        match event {
            Event::Progress { bytes } => sent += bytes,
            Event::Ended(report) => assert_eq!((report.files, report.failed), (1, vec![])),
            Event::Begun { .. } | Event::Finished { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(fs::read(to.path().join("file")).unwrap() == content);
    assert!(sent <= SIZE - (20 << 20) + 16 * WINDOW, "{sent} octets were sent");
}

#[test]
fn uploads_are_refused_where_they_are_not_allowed() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("file"), "content").unwrap();
    let server =
        Server::builder().folder("/data", to.path()).unwrap().bind("tcp://127.0.0.1:*").start().unwrap();
    let client = Client::connect(&server.endpoints()[0]).unwrap();
    let put = |from: &Path, path: &str| client.put(from, path).wait().unwrap().failed[0].1.code;
    assert_eq!(put(&from.path().join("file"), "/data/file"), Code::Denied);
    assert_eq!(put(&from.path().join("file"), "/data/../file"), Code::Invalid);
    let (_server, client) = serve(to.path(), "tcp://127.0.0.1:*");
    let report = client.put(&from.path().join("none"), "/data/file").wait().unwrap();
    assert_eq!(report.failed[0].1.code, Code::NotFound);
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0);
}

#[test]
fn a_file_that_changes_meanwhile_is_fetched_again() {
    let from = tempfile::tempdir().unwrap();
    let source = from.path().join("file");
    // So large that its end is not reached meanwhile; it has no content on the disk.
    fs::File::create(&source).unwrap().set_len(1 << 40).unwrap();
    let (_server, client) = serve(from.path(), "tcp://127.0.0.1:*");
    let transfer = client.discard("/data/file");
    await_bytes(&transfer, 5 << 20);
    // In one step, so that no version between the two is fetched.
    let content = vec![0; 3 << 20];
    fs::File::options().write(true).open(&source).unwrap().set_len(content.len() as u64).unwrap();
    let (mut digests, mut ended) = (Vec::new(), None);
    while let Some(event) = transfer.next_event() {
        match event {
            Event::Finished { digest, .. } => digests.push(digest),
            Event::Ended(report) => ended = Some(report),
            _ => {}
        }
    }
    let report = ended.unwrap();
    assert_eq!((report.files, report.bytes, report.failed), (1, content.len() as u64, vec![]));
    assert_eq!(digests, [*blake3::hash(&content).as_bytes()]);
}

#[test]
fn devices_and_pipes_are_refused() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("file"), "content").unwrap();
    let made = std::process::Command::new("mkfifo").arg(from.path().join("pipe")).status().unwrap();
    assert!(made.success());
    let _socket = std::os::unix::net::UnixListener::bind(from.path().join("socket")).unwrap();
    let (_server, client) = serve(from.path(), "tcp://127.0.0.1:*");
    let report = client.get("/data/", &to.path().join("copy")).wait().unwrap();
    let mut failed: Vec<(String, Code)> =
        report.failed.into_iter().map(|(path, error)| (path, error.code)).collect();
    failed.sort_by(|one, other| one.0.cmp(&other.0));
    let expected = ["/data/pipe", "/data/socket"].map(|path| (path.to_owned(), Code::NotPlain));
    assert_eq!((report.files, failed), (1, expected.to_vec()));
    let report = client.get("/data/pipe", &to.path().join("pipe")).wait().unwrap();
    assert_eq!(report.failed[0].1.code, Code::NotPlain);
}

#[test]
fn any_name_is_kept() {
    use std::os::unix::ffi::OsStrExt;
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let long = [b'n'; 255];
    let names: [&[u8]; 6] = [b"a\nb", b"\xff\xfe", b" ", b"-rf", b"...", &long];
    for name in names {
        fs::write(from.path().join(std::ffi::OsStr::from_bytes(name)), name).unwrap();
    }
    let (_server, client) = serve(from.path(), "tcp://127.0.0.1:*");
    let report = client.get("/data/", to.path()).wait().unwrap();
    assert_eq!((report.files, report.failed), (6, vec![]));
    for name in names {
        assert_eq!(fs::read(to.path().join(std::ffi::OsStr::from_bytes(name))).unwrap(), name);
    }
}

/// Blocks that are the same at the same place are not sent.
#[test]
fn only_what_differs_is_sent() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (source, copy) = (from.path().join("file"), to.path().join("file"));
    let mut content = octets(20 << 20, 9);
    fs::write(&source, &content).unwrap();
    let (server, client) = serve(from.path(), "tcp://127.0.0.1:*");
    for path in ["/data/file", "/data/"] {
        client.get(path, to.path()).wait().unwrap();
        for at in [0, 5_000_000, 9_000_000] {
            content[at] ^= 1;
        }
        content.extend_from_slice(b"appended");
        fs::write(&source, &content).unwrap();
        let sent = server.sent_bytes();
        let report = client.get(path, to.path()).wait().unwrap();
        assert_eq!((report.files, report.failed), (1, vec![]));
        assert!(fs::read(&copy).unwrap() == content);
        // Three blocks, and what follows the last whole one.
        let sent = server.sent_bytes() - sent;
        assert!((3 << 18..(4 << 18) + 100_000).contains(&sent), "{path}: {sent} octets");
        assert_eq!(fs::read_dir(to.path()).unwrap().count(), 1, "a part is left");
    }
    // A shorter file, and one that is not compared.
    content.truncate(10 << 20);
    fs::write(&source, &content).unwrap();
    client.get("/data/file", to.path()).wait().unwrap();
    assert!(fs::read(&copy).unwrap() == content);
    content[7] ^= 1;
    fs::write(&source, &content).unwrap();
    let sent = server.sent_bytes();
    let rules = Rules { whole_files: true, ..Rules::default() };
    client.get_by("/data/file", to.path(), rules).wait().unwrap();
    assert!(server.sent_bytes() - sent >= 10 << 20);
    assert!(fs::read(&copy).unwrap() == content);
    // An upload.
    content[9_000_000] ^= 1;
    fs::write(to.path().join("file"), &content).unwrap();
    let report = client.put(&copy, "/data/").wait().unwrap();
    assert_eq!((report.files, report.failed), (1, vec![]));
    assert!(fs::read(&source).unwrap() == content);
}

/// The copy is cut in the middle of a comparison, and changes.
#[test]
fn a_comparison_that_ended_early_goes_on() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut content = octets(30 << 20, 9);
    fs::write(to.path().join("file"), &content).unwrap();
    (0..content.len()).step_by(1 << 20).for_each(|at| content[at] ^= 1);
    fs::write(from.path().join("file"), &content).unwrap();
    let (server, _client) = serve(from.path(), "tcp://127.0.0.1:*");
    let gate = Gate::new(&server.endpoints()[0]);
    {
        let client = connect(&gate.endpoint);
        gate.allow(3_000_000);
        let transfer = client.get("/data/file", to.path());
        loop {
            match transfer.next_event_within(PATIENCE).unwrap() {
                Event::Progress { .. } => break,
                event => assert!(matches!(event, Event::Begun { .. }), "{event:?}"),
            }
        }
    }
    fs::write(to.path().join("file"), b"replaced meanwhile").unwrap();
    gate.open();
    let sent = server.sent_bytes();
    let report = connect(&gate.endpoint).get("/data/file", to.path()).wait().unwrap();
    assert_eq!((report.files, report.failed), (1, vec![]));
    assert!(fs::read(to.path().join("file")).unwrap() == content);
    assert!(server.sent_bytes() - sent < 10 << 20, "what was compared is kept");
}

#[test]
fn a_rate_is_not_exceeded() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("file"), octets(1_500_000, 9)).unwrap();
    let (server, _client) = serve(from.path(), "tcp://127.0.0.1:*");
    // What passes is the content and a tenth more: it does not go a few octets at a time.
    let gate = Gate::new(&server.endpoints()[0]);
    gate.allow(2 * 1_650_000);
    let client = Client::builder(&gate.endpoint).limit_rate(2_000_000).connect().unwrap();
    for upload in [false, true] {
        let began = Instant::now();
        let transfer = match upload {
            false => client.get("/data/file", &to.path().join("copy")),
            true => client.put(&to.path().join("copy"), "/data/back"),
        };
        let report = loop {
            match transfer.next_event_within(PATIENCE).expect("more passes than is due") {
                Event::Ended(report) => break report,
                event => assert!(!matches!(event, Event::Aborted(_)), "{event:?}"),
            }
        };
        assert_eq!((report.files, report.failed), (1, vec![]));
        // A tenth of a second may go at once, and a chunk may exceed what is available.
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(600), "{took:?}");
    }
    assert!(fs::read(from.path().join("back")).unwrap() == octets(1_500_000, 9));
}
