//! Files with holes.

mod common;
mod fake;

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use common::Gate;
use fake::{DEADLINE, Fake, content, data, values, with_client};
use pinnace_files::client::{Client, Event, Report};
use pinnace_files::error::{Code, Error};
use pinnace_files::rules::Rules;
use pinnace_files::server::Server;
use pinnace_files::transfer::digest::GROUP;
use pinnace_files::wire::{Headers, Kind};

const MIB: u64 = 1 << 20;

fn sparse() -> Rules {
    Rules { sparse: true, ..Rules::default() }
}

/// Makes a file that has octets at some offsets, and holes elsewhere.
fn make(path: &Path, size: u64, parts: &[(u64, usize)]) {
    let file = File::create(path).unwrap();
    file.set_len(size).unwrap();
    for (offset, len) in parts {
        let octets: Vec<u8> = (0..*len).map(|at| (at % 251) as u8 + 1).collect();
        file.write_all_at(&octets, *offset).unwrap();
    }
}

/// Octets that a file takes on the disk.
fn taken(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

fn serve(folder: &Path) -> (Server, Client) {
    let server = Server::builder().writable_folder("/data", folder).unwrap().bind("tcp://127.0.0.1:*");
    let server = server.start().unwrap();
    let client = Client::builder(&server.endpoints()[0]).patience(DEADLINE).connect().unwrap();
    (server, client)
}

/// Offsets and lengths.
type Parts = &'static [(u64, usize)];

/// Names, sizes, and where there are octets.
const FILES: [(&str, u64, Parts); 7] = [
    ("hole", 100 * MIB, &[]),
    ("hole and a piece of a group", 5 * MIB + 77, &[]),
    ("begins", 50 * MIB + 5, &[(0, 300_000)]),
    ("ends", 50 * MIB + 5, &[(50 * MIB - 100, 105)]),
    ("between", 90 * MIB, &[(5 * MIB + 4096, 10), (60 * MIB, 1_000_000), (61 * MIB, 1)]),
    ("many", 10 * MIB, &[(0, 1), (64 << 10, 1), (200 << 10, 5000), (MIB, 1), (MIB + (24 << 10), 1)]),
    ("small", 40 << 10, &[]),
];

#[test]
fn holes_are_not_sent_and_are_holes_at_the_other_side() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    FILES.iter().for_each(|(name, size, parts)| make(&from.path().join(name), *size, parts));
    let (server, client) = serve(from.path());
    let report = client.get_by("/data/", &to.path().join("copy"), sparse()).wait().unwrap();
    let sizes: u64 = FILES.iter().map(|(_, size, _)| size).sum();
    assert_eq!((report.files, report.bytes, report.failed), (FILES.len() as u64, sizes, vec![]));
    assert!(server.sent_bytes() < 3 * MIB, "{} octets were sent", server.sent_bytes());
    let report = client.put_by(&to.path().join("copy/"), "/data/back", sparse()).wait().unwrap();
    assert_eq!((report.bytes, report.failed), (sizes, vec![]));
    // A copy without the rule has the same content.
    assert_eq!(client.get("/data/many", &to.path().join("many")).wait().unwrap().failed, vec![]);
    assert!(fs::read(to.path().join("many")).unwrap() == fs::read(from.path().join("many")).unwrap());
    for (name, size, _) in FILES {
        let original = from.path().join(name);
        for copy in [to.path().join("copy").join(name), from.path().join("back").join(name)] {
            assert_eq!(fs::metadata(&copy).unwrap().len(), size, "{name}");
            assert!(fs::read(&copy).unwrap() == fs::read(&original).unwrap(), "{name}");
            assert!(taken(&copy) <= taken(&original) + 128 * 1024, "{name} takes {}", taken(&copy));
        }
    }
}

#[test]
fn zeros_that_were_written_become_holes() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let whole = [content(10), vec![0; 4 << 20], content(3), vec![0; 100_000]].concat();
    fs::write(from.path().join("file"), &whole).unwrap();
    let (_server, client) = serve(from.path());
    let copy = to.path().join("file");
    assert_eq!(client.get_by("/data/file", &copy, sparse()).wait().unwrap().failed, vec![]);
    assert!(fs::read(&copy).unwrap() == whole);
    assert!(taken(&copy) < 512 << 10, "{} are taken", taken(&copy));
    // A block that differs now, and was not zeros before, is one later.
    let file = File::options().write(true).open(from.path().join("file")).unwrap();
    file.write_all_at(&[0; 10 * GROUP as usize], 0).unwrap();
    assert_eq!(client.get_by("/data/file", &copy, sparse()).wait().unwrap().failed, vec![]);
    assert!(fs::read(&copy).unwrap() == fs::read(from.path().join("file")).unwrap());
}

#[test]
fn it_goes_on_where_it_ended() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    make(&from.path().join("file"), 200 * MIB, &[(0, 4 << 20), (100 * MIB, 8 << 20), (190 * MIB, 1 << 20)]);
    let (server, _) = serve(from.path());
    let gate = Gate::new(&server.endpoints()[0]);
    let client = Client::builder(&gate.endpoint).patience(DEADLINE).window_max(MIB).connect().unwrap();
    gate.allow(8 << 20);
    let copy = to.path().join("file");
    let transfer = client.get_by("/data/file", &copy, sparse());
    let mut bytes = 0;
    while bytes < 103 * MIB {
        if let Event::Progress { bytes: more } = transfer.next_event().unwrap() {
            bytes += more;
        }
    }
    transfer.cancel();
    assert!(matches!(transfer.wait(), Err(Error::Cancelled)));
    let (server, client) = serve(from.path());
    assert_eq!(client.get_by("/data/file", &copy, sparse()).wait().unwrap().failed, vec![]);
    assert!(fs::read(&copy).unwrap() == fs::read(from.path().join("file")).unwrap());
    assert!(server.sent_bytes() <= 7 * MIB, "{} octets were sent", server.sent_bytes());
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 1);
}

/// Fetches from a scripted server.
fn get(to: &Path, rules: Rules, script: impl FnOnce(&mut Fake) + Send + 'static) -> Result<Report, Error> {
    with_client(script, |client| client.get_by("/file", to, rules).wait())
}

#[test]
fn zeros_take_the_place_of_wrong_octets() {
    let to = tempfile::tempdir().unwrap();
    let copy = to.path().join("file");
    let whole = [content(1), vec![0; 2 * GROUP as usize]].concat();
    let expected = whole.clone();
    let report = get(&copy, sparse(), move |fake| {
        let request = fake.next_request().unwrap();
        assert!(request.rules.sparse);
        fake.begin(&request, Kind::File, whole.len() as u64);
        fake.reply(&request, data(&whole), 0, true, &content(3));
        fake.end(&request);
        let again = fake.next_request().unwrap();
        assert_eq!(again.ranges, [(GROUP, 3 * GROUP)]);
        fake.begin(&again, Kind::File, whole.len() as u64);
        let digest = Some(*blake3::hash(&whole).as_bytes());
        let headers = Headers { zeros: Some(2 * GROUP), digest, ..Headers::default() };
        fake.reply(&again, headers, GROUP, true, b"");
        fake.end(&again);
    });
    assert_eq!((report.unwrap().failed, fs::read(&copy).unwrap()), (vec![], expected));
}

#[test]
fn false_zeros_fail_the_file() {
    let size = 4 * GROUP;
    for (rules, code, zeros, offset, chunk) in [
        (Rules::default(), Code::Invalid, GROUP, 0, &b""[..]),
        (sparse(), Code::Invalid, 5 * GROUP, 0, b""),
        (sparse(), Code::Invalid, GROUP, 4 * GROUP, b""),
        (sparse(), Code::Invalid, GROUP, 5, b""),
        (sparse(), Code::Invalid, GROUP, 0, b"content"),
        (sparse(), Code::Invalid, 0, 0, b""),
        (sparse(), Code::Limit, u64::MAX, 0, b""),
        (sparse(), Code::Invalid, u64::MAX, GROUP, b""),
        (sparse(), Code::Limit, (16 << 20) + 1, 0, b""),
        // The file is no zeros.
        (sparse(), Code::Corrupt, size, 0, b""),
    ] {
        let to = tempfile::tempdir().unwrap();
        let outcome = get(&to.path().join("file"), rules, move |fake| {
            let (request, whole) = (fake.next_request().unwrap(), content(4));
            fake.begin(&request, Kind::File, size);
            let headers = Headers { zeros: Some(zeros), groups: values(&whole), ..data(&whole) };
            fake.reply(&request, headers, offset, true, chunk);
            fake.end(&request);
        });
        let failed = outcome.unwrap().failed;
        assert_eq!(failed.iter().map(|(_, error)| error.code).collect::<Vec<_>>(), [code], "{failed:?}");
        assert!(!to.path().join("file").exists());
    }
}

#[test]
fn a_size_that_no_file_can_have_is_refused() {
    let to = tempfile::tempdir().unwrap();
    let outcome = get(&to.path().join("file"), sparse(), |fake| {
        let request = fake.next_request().unwrap();
        fake.begin(&request, Kind::File, u64::MAX);
        fake.end(&request);
    });
    let failed = outcome.unwrap().failed;
    assert!(matches!(failed[0].1.code, Code::Limit | Code::Invalid), "{failed:?}");
}
