//! Chunks that travel compressed.
#![cfg(feature = "zstd")]

mod common;
mod fake;

use std::fs;
use std::path::Path;

use common::Gate;
use fake::{DEADLINE, Fake, content, data, with_client};
use pinnace_files::client::{Client, Event, Report};
use pinnace_files::error::{Code, Error};
use pinnace_files::rules::Rules;
use pinnace_files::server::Server;
use pinnace_files::transfer::digest::GROUP;
use pinnace_files::wire::{Entry, Extra, Form, Headers, Kind, put_entry};

const MIB: usize = 1 << 20;

fn compress() -> Rules {
    Rules { compress: true, ..Rules::default() }
}

fn text(len: usize) -> Vec<u8> {
    (0..).flat_map(|line: u32| format!("line {line} of a text\n").into_bytes()).take(len).collect()
}

fn noise(len: usize) -> Vec<u8> {
    let mut octets = vec![0; len];
    blake3::Hasher::new().finalize_xof().fill(&mut octets);
    octets
}

fn serve(folder: &Path) -> Server {
    Server::builder().writable_folder("/data", folder).unwrap().bind("tcp://127.0.0.1:*").start().unwrap()
}

fn connect(endpoint: &str) -> Client {
    Client::builder(endpoint).patience(DEADLINE).window_max(1 << 20).connect().unwrap()
}

fn same(one: &Path, other: &Path) -> bool {
    std::process::Command::new("diff").arg("-r").args([one, other]).status().unwrap().success()
}

/// A folder with large and small files, some of which shrink.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("text"), text(5 * MIB + 1)).unwrap();
    fs::write(dir.path().join("noise"), noise(3 * MIB)).unwrap();
    fs::write(dir.path().join("both"), [noise(MIB), text(3 * MIB), noise(100_000)].concat()).unwrap();
    for number in 0..500 {
        fs::write(dir.path().join(format!("small {number}")), text(number * 10)).unwrap();
    }
    dir
}

#[test]
fn what_shrinks_travels_compressed_and_arrives_the_same() {
    let (from, to) = (folder(), tempfile::tempdir().unwrap());
    let server = serve(from.path());
    let client = connect(&server.endpoints()[0]);
    let whole = client.get("/data/", &to.path().join("plain")).wait().unwrap();
    assert!(server.sent_bytes() > whole.bytes, "the sizes of files, and a listing");
    let before = server.sent_bytes();
    let report = client.get_by("/data/", &to.path().join("copy"), compress()).wait().unwrap();
    assert_eq!((report.bytes, report.failed), (whole.bytes, vec![]));
    assert!(same(from.path(), &to.path().join("copy")));
    let sent = server.sent_bytes() - before;
    let most = whole.bytes * 2 / 3;
    assert!(sent < most, "{sent} octets were sent");
    // And back, by a client whose credit is the server's.
    let transfer = client.put_by(&to.path().join("copy/"), "/data/back", compress());
    let mut sent = 0;
    while let Some(event) = transfer.next_event() {
        match event {
            Event::Progress { bytes } => sent += bytes,
            Event::Ended(report) => assert_eq!((report.bytes, report.failed), (whole.bytes, vec![])),
            other => assert!(!matches!(other, Event::Aborted(_)), "{other:?}"),
        }
    }
    assert!(sent < most, "{sent} octets were sent");
    assert!(same(&to.path().join("copy"), &from.path().join("back")));
}

/// If credit were lost with compressed chunks, a window of 1 MiB would not last.
#[test]
fn credit_is_given_back_for_what_travels() {
    let (from, to) = (folder(), tempfile::tempdir().unwrap());
    let server = serve(from.path());
    let client = connect(&server.endpoints()[0]);
    for round in 0..6 {
        let report = client.get_by("/data/", &to.path().join(round.to_string()), compress()).wait().unwrap();
        assert_eq!(report.failed, vec![]);
        // One that ends early, too.
        let transfer = client.get_by("/data/both", &to.path().join("cancelled"), compress());
        transfer.next_event().unwrap();
        transfer.cancel();
    }
}

#[test]
fn it_goes_on_after_a_lost_connection() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let whole = [noise(4 * MIB), text(16 * MIB), noise(4 * MIB)].concat();
    fs::write(from.path().join("file"), &whole).unwrap();
    let server = serve(from.path());
    let endpoint = server.endpoints()[0].clone();
    let gate = Gate::new(&endpoint);
    let client = connect(&gate.endpoint);
    gate.allow(3 << 20);
    let transfer = client.get_by("/data/file", &to.path().join("file"), compress());
    let mut bytes = 0;
    while bytes < MIB as u64 {
        if let Event::Progress { bytes: more } = transfer.next_event().unwrap() {
            bytes += more;
        }
    }
    drop(server);
    let _server = Server::builder().folder("/data", from.path()).unwrap().bind(&endpoint).start().unwrap();
    gate.open();
    assert_eq!(transfer.wait().unwrap().failed, vec![]);
    assert!(fs::read(to.path().join("file")).unwrap() == whole);
}

/// Fetches from a scripted server.
fn get(to: &Path, rules: Rules, script: impl FnOnce(&mut Fake) + Send + 'static) -> Result<Report, Error> {
    with_client(script, |client| client.get_by("/file", to, rules).wait())
}

#[test]
fn a_server_that_does_not_compress_is_understood() {
    let to = tempfile::tempdir().unwrap();
    let report = get(&to.path().join("file"), compress(), |fake| {
        let (request, whole) = (fake.next_request().unwrap(), content(3));
        assert!(request.rules.compress);
        fake.begin(&request, Kind::File, whole.len() as u64);
        fake.reply(&request, data(&whole), 0, true, &whole);
        fake.end(&request);
    });
    assert_eq!((report.unwrap().failed, fs::read(to.path().join("file")).unwrap()), (vec![], content(3)));
}

#[test]
fn a_chunk_that_unpacks_to_something_else_fails_the_file() {
    let whole = content(2);
    let packed = zstd::bulk::compress(&whole, 1).unwrap();
    let bomb = zstd::bulk::compress(&vec![0; 64 * MIB], 19).unwrap();
    let len = whole.len() as u64;
    for (rules, code, len, packed) in [
        (Rules::default(), Code::Invalid, len, &packed),
        (compress(), Code::Limit, 64 * MIB as u64, &bomb),
        (compress(), Code::Limit, u64::MAX, &bomb),
        (compress(), Code::Invalid, len, &bomb),
        (compress(), Code::Invalid, len - 1, &packed),
        (compress(), Code::Invalid, 1, &packed),
        (compress(), Code::Invalid, len, &whole),
    ] {
        let to = tempfile::tempdir().unwrap();
        let (whole, packed) = (whole.clone(), packed.clone());
        let outcome = get(&to.path().join("file"), rules, move |fake| {
            let request = fake.next_request().unwrap();
            fake.begin(&request, Kind::File, whole.len() as u64);
            fake.reply(&request, Headers { zstd: Some(len), ..data(&whole) }, 0, true, &packed);
            fake.end(&request);
        });
        let failed = outcome.unwrap().failed;
        assert_eq!(failed.iter().map(|(_, error)| error.code).collect::<Vec<_>>(), [code], "{failed:?}");
        assert!(!to.path().join("file").exists());
    }
}

#[test]
fn a_pack_that_unpacks_to_too_much_fails() {
    let to = tempfile::tempdir().unwrap();
    let outcome = get(&to.path().join("to"), compress(), |fake| {
        let request = fake.next_request().unwrap();
        fake.begin(&request, Kind::Directory, 0);
        fake.end(&request);
        let list = fake.next_request().unwrap();
        let (small, mut entries) = (vec![7; GROUP as usize], Vec::new());
        let digest = *blake3::hash(&small).as_bytes();
        let name = |number: u32| number.to_string().into_bytes();
        for number in 0..40 {
            let entry = Entry {
                kind: Kind::File,
                name: &name(number),
                size: GROUP,
                mtime_ns: 0,
                mode: 0o644,
                target: b"",
                content: Some((&digest, &small)),
                extra: Extra::default(),
            };
            put_entry(&mut entries, &entry).unwrap();
        }
        let packed = zstd::bulk::compress(&entries, 1).unwrap();
        let zstd = Some(entries.len() as u64);
        fake.reply(&list, Headers { form: Form::Pack, zstd, ..Headers::default() }, 0, false, &packed);
        fake.end(&list);
    });
    let failed = outcome.unwrap().failed;
    assert_eq!(failed.iter().map(|(_, error)| error.code).collect::<Vec<_>>(), [Code::Limit], "{failed:?}");
}
