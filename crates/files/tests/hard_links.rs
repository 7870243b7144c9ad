//! Files that have several names.

mod fake;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use fake::{DEADLINE, Fake, content, with_client};
use pinnace_files::client::{Client, Event, Report};
use pinnace_files::error::Code;
use pinnace_files::rules::{Existing, Pattern, Rules};
use pinnace_files::server::Server;
use pinnace_files::wire::{Entry, Extra, Form, HardLink, Headers, Kind, put_entry_with_extra};

fn linked() -> Rules {
    Rules { hard_links: true, ..Rules::default() }
}

fn serve(folder: &Path) -> (Server, Client) {
    let server = Server::builder().writable_folder("/data", folder).unwrap().bind("tcp://127.0.0.1:*");
    let server = server.start().unwrap();
    let client = Client::builder(&server.endpoints()[0]).patience(DEADLINE).connect().unwrap();
    (server, client)
}

fn inode(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}

/// A large file of three names, a small one of two, and one that shares nothing.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::create_dir_all(path("sub/sub")).unwrap();
    fs::write(path("large"), content(40)).unwrap();
    fs::hard_link(path("large"), path("sub/large")).unwrap();
    fs::hard_link(path("large"), path("sub/sub/again")).unwrap();
    fs::write(path("small"), "small").unwrap();
    fs::hard_link(path("small"), path("small 2")).unwrap();
    fs::write(path("single"), "single").unwrap();
    dir
}

const LARGE: [&str; 3] = ["large", "sub/large", "sub/sub/again"];
const SMALL: [&str; 2] = ["small", "small 2"];

/// Asserts that a copy has the content of `folder`, and files with several names.
fn assert_linked(from: &Path, copy: &Path) {
    let same = std::process::Command::new("diff").arg("-r").args([from, copy]).status().unwrap();
    assert!(same.success());
    for names in [&LARGE[..], &SMALL] {
        let inodes: Vec<u64> = names.iter().map(|name| inode(&copy.join(name))).collect();
        assert!(inodes.windows(2).all(|pair| pair[0] == pair[1]), "{names:?} have {inodes:?}");
    }
    assert_eq!(fs::metadata(copy.join("large")).unwrap().nlink(), 3);
    assert_eq!(fs::metadata(copy.join("single")).unwrap().nlink(), 1);
    let time = |root: &Path| fs::metadata(root.join("sub")).unwrap().modified().unwrap();
    assert_eq!(time(from), time(copy));
}

#[test]
fn a_file_of_several_names_is_sent_once_and_has_them_here() {
    let (from, to) = (folder(), tempfile::tempdir().unwrap());
    let (server, client) = serve(from.path());
    let copy = to.path().join("copy");
    let report = client.get_by("/data/", &copy, linked()).wait().unwrap();
    assert_eq!((report.files, report.failed), (3, vec![]));
    assert!(server.sent_bytes() < content(41).len() as u64, "{}", server.sent_bytes());
    assert_linked(from.path(), &copy);
    // Nothing is to be done again.
    let transfer = client.get_by("/data/", &copy, linked());
    while let Some(event) = transfer.next_event() {
        match event {
            Event::Ended(report) => assert_eq!((report.files, report.failed), (0, vec![])),
            event => panic!("{event:?}"),
        }
    }
    // And back: the server makes the links.
    let report = client.put_by(&to.path().join("copy/"), "/data/back", linked()).wait().unwrap();
    assert_eq!((report.files, report.failed), (3, vec![]));
    assert_linked(&copy, &from.path().join("back"));
}

#[test]
fn copies_without_links_become_links_and_changes_reach_all_names() {
    let (from, to) = (folder(), tempfile::tempdir().unwrap());
    let (_server, client) = serve(from.path());
    let copy = to.path().join("copy");
    assert_eq!(client.get("/data/", &copy).wait().unwrap().files, 6);
    assert_ne!(inode(&copy.join("small")), inode(&copy.join("small 2")));
    let report = client.get_by("/data/", &copy, Rules { dry_run: true, ..linked() }).wait().unwrap();
    assert_eq!((report.files, inode(&copy.join("small")) == inode(&copy.join("small 2"))), (0, false));
    let report = client.get_by("/data/", &copy, linked()).wait().unwrap();
    assert_eq!((report.files, report.failed), (0, vec![]));
    assert_linked(from.path(), &copy);
    fs::write(from.path().join("small 2"), "changed").unwrap();
    assert_eq!(client.get_by("/data/", &copy, linked()).wait().unwrap().files, 1);
    assert_linked(from.path(), &copy);
    // A removal of one name leaves the others.
    fs::remove_file(from.path().join("large")).unwrap();
    let report =
        client.get_by("/data/", &copy, Rules { hard_links: true, ..Rules::mirror() }).wait().unwrap();
    assert_eq!((report.files, report.failed), (0, vec![]));
    assert!(!copy.join("large").exists());
    assert_eq!(inode(&copy.join(LARGE[1])), inode(&copy.join(LARGE[2])));
}

#[test]
fn rules_hold_for_names_too() {
    let (from, to) = (folder(), tempfile::tempdir().unwrap());
    let (_server, client) = serve(from.path());
    let copy = to.path().join("copy");
    // Whichever name comes first, it may be left out: then the others are fetched.
    for left_out in LARGE {
        let filter = vec![Pattern::exclude(&format!("/{left_out}"))];
        let report = client.get_by("/data/", &copy, Rules { filter, ..linked() }).wait().unwrap();
        assert_eq!(report.failed, vec![]);
        assert!(!copy.join(left_out).exists());
        for name in LARGE.iter().filter(|name| **name != left_out) {
            assert!(fs::read(copy.join(name)).unwrap() == content(40));
        }
        fs::remove_dir_all(&copy).unwrap();
    }
    fs::create_dir_all(&copy).unwrap();
    for name in SMALL {
        fs::write(copy.join(name), "own").unwrap();
    }
    let rules = Rules { existing: Existing::Nothing, ..linked() };
    assert_eq!(client.get_by("/data/", &copy, rules).wait().unwrap().failed, vec![]);
    for name in SMALL {
        assert_eq!(fs::read(copy.join(name)).unwrap(), b"own");
    }
}

fn entry<'a>(kind: Kind, name: &'a [u8], link: HardLink<'a>) -> Vec<u8> {
    let extra = Extra { link, ..Extra::default() };
    let (size, mtime_ns, mode, target, content) = (1, 0, 0o644, &b""[..], None);
    let mut chunk = Vec::new();
    put_entry_with_extra(&mut chunk, &Entry { kind, name, size, mtime_ns, mode, target, content, extra })
        .unwrap();
    chunk
}

/// Fetches from a scripted server, which lists these entries, and fails all files.
fn get(to: &Path, rules: Rules, entries: Vec<Vec<u8>>) -> Report {
    let script = move |fake: &mut Fake| {
        let request = fake.next_request().unwrap();
        fake.begin(&request, Kind::Directory, 0);
        fake.end(&request);
        let list = fake.next_request().unwrap();
        let headers = Headers { form: Form::List, extra: true, ..Headers::default() };
        fake.reply(&list, headers, 0, false, &entries.concat());
        fake.end(&list);
        while let Some(request) = fake.next_request() {
            for name in &request.names {
                let path = [&request.path[..], b"/", name].concat();
                let error = b"not-found".to_vec();
                let headers = Headers { form: Form::Failed, error, ..Headers::default() };
                fake.reply_of(&request, &path, headers);
            }
            fake.end(&request);
        }
    };
    with_client(script, |client| client.get_by("/file", to, rules).wait()).unwrap()
}

#[test]
fn links_to_what_is_not_part_of_the_transfer_are_refused() {
    let to = tempfile::tempdir().unwrap();
    let root = to.path().join("file");
    fs::create_dir_all(root.join("directory")).unwrap();
    fs::write(to.path().join("outside"), "s").unwrap();
    fs::write(root.join("own"), "s").unwrap();
    std::os::unix::fs::symlink("../outside", root.join("symbolic")).unwrap();
    let names =
        ["../outside", "/outside", "directory", "own", "symbolic", "later", "", "a//b", "none", "unshared"];
    let mut entries = vec![
        entry(Kind::Directory, b"directory", HardLink::None),
        entry(Kind::File, b"unshared", HardLink::None),
    ];
    entries.extend(names.iter().map(|first| entry(Kind::File, b"later", HardLink::Later(first.as_bytes()))));
    entries.push(entry(Kind::Directory, b"other", HardLink::First));
    entries.push(entry(Kind::Link, b"other", HardLink::Later(b"own")));
    let report = get(to.path(), linked(), entries);
    let codes: Vec<Code> = report.failed.iter().map(|(_, error)| error.code).collect();
    let refused = codes.iter().filter(|code| **code == Code::Invalid).count();
    assert_eq!(refused, names.len() + 2, "{:?}", report.failed);
    assert!(!root.join("later").exists() && !root.join("other").exists());
    for name in [to.path().join("outside"), root.join("own")] {
        assert_eq!(fs::metadata(name).unwrap().nlink(), 1);
    }
}

#[test]
fn names_of_a_file_that_failed_are_fetched_and_fail_by_name() {
    let to = tempfile::tempdir().unwrap();
    let entries = vec![
        entry(Kind::File, b"first", HardLink::First),
        entry(Kind::File, b"later", HardLink::Later(b"first")),
    ];
    let report = get(to.path(), linked(), entries.clone());
    let failed: Vec<&str> = report.failed.iter().map(|(path, _)| &path[..]).collect();
    assert_eq!(failed, ["/file/first", "/file/later"], "{:?}", report.failed);
    // Links that were not asked for are no links: each name is fetched.
    let report = get(to.path(), Rules::default(), entries);
    assert_eq!(report.failed.len(), 2);
    // A file with the first one's name that is another version is not linked to.
    fs::write(to.path().join("file/first"), "another").unwrap();
    let entries = vec![
        entry(Kind::File, b"first", HardLink::First),
        entry(Kind::File, b"later", HardLink::Later(b"first")),
    ];
    assert_eq!(get(to.path(), linked(), entries).failed.len(), 2);
    assert!(!to.path().join("file/later").exists());
}

#[test]
fn a_followed_path_has_its_links_when_it_is_current() {
    let (from, to) = (folder(), tempfile::tempdir().unwrap());
    let (_server, client) = serve(from.path());
    let copy = to.path().join("copy");
    let transfer = client.follow("/data/", &copy, Rules { hard_links: true, ..Rules::mirror() });
    let next = || transfer.next_event_within(DEADLINE).unwrap();
    let mut links = 0;
    loop {
        match next() {
            Event::Linked { .. } => links += 1,
            Event::Current => break,
            event => assert!(!matches!(event, Event::Failed { .. } | Event::Aborted(_)), "{event:?}"),
        }
    }
    assert_eq!(links, 3);
    assert_linked(from.path(), &copy);
    // A name that comes later is fetched.
    fs::hard_link(from.path().join("large"), from.path().join("new")).unwrap();
    while !matches!(next(), Event::Finished { path, .. } if path == "/data/new") {}
    assert!(fs::read(copy.join("new")).unwrap() == content(40));
    transfer.cancel();
}
