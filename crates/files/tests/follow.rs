//! Paths that are followed, and directories that are mirrored.

mod common;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use common::Gate;
use pinnace_files::client::{Client, Event, Transfer};
use pinnace_files::error::{Code, Error};
use pinnace_files::rules::{Deletion, Rules};
use pinnace_files::server::{Server, ServerBuilder};
use pinnace_files::tree::parts::part_name;
use tempfile::TempDir;

/// How long a change may take; far longer than it does.
const SOON: Duration = Duration::from_secs(20);

/// The names below a directory: a file with its content, a link with its target, a directory with nothing.
fn tree(path: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut stack = vec![path.to_owned()];
    while let Some(directory) = stack.pop() {
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        for entry in entries.map_while(Result::ok) {
            let (at, kind) = (entry.path(), entry.file_type().unwrap());
            let name = at.strip_prefix(path).unwrap().to_owned();
            if name.file_name().unwrap().to_string_lossy().ends_with(".part") {
                continue;
            }
            let content = match kind {
                kind if kind.is_dir() => None,
                kind if kind.is_symlink() => {
                    Some(fs::read_link(&at).unwrap().into_os_string().into_encoded_bytes())
                }
                _ => fs::read(&at).ok(),
            };
            found.insert(name, content);
            if kind.is_dir() {
                stack.push(at);
            }
        }
    }
    found
}

struct Dirs {
    _dir: TempDir,
    from: PathBuf,
    to: PathBuf,
}

fn dirs() -> Dirs {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    fs::create_dir(&from).unwrap();
    Dirs { _dir: dir, from, to }
}

fn builder(from: &Path) -> ServerBuilder {
    Server::builder()
        .folder("/data", from)
        .unwrap()
        .bind("tcp://127.0.0.1:*")
        .quiet(Duration::from_millis(200))
}

/// Follows events until one that `is` the last.
fn wait_for(transfer: &Transfer, is: impl Fn(&Event) -> bool) -> Vec<String> {
    let mut seen = Vec::new();
    loop {
        let event = transfer.next_event_within(SOON).unwrap_or_else(|error| panic!("{error}: {seen:?}"));
        seen.push(format!("{event:?}"));
        assert!(!matches!(event, Event::Failed { .. } | Event::Aborted(_)), "{seen:?}");
        if is(&event) {
            return seen;
        }
    }
}

fn is_current(event: &Event) -> bool {
    matches!(event, Event::Current)
}

/// Waits until the copy is what the source is.
fn wait_until_equal(dirs: &Dirs) {
    let deadline = Instant::now() + SOON;
    loop {
        let (from, to) = (tree(&dirs.from), tree(&dirs.to));
        if from == to {
            return;
        }
        let names = |tree: &BTreeMap<PathBuf, _>| tree.keys().cloned().collect::<Vec<_>>();
        assert!(Instant::now() < deadline, "{:?} and {:?}", names(&from), names(&to));
        std::thread::yield_now();
    }
}

#[test]
fn what_changes_is_fetched() {
    let dirs = dirs();
    fs::create_dir_all(dirs.from.join("sub/deep")).unwrap();
    fs::write(dirs.from.join("sub/a"), "old").unwrap();
    let server = builder(&dirs.from).start().unwrap();
    let client = Client::connect(&server.endpoints()[0]).unwrap();
    let transfer = client.follow("/data/", &dirs.to, Rules::mirror());
    wait_for(&transfer, is_current);
    assert_eq!(tree(&dirs.to), tree(&dirs.from));

    fs::write(dirs.from.join("sub/a"), "new content").unwrap();
    fs::write(dirs.from.join("sub/deep/large"), vec![7; 3_000_000]).unwrap();
    std::os::unix::fs::symlink("sub/a", dirs.from.join("link")).unwrap();
    fs::create_dir_all(dirs.from.join("new/x/y/z")).unwrap();
    for number in 0..100 {
        fs::write(dirs.from.join(format!("new/x/y/z/{number}")), number.to_string()).unwrap();
    }
    wait_until_equal(&dirs);
    // Names go, and others come in their place.
    fs::remove_file(dirs.from.join("link")).unwrap();
    fs::remove_dir_all(dirs.from.join("new")).unwrap();
    fs::write(dirs.from.join("new"), "a file now").unwrap();
    wait_until_equal(&dirs);
    let mode = |path: &Path| fs::metadata(path.join("sub/a")).unwrap().permissions().mode();
    fs::set_permissions(dirs.from.join("sub/a"), fs::Permissions::from_mode(0o600)).unwrap();
    let deadline = Instant::now() + SOON;
    while mode(&dirs.to) != mode(&dirs.from) {
        assert!(Instant::now() < deadline, "permissions are told too");
        std::thread::yield_now();
    }
}

#[test]
fn what_is_moved_is_not_sent_again() {
    let dirs = dirs();
    fs::create_dir_all(dirs.from.join("a/b")).unwrap();
    fs::write(dirs.from.join("a/b/large"), vec![7; 3_000_000]).unwrap();
    fs::write(dirs.from.join("a/one"), "one").unwrap();
    let server = builder(&dirs.from).start().unwrap();
    let client = Client::connect(&server.endpoints()[0]).unwrap();
    let transfer = client.follow("/data/", &dirs.to, Rules::mirror());
    wait_for(&transfer, is_current);
    let sent = server.sent_bytes();
    let inode = fs::metadata(dirs.to.join("a/b/large")).unwrap().ino();
    fs::rename(dirs.from.join("a"), dirs.from.join("moved")).unwrap();
    wait_for(&transfer, |event| matches!(event, Event::Moved { to, here: true, .. } if to == "/data/moved"));
    let mut seen = wait_for(&transfer, is_current);
    fs::rename(dirs.from.join("moved/b/large"), dirs.from.join("large")).unwrap();
    wait_for(&transfer, |event| matches!(event, Event::Moved { to, here: true, .. } if to == "/data/large"));
    wait_until_equal(&dirs);
    assert_eq!(fs::metadata(dirs.to.join("large")).unwrap().ino(), inode);
    assert!(server.sent_bytes() < sent + 1000, "{sent} and {}", server.sent_bytes());
    // What is written in a moved directory is noticed.
    fs::write(dirs.from.join("moved/b/new"), "new").unwrap();
    let is_new = |event: &Event| matches!(event, Event::Finished { path, .. } if path == "/data/moved/b/new");
    seen.extend(wait_for(&transfer, is_new));
    assert!(!seen.iter().any(|event| event.contains("Removed")), "a move is no removal: {seen:?}");
    wait_until_equal(&dirs);
}

#[test]
fn what_is_in_the_way_of_a_new_directory_is_told_once() {
    let dirs = dirs();
    let new = dirs.from.with_file_name("new");
    for path in [&new, &dirs.to] {
        fs::create_dir(path).unwrap();
    }
    for name in ["a", "b"] {
        fs::write(new.join(name), name).unwrap();
    }
    fs::write(dirs.to.join("new"), "a file").unwrap();
    let server = builder(&dirs.from).start().unwrap();
    let client = Client::connect(&server.endpoints()[0]).unwrap();
    let transfer = client.follow("/data/", &dirs.to, Rules::default());
    wait_for(&transfer, is_current);
    fs::rename(new, dirs.from.join("new")).unwrap();
    let mut failed = Vec::new();
    loop {
        match transfer.next_event_within(SOON).unwrap() {
            Event::Failed { path, error } => failed.push((path, error.code)),
            Event::Current => break,
            _ => {}
        }
    }
    assert_eq!(failed, [("/data/new".to_owned(), Code::Denied)]);
    // Once it has gone, all of the directory arrives.
    fs::remove_file(dirs.to.join("new")).unwrap();
    fs::rename(dirs.from.join("new"), dirs.from.join("other")).unwrap();
    wait_until_equal(&dirs);
}

/// Moves that come faster than they are told of.
#[test]
fn many_moves_end_where_the_source_is() {
    let dirs = dirs();
    for name in ["a/b/c", "x/y"] {
        fs::create_dir_all(dirs.from.join(name)).unwrap();
        (0..20).for_each(|file| fs::write(dirs.from.join(name).join(format!("{file}")), name).unwrap());
    }
    let server = builder(&dirs.from).start().unwrap();
    let client = Client::connect(&server.endpoints()[0]).unwrap();
    let transfer = client.follow("/data/", &dirs.to, Rules::mirror());
    wait_for(&transfer, is_current);
    let rename = |from: &str, to: &str| fs::rename(dirs.from.join(from), dirs.from.join(to)).unwrap();
    for _ in 0..20 {
        rename("a", "moved");
        rename("moved/b/c/1", "moved/b/1");
        rename("moved/b/c", "x/c");
        rename("x/y", "moved/y");
        fs::write(dirs.from.join("x/c/new"), "new").unwrap();
        rename("moved/y", "y");
        rename("x/c", "y/c");
        rename("moved/b/1", "y/c/1");
        rename("moved", "a");
        rename("y/c", "a/b/c");
        rename("y", "x/y");
    }
    wait_until_equal(&dirs);
}

/// A program that writes a file beside its place, and renames it.
#[test]
fn a_file_that_is_replaced_is_fetched_once() {
    let dirs = dirs();
    fs::write(dirs.from.join("file"), "first").unwrap();
    let server = builder(&dirs.from).start().unwrap();
    let client = Client::connect(&server.endpoints()[0]).unwrap();
    let transfer = client.follow("/data/", &dirs.to, Rules::mirror());
    wait_for(&transfer, is_current);
    fs::write(dirs.from.join("file.new"), "second version").unwrap();
    fs::rename(dirs.from.join("file.new"), dirs.from.join("file")).unwrap();
    wait_until_equal(&dirs);
}

#[test]
fn an_open_file_is_sent_when_it_is_quiet_or_closed() {
    let dirs = dirs();
    let server = builder(&dirs.from).start().unwrap();
    let client = Client::connect(&server.endpoints()[0]).unwrap();
    let transfer = client.follow("/data/", &dirs.to, Rules::default());
    wait_for(&transfer, is_current);
    let mut open = fs::File::create(dirs.from.join("log")).unwrap();
    for line in 0..3 {
        writeln!(open, "line {line}").unwrap();
        wait_until_equal(&dirs);
    }
    drop(open);
}

/// The server is away while the source changes.
#[test]
fn what_was_missed_is_made_up_for() {
    let dirs = dirs();
    for name in ["stays", "goes", "changes"] {
        fs::write(dirs.from.join(name), name).unwrap();
    }
    let endpoint = format!("ipc://{}/socket", dirs._dir.path().display());
    let start = || Server::builder().folder("/data", &dirs.from).unwrap().bind(&endpoint).start().unwrap();
    let server = start();
    let client = Client::connect(&endpoint).unwrap();
    let transfer = client.follow("/data/", &dirs.to, Rules::mirror());
    wait_for(&transfer, is_current);
    fs::write(dirs.to.join("own"), "of the copy alone").unwrap();
    drop(server);
    fs::remove_file(dirs.from.join("goes")).unwrap();
    fs::write(dirs.from.join("changes"), "changed").unwrap();
    let _server = start();
    wait_for(&transfer, is_current);
    assert_eq!(tree(&dirs.to), tree(&dirs.from));
}

/// The server is away for longer than it may take to answer.
#[test]
fn a_followed_path_waits_for_its_server() {
    let dirs = dirs();
    let endpoint = format!("ipc://{}/socket", dirs._dir.path().display());
    let start = || Server::builder().folder("/data", &dirs.from).unwrap().bind(&endpoint).start().unwrap();
    let connect = |ms| Client::builder(&endpoint).patience(Duration::from_millis(ms)).connect().unwrap();
    let never = connect(100).follow("/data/", &dirs.to, Rules::mirror());
    assert!(matches!(never.wait(), Err(Error::NoServer(_))), "it has not answered yet");
    let (server, client) = (start(), connect(2000));
    let transfer = client.follow("/data/", &dirs.to, Rules::mirror());
    wait_for(&transfer, is_current);
    drop(server);
    wait_for(&transfer, |event| matches!(event, Event::Lost(Error::NoServer(_))));
    // A transfer that does not follow ends, and the other one is not told again.
    assert!(matches!(client.get("/data/", &dirs.to).wait(), Err(Error::NoServer(_))));
    fs::write(dirs.from.join("new"), "new").unwrap();
    let _server = start();
    let seen = wait_for(&transfer, is_current);
    assert!(!seen.iter().any(|event| event.starts_with("Lost")), "{seen:?}");
    assert_eq!(tree(&dirs.to), tree(&dirs.from));
}

/// A path that does not exist yet.
/// A file that changes at the source, and one of the listing.
#[test]
fn a_followed_file_that_another_transfer_writes_is_waited_for() {
    let dirs = dirs();
    let server = builder(&dirs.from).start().unwrap();
    let client = Client::connect(&server.endpoints()[0]).unwrap();
    fs::create_dir(&dirs.to).unwrap();
    let lock = |name: &[u8]| {
        let part = dirs.to.join(OsStr::from_bytes(&part_name(name)));
        let other = fs::File::create(part).unwrap();
        other.lock().unwrap();
        other
    };
    let content = vec![7; 3 << 20];
    let await_sent = |octets: usize| {
        let deadline = Instant::now() + SOON;
        while server.sent_bytes() < octets as u64 {
            assert!(Instant::now() < deadline, "it is not sent again");
            std::thread::yield_now();
        }
    };
    fs::write(dirs.from.join("listed"), &content).unwrap();
    let mut other = lock(b"listed");
    let transfer = client.follow("/data/", &dirs.to, Rules::mirror());
    await_sent(2 * content.len());
    drop(other);
    wait_for(&transfer, |event| matches!(event, Event::Finished { .. }));
    other = lock(b"changed");
    let before = server.sent_bytes() as usize;
    fs::write(dirs.from.join("changed"), &content).unwrap();
    await_sent(before + 2 * content.len());
    drop(other);
    wait_for(&transfer, |event| matches!(event, Event::Finished { .. }));
    wait_until_equal(&dirs);
}

#[test]
fn a_path_may_come_later() {
    let dirs = dirs();
    let server = builder(&dirs.from).start().unwrap();
    let client = Client::connect(&server.endpoints()[0]).unwrap();
    let transfer = client.follow("/data/later/on/", &dirs.to, Rules::mirror());
    wait_for(&transfer, is_current);
    fs::create_dir_all(dirs.from.join("later/on")).unwrap();
    fs::write(dirs.from.join("later/on/file"), "here").unwrap();
    let deadline = Instant::now() + SOON;
    while fs::read(dirs.to.join("file")).ok() != Some(b"here".to_vec()) {
        assert!(Instant::now() < deadline);
        std::thread::yield_now();
    }
    // If the path itself goes, the copy stays.
    fs::remove_dir_all(dirs.from.join("later")).unwrap();
    wait_for(
        &transfer,
        |event| matches!(event, Event::Removed { path, here: false } if path == "/data/later/on/"),
    );
    assert!(dirs.to.is_dir());
}

#[test]
fn without_deletion_nothing_is_removed() {
    let dirs = dirs();
    fs::write(dirs.from.join("a"), "a").unwrap();
    let server = builder(&dirs.from).start().unwrap();
    let client = Client::connect(&server.endpoints()[0]).unwrap();
    let transfer = client.follow("/data/", &dirs.to, Rules::default());
    wait_for(&transfer, is_current);
    fs::remove_file(dirs.from.join("a")).unwrap();
    wait_for(&transfer, |event| matches!(event, Event::Removed { here: false, .. }));
    assert_eq!(fs::read(dirs.to.join("a")).unwrap(), b"a");
}

#[test]
fn a_mirror_removes_what_the_source_does_not_have() {
    let dirs = dirs();
    fs::create_dir_all(dirs.from.join("both")).unwrap();
    fs::write(dirs.from.join("both/file"), "new").unwrap();
    for name in ["both/own", "own/deep/file", "own/other"] {
        let path = dirs.to.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "own").unwrap();
    }
    let server = builder(&dirs.from).start().unwrap();
    let client = Client::connect(&server.endpoints()[0]).unwrap();
    let mirror = |deletion| {
        client
            .get_by("/data/", &dirs.to, Rules { deletion: Some(deletion), ..Rules::default() })
            .wait()
            .unwrap()
    };
    // both/own, own, own/deep, own/deep/file, own/other
    let report = mirror(Deletion { most: Some(4), ..Deletion::default() });
    assert_eq!(report.failed.len(), 1, "{report:?}");
    assert_eq!(report.failed[0].1.code, Code::Limit, "{report:?}");
    assert_eq!(tree(&dirs.to).len(), 7);
    let report = mirror(Deletion { most: Some(5), ..Deletion::default() });
    assert!(report.failed.is_empty(), "{report:?}");
    assert_eq!(tree(&dirs.to), tree(&dirs.from));

    fs::remove_dir_all(dirs.from.join("both")).unwrap();
    let report = mirror(Deletion::default());
    assert_eq!(report.failed[0].1.code, Code::Denied, "an empty source: {report:?}");
    assert_eq!(tree(&dirs.to).len(), 2);
    assert!(mirror(Deletion { force: true, ..Deletion::default() }).failed.is_empty());
    assert!(tree(&dirs.to).is_empty());
}

/// Removals that are told one by one count as those of listings do, for as long as the path is followed.
#[test]
fn a_followed_copy_loses_no_more_than_is_allowed() {
    let dirs = dirs();
    for name in ["one/a", "one/b", "two", "three"] {
        fs::create_dir_all(dirs.from.join(name).parent().unwrap()).unwrap();
        fs::write(dirs.from.join(name), name).unwrap();
    }
    let server = builder(&dirs.from).start().unwrap();
    let client = Client::connect(&server.endpoints()[0]).unwrap();
    let deletion = Some(Deletion { most: Some(2), ..Deletion::default() });
    let transfer = client.follow("/data/", &dirs.to, Rules { deletion, ..Rules::default() });
    wait_for(&transfer, is_current);
    // Of a directory that is moved away only its own name is told: that would remove three names.
    fs::rename(dirs.from.join("one"), dirs._dir.path().join("elsewhere")).unwrap();
    let failed = |path: &str| loop {
        match transfer.next_event_within(SOON).unwrap() {
            Event::Failed { path: failed, error } if failed == path => {
                assert_eq!(error.code, Code::Limit, "{error}");
                return error.text;
            }
            Event::Removed { path, here } => assert!(here, "{path}"),
            event => assert!(!matches!(event, Event::Failed { .. } | Event::Aborted(_)), "{event:?}"),
        }
    };
    let text = failed("/data/one");
    assert_eq!(text, "nothing was removed: 3 removals are due, and 2 allowed");
    fs::remove_file(dirs.from.join("two")).unwrap();
    wait_for(&transfer, |event| matches!(event, Event::Removed { path, here: true } if path == "/data/two"));
    fs::rename(dirs._dir.path().join("elsewhere"), dirs.from.join("one")).unwrap();
    wait_until_equal(&dirs);
    fs::remove_file(dirs.from.join("one/a")).unwrap();
    wait_for(&transfer, |event| matches!(event, Event::Removed { path, .. } if path == "/data/one/a"));
    fs::remove_file(dirs.from.join("three")).unwrap();
    failed("/data/three");
    assert!(dirs.to.join("three").exists());
}

#[test]
fn a_dry_run_of_a_followed_path_removes_nothing() {
    let dirs = dirs();
    let server = builder(&dirs.from).start().unwrap();
    fs::write(dirs.from.join("a"), "a").unwrap();
    let client = Client::connect(&server.endpoints()[0]).unwrap();
    assert_eq!(client.get("/data/", &dirs.to).wait().unwrap().files, 1);
    let transfer = client.follow("/data/", &dirs.to, Rules { dry_run: true, ..Rules::mirror() });
    wait_for(&transfer, is_current);
    fs::remove_file(dirs.from.join("a")).unwrap();
    wait_for(&transfer, |event| matches!(event, Event::Planned { path, removal: true } if path == "/data/a"));
    assert!(dirs.to.join("a").exists());
}

/// A listing that the client does not get whole removes nothing.
#[test]
fn a_connection_that_is_lost_within_the_listing_removes_nothing() {
    let dirs = dirs();
    fs::create_dir_all(&dirs.to).unwrap();
    for number in 0..5000 {
        fs::write(dirs.from.join(format!("a name that is long enough {number}")), "").unwrap();
    }
    let server = builder(&dirs.from).start().unwrap();
    assert!(
        Client::connect(&server.endpoints()[0])
            .unwrap()
            .get("/data/", &dirs.to)
            .wait()
            .unwrap()
            .failed
            .is_empty()
    );
    let gate = Gate::new(&server.endpoints()[0]);
    let client = Client::builder(&gate.endpoint).patience(Duration::from_secs(1)).connect().unwrap();
    gate.allow(100_000);
    let deletion = Some(Deletion { force: true, most: None });
    let rules = Rules { deletion, ..Rules::default() };
    let transfer = client.get_by("/data/", &dirs.to, rules);
    drop(server);
    transfer.cancel();
    assert!(transfer.wait().is_err());
    assert_eq!(tree(&dirs.to), tree(&dirs.from));
}
