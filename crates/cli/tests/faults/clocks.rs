//! Clocks that jump, by days and in both directions: transfers finish, and no part is old while its transfer runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::Folder;
use crate::process::{AGAIN, Process, Server, command};
use crate::proxy::{Proxy, Way};
use crate::support::{MIB, Random, blocks_name, names, part_name, report, short_or_long};

const DAY_S: i64 = 86_400;
/// The other file is fetched by then.
const SOON: Duration = Duration::from_secs(10);

/// The library that fakes a process's clock (libfaketime), if it is installed.
fn library() -> Option<PathBuf> {
    let places = fs::read_dir("/usr/lib").ok()?.flatten().map(|entry| entry.path().join("faketime"));
    let library = places.map(|place| place.join("libfaketimeMT.so.1")).find(|path| path.exists());
    if library.is_none() {
        assert!(std::env::var_os("CI").is_none(), "libfaketime is missing: tools/setup test installs it");
        println!("clocks that jump: libfaketime is missing");
    }
    library
}

/// The clock of one process.
struct Clock {
    file: PathBuf,
    library: PathBuf,
}

impl Clock {
    fn new(folder: &Folder, name: &str, library: &Path) -> Clock {
        let clock = Clock { file: folder.path(&format!("{name} clock")), library: library.to_owned() };
        clock.set(0);
        clock
    }

    fn set(&self, offset_s: i64) {
        let new = self.file.with_extension("new");
        fs::write(&new, format!("{offset_s:+}\n")).unwrap();
        fs::rename(new, &self.file).unwrap();
    }

    fn control(&self, command: &mut Command) {
        command
            .env("LD_PRELOAD", &self.library)
            .env("FAKETIME_TIMESTAMP_FILE", &self.file)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }

    fn start(&self, arguments: &[String]) -> Process {
        let mut command = command(arguments);
        self.control(&mut command);
        Process::spawn(command)
    }
}

fn line(command: &str, proxy: &Proxy, from: &str, to: &str) -> Vec<String> {
    ["files", command, "-s", &proxy.endpoint, from, to].map(str::to_owned).to_vec()
}

#[test]
fn clocks_that_jump() {
    let Some(library) = library() else { return };
    let mut random = Random::new();
    for (what, way) in [("get", Way::Down), ("put", Way::Up)] {
        let (folder, jumps) = (Folder::new(), short_or_long(16, 200));
        for name in ["source/tree", "target"] {
            fs::create_dir_all(folder.path(name)).unwrap();
        }
        let content = random.octets((jumps + 4) * MIB / 2);
        fs::write(folder.path("source/tree/file"), &content).unwrap();
        let clocks = ["client", "server"].map(|name| Clock::new(&folder, name, &library));
        let served = folder.text(if way == Way::Down { "source" } else { "target" });
        let server = Server::start_by(|command| clocks[1].control(command.arg(format!("{served}=/data"))));
        let proxy = Proxy::new(&server.endpoint);
        let line = match way {
            Way::Down => line("get", &proxy, "/data/tree/", &folder.text("target/tree")),
            Way::Up => line("put", &proxy, &format!("{}/", folder.text("source/tree")), "/data/tree"),
        };
        let mut hold = proxy.hold_after(way, MIB / 2);
        let client = clocks[0].start(&line);
        for jump in 0..jumps {
            proxy.reaches(way, hold, || client.has_ended());
            assert!(!client.has_ended(), "it ended after {jump} jumps");
            let days = [1, -1, 20, -20, 0, -400, 400][random.within(0, 6) as usize];
            clocks[usize::from(random.flip())].set(days * DAY_S);
            if jump % 8 == 7 {
                // It begins again, and looks for old parts.
                proxy.cut();
            }
            hold = proxy.hold_after(way, MIB / 2);
        }
        proxy.open(way);
        client.end().expect(0);
        let copy = folder.path("target/tree/file");
        assert!(fs::read(&copy).unwrap() == content);
        let modified = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
        assert_eq!(modified(&copy), modified(&folder.path("source/tree/file")));
        assert_eq!(names(&folder.path("target/tree")), ["file"]);
        // Whatever the clocks say, it is the same file.
        assert_eq!(clocks[0].start(&line).end().expect(0).err, "pinnace: 0 files, 0 bytes\n");
        report(&format!("clocks that jump by days, {what}: {jumps} times, equal, and not sent again"));
    }
}

/// A client whose clock is ahead removes the parts of nobody that writes them.
#[test]
fn a_part_is_not_old_while_its_transfer_runs() {
    let Some(library) = library() else { return };
    let folder = Folder::new();
    for name in ["source", "target"] {
        fs::create_dir(folder.path(name)).unwrap();
    }
    let content = Random::new().octets(6 * MIB);
    fs::write(folder.path("source/file"), &content).unwrap();
    fs::write(folder.path("source/other"), b"other").unwrap();
    let server = Server::start(&[&format!("{}=/data", folder.text("source"))]);
    let (slow, fast) = (Proxy::new(&server.endpoint), Proxy::new(&server.endpoint));
    let middle = slow.hold_after(Way::Down, 3 * MIB);
    let target = folder.text("target");
    let first = Process::start(&line("get", &slow, "/data/", &target));
    slow.reaches(Way::Down, middle, || first.has_ended());
    let ahead = Clock::new(&folder, "ahead", &library);
    ahead.set(20 * DAY_S);
    // It looks for old parts before it fetches the other file, and then waits for the first one.
    let second = ahead.start(&line("get", &fast, "/data/", &target));
    let began = Instant::now();
    while !folder.path("target/other").exists() {
        assert!(!second.has_ended() && began.elapsed() < SOON, "{:?}", second.end());
        std::thread::park_timeout(AGAIN);
    }
    let parts = names(&folder.path("target"));
    assert!(parts.contains(&part_name("file")), "the part was removed: {parts:?}");
    assert!(parts.contains(&blocks_name("file")), "the record was removed: {parts:?}");
    slow.open(Way::Down);
    first.end().expect(0);
    second.end().expect(0);
    assert!(fs::read(folder.path("target/file")).unwrap() == content);
    // Once nobody writes it, a part is old.
    for name in [part_name("left"), blocks_name("left")] {
        fs::write(folder.path("target").join(name), b"left").unwrap();
    }
    ahead.start(&line("get", &fast, "/data/", &target)).end().expect(0);
    assert_eq!(names(&folder.path("target")), ["file", "other"]);
    report("a client whose clock is 20 days ahead: it removes old parts, and none of a transfer that runs");
}
