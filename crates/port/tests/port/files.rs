//! File transfer through the pipes.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::client::{Client, PATIENCE, bytes};

const START_SERVER: u16 = 70;
const STOP_SERVER: u16 = 71;
const SENT: u16 = 72;
const CONNECT: u16 = 73;
const CLOSE_CLIENT: u16 = 74;
const GET: u16 = 75;
const PUT: u16 = 76;
const FOLLOW: u16 = 77;
const LIST: u16 = 78;
const DISCARD: u16 = 79;
const CANCEL: u16 = 80;

const LISTED: u8 = 1;
const PROGRESS: u8 = 3;
const FINISHED: u8 = 4;
const CURRENT: u8 = 8;
const FAILED: u8 = 9;

const ENOENT: u32 = 2;
const EACCES: u32 = 13;
const EEXIST: u32 = 17;
const EINVAL: u32 = 22;
const EBADMSG: u32 = 74;
const EHOSTUNREACH: u32 = 113;
const ECANCELED: u32 = 125;

/// The channels of a server, a client and a transfer.
const SERVER: u32 = 1;
const FETCHER: u32 = 2;
const TRANSFER: u32 = 3;

/// The first frame of an event, its path, and its other name or text.
type Event = (Vec<u8>, Vec<u8>, Vec<u8>);

fn all() -> u32 {
    u32::MAX
}

fn numbers(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

fn option(key: &str, value: &[u8]) -> Vec<u8> {
    [bytes(key.as_bytes()), bytes(value)].concat()
}

fn path(path: &Path) -> Vec<u8> {
    bytes(path.as_os_str().as_bytes())
}

/// A server of a folder as `/data`, to which clients may upload.
fn serve(client: &mut Client, folder: &Path, options: &[u8]) -> Result<String, u32> {
    let folder = option("folder", &[bytes(b"/data"), path(folder), vec![1]].concat());
    let bind = option("bind", b"tcp://127.0.0.1:*");
    let arguments = [&numbers(&[SERVER])[..], &folder, &bind, options].concat();
    client
        .request(START_SERVER, &arguments)
        .map(|endpoints| String::from_utf8(endpoints[4..].to_vec()).unwrap())
}

fn connect(client: &mut Client, endpoint: &str, options: &[u8]) -> Result<Vec<u8>, u32> {
    let arguments = [&numbers(&[FETCHER])[..], &bytes(endpoint.as_bytes()), options].concat();
    client.request(CONNECT, &arguments)
}

/// A program with a server and a client of it.
fn pair(folder: &Path) -> Client {
    let mut client = Client::start();
    let endpoint = serve(&mut client, folder, &[]).expect("it listens");
    connect(&mut client, &endpoint, &[]).expect("it connects");
    client
}

/// The channels of a transfer, and the events that it tells, without credit.
fn told(wanted: u32) -> Vec<u8> {
    numbers(&[FETCHER, TRANSFER, wanted, 0, 0])
}

fn get_arguments(from: &str, to: &Path, wanted: u32, rules: &[u8]) -> Vec<u8> {
    [&told(wanted)[..], &bytes(from.as_bytes()), &path(to), rules].concat()
}

fn list_arguments(from: &str, wanted: u32) -> Vec<u8> {
    [&told(wanted)[..], &bytes(from.as_bytes())].concat()
}

fn u64_of(octets: &[u8]) -> u64 {
    u64::from_be_bytes(octets[..8].try_into().unwrap())
}

/// The counts of a report: files, octets, failures.
fn counts(report: &[u8]) -> (u64, u64, u64) {
    (u64_of(report), u64_of(&report[8..]), u64_of(&report[16..]))
}

/// The octets of an event's first frame that are a number.
fn octets_of(event: &Event) -> u64 {
    u64_of(&event.0[11..])
}

/// The events of the next packet.
fn events(client: &mut Client) -> Vec<Event> {
    let octets = client.delivered(TRANSFER);
    assert!(octets.len() < 60 * 1024, "{}", octets.len());
    let (mut left, mut frames) = (&octets[..], Vec::new());
    while !left.is_empty() {
        let length = u32::from_be_bytes(left[..4].try_into().unwrap()) & 0x7fff_ffff;
        let (frame, rest) = left[4..].split_at(length as usize);
        frames.push(frame.to_vec());
        left = rest;
    }
    frames.chunks(3).map(|frames| (frames[0].clone(), frames[1].clone(), frames[2].clone())).collect()
}

/// Waits for progress of at least so many octets.
fn has_progressed(client: &mut Client, octets: u64) {
    let mut told = 0;
    while told < octets {
        told += events(client).iter().map(octets_of).sum::<u64>();
    }
}

fn large() -> Vec<u8> {
    (0..6 << 20_u32).map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

#[test]
fn a_file_and_a_folder_go_both_ways() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir(from.path().join("sub")).unwrap();
    fs::write(from.path().join("a"), "content").unwrap();
    fs::write(from.path().join("sub/b"), large()).unwrap();
    let mut client = pair(from.path());
    let id = client.ask(GET, &get_arguments("/data/a", &to.path().join("copy"), all(), &[]));
    client.grant(TRANSFER, 100, 100_000);
    let finished = loop {
        if let Some(event) = events(&mut client).into_iter().find(|event| event.0[0] == FINISHED) {
            break event;
        }
    };
    let (about, name, _) = &finished;
    assert_eq!((&about[..3], &name[..], about.len()), (&[FINISHED, 0, 0][..], &b"/data/a"[..], 27 + 32));
    assert_eq!(octets_of(&finished), 7);
    assert_eq!(client.answer(id).map(|report| counts(&report)), Ok((1, 7, 0)));
    assert_eq!(fs::read(to.path().join("copy")).unwrap(), b"content");
    // A folder, without what a rule excludes; back again by another name; and all of it discarded.
    let report =
        client.request(GET, &get_arguments("/data/", &to.path().join("all"), 0, &option("exclude", b"a")));
    assert_eq!(report.map(|report| counts(&report)), Ok((1, 6 << 20, 0)));
    assert!(!to.path().join("all/a").exists());
    let put = [told(0), path(&to.path().join("all/sub")), bytes(b"/data/back/")].concat();
    assert_eq!(client.request(PUT, &put).map(|report| counts(&report)), Ok((1, 6 << 20, 0)));
    assert!(fs::read(from.path().join("back/sub/b")).unwrap() == large());
    let discarded = client.request(DISCARD, &list_arguments("/data", 0));
    assert_eq!(discarded.map(|report| counts(&report)), Ok((3, 7 + (12 << 20), 0)));
    let sent = client.request(SENT, &numbers(&[SERVER])).expect("a number");
    assert!(u64_of(&sent) >= 18 << 20, "{}", u64_of(&sent));
    client.request(CLOSE_CLIENT, &numbers(&[FETCHER])).expect("it is closed");
    client.request(STOP_SERVER, &numbers(&[SERVER])).expect("it is stopped");
    assert!(client.end().success());
}

/// Nothing is told without credit, nor that the listing is over.
#[test]
fn events_take_credit() {
    let from = tempfile::tempdir().unwrap();
    for number in 0..3000 {
        fs::write(from.path().join(format!("{number}-{}", "n".repeat(100))), "").unwrap();
    }
    let mut client = pair(from.path());
    let id = client.ask(LIST, &list_arguments("/data/", all()));
    client.nothing_of(132);
    client.nothing_of(130);
    client.request(CANCEL, &numbers(&[TRANSFER])).expect("it is cancelled");
    // The listing may have been complete.
    assert!(client.answer(id).err().is_none_or(|errno| errno == ECANCELED));
    client.nothing_of(132);
    // A request may grant credit too.
    let granted = numbers(&[FETCHER, TRANSFER, all(), 1, 1_000_000]);
    let id = client.ask(LIST, &[granted, bytes(b"/data/")].concat());
    let first = events(&mut client);
    assert_eq!(first.len(), 1);
    client.nothing_of(132);
    client.grant(TRANSFER, 10_000, 10_000_000);
    let mut names: BTreeSet<Vec<u8>> = first.into_iter().map(|event| event.1).collect();
    while names.len() < 3000 {
        for (about, name, _) in events(&mut client) {
            assert_eq!(about[0], LISTED);
            assert!(names.insert(name), "a name is listed once");
        }
    }
    assert_eq!(client.answer(id).map(|report| counts(&report).0), Ok(3000));
    // A client that wants no events needs no credit.
    assert!(client.request(LIST, &list_arguments("/data/", 0)).is_ok());
}

#[test]
fn what_fails_is_told() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut client = pair(from.path());
    let id = client.ask(GET, &get_arguments("/data/none", to.path(), 1 << FAILED, &[]));
    client.grant(TRANSFER, 10, 10_000);
    let told = events(&mut client);
    let [(about, name, text)] = &told[..] else { panic!("one event") };
    assert_eq!((about[0], &name[..]), (FAILED, &b"/data/none"[..]));
    assert_eq!(about[3..7], ENOENT.to_be_bytes());
    let report = client.answer(id).expect("a report");
    assert_eq!(counts(&report), (0, 0, 1));
    let failure = [&[0][..], &ENOENT.to_be_bytes(), &bytes(name), &bytes(text)].concat();
    assert_eq!(report[24..], failure);
}

/// A transfer that is cancelled keeps what has arrived, and the next one goes on.
#[test]
fn a_transfer_is_cancelled_in_the_middle() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("a"), large()).unwrap();
    let mut client = Client::start();
    let endpoint = serve(&mut client, from.path(), &[]).expect("it listens");
    connect(&mut client, &endpoint, &option("limit_rate", b"3000000")).expect("it connects");
    let id = client.ask(GET, &get_arguments("/data/a", &to.path().join("a"), 1 << PROGRESS, &[]));
    client.grant(TRANSFER, 10_000, 10_000_000);
    has_progressed(&mut client, 1 << 20);
    client.request(CANCEL, &numbers(&[TRANSFER])).expect("it is cancelled");
    assert_eq!(client.answer(id), Err(ECANCELED));
    assert_eq!(client.request(CANCEL, &numbers(&[TRANSFER])), Err(ENOENT));
    assert!(!to.path().join("a").exists());
    goes_on(&mut client, &endpoint, to.path());
}

/// A second client fetches the rest of the large file.
fn goes_on(client: &mut Client, endpoint: &str, to: &Path) {
    let _ = client.request(CLOSE_CLIENT, &numbers(&[FETCHER]));
    connect(client, endpoint, &[]).expect("it connects");
    let id = client.ask(GET, &get_arguments("/data/a", &to.join("a"), 1 << PROGRESS, &[]));
    client.grant(TRANSFER, 10_000, 10_000_000);
    let report = client.answer(id).expect("a report");
    assert_eq!(counts(&report), (1, 6 << 20, 0));
    let mut octets = 0;
    while client.has(132) {
        octets += events(client).iter().map(octets_of).sum::<u64>();
    }
    assert!(octets < 6 << 20, "only what was missing was written: {octets}");
    assert!(fs::read(to.join("a")).unwrap() == large());
}

#[test]
fn a_killed_program_leaves_what_has_arrived() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("a"), large()).unwrap();
    let mut server = Client::start();
    let endpoint = serve(&mut server, from.path(), &[]).expect("it listens");
    let mut client = Client::start();
    connect(&mut client, &endpoint, &option("limit_rate", b"3000000")).expect("it connects");
    client.ask(GET, &get_arguments("/data/a", &to.path().join("a"), 1 << PROGRESS, &[]));
    client.grant(TRANSFER, 10_000, 10_000_000);
    has_progressed(&mut client, 1 << 20);
    client.process.kill().unwrap();
    drop(client);
    assert!(!to.path().join("a").exists(), "a file is whole or absent");
    goes_on(&mut Client::start(), &endpoint, to.path());
}

/// The program ends in time, also with a transfer under way and a server that does not answer.
#[test]
fn transfers_end_with_the_input() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("a"), large()).unwrap();
    let mut client = Client::start();
    let endpoint = serve(&mut client, from.path(), &[]).expect("it listens");
    connect(&mut client, &endpoint, &option("limit_rate", b"100000")).expect("it connects");
    client.ask(GET, &get_arguments("/data/a", &to.path().join("a"), 1 << PROGRESS, &[]));
    client.grant(TRANSFER, 10_000, 10_000_000);
    has_progressed(&mut client, 1);
    let begin = Instant::now();
    assert!(client.end().success());
    assert!(begin.elapsed() < PATIENCE / 2);
    assert!(!to.path().join("a").exists());
}

#[test]
fn a_followed_folder_stays_the_same() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("a"), "first").unwrap();
    let mut client = Client::start();
    let endpoint = serve(&mut client, from.path(), &option("quiet_ms", b"10")).expect("it listens");
    connect(&mut client, &endpoint, &[]).expect("it connects");
    let wanted = 1 << CURRENT | 1 << FINISHED;
    let id = client.ask(FOLLOW, &get_arguments("/data/", to.path(), wanted, &[]));
    client.grant(TRANSFER, 1000, 1_000_000);
    let mut told = Vec::new();
    while !told.contains(&(CURRENT, vec![])) {
        told.extend(events(&mut client).into_iter().map(|event| (event.0[0], event.1)));
    }
    assert_eq!(told[0], (FINISHED, b"/data/a".to_vec()));
    fs::write(from.path().join("b"), "second").unwrap();
    while !told.contains(&(FINISHED, b"/data/b".to_vec())) {
        told.extend(events(&mut client).into_iter().map(|event| (event.0[0], event.1)));
    }
    assert_eq!(fs::read(to.path().join("b")).unwrap(), b"second");
    client.request(CANCEL, &numbers(&[TRANSFER])).expect("it is cancelled");
    assert_eq!(client.answer(id), Err(ECANCELED));
}

#[test]
fn a_server_that_is_missing_is_told() {
    let to = tempfile::tempdir().unwrap();
    let mut client = Client::start();
    connect(&mut client, "tcp://127.0.0.1:1", &option("patience_ms", b"200")).expect("it connects");
    let arguments = get_arguments("/data/a", to.path(), all(), &[]);
    assert_eq!(client.request(GET, &arguments), Err(EHOSTUNREACH));
    // Closing the client ends what it waits for.
    client.request(CLOSE_CLIENT, &numbers(&[FETCHER])).expect("it is closed");
    connect(&mut client, "tcp://127.0.0.1:1", &[]).expect("it connects");
    let (begin, id) = (Instant::now(), client.ask(GET, &arguments));
    client.request(CLOSE_CLIENT, &numbers(&[FETCHER])).expect("it is closed");
    assert_eq!(client.answer(id), Err(ECANCELED));
    assert!(begin.elapsed() < Duration::from_secs(9), "less than it would wait");
    assert_eq!(client.request(GET, &arguments), Err(ENOENT));
}

#[test]
fn users_have_keys_passwords_and_rights() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("a"), "content").unwrap();
    let mut client = Client::start();
    let pairs: Vec<Vec<u8>> = (0..2).map(|_| client.request(30, &[]).expect("keys")).collect();
    let [server, alice] = &pairs[..] else { panic!("two pairs") };
    let options = [
        option("curve", &server[32..]),
        option("user", &[&bytes(b"alice")[..], &alice[..32]].concat()),
        option("grant", &[&bytes(b"alice")[..], &bytes(b"/data"), &[0]].concat()),
    ];
    let endpoint = serve(&mut client, from.path(), &options.concat()).expect("it listens");
    let keys = |own: &[u8]| option("curve", &[&own[32..], &server[..32]].concat());
    let patience = option("patience_ms", b"2000");
    connect(&mut client, &endpoint, &keys(alice)).expect("it connects");
    let (fetch, rules) = (get_arguments("/data/a", &to.path().join("a"), 0, &[]), told(0));
    assert_eq!(client.request(GET, &fetch).map(|report| counts(&report)), Ok((1, 7, 0)));
    let put = [rules, path(&to.path().join("a")), bytes(b"/data/b")].concat();
    let report = client.request(PUT, &put).expect("a report");
    assert_eq!((counts(&report).2, &report[25..29]), (1, &EACCES.to_be_bytes()[..]), "it may read only");
    client.request(CLOSE_CLIENT, &numbers(&[FETCHER])).expect("it is closed");
    connect(&mut client, &endpoint, &[keys(server), patience.clone()].concat()).expect("it connects");
    assert_eq!(client.request(GET, &fetch), Err(EACCES), "its key is no user's");
    for channel in [FETCHER, SERVER] {
        let close = if channel == SERVER { STOP_SERVER } else { CLOSE_CLIENT };
        client.request(close, &numbers(&[channel])).expect("it is closed");
    }
    let password = |word: &[u8]| option("password", &[bytes(b"bob"), bytes(word)].concat());
    let endpoint = serve(&mut client, from.path(), &password(b"word")).expect("it listens");
    connect(&mut client, &endpoint, &password(b"word")).expect("it connects");
    assert!(client.request(GET, &fetch).is_ok());
    client.request(CLOSE_CLIENT, &numbers(&[FETCHER])).expect("it is closed");
    connect(&mut client, &endpoint, &[password(b"guess"), patience].concat()).expect("it connects");
    assert_eq!(client.request(GET, &fetch), Err(EACCES));
}

#[test]
fn wrong_arguments_are_refused() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut client = pair(from.path());
    let start = |client: &mut Client, channel: u32, options: &[u8]| {
        client.request(START_SERVER, &[&numbers(&[channel])[..], options].concat())
    };
    assert_eq!(start(&mut client, SERVER, &[]), Err(EEXIST));
    assert_eq!(start(&mut client, 9, &option("nonsense", b"1")), Err(EINVAL));
    assert_eq!(start(&mut client, 9, &option("workers", b"0")), Err(EINVAL));
    assert_eq!(start(&mut client, 9, &option("curve", b"short")), Err(EINVAL));
    assert_eq!(start(&mut client, 9, &option("curve", &[7; 33])), Err(EINVAL));
    let missing = from.path().join("missing");
    let folder = option("folder", &[bytes(b"/x"), path(&missing), vec![0]].concat());
    assert_eq!(start(&mut client, 9, &folder), Err(ENOENT));
    let cert = |key: &str, file: &Path| option(key, file.as_os_str().as_bytes());
    assert_eq!(start(&mut client, 9, &cert("cert", &missing)), Err(ENOENT));
    fs::write(from.path().join("text"), "text").unwrap();
    assert_eq!(start(&mut client, 9, &cert("cert", &from.path().join("text"))), Err(EBADMSG));
    assert_eq!(start(&mut client, 9, &option("bind", b"nonsense")), Err(EINVAL));
    // Those of a client and of a transfer.
    assert_eq!(connect(&mut client, "tcp://127.0.0.1:1", &[]), Err(EEXIST));
    let other = [&numbers(&[9])[..], &bytes(b"nonsense")].concat();
    assert_eq!(client.request(CONNECT, &other), Err(EINVAL));
    let get = |client: &mut Client, channels: &[u32], rules: &[u8]| {
        let arguments = get_arguments("/data/", to.path(), 0, rules);
        client.request(GET, &[&numbers(channels)[..], &arguments[8..]].concat())
    };
    assert_eq!(get(&mut client, &[9, TRANSFER], &[]), Err(ENOENT));
    assert_eq!(get(&mut client, &[FETCHER, SERVER], &[]), Err(EEXIST));
    assert_eq!(get(&mut client, &[FETCHER, FETCHER], &[]), Err(EEXIST));
    assert_eq!(get(&mut client, &[FETCHER, TRANSFER], &option("nonsense", b"")), Err(EINVAL));
    assert_eq!(get(&mut client, &[FETCHER, TRANSFER], &option("deletion", b"2")), Err(EINVAL));
    assert_eq!(client.request(GET, &numbers(&[FETCHER, TRANSFER])), Err(EINVAL));
    for (operation, channel) in
        [(CANCEL, TRANSFER), (CLOSE_CLIENT, SERVER), (STOP_SERVER, FETCHER), (SENT, 9)]
    {
        assert_eq!(client.request(operation, &numbers(&[channel])), Err(ENOENT));
        assert_eq!(client.request(operation, &numbers(&[channel, 1])), Err(EINVAL));
    }
    assert_eq!(client.request(89, &numbers(&[1])), Err(38), "ENOSYS");
    client.context();
    assert_eq!(client.request(10, &[0, 0, 0, 1, 0, 0, 0, 1, 8]), Err(EEXIST), "the channel is a server's");
    // The client that is there works.
    assert!(get(&mut client, &[FETCHER, TRANSFER], &[]).is_ok());
}
