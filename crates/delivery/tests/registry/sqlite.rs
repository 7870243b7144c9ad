//! Specific to a database: expiring leases, and foreign or damaged files.

use std::fs;
use std::time::Duration;

use pinnace_delivery::Client;
use pinnace_delivery::registry::{Entry, RegistryError, open};
use rusqlite::Connection;

use crate::place::{Place, entry, id, until};

fn refused(place: &Place) -> RegistryError {
    open(&place.url()).err().expect("this is no registry")
}

fn foreign(place: &Place) -> String {
    match refused(place) {
        RegistryError::Foreign(text) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_lease_goes_on_by_renewing_alone() {
    let place = Place::sqlite();
    let (mut one, mut observer) = (place.open(), place.observer());
    let lease = Duration::from_secs(2);
    one.claim(&Entry { lease, ..entry("renewed", 1) }).unwrap();
    one.claim(&Entry { lease, ..entry("left", 2) }).unwrap();
    assert_eq!(observer.look().len(), 2);
    until("the lease to run out", || {
        one.renew("renewed", &id(1)).unwrap();
        observer.look().len() == 1
    });
    assert!(observer.get("renewed").is_some());
    // No other client took the name: the lease lives again. Others see that, although the count of expired leases is
    // the same as at their last call.
    let mut another = place.observer();
    until("the other to run out", || another.look().is_empty());
    one.renew("left", &id(2)).unwrap();
    assert!(observer.get("left").is_some());
    assert!(observer.get("renewed").is_none());
    until("both to run out", || observer.look().is_empty());
    assert_eq!(observer.registry.clear("all"), Ok(2));
    assert_eq!(one.renew("left", &id(2)), Err(RegistryError::Lost));
}

#[test]
fn a_file_that_is_no_database() {
    let place = Place::sqlite();
    for bytes in
        [&b"some text, long enough to be taken for the head of a database or so. "[..], &[0x5a; 8192]]
    {
        fs::write(place.path(), bytes).unwrap();
        foreign(&place);
        assert_eq!(fs::read(place.path()).unwrap(), bytes);
    }
    fs::write(place.path(), b"").unwrap();
    place.open().claim(&entry("one", 1)).unwrap();
}

#[test]
fn a_database_of_somebody_else_stays_as_it_is() {
    let place = Place::sqlite();
    let theirs = Connection::open(place.path()).unwrap();
    theirs.execute_batch("CREATE TABLE clients (name TEXT)").unwrap();
    let before = fs::read(place.path()).unwrap();
    assert!(foreign(&place).contains("another application"));
    assert_eq!(fs::read(place.path()).unwrap(), before);
}

#[test]
fn another_version_is_told() {
    let place = Place::sqlite();
    drop(place.open());
    let ours = Connection::open(place.path()).unwrap();
    for version in [0, 2] {
        ours.pragma_update(None, "user_version", version).unwrap();
        assert!(foreign(&place).contains(&format!("version {version},")));
    }
    ours.pragma_update(None, "user_version", 1).unwrap();
    place.open();
    ours.execute_batch("DROP INDEX topics_by_topic").unwrap();
    assert!(foreign(&place).contains("INDEX topics_by_topic"));
    ours.execute_batch("DROP TABLE topics").unwrap();
    assert!(foreign(&place).contains("TABLE topics"));
}

#[test]
fn what_is_spoiled_is_an_error() {
    let place = Place::sqlite();
    let mut registry = place.open();
    for number in 0..200 {
        registry.claim(&entry(&format!("client{number}"), number)).unwrap();
    }
    drop(registry);
    let whole = fs::read(place.path()).unwrap();
    // The WAL was merged into the database when the last connection closed.
    assert!(whole.len() > 16_384);
    let mut said = 0;
    for page in 1..whole.len() / 4096 {
        let mut spoiled = whole.clone();
        spoiled[page * 4096..(page + 1) * 4096].fill(0xff);
        fs::write(place.path(), &spoiled).unwrap();
        let claimed = open(&place.url()).and_then(|mut registry| {
            registry.members()?;
            registry.claim(&entry("one", 1))
        });
        match claimed {
            Ok(()) => {}
            Err(RegistryError::Damaged(_)) => said += 1,
            Err(other) => panic!("page {page}: {other:?}"),
        }
        for beside in ["registry-wal", "registry-shm"] {
            let _ = fs::remove_file(place.path().with_file_name(beside));
        }
    }
    assert!(said > 0);
    fs::write(place.path(), &whole[..8192]).unwrap();
    assert!(matches!(refused(&place), RegistryError::Damaged(_)));
}

#[test]
fn tables_that_vanish_are_an_error() {
    let place = Place::sqlite();
    let mut registry = place.open();
    registry.claim(&entry("one", 1)).unwrap();
    Connection::open(place.path()).unwrap().execute_batch("DROP TABLE topics; DROP TABLE clients").unwrap();
    assert!(matches!(registry.members(), Err(RegistryError::Damaged(_))));
    assert!(matches!(registry.claim(&entry("one", 1)), Err(RegistryError::Damaged(_))));
}

#[test]
fn who_reads_and_who_writes_do_not_wait_for_each_other() {
    let place = Place::sqlite();
    let (mut one, mut observer) = (place.open(), place.observer());
    one.claim(&entry("one", 1)).unwrap();
    let mut other = Connection::open(place.path()).unwrap();
    let mode: String = other.query_row("PRAGMA journal_mode", (), |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
    let alone = other.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
    alone.execute("DELETE FROM clients", ()).unwrap();
    assert!(observer.get("one").is_some(), "it is not done yet");
    assert_eq!(one.renew("one", &id(1)), Err(RegistryError::Busy));
    drop(alone);
    one.renew("one", &id(1)).unwrap();
}

#[test]
fn a_directory_that_is_missing() {
    let place = Place::sqlite();
    let missing = open(&format!("{}/below", place.url()));
    assert!(matches!(missing, Err(RegistryError::Io { .. })));
}

#[test]
fn many_make_it_at_once() {
    for _ in 0..10 {
        let place = Place::sqlite();
        std::thread::scope(|scope| {
            for number in 0..6 {
                let place = &place;
                scope.spawn(move || place.open().claim(&entry(&format!("client{number}"), number)).unwrap());
            }
        });
        assert_eq!(place.observer().look().len(), 6);
    }
}

/// Two clients of a database that is removed, moved away or replaced find each other again, and new clients.
#[test]
fn a_database_that_is_not_there_any_more() {
    let (place, dir) = (Place::sqlite(), tempfile::tempdir().unwrap());
    let start = |name: &str| {
        let builder = Client::builder(name, &format!("{name}'s")).data_dir(dir.path().join(name));
        // Each uses a path of its own, as if it were in another process.
        let (path, way) = (place.path(), "./".repeat(name.len()));
        let folder = path.parent().unwrap().display();
        builder.registry(&format!("sqlite://{folder}/{way}registry")).start().unwrap()
    };
    let (one, second) = (start("one"), start("second"));
    let (path, aside) = (place.path(), dir.path().join("aside"));
    let beside = |of: &str| path.with_file_name(format!("registry{of}"));
    for what in ["removed", "all removed", "moved", "back"] {
        match what {
            "removed" => fs::remove_file(&path).unwrap(),
            "all removed" => ["", "-wal", "-shm"].iter().for_each(|of| drop(fs::remove_file(beside(of)))),
            "moved" => fs::rename(&path, &aside).unwrap(),
            _ => fs::rename(&aside, &path).unwrap(),
        }
        until(what, || place.observer().look().len() == 2);
        let three = start("third one");
        for (client, topic) in [(&one, "third one's"), (&second, "one's"), (&three, "second's")] {
            until(&format!("{topic} when it is {what}"), || client.addresses_of(topic).len() == 1);
        }
        drop(three);
        until("the third to leave", || one.addresses_of("third one's").is_empty());
    }
    assert_eq!((one.registry_error(), second.registry_error()), (None, None));
}
