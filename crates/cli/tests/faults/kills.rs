//! Clients and servers that are killed, at any byte of a transfer: it goes on, and sends little twice.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::Folder;
use crate::process::{Process, Server};
use crate::proxy::{Proxy, Way};
use crate::support::{MIB, Random, folder_with, mib, names, recorded, report, short_or_long};

/// The window, which does not grow at this rate, and the largest chunk.
const RATE: &str = "64M";
const WINDOW: u64 = 2 * MIB;
const CHUNK: u64 = 64 << 10;
/// Frames' heads and groups' values: less than one octet in so many.
const FRAMING: u64 = 200;
/// What a connection costs beside.
const GREETINGS: u64 = 16 << 10;

/// A transfer of one file between the folders `source` and `target`.
struct Day {
    folder: Folder,
    way: Way,
    server: Server,
    proxy: Proxy,
    client: Option<Process>,
}

impl Day {
    fn new(way: Way, content: &[u8]) -> Day {
        let folder = folder_with(content);
        let server = Server::start(&[&served(&folder, way)]);
        let proxy = Proxy::new(&server.endpoint);
        Day { folder, way, server, proxy, client: None }
    }

    fn start_client(&mut self) {
        let (command, from, to) = match self.way {
            Way::Down => ("get", "/data/file".to_owned(), self.folder.text("target/file")),
            Way::Up => ("put", self.folder.text("source/file"), "/data/file".to_owned()),
        };
        let line = ["files", command, "-s", &self.proxy.endpoint, "--limit-rate", RATE, &from, &to];
        self.client = Some(Process::start(&line));
    }

    /// Lets so many more bytes pass, and waits until they have.
    fn pass(&mut self, bytes: u64) {
        let hold = self.proxy.hold_after(self.way, bytes);
        let has_ended = || self.client.as_ref().is_some_and(Process::has_ended);
        assert!(self.proxy.reaches(self.way, hold, has_ended), "{:?}", self.client.take().unwrap().end());
    }

    /// Waits until the transfer is done.
    fn end(&mut self) {
        self.proxy.open(self.way);
        self.client.take().unwrap().end().expect(0);
    }

    fn kill_client(&mut self) {
        self.client.take().unwrap().kill();
        self.proxy.cut();
        self.start_client();
    }

    fn kill_server(&mut self) {
        self.server.kill();
        self.proxy.cut();
        self.server.restart(&[&served(&self.folder, self.way)]);
    }

    fn target(&self) -> PathBuf {
        self.folder.path("target")
    }
}

fn served(folder: &Folder, way: Way) -> String {
    let name = if way == Way::Down { "source" } else { "target" };
    format!("{}=/data", folder.text(name))
}

fn is_whole(target: &Path, content: &[u8]) -> bool {
    fs::read(target.join("file")).is_ok_and(|copy| copy == content)
}

fn kill_again_and_again(what: &str, way: Way) {
    let (mut random, kills) = (Random::new(), short_or_long(20, 300));
    // On average 4 MiB pass between two kills.
    let content = random.octets(kills * 6 * MIB);
    let mut day = Day::new(way, &content);
    let (mut of_server, mut in_greetings) = (0, 0);
    day.proxy.hold_after(way, 0);
    day.start_client();
    for _ in 0..kills {
        // Also in the middle of the greetings.
        let most = if random.within(0, 7) == 0 { 4096 } else { 8 * MIB };
        in_greetings += u64::from(most == 4096);
        day.pass(random.within(1, most));
        assert!(!day.target().join("file").exists(), "it has its name before it is whole");
        match random.flip() {
            true => day.kill_client(),
            false => {
                day.kill_server();
                of_server += 1;
            }
        }
    }
    let kept = recorded(&day.target(), "file");
    day.end();
    assert!(is_whole(&day.target(), &content));
    assert_eq!(names(&day.target()), ["file"], "a part is left");
    let (size, passed) = (content.len() as u64, day.proxy.passed(way));
    let twice = passed.saturating_sub(size);
    let most = kills * (WINDOW + CHUNK + GREETINGS) + passed / FRAMING;
    assert!(twice <= most, "{twice} octets of {size} passed twice, {most} are allowed");
    let (each, kept) = (mib(twice / kills), mib(kept));
    report(&format!(
        "{what}: {}, {kills} kills ({of_server} of the server, {in_greetings} in the greetings), equal; {each} twice \
         for each kill, {kept} recorded at the last one",
        mib(size)
    ));
}

#[test]
fn a_download_survives_kills_of_either_side() {
    kill_again_and_again("kills during a get", Way::Down);
}

#[test]
fn an_upload_survives_kills_of_either_side() {
    kill_again_and_again("kills during a put", Way::Up);
}
