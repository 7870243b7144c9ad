//! Sources that change while they are sent: the copy is one version as a whole, or the file is told as failed.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::common::{Done, Folder};
use crate::process::{Process, Server};
use crate::proxy::{Proxy, Way};
use crate::support::{MIB, Random, folder_with, report, short_or_long};

/// What becomes of the source. Truncation is in the tests of crates/files.
#[derive(Debug, Clone, Copy)]
enum Change {
    Grown,
    Replaced,
    Rewritten,
    Deleted,
}

impl Change {
    /// Changes a file. Returns the new content, if it exists.
    fn make(self, file: &Path, content: &[u8], random: &mut Random) -> Option<Vec<u8>> {
        let mut content = content.to_vec();
        match self {
            Change::Grown => {
                let more = random.octets(MIB);
                File::options().append(true).open(file).unwrap().write_all(&more).unwrap();
                content.extend(more);
            }
            Change::Replaced => {
                content = random.octets(content.len() as u64);
                let new = file.with_file_name("new");
                fs::write(&new, &content).unwrap();
                fs::rename(new, file).unwrap();
            }
            Change::Rewritten => {
                // What was sent, and what will be.
                let source = File::options().write(true).open(file).unwrap();
                for at in [0, content.len() - MIB as usize] {
                    let octets = random.octets(MIB);
                    source.write_all_at(&octets, at as u64).unwrap();
                    content[at..at + octets.len()].copy_from_slice(&octets);
                }
            }
            Change::Deleted => {
                fs::remove_file(file).unwrap();
                return None;
            }
        }
        Some(content)
    }
}

/// A transfer of one file, held in its middle.
struct Day {
    folder: Folder,
    way: Way,
    _server: Server,
    proxy: Proxy,
}

impl Day {
    fn new(way: Way, content: &[u8]) -> Day {
        let folder = folder_with(content);
        let served = if way == Way::Down { "source" } else { "target" };
        let server = Server::start(&[&format!("{}=/data", folder.text(served))]);
        let proxy = Proxy::new(&server.endpoint);
        Day { folder, way, _server: server, proxy }
    }

    fn start(&self) -> Process {
        let (command, from, to) = match self.way {
            Way::Down => ("get", "/data/file".to_owned(), self.folder.text("target/file")),
            Way::Up => ("put", self.folder.text("source/file"), "/data/file".to_owned()),
        };
        // At this rate the window does not grow, and the sender reads 2 MiB ahead.
        let rate = ["--limit-rate", "64M"];
        Process::start(&[&["files", command, "-s", &self.proxy.endpoint, &from, &to], &rate[..]].concat())
    }

    fn copy(&self) -> Option<Vec<u8>> {
        fs::read(self.folder.path("target/file")).ok()
    }
}

/// How transfers have ended.
#[derive(Default)]
struct Counts {
    old: u32,
    new: u32,
    told: u32,
}

impl Counts {
    fn take(&mut self, done: &Done, copy: Option<&Vec<u8>>, old: &[u8], new: Option<&Vec<u8>>) {
        match (done.code, copy) {
            (0, Some(copy)) if Some(copy) == new => self.new += 1,
            (0, Some(copy)) if copy == old => self.old += 1,
            (1, None) if done.err.contains("/file: ") => self.told += 1,
            (_, copy) => panic!("{done:?}, and a copy of {:?} bytes", copy.map(Vec::len)),
        }
    }
}

#[test]
fn a_source_changes_while_it_is_sent() {
    let mut random = Random::new();
    for change in [Change::Grown, Change::Replaced, Change::Rewritten, Change::Deleted] {
        let (mut counts, rounds) = (Counts::default(), short_or_long(3, 100));
        for way in (0..rounds).flat_map(|_| [Way::Down, Way::Up]) {
            let old = random.octets(6 * MIB);
            let day = Day::new(way, &old);
            let middle = day.proxy.hold_after(way, random.within(1, 6 * MIB));
            let client = day.start();
            day.proxy.reaches(way, middle, || client.has_ended());
            let new = change.make(&day.folder.path("source/file"), &old, &mut random);
            day.proxy.open(way);
            let done = client.end();
            counts.take(&done, day.copy().as_ref(), &old, new.as_ref());
            // Then all is as it is at the source.
            if let Some(new) = new {
                day.start().end().expect(0);
                assert!(day.copy().unwrap() == new, "{change:?}, {way:?}");
            }
        }
        let Counts { old, new, told } = counts;
        report(&format!(
            "a source that is {change:?} while it is sent, {} times: {old} old versions, {new} new ones, {told} told, \
             no mixture",
            rounds * 2
        ));
    }
}

/// It is given up after three times, and the copy that was there stays.
#[test]
fn a_source_changes_again_and_again() {
    let mut random = Random::new();
    for (what, way) in [("get", Way::Down), ("put", Way::Up)] {
        let mut content = random.octets(12 * MIB);
        let day = Day::new(way, &content);
        fs::write(day.folder.path("target/file"), b"an earlier copy").unwrap();
        let (source, mut changes) = (day.folder.path("source/file"), 0);
        let mut hold = day.proxy.hold_after(way, MIB);
        let client = day.start();
        while day.proxy.reaches(way, hold, || client.has_ended()) {
            content = Change::Rewritten.make(&source, &content, &mut random).unwrap();
            changes += 1;
            hold = day.proxy.hold_after(way, 2 * MIB);
        }
        let done = client.end().expect(1);
        assert!(done.err.contains("/file: ") && done.err.contains("changed"), "{done:?}");
        assert_eq!(day.copy().unwrap(), b"an earlier copy");
        assert!(changes >= 4, "it was given up after {changes} changes");
        day.proxy.open(way);
        day.start().end().expect(0);
        assert!(day.copy().unwrap() == content);
        report(&format!("a source that changes again and again, {what}: given up after {changes} changes"));
    }
}
