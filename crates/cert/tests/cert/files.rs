//! Directories with more than complete certificates: concurrent saves, temporary files, symlink loops, FIFOs.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::{Barrier, mpsc};
use std::time::Duration;

use pinnace_cert::{Certificate, Error, Store, secret_path};

/// After this time a call counts as blocked forever.
const PATIENCE: Duration = Duration::from_secs(20);

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn threads_may_save_to_one_path() {
    const THREADS: usize = 8;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shared");
    let (certificate, start) = (Certificate::generate().unwrap(), Barrier::new(THREADS));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                start.wait();
                for _ in 0..10 {
                    certificate.save(&path).unwrap();
                    assert_eq!(Certificate::load(&path).unwrap(), certificate);
                }
            });
        }
    });
    assert_eq!(names(directory.path()), ["shared", "shared_secret"]);
}

/// Such files may remain from a process that died while saving; a later process may have the same process id.
#[test]
fn left_overs_are_in_nobodys_way_and_nobody_is_known_by_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mine");
    let number = std::process::id();
    let (left, other) = (format!("mine_secret.{number}.new"), format!("mine.{number}.new"));
    for name in [&left, &other] {
        std::fs::write(directory.path().join(name), "# somebody else's").unwrap();
    }
    Certificate::generate().unwrap().save(&path).unwrap();
    assert_eq!(names(directory.path()), ["mine", &other, "mine_secret", &left]);

    let store = tempfile::tempdir().unwrap();
    let half_saved = store.path().join("mine_secret.0123456789abcdef.new");
    std::fs::copy(secret_path(&path), half_saved).unwrap();
    std::fs::copy(&path, store.path().join("mine.fedcba9876543210.new")).unwrap();
    let known = Store::load(store.path()).unwrap();
    assert_eq!((known.len(), known.refused.len()), (0, 0));
}

#[test]
fn a_name_that_cannot_be_replaced_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("taken");
    std::fs::create_dir_all(path.join("by a directory")).unwrap();
    assert!(matches!(Certificate::generate().unwrap().save_public(&path), Err(Error::Io(_))));
    assert_eq!(names(directory.path()), ["taken"]);
}

#[test]
fn a_pipe_and_loops_of_links_hold_no_store_up() {
    let directory = tempfile::tempdir().unwrap();
    let below = directory.path().join("below");
    std::fs::create_dir(&below).unwrap();
    let certificate = Certificate::generate().unwrap();
    certificate.save_public(below.join("friend")).unwrap();
    for loops in ["a", "b", "c"] {
        symlink(".", directory.path().join(loops)).unwrap();
        symlink("..", below.join(loops)).unwrap();
    }
    let pipe = directory.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (done, loaded) = mpsc::channel();
    let path = directory.path().to_owned();
    std::thread::spawn(move || done.send(Store::load(path)));
    let store = loaded.recv_timeout(PATIENCE).expect("it waits for nobody").unwrap();
    assert!(store.find(certificate.public_key()).is_some());
    let refused: Vec<_> = store.refused.iter().map(|(path, error)| (path, error.to_string())).collect();
    assert_eq!(refused, [(&pipe, Error::NotText.to_string())], "once, by one way");
}

/// An unquoted value in a file may contain both kinds of quotes, so it cannot be quoted.
#[test]
fn a_value_that_cannot_be_written_is_not_lost_in_silence() {
    let directory = tempfile::tempdir().unwrap();
    let (path, copy) = (directory.path().join("read"), directory.path().join("written"));
    Certificate::generate().unwrap().save(&path).unwrap();
    let secret = secret_path(&path);
    let text = std::fs::read_to_string(&secret).unwrap();
    std::fs::write(&secret, text.replace("metadata\n", "metadata\n    motto = it's \"x\"\n")).unwrap();
    let mut certificate = Certificate::load(&path).unwrap();
    assert_eq!(certificate.metadata("motto"), Some("it's \"x\""));
    let outcomes = [certificate.save(&copy), certificate.save_new(&copy), certificate.save_public(&copy)];
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Err(Error::Metadata))), "{outcomes:?}");
    assert_eq!(names(directory.path()), ["read", "read_secret"]);
    certificate.set_metadata("motto", "it's x").unwrap();
    certificate.save(&copy).unwrap();
    assert_eq!(Certificate::load(&copy).unwrap(), certificate);
}
