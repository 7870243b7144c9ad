//! Transfers that meet: several to one target, and a server that comes again with other folders.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use pinnace::files::client::Client;
use pinnace::files::error::Code;

use crate::common::Folder;
use crate::process::{Process, Server, run};
use crate::proxy::{Proxy, Way};
use crate::support::{MIB, Random, is_long, mib, names, recorded, report, short_or_long};

/// Two sources, and a target.
struct Day {
    folder: Folder,
    way: Way,
    server: Server,
    contents: [Vec<u8>; 2],
}

impl Day {
    fn new(way: Way, len: u64) -> Day {
        let (folder, mut random) = (Folder::new(), Random::new());
        let contents = [random.octets(len), random.octets(len + 1)];
        for name in ["source", "target"] {
            fs::create_dir(folder.path(name)).unwrap();
        }
        for (number, content) in contents.iter().enumerate() {
            fs::write(folder.path(&format!("source/{number}")), content).unwrap();
        }
        let served = if way == Way::Down { "source" } else { "target" };
        let server = Server::start(&[&format!("{}=/data", folder.text(served))]);
        Day { folder, way, server, contents }
    }

    /// A transfer from one of the sources to the target.
    fn line(&self, endpoint: &str, number: usize) -> Vec<String> {
        let (command, from, to) = match self.way {
            Way::Down => ("get", format!("/data/{number}"), self.folder.text("target/file")),
            Way::Up => ("put", self.folder.text(&format!("source/{number}")), "/data/file".to_owned()),
        };
        ["files", command, "-s", endpoint, &from, &to].map(str::to_owned).to_vec()
    }

    /// Transfers one of the sources. False: the target is in use.
    fn transfer(&self, client: &Client, number: usize) -> bool {
        let transfer = match self.way {
            Way::Down => client.get(&format!("/data/{number}"), &self.target().join("file")),
            Way::Up => client.put(&self.folder.path(&format!("source/{number}")), "/data/file"),
        };
        let failed = transfer.wait().unwrap().failed;
        assert!(failed.iter().all(|(_, error)| error.code == Code::InUse), "{failed:?}");
        failed.is_empty()
    }

    fn target(&self) -> std::path::PathBuf {
        self.folder.path("target")
    }

    /// Which of the sources the target is; None: it is absent.
    fn version(&self) -> Option<usize> {
        let found = fs::read(self.target().join("file")).ok()?;
        let version = self.contents.iter().position(|content| *content == found);
        assert!(version.is_some(), "{} bytes that are neither source", found.len());
        version
    }
}

/// A first transfer, which is held in the middle: its process or its server has the target.
fn held(way: Way) -> (Day, Proxy, Process) {
    let day = Day::new(way, 4 * MIB);
    let proxy = Proxy::new(&day.server.endpoint);
    let middle = proxy.hold_after(way, MIB);
    let first = Process::start(&day.line(&proxy.endpoint, 0));
    proxy.reaches(way, middle, || first.has_ended());
    (day, proxy, first)
}

/// The second one waits for the first one.
#[test]
fn two_transfers_to_one_target() {
    for (what, way) in [("gets", Way::Down), ("puts", Way::Up)] {
        let (day, proxy, first) = held(way);
        let second = Process::start(&day.line(&day.server.endpoint, 1));
        assert_eq!(day.version(), None);
        proxy.open(way);
        first.end().expect(0);
        second.end().expect(0);
        assert_eq!((day.version(), names(&day.target())), (Some(1), vec!["file".to_owned()]));
        report(&format!("two {what} to one target: the second waits for the first, both are made"));
    }
}

/// It waits for a while, and longer than a server takes to notice that the first one's client is gone.
#[test]
fn a_transfer_does_not_wait_for_ever_for_another() {
    if !is_long() {
        return;
    }
    let (day, _proxy, first) = held(Way::Down);
    let done = run(&day.line(&day.server.endpoint, 1)).expect(1);
    assert!(done.err.contains("another transfer writes this file"), "{done:?}");
    assert_eq!((day.version(), first.has_ended()), (None, false));

    let (day, proxy, first) = held(Way::Up);
    run(&day.line(&day.server.endpoint, 1)).expect(0);
    assert_eq!((day.version(), first.has_ended()), (Some(1), false));
    proxy.open(Way::Up);
    first.end().expect(0);
    assert_eq!((day.version(), names(&day.target())), (Some(0), vec!["file".to_owned()]));
    report(
        "a get waits 15 s for another; a put until the server has noticed that the other's client is gone",
    );
}

/// Each has ended, or was told that the target is in use; at every moment the target is whole.
#[test]
fn many_transfers_race_for_one_target() {
    for (what, way) in [("gets", Way::Down), ("puts", Way::Up)] {
        let day = Day::new(way, 300_000);
        let (rounds, is_over) = (short_or_long(40, 1000), AtomicBool::new(false));
        let counts = thread::scope(|scope| {
            let looks = scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    day.version();
                }
            });
            let race = |number| {
                let client = Client::connect(&day.server.endpoint).unwrap();
                (0..rounds)
                    .map(|round| usize::from(day.transfer(&client, (number + round) % 2)))
                    .sum::<usize>()
            };
            let racers: Vec<_> = (0..4).map(|number| scope.spawn(move || race(number))).collect();
            let done: Vec<usize> = racers.into_iter().map(|racer| racer.join().unwrap()).collect();
            is_over.store(true, Ordering::Relaxed);
            looks.join().unwrap();
            done
        });
        run(&day.line(&day.server.endpoint, 1)).expect(0);
        assert_eq!((day.version(), names(&day.target())), (Some(1), vec!["file".to_owned()]));
        let (all, done) = (rounds * 4, counts.iter().sum::<usize>());
        assert!(done > 0);
        report(&format!(
            "{all} {what} that race for one target: {done} done, {} told that it is in use, always whole",
            all - done
        ));
    }
}

#[test]
fn a_server_comes_again_with_other_folders() {
    for (what, way) in [("get", Way::Down), ("put", Way::Up)] {
        let mut day = Day::new(way, 6 * MIB);
        let served = day.folder.text(if way == Way::Down { "source" } else { "target" });
        let proxy = Proxy::new(&day.server.endpoint);
        let middle = proxy.hold_after(way, 3 * MIB);
        let client = Process::start(&day.line(&proxy.endpoint, 0));
        proxy.reaches(way, middle, || client.has_ended());
        day.server.kill();
        proxy.cut();
        day.server.restart(&[&format!("{served}=/other")]);
        proxy.open(way);
        let done = client.end().expect(1);
        assert!(done.err.contains("/data/"), "{done:?}");
        assert!(done.err.contains("no folder is served at this path"), "{done:?}");
        assert_eq!(day.version(), None);
        let kept = recorded(&day.target(), "file");
        day.server.kill();
        proxy.cut();
        day.server.restart(&[&format!("{served}=/data")]);
        let before = proxy.passed(way);
        run(&day.line(&proxy.endpoint, 0)).expect(0);
        assert_eq!(day.version(), Some(0));
        let passed = proxy.passed(way) - before;
        assert!(kept > 0 && passed <= 6 * MIB - kept + 64 * 1024, "{passed} bytes, {kept} were recorded");
        report(&format!(
            "a server with other aliases in the middle of a {what}: told; with the same again it went on at {}",
            mib(kept)
        ));
    }
}
