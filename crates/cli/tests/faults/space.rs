//! Targets without room and without permission: the error says so, what was there stays, and the same command goes on
//! once there is room.
//!
//! Each test runs again in a mount namespace of its own, where it may mount a small file system.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{Done, Folder};
use crate::process::{Process, Server};
use crate::proxy::{Proxy, Way};
use crate::support::{MIB, Random, is_long, mib, names, recorded, report, until};

const INSIDE: &str = "PINNACE_FAULTS_INSIDE";

/// Returns true in the mount namespace. Outside runs this test there.
fn is_inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let flags = if rustix::process::geteuid().is_root() { "-m" } else { "-rm" };
    let possible = Command::new("unshare").args([flags, "mount", "-t", "tmpfs", "none", "/tmp"]).output();
    if !possible.is_ok_and(|done| done.status.success()) {
        println!("{test}: not tested, because this process may not mount a file system");
        return false;
    }
    let own = std::env::current_exe().unwrap();
    let mut again = Command::new("unshare");
    again.arg(flags).arg(own).args([test, "--exact", "--nocapture", "--test-threads=1"]).env(INSIDE, "1");
    let done = again.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{out}{err}");
    out.lines().filter(|line| line.starts_with("files, ")).for_each(|line| println!("{line}"));
    false
}

fn mount(arguments: &[&str], on: &Path) -> bool {
    Command::new("mount").args(arguments).arg(on).stderr(Stdio::null()).status().unwrap().success()
}

/// Takes all room.
fn fill(directory: &Path) {
    let mut ballast = File::options().create(true).append(true).open(directory.join("ballast")).unwrap();
    while ballast.write_all(&[7; 4096]).is_ok() {}
}

fn make_room(directory: &Path) {
    fs::remove_file(directory.join("ballast")).unwrap();
}

/// A transfer of one file from the folder `source` to a small file system, mounted at `target`.
struct Day {
    folder: Folder,
    way: Way,
    old: Vec<u8>,
    new: Vec<u8>,
    _server: Server,
    proxy: Proxy,
}

impl Day {
    /// `prepare` mounts the target, if it can.
    fn new(way: Way, prepare: impl FnOnce(&Path)) -> Day {
        let (folder, mut random) = (Folder::new(), Random::new());
        for name in ["source", "target"] {
            fs::create_dir(folder.path(name)).unwrap();
        }
        prepare(&folder.path("target"));
        let (old, new) = (random.octets(200_000), random.octets(3 * MIB));
        fs::write(folder.path("source/file"), &new).unwrap();
        for name in ["target/file", "target/kept"] {
            fs::write(folder.path(name), &old).unwrap();
        }
        let served = if way == Way::Down { "source" } else { "target" };
        let server = Server::start(&[&format!("{}=/data", folder.text(served))]);
        let proxy = Proxy::new(&server.endpoint);
        Day { folder, way, old, new, _server: server, proxy }
    }

    fn start(&self) -> Process {
        let (command, from, to) = match self.way {
            Way::Down => ("get", "/data/file".to_owned(), self.folder.text("target/file")),
            Way::Up => ("put", self.folder.text("source/file"), "/data/file".to_owned()),
        };
        Process::start(&["files", command, "-s", &self.proxy.endpoint, &from, &to])
    }

    fn target(&self) -> std::path::PathBuf {
        self.folder.path("target")
    }

    /// Asserts that a transfer has failed so, and that what was there is there.
    fn failed(&self, done: Done, code: i32, words: &str) {
        let done = done.expect(code);
        assert!(done.err.contains("/file: ") && done.err.contains(words), "{done:?}");
        assert!(done.err.ends_with("pinnace: 1 file failed\n"), "{done:?}");
        for name in ["file", "kept"] {
            assert!(fs::read(self.target().join(name)).unwrap() == self.old, "{name} is another");
        }
    }

    fn is_done(&self) {
        self.start().end().expect(0);
        assert!(fs::read(self.target().join("file")).unwrap() == self.new);
        assert!(fs::read(self.target().join("kept")).unwrap() == self.old);
        assert_eq!(names(&self.target()), ["file", "kept"]);
    }
}

/// The bytes of commands, and of a file's groups.
const BESIDE: u64 = 64 << 10;
/// What the receiver has granted when it gets to know the size.
const WINDOW: u64 = 2 * MIB;

fn fill_up(what: &str, day: &Day, words: &str) {
    // Without room from the beginning: no more comes than what was granted before.
    fill(&day.target());
    day.failed(day.start().end(), 5, words);
    let told_after = day.proxy.passed(day.way);
    assert!(told_after < WINDOW + BESIDE, "{told_after} bytes have passed");
    assert_eq!(names(&day.target()), ["ballast", "file", "kept"], "a part of nothing is left");
    make_room(&day.target());
    // Another file takes the room meanwhile.
    let middle = day.proxy.hold_after(day.way, 3 * MIB / 2);
    let client = day.start();
    day.proxy.reaches(day.way, middle, || client.has_ended());
    until("a block", || recorded(&day.target(), "file") > 0);
    fill(&day.target());
    day.proxy.open(day.way);
    let done = client.end();
    // Where room can be reserved, it was.
    let has_failed = done.code != 0;
    if has_failed {
        day.failed(done, 5, words);
    }
    let (kept, before) = (recorded(&day.target(), "file"), day.proxy.passed(day.way));
    make_room(&day.target());
    day.is_done();
    let again = day.proxy.passed(day.way) - before;
    let needed = if has_failed { day.new.len() as u64 - kept } else { 0 };
    assert!(again <= needed + BESIDE, "{again} bytes, and {needed} were missing");
    report(&format!(
        "{what}: told after {told_after} bytes; full in the middle: {}, {} recorded, {} passed once there was room",
        if has_failed { "told" } else { "room was reserved" },
        mib(kept),
        mib(again)
    ));
}

fn small(target: &Path) {
    assert!(mount(&["-t", "tmpfs", "-o", "size=4m", "tmpfs"], target), "a tmpfs");
}

#[test]
fn a_client_s_disk_is_full() {
    if is_inside("space::a_client_s_disk_is_full") {
        fill_up("a full disk, get", &Day::new(Way::Down, small), "No space left on device");
    }
}

#[test]
fn a_server_s_disk_is_full() {
    if is_inside("space::a_server_s_disk_is_full") {
        fill_up("a full disk, put", &Day::new(Way::Up, small), "No space left on device");
    }
}

#[test]
fn a_target_is_read_only() {
    if !is_inside("space::a_target_is_read_only") {
        return;
    }
    for way in [Way::Down, Way::Up] {
        let day = Day::new(way, small);
        assert!(mount(&["-o", "remount,ro"], &day.target()));
        day.failed(day.start().end(), 4, "Read-only file system");
        assert!(day.proxy.passed(way) < WINDOW + BESIDE, "the content has passed");
        assert_eq!(names(&day.target()), ["file", "kept"]);
        assert!(mount(&["-o", "remount,rw"], &day.target()));
        day.is_done();
    }
    report("a target that is read-only, get and put: exit code 4, nothing changed; writable again: done");
}

/// A file system on a disk, where room can be reserved.
const DISK: &[&[&str]] = &[
    &["mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", "IMAGE", "5M"],
    &["mount", "-o", "loop", "IMAGE", "TARGET"],
    &["rmdir", "TARGET/lost+found"],
];

/// A file system with a limit for each project.
const QUOTA: &[&[&str]] = &[
    &["mkfs.ext4", "-q", "-O", "quota,project", "-E", "quotatype=prjquota", "IMAGE", "64M"],
    &["mount", "-o", "loop,prjquota", "IMAGE", "TARGET"],
    &["rmdir", "TARGET/lost+found"],
    &["chattr", "+P", "-p", "7", "TARGET"],
    &["setquota", "-P", "7", "4096", "4096", "0", "0", "TARGET"],
];

/// Mounts an image by these commands. Error: the machine lacks something.
fn mount_image(steps: &[&[&str]], target: &Path) -> Result<(), String> {
    let image = target.with_file_name("image").display().to_string();
    for step in steps {
        let place = |word: &&str| word.replace("IMAGE", &image).replace("TARGET", target.to_str().unwrap());
        let words: Vec<String> = step.iter().map(place).collect();
        match Command::new(&words[0]).args(&words[1..]).output() {
            Ok(done) if done.status.success() => {}
            Ok(done) => return Err(format!("{words:?}: {}", String::from_utf8_lossy(&done.stderr))),
            Err(error) => return Err(format!("{words:?}: {error}")),
        }
    }
    Ok(())
}

fn fill_up_image(what: &str, steps: &[&[&str]], words: &str) {
    for (command, way) in [("get", Way::Down), ("put", Way::Up)] {
        let (what, mut lacks) = (format!("{what}, {command}"), None);
        let day = Day::new(way, |target| lacks = mount_image(steps, target).err());
        match lacks {
            Some(lacks) => println!("files, {what}: not tested: {lacks}"),
            None => fill_up(&what, &day, words),
        }
    }
}

#[test]
fn a_disk_that_reserves_room_is_full() {
    if is_long() && is_inside("space::a_disk_that_reserves_room_is_full") {
        fill_up_image("a full disk that reserves room", DISK, "No space left on device");
    }
}

#[test]
fn a_quota_is_reached() {
    if is_long() && is_inside("space::a_quota_is_reached") {
        fill_up_image("a quota", QUOTA, "quota exceeded");
    }
}
