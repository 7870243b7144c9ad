//! A store's files: they belong to one user, and are missed when somebody removes them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use pinnace_delivery::{Client, Durability, Error, Options};

fn start(store: &Path) -> Result<Client, Error> {
    Client::builder("client", "c").data_dir(store).registry("none").start()
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn logs(store: &Path) -> Vec<std::path::PathBuf> {
    let files = fs::read_dir(store).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|ending| ending == "log")).collect()
}

#[test]
fn a_store_is_its_users_alone() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("state/store");
    let client = start(&store).unwrap();
    client.send_all("news", b"secret").unwrap();
    assert_eq!((mode(&store), mode(store.parent().unwrap())), (0o700, 0o700));
    let files = logs(&store);
    assert!(!files.is_empty() && files.iter().all(|file| mode(file) == 0o600));
}

/// Files of an earlier version, which others could read.
#[test]
fn older_files_are_closed_to_others() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    drop(start(&store).unwrap());
    logs(&store).iter().for_each(|file| set_mode(file, 0o644));
    drop(start(&store).unwrap());
    assert!(logs(&store).iter().all(|file| mode(file) == 0o600));
}

#[test]
fn a_directory_that_everybody_can_change_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (parent, store) = (dir.path().join("parent"), dir.path().join("parent/store"));
    fs::create_dir_all(&store).unwrap();
    let refused = || Some(Error::Public(store.canonicalize().unwrap()));
    set_mode(&store, 0o777);
    assert_eq!(start(&store).err(), refused());
    set_mode(&store, 0o1777);
    assert_eq!(start(&store).err(), refused(), "others can put files in");
    set_mode(&store, 0o755);
    set_mode(&parent, 0o777);
    assert_eq!(start(&store).err(), refused(), "others can replace it");
    assert!(logs(&store).is_empty());
    set_mode(&parent, 0o1777);
    start(&store).expect("as below /tmp");
}

/// Each message before the removal is on the disk; none is accepted into files that are gone.
#[test]
fn removed_files_are_missed_at_the_next_sync() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let client = start(&store).unwrap();
    let options = Options { durability: Durability::Sync, ..Options::default() };
    client.send("news", b"one", &options).unwrap();
    // The store's thread may be making a file meanwhile.
    while let Err(error) = fs::remove_dir_all(&store) {
        assert_eq!(error.kind(), std::io::ErrorKind::DirectoryNotEmpty);
    }
    for _ in 0..2 {
        match client.send("news", b"lost", &options) {
            Err(Error::Failed(failure)) => assert!(failure.text.contains("removed"), "{}", failure.text),
            other => panic!("{other:?}"),
        }
    }
}

/// Earlier builds know no version of a store: to them this file is damage, whose name says why.
#[test]
fn a_store_that_earlier_builds_would_damage_is_guarded() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let guard = store.join("needs-a-later-version-of-pinnace.log");
    let client = start(&store).unwrap();
    let with_id = |durability| Options { durability, id: Some("7"), ..Options::default() };
    client.send_to("work", b"plain").unwrap();
    client.send("memory", b"never in the log", &with_id(Durability::Memory)).unwrap();
    assert!(!guard.exists());
    client.send("work", b"with an id", &with_id(Durability::Interval)).unwrap();
    let bytes = fs::read(&guard).unwrap();
    assert!(bytes.len() == 1 << 20 && bytes.starts_with(b"PINGUARD\x01\0\0\0\0\0\0\0"));
    drop(client);
    assert!(guard.exists(), "the message waits");

    let client = start(&store).unwrap();
    assert_eq!(client.clear_pending("work").unwrap(), 2);
    drop(client);
    assert!(!guard.exists());

    let client = start(&store).unwrap();
    assert_eq!(client.send_all("news", b"for those to come").unwrap(), 0);
    assert!(guard.exists());
    assert_eq!(pinnace_delivery::peek(&store).unwrap().len(), 1, "it is no damage");
    client.clear_pending("news").unwrap();
    drop(client);
    assert!(!guard.exists());
}

/// A guard of a later version is damage to this build.
#[test]
fn a_later_guard_is_not_passed() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    drop(start(&store).unwrap());
    let (guard, mut bytes) = (store.join("needs-what-comes.log"), vec![0; 1 << 20]);
    bytes[..9].copy_from_slice(b"PINGUARD\x02");
    fs::write(&guard, &bytes).unwrap();
    match start(&store).err() {
        Some(Error::Damaged(places)) => assert!(places[0].to_string().contains("needs-what-comes.log")),
        error => panic!("{error:?}"),
    }
    assert_eq!(fs::read(&guard).unwrap(), bytes);
}
