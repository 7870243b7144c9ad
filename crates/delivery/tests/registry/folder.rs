//! Specific to a directory: invalid files, deaths that change no file, old modification times.

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use pinnace_delivery::registry::{RegistryError, open};

use crate::place::{LONG, Place, entry, id, is_taken, until, with_topics};

#[test]
fn what_makes_no_sense_is_passed_over() {
    let place = Place::folder();
    let mut one = place.open();
    one.claim(&entry("one", 1)).unwrap();
    let whole = fs::read(place.path().join("one")).unwrap();
    for len in 0..whole.len() {
        fs::write(place.path().join(format!("cut{len}")), &whole[..len]).unwrap();
    }
    fs::write(place.path().join("copy"), &whole).unwrap();
    fs::write(place.path().join("noise"), [0xa5; 100_000]).unwrap();
    fs::create_dir(place.path().join("folder")).unwrap();
    std::os::unix::fs::symlink(place.path().join("one"), place.path().join("link")).unwrap();
    std::os::unix::fs::symlink("nowhere", place.path().join("nowhere")).unwrap();
    let piped = std::process::Command::new("mkfifo").arg(place.path().join("pipe")).status().unwrap();
    assert!(piped.success());
    let held = File::open(place.path().join("noise")).unwrap();
    held.lock().unwrap();

    let mut observer = place.observer();
    assert_eq!(observer.look().iter().map(|member| member.name.as_str()).collect::<Vec<_>>(), ["one"]);
    assert_eq!(observer.registry.clear("all"), Ok(0));
    assert!(is_taken(observer.registry.claim(&entry("noise", 2))), "somebody has it");
    drop(held);
    for name in ["noise", "copy", "cut9", "link", "nowhere", "pipe"] {
        observer.registry.claim(&entry(name, 2)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(observer.get(name).unwrap().id, Some(id(2)));
    }
    let refused = observer.registry.claim(&entry("folder", 2));
    assert!(matches!(refused, Err(RegistryError::Io { .. })), "{refused:?}");
    // Damaged in place: the name still belongs to its holder, which can repair it.
    fs::write(place.path().join("one"), b"spoiled").unwrap();
    assert!(is_taken(observer.registry.claim(&entry("one", 2))));
    assert!(place.observer().get("one").is_none());
    one.claim(&entry("one", 1)).unwrap();
    assert!(place.observer().get("one").is_some());
}

#[test]
fn a_folder_that_is_gone_is_an_error_until_a_claim_makes_it_again() {
    let place = Place::folder();
    let mut registry = place.open();
    registry.claim(&entry("one", 1)).unwrap();
    fs::remove_dir_all(place.path()).unwrap();
    assert!(matches!(registry.members(), Err(RegistryError::Io { .. })));
    assert_eq!(registry.renew("one", &id(1)), Err(RegistryError::Lost));
    registry.claim(&entry("one", 1)).unwrap();
    assert!(place.observer().get("one").is_some());
    fs::remove_dir_all(place.path()).unwrap();
    fs::write(place.path(), b"a file").unwrap();
    assert!(matches!(registry.claim(&entry("one", 1)), Err(RegistryError::Io { .. })));
    assert!(matches!(open(&place.url()), Err(RegistryError::Io { .. })));
}

#[test]
fn an_object_that_goes_is_as_if_killed() {
    let place = Place::folder();
    let (mut one, mut observer) = (place.open(), place.observer());
    one.claim(&entry("one", 1)).unwrap();
    assert!(observer.get("one").is_some());
    drop(one);
    until("it to leave", || observer.get("one").is_none());
    assert_eq!(observer.registry.clear("all"), Ok(1));
}

/// All files seem old, so only changed ones are read.
#[test]
fn nothing_is_missed_where_nothing_is_in_doubt() {
    let place = Place::folder();
    let mut one = place.open();
    one.claim(&entry("one", 1)).unwrap();
    let mut child = place.child("hold", 0..2, LONG);
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    for file in ["one", "client0", "client1", ""] {
        File::open(place.path().join(file)).unwrap().set_modified(long_ago).unwrap();
    }
    let mut observer = place.observer();
    assert_eq!(observer.look().len(), 3);
    assert_eq!(observer.registry.members(), Ok(None));
    child.kill();
    until("the dead to leave, which changed no file", || observer.look().len() == 1);
    one.claim(&with_topics(entry("one", 1), &["news"])).unwrap();
    assert_eq!(observer.get("one").unwrap().topics, ["news"]);
    File::open(place.path()).unwrap().set_modified(long_ago).unwrap();
    assert_eq!(observer.registry.members(), Ok(None));
    one.claim(&entry("two", 2)).unwrap();
    assert_eq!(observer.look().len(), 2);
    // Ahead of our clock, so nothing is certain.
    File::open(place.path()).unwrap().set_modified(SystemTime::now() + Duration::from_secs(3600)).unwrap();
    assert_eq!(observer.registry.members(), Ok(None));
    one.release("two", &id(2)).unwrap();
    assert_eq!(observer.look().len(), 1);
}

#[test]
fn what_a_kill_left_half_done_is_no_hindrance() {
    let place = Place::folder();
    let mut registry = place.open();
    fs::write(place.path().join(".new"), b"half").unwrap();
    registry.claim(&entry("one", 1)).unwrap();
    assert!(place.observer().get("one").is_some());
    assert!(!place.path().join(".new").exists());
}

#[test]
fn who_keeps_the_folder_locked_is_waited_for() {
    let place = Place::folder();
    let mut registry = place.open();
    registry.claim(&entry("one", 1)).unwrap();
    let lock = File::open(place.path().join(".lock")).unwrap();
    lock.lock().unwrap();
    assert_eq!(registry.claim(&entry("two", 2)), Err(RegistryError::Busy));
    assert_eq!(place.observer().look().len(), 1, "who reads needs no lock");
    registry.renew("one", &id(1)).unwrap();
    drop(lock);
    registry.claim(&entry("two", 2)).unwrap();
}
