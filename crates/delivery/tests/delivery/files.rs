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
