//! A place for a registry, and helpers for all kinds: clients, observers, and child processes.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pinnace_delivery::registry::{Entry, Lasting, Member, Members, Registry, RegistryError, open};
use tempfile::TempDir;

/// A lease that does not expire during a test.
pub const LONG: Duration = Duration::from_secs(600);

use crate::server::Server;

/// The kind of place.
enum Kind {
    Folder,
    Sqlite,
    Redis(Server),
}

pub struct Place {
    kind: Kind,
    dir: TempDir,
}

impl Place {
    pub fn folder() -> Place {
        Place { kind: Kind::Folder, dir: tempfile::tempdir().unwrap() }
    }

    pub fn sqlite() -> Place {
        Place { kind: Kind::Sqlite, dir: tempfile::tempdir().unwrap() }
    }

    pub fn redis() -> Place {
        Place { kind: Kind::Redis(Server::start()), dir: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join("registry")
    }

    pub fn url(&self) -> String {
        match &self.kind {
            Kind::Folder => format!("dir://{}", self.path().display()),
            Kind::Sqlite => format!("sqlite://{}", self.path().display()),
            Kind::Redis(server) => server.url(),
        }
    }

    pub fn open(&self) -> Box<dyn Registry> {
        open(&self.url()).unwrap()
    }

    pub fn observer(&self) -> Observer {
        Observer { registry: self.open(), members: Members::default() }
    }

    /// Makes a live client lose its name: a short lease expires, or the client's file is removed. The name must consist
    /// of letters.
    pub fn lose(&self, name: &str) {
        if matches!(self.kind, Kind::Folder) {
            std::fs::remove_file(self.path().join(name)).unwrap();
        }
        let mut observer = self.observer();
        until("the lease to run out", || observer.get(name).is_none());
    }

    /// Makes the registry lose all that it has.
    pub fn forget(&self) {
        let remove = |name: &str| match std::fs::remove_file(self.dir.path().join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("{error}"),
            _ => {}
        };
        match &self.kind {
            // A client may be claiming its name meanwhile.
            Kind::Folder => {
                while let Err(error) = std::fs::remove_dir_all(self.path()) {
                    assert_eq!(error.kind(), std::io::ErrorKind::DirectoryNotEmpty);
                }
            }
            Kind::Sqlite => ["registry", "registry-wal", "registry-shm"].map(remove).into_iter().collect(),
            Kind::Redis(server) => redis::cmd("FLUSHALL").exec(&mut server.connect()).unwrap(),
        }
    }

    /// Starts a child process that claims the names of these numbers, and waits until it has them.
    pub fn child(&self, task: &str, numbers: std::ops::Range<u32>, lease: Duration) -> Child {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["child", "--exact", "--nocapture"])
            .env("REGISTRY_TEST_TASK", task)
            .env("REGISTRY_TEST_URL", self.url())
            .env("REGISTRY_TEST_FIRST", numbers.start.to_string())
            .env("REGISTRY_TEST_END", numbers.end.to_string())
            .env("REGISTRY_TEST_LEASE_MS", lease.as_millis().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(said.any(|line| line.unwrap().contains("ready")), "the child ended");
        Child(child)
    }
}

/// A process that holds names. It is killed when dropped.
pub struct Child(std::process::Child);

impl Child {
    pub fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs the task of a child process, until the parent kills it or ends.
pub fn be_a_child() {
    let Ok(task) = std::env::var("REGISTRY_TEST_TASK") else { return };
    let number = |name| std::env::var(name).unwrap().parse::<u32>().unwrap();
    let lease = Duration::from_millis(number("REGISTRY_TEST_LEASE_MS").into());
    let mut registry = open(&std::env::var("REGISTRY_TEST_URL").unwrap()).unwrap();
    let numbers = number("REGISTRY_TEST_FIRST")..number("REGISTRY_TEST_END");
    let entries: Vec<Entry> = numbers.map(|number| Entry { lease, ..numbered(number) }).collect();
    for entry in &entries {
        registry.claim(entry).unwrap();
    }
    println!("ready");
    if task == "churn" {
        std::thread::spawn(move || {
            for entry in entries.iter().cycle() {
                registry.release(&entry.name, &entry.id).unwrap();
                registry.claim(entry).unwrap();
            }
        });
    }
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    std::process::exit(0);
}

/// An object that observes the members.
pub struct Observer {
    pub registry: Box<dyn Registry>,
    members: Members,
}

impl Observer {
    pub fn look(&mut self) -> &Members {
        if let Some(members) = self.registry.members().unwrap() {
            self.members = members;
        }
        &self.members
    }

    pub fn get(&mut self, name: &str) -> Option<Member> {
        self.look().get(name).cloned()
    }
}

pub fn id(number: u32) -> [u8; 16] {
    u128::from(number).to_le_bytes()
}

/// A client with this name and id, which listens on `name's` and on `all`.
pub fn entry(name: &str, number: u32) -> Entry {
    let own: String = name.chars().take(60).chain("'s".chars()).collect();
    Entry {
        name: name.to_owned(),
        id: id(number),
        endpoint: format!("tcp://127.0.0.1:{number}"),
        topics: vec![own, "all".to_owned()],
        lease: LONG,
        version: u64::from(number) << 20,
        lasting: Lasting::Durable,
    }
}

pub fn numbered(number: u32) -> Entry {
    entry(&format!("client{number}"), number)
}

pub fn with_topics(entry: Entry, topics: &[&str]) -> Entry {
    Entry { topics: topics.iter().map(|topic| (*topic).to_owned()).collect(), ..entry }
}

/// Waits for a condition, for far longer than it should take.
pub fn until(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is() {
        assert!(Instant::now() < deadline, "waited for {what}");
        std::thread::yield_now();
    }
}

pub fn is_taken(result: Result<(), RegistryError>) -> bool {
    result == Err(RegistryError::NameTaken)
}
