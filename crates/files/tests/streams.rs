//! Files that a program reads and writes as streams.

mod common;
mod fake;

use std::fs;
use std::io::{self, Read, Write};

use common::Gate;
use fake::{DEADLINE, Fake, content, data, with_client};
use pinnace_files::client::Client;
use pinnace_files::error::{Code, Error};
use pinnace_files::rules::Rules;
use pinnace_files::server::Server;
use pinnace_files::transfer::digest::{GROUP, group_value};
use pinnace_files::wire::{Headers, Kind};

const WINDOW: u64 = 2 << 20;

fn connect(endpoint: &str) -> Client {
    Client::builder(endpoint).patience(DEADLINE).window_max(WINDOW).connect().unwrap()
}

fn code_of(error: &Error) -> Code {
    match error {
        Error::File { error, .. } => error.code,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_is_read_in_order_and_written_back() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::builder().writable_folder("/data", dir.path()).unwrap().bind("tcp://127.0.0.1:*");
    let server = server.start().unwrap();
    let client = connect(&server.endpoints()[0]);
    for len in [0, 1, GROUP as usize, GROUP as usize + 1, 9_000_001] {
        let whole = &content(9_000_001 / GROUP as usize + 1)[..len];
        fs::write(dir.path().join("file"), whole).unwrap();
        let mut got = Vec::new();
        assert_eq!(client.get_to("/data/file", &mut got).unwrap(), len as u64);
        assert!(got == whole);
        let report =
            client.put_from(&mut &whole[..], "/data/back", Rules::default()).unwrap().wait().unwrap();
        assert_eq!((report.files, report.bytes, report.failed), (1, len as u64, vec![]));
        assert!(fs::read(dir.path().join("back")).unwrap() == whole);
        fs::remove_file(dir.path().join("back")).unwrap();
    }
    // Chunks that are no whole groups.
    let small = Client::builder(&server.endpoints()[0]).chunk(1000).connect().unwrap();
    let mut got = Vec::new();
    small.open("/data/file").take(100_000).read_to_end(&mut got).unwrap();
    assert!(got == content(7)[..100_000]);
    assert_eq!(code_of(&client.get_to("/data/none", &mut got).unwrap_err()), Code::NotFound);
    assert_eq!(code_of(&client.get_to("/data", &mut got).unwrap_err()), Code::NotPlain);
    for path in ["", "/", "/data/", "/data/.."] {
        let error = client.put_from(&mut &b"x"[..], path, Rules::default()).err().unwrap();
        assert_eq!(code_of(&error), Code::Invalid, "{path}");
    }
}

#[test]
fn a_reader_that_waits_costs_a_window() {
    let dir = tempfile::tempdir().unwrap();
    let whole = content(16 * WINDOW as usize / GROUP as usize);
    fs::write(dir.path().join("file"), &whole).unwrap();
    let server =
        Server::builder().folder("/data", dir.path()).unwrap().bind("tcp://127.0.0.1:*").start().unwrap();
    let client = connect(&server.endpoints()[0]);
    let mut download = client.open("/data/file");
    let mut got = download.next_piece().unwrap().unwrap();
    // The server has sent all that it may when it answers another client.
    assert_eq!(connect(&server.endpoints()[0]).list("/data").wait().unwrap().files, 1);
    let most = WINDOW + got.len() as u64 + 4096;
    assert!(server.sent_bytes() <= most, "{} octets were sent", server.sent_bytes());
    download.read_to_end(&mut got).unwrap();
    assert!(got == whole);
    // One that is dropped gives its credit back.
    let mut dropped = client.open("/data/file");
    dropped.next_piece().unwrap();
    drop(dropped);
    assert_eq!(client.list("/data").wait().unwrap().files, 1);
}

#[test]
fn it_goes_on_after_a_restart_of_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let whole = content((32 << 20) / GROUP as usize);
    fs::write(dir.path().join("file"), &whole).unwrap();
    let serve = |endpoint: &str| {
        Server::builder().folder("/data", dir.path()).unwrap().bind(endpoint).start().unwrap()
    };
    let server = serve("tcp://127.0.0.1:*");
    let endpoint = server.endpoints()[0].clone();
    let gate = Gate::new(&endpoint);
    let client = connect(&gate.endpoint);
    gate.allow(8 << 20);
    let (mut download, mut got) = (client.open("/data/file"), Vec::new());
    while got.len() < 5 << 20 {
        got.extend(download.next_piece().unwrap().unwrap());
    }
    drop(server);
    let server = serve(&endpoint);
    gate.open();
    download.read_to_end(&mut got).unwrap();
    assert!(got == whole);
    assert!((1..28 << 20).contains(&server.sent_bytes()), "{}", server.sent_bytes());
}

#[test]
fn a_file_that_changes_after_it_was_read_in_part_fails() {
    let dir = tempfile::tempdir().unwrap();
    let whole = content((16 << 20) / GROUP as usize);
    fs::write(dir.path().join("file"), &whole).unwrap();
    let server =
        Server::builder().folder("/data", dir.path()).unwrap().bind("tcp://127.0.0.1:*").start().unwrap();
    let gate = Gate::new(&server.endpoints()[0]);
    let client = connect(&gate.endpoint);
    gate.allow(4 << 20);
    let mut download = client.open("/data/file");
    let first = download.next_piece().unwrap().unwrap();
    assert!(whole.starts_with(&first));
    fs::write(dir.path().join("file"), &whole[1..]).unwrap();
    gate.open();
    let error = loop {
        match download.next_piece() {
            Ok(piece) => assert!(piece.is_some(), "it is complete"),
            Err(error) => break error,
        }
    };
    assert_eq!(code_of(&error), Code::Changed);
}

/// A group as the only chunk of a reply.
fn group(whole: &[u8], index: u64) -> (Headers, &[u8]) {
    let octets = &whole[(index * GROUP) as usize..((index + 1) * GROUP) as usize];
    let groups = group_value(index, octets, whole.len() as u64).to_vec();
    (Headers { groups, digest: Some(*blake3::hash(whole).as_bytes()), ..Headers::default() }, octets)
}

#[test]
fn a_wrong_group_is_not_handed_over_but_fetched_again() {
    let whole = content(3);
    let expected = whole.clone();
    let script = move |fake: &mut Fake| {
        let request = fake.next_request().unwrap();
        fake.begin(&request, Kind::File, whole.len() as u64);
        let mut wrong = whole.clone();
        wrong[2 * GROUP as usize] ^= 1;
        fake.reply(&request, data(&whole), 0, true, &wrong);
        fake.end(&request);
        let again = fake.next_request().unwrap();
        assert_eq!((&again.ranges[..], &again.tag[..]), (&[(2 * GROUP, 3 * GROUP)][..], &b"tag"[..]));
        fake.begin(&again, Kind::File, whole.len() as u64);
        let (headers, octets) = group(&whole, 2);
        fake.reply(&again, headers, 2 * GROUP, true, octets);
        fake.end(&again);
    };
    let mut got = Vec::new();
    with_client(script, |client| client.get_to("/file", &mut got)).unwrap();
    assert!(got == expected);
}

#[test]
fn only_verified_octets_are_written_before_an_error() {
    type Lie = fn(&mut Headers, &mut Vec<u8>);
    let cases: [(usize, Code, Lie); 4] = [
        (4, Code::Corrupt, |_, octets| octets[GROUP as usize] ^= 1),
        (1, Code::Corrupt, |headers, _| headers.digest = Some([9; 32])),
        (1, Code::Invalid, |_, octets| octets.truncate(GROUP as usize)),
        (1, Code::Invalid, |_, octets| octets.push(0)),
    ];
    let whole = content(2);
    for (requests, code, lie) in cases {
        let sent = whole.clone();
        let script = move |fake: &mut Fake| {
            for _ in 0..requests {
                let request = fake.next_request().unwrap();
                fake.begin(&request, Kind::File, sent.len() as u64);
                let (mut headers, mut octets) = (data(&sent), sent.clone());
                lie(&mut headers, &mut octets);
                let first = request.ranges.first().map_or(0, |range| range.0);
                headers.groups.drain(..first as usize / GROUP as usize * 32);
                fake.reply(&request, headers, first, true, &octets[first as usize..]);
                fake.end(&request);
            }
        };
        let mut got = Vec::new();
        let error = with_client(script, |client| client.get_to("/file", &mut got)).unwrap_err();
        assert_eq!(code_of(&error), code);
        assert!(whole.starts_with(&got), "{code:?}");
    }
}

#[test]
fn a_writer_or_reader_that_fails_is_an_error() {
    struct Broken;
    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), content(1)).unwrap();
    let server = Server::builder().writable_folder("/", dir.path()).unwrap().bind("tcp://127.0.0.1:*");
    let server = server.start().unwrap();
    let client = connect(&server.endpoints()[0]);
    let error = client.get_to("/file", &mut Broken).unwrap_err();
    assert!(matches!(error, Error::Stream(error) if error.kind() == io::ErrorKind::BrokenPipe));
    assert!(matches!(client.put_from(&mut Broken, "/new", Rules::default()), Err(Error::Stream(_))));
    assert!(!dir.path().join("new").exists());
}
