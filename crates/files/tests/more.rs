//! Owners and extended attributes.

mod fake;

use std::fs;
use std::os::unix::fs::{MetadataExt, chown, lchown, symlink};
use std::path::Path;

use fake::{DEADLINE, Fake, content, data, with_client};
use pinnace_files::client::{Client, Report};
use pinnace_files::error::Code;
use pinnace_files::rules::Rules;
use pinnace_files::server::Server;
use pinnace_files::wire::{Entry, Extra, Form, HardLink, Headers, Kind, put_entry_with_extra};
use rustix::fs::{XattrFlags, lgetxattr, lremovexattr, lsetxattr};

const NAMES: [&str; 4] = ["large", "small", "directory", "directory/small"];

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("directory")).unwrap();
    fs::write(dir.path().join("large"), content(40)).unwrap();
    fs::write(dir.path().join("small"), "small").unwrap();
    fs::write(dir.path().join("directory/small"), "small").unwrap();
    symlink("small", dir.path().join("link")).unwrap();
    dir
}

fn serve(folder: &Path) -> (Server, Client) {
    let server = Server::builder().writable_folder("/data", folder).unwrap().bind("tcp://127.0.0.1:*");
    let server = server.start().unwrap();
    // A listing has entries that are larger than the chunks.
    let client = Client::builder(&server.endpoints()[0]).patience(DEADLINE).chunk(500).connect().unwrap();
    (server, client)
}

fn set(path: &Path, name: &str, value: &[u8]) -> bool {
    lsetxattr(path, name, value, XattrFlags::empty()).is_ok()
}

fn get(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 4096];
    let len = lgetxattr(path, name, &mut value[..]).ok()?;
    Some(value[..len].to_vec())
}

#[test]
fn extended_attributes_of_programs_are_kept() {
    let (from, to) = (folder(), tempfile::tempdir().unwrap());
    for name in NAMES {
        // The file system has no extended attributes.
        if !set(&from.path().join(name), "user.name", name.as_bytes()) {
            return;
        }
        set(&from.path().join(name), "user.large", &[7; 3000]);
        // Of root only.
        set(&from.path().join(name), "trusted.name", b"value");
    }
    let (_server, client) = serve(from.path());
    let (copy, plain) = (to.path().join("copy"), to.path().join("plain"));
    let rules = || Rules { xattrs: true, ..Rules::default() };
    let put_back = |copy: &Path| client.put_by(&copy.join(""), "/data/back", rules()).wait().unwrap();
    assert_eq!(client.get_by("/data/", &copy, rules()).wait().unwrap().failed, vec![]);
    assert_eq!(put_back(&copy).failed, vec![]);
    assert_eq!(client.get("/data/", &plain).wait().unwrap().failed, vec![]);
    for name in NAMES {
        for root in [&copy, &from.path().join("back")] {
            let path = root.join(name);
            assert_eq!(get(&path, "user.name"), Some(name.as_bytes().to_vec()), "{}", path.display());
            assert_eq!(get(&path, "user.large"), Some(vec![7; 3000]));
            assert_eq!(get(&path, "trusted.name"), None);
        }
        assert_eq!(get(&plain.join(name), "user.name"), None);
    }
    fs::remove_dir_all(from.path().join("back")).unwrap();
    // What differs in these attributes only is not sent again, and gets them.
    for name in NAMES {
        let path = from.path().join(name);
        assert!(set(&path, "user.name", b"changed"));
        lremovexattr(&path, "user.large").unwrap();
    }
    let report = client.get_by("/data/", &copy, rules()).wait().unwrap();
    assert_eq!((report.files, report.failed), (0, vec![]));
    for name in NAMES {
        let path = copy.join(name);
        assert_eq!((get(&path, "user.name"), get(&path, "user.large")), (Some(b"changed".to_vec()), None));
    }
    // A file by its own name.
    let single = to.path().join("single");
    assert_eq!(client.get_by("/data/large", &single, rules()).wait().unwrap().failed, vec![]);
    assert_eq!(get(&single, "user.name"), Some(b"changed".to_vec()));
}

#[test]
fn owners_are_kept_by_their_numbers() {
    let (from, to) = (folder(), tempfile::tempdir().unwrap());
    let owner = |path: &Path| {
        let known = fs::symlink_metadata(path).unwrap();
        (known.uid(), known.gid())
    };
    let own = owner(from.path());
    let is_root = chown(from.path().join("large"), Some(own.0 + 7), Some(own.1 + 8)).is_ok();
    if is_root {
        for name in ["small", "directory", "link"] {
            lchown(from.path().join(name), Some(own.0 + 7), Some(own.1 + 8)).unwrap();
        }
    }
    let (_server, client) = serve(from.path());
    let (copy, rules) = (to.path().join("copy"), || Rules { owner: true, ..Rules::default() });
    for _ in 0..2 {
        assert_eq!(client.get_by("/data/", &copy, rules()).wait().unwrap().failed, vec![]);
        for name in NAMES.into_iter().chain(["link"]) {
            assert_eq!(owner(&copy.join(name)), owner(&from.path().join(name)), "{name}");
        }
        // The second time they differ in this only.
        if is_root {
            let names = NAMES.into_iter().chain(["link"]);
            names.for_each(|name| lchown(copy.join(name), Some(own.0), Some(own.1)).unwrap());
        }
    }
}

/// Fetches from a scripted server: a large file with headers, and a small one in a pack and a listing.
fn fetch(to: &Path, rules: Rules, headers: Headers) -> (Report, Report) {
    let known = headers.clone();
    let large = move |fake: &mut Fake| {
        let (request, whole) = (fake.next_request().unwrap(), content(3));
        let (kind, size) = (Some(Kind::File), Some(whole.len() as u64));
        fake.reply(&request, Headers { form: Form::Begin, kind, size, ..known.clone() }, 0, false, b"");
        fake.reply(&request, data(&whole), 0, true, &whole);
        fake.end(&request);
    };
    let small = move |fake: &mut Fake| {
        let request = fake.next_request().unwrap();
        fake.begin(&request, Kind::Directory, 0);
        fake.end(&request);
        let list = fake.next_request().unwrap();
        let digest = *blake3::hash(b"x").as_bytes();
        let (kind, name, size, mtime_ns, mode, target) = (Kind::File, b"small", 1, 0, 0o644, &b""[..]);
        let extra = Extra { link: HardLink::None, owner: headers.owner, xattrs: headers.xattrs.as_deref() };
        let entry = Entry { kind, name, size, mtime_ns, mode, target, content: Some((&digest, b"x")), extra };
        let mut pack = Vec::new();
        put_entry_with_extra(&mut pack, &entry).unwrap();
        let headers = Headers { form: Form::Pack, extra: true, ..Headers::default() };
        fake.reply(&list, headers, 0, false, &pack);
        fake.end(&list);
    };
    let get = |client: &Client| client.get_by("/file", &to.join("large"), rules.clone()).wait().unwrap();
    let one = with_client(large, get);
    (one, with_client(small, |client| client.get_by("/file", to, rules.clone()).wait().unwrap()))
}

fn codes(report: &Report) -> Vec<Code> {
    report.failed.iter().map(|(_, error)| error.code).collect()
}

fn encoded(name: &[u8], len: usize) -> Vec<u8> {
    [&[name.len() as u8], name, &(len as u32).to_be_bytes(), &vec![1; len]].concat()
}

#[test]
fn attributes_that_are_invalid_fail_the_file_and_unasked_ones_are_ignored() {
    let all = Rules { owner: true, xattrs: true, ..Rules::default() };
    let xattrs = |xattrs: Vec<u8>| Headers { xattrs: Some(xattrs), ..Headers::default() };
    for (code, headers) in [
        (Code::Invalid, xattrs(encoded(b"security.selinux", 3))),
        (Code::Invalid, xattrs(encoded(b"trusted.overlay.opaque", 1))),
        (Code::Invalid, xattrs(encoded(b"user.", 3))),
        (Code::Invalid, xattrs(b"\x07user.a".to_vec())),
        (Code::Limit, xattrs(encoded(b"user.a", 70_000))),
        (Code::Invalid, Headers { owner: Some((u32::MAX, 0)), ..Headers::default() }),
        (Code::Invalid, Headers { owner: Some((0, u32::MAX)), ..Headers::default() }),
    ] {
        let to = tempfile::tempdir().unwrap();
        let (large, small) = fetch(to.path(), all.clone(), headers.clone());
        assert_eq!((codes(&large), codes(&small)), (vec![code], vec![code]), "{headers:?}");
        assert!(!to.path().join("large").exists() && !to.path().join("file/small").exists());
        let (large, small) = fetch(to.path(), Rules::default(), headers);
        assert_eq!((large.failed, small.failed), (vec![], vec![]));
    }
}

/// Without the right to give files away it is told; nothing gets its name with another owner.
#[test]
fn an_owner_that_may_not_be_set_fails_the_file() {
    let to = tempfile::tempdir().unwrap();
    let own = fs::metadata(to.path()).unwrap();
    let owner = (own.uid() + 9, own.gid());
    let rules = Rules { owner: true, ..Rules::default() };
    let (large, small) = fetch(to.path(), rules, Headers { owner: Some(owner), ..Headers::default() });
    let paths = [to.path().join("large"), to.path().join("file/small")];
    for (report, path) in [large, small].iter().zip(&paths) {
        match codes(report)[..] {
            // The test runs with the right.
            [] => assert_eq!(fs::metadata(path).unwrap().uid(), owner.0),
            [Code::Denied] => assert!(!path.exists()),
            _ => panic!("{report:?}"),
        }
    }
}
