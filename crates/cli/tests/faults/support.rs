//! Shared by the fault tests: their form, random numbers, contents, what a part has recorded, reports.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use pinnace::files::transfer::digest::BLOCK;
use pinnace::files::transfer::sidecar;
use pinnace::files::tree::parts;

use crate::common::Folder;

pub const MIB: u64 = 1 << 20;

/// Returns true if the long tests are requested.
pub fn is_long() -> bool {
    std::env::var("FAULTS").is_ok_and(|value| value == "long")
}

/// The value for the short or the long tests.
pub fn short_or_long<T>(short: T, long: T) -> T {
    if is_long() { long } else { short }
}

/// What takes longer has failed.
pub fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(short_or_long(60, 900))
}

/// Waits for a condition that nothing tells of.
pub fn until(what: &str, is: impl Fn() -> bool) {
    let deadline = deadline();
    while !is() {
        assert!(Instant::now() < deadline, "waited for {what}");
        std::thread::yield_now();
    }
}

/// Random numbers (SplitMix64). FAULTS_SEED repeats a run.
pub struct Random(u64);

impl Random {
    /// Prints the seed.
    pub fn new() -> Random {
        let given = std::env::var("FAULTS_SEED").ok().and_then(|seed| seed.parse().ok());
        let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
        let seed = given.unwrap_or_else(now);
        println!("FAULTS_SEED={seed}");
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From `first` to `last`.
    pub fn within(&mut self, first: u64, last: u64) -> u64 {
        first + self.next() % (last - first + 1)
    }

    pub fn flip(&mut self) -> bool {
        self.next() & 1 == 1
    }

    pub fn octets(&mut self, len: u64) -> Vec<u8> {
        let mut octets: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| self.next().to_ne_bytes()).collect();
        octets.truncate(len as usize);
        octets
    }
}

/// The name of a file's part.
pub fn part_name(name: &str) -> String {
    String::from_utf8(parts::part_name(name.as_bytes())).expect("text")
}

/// The name of the record beside a part.
pub fn blocks_name(name: &str) -> String {
    String::from_utf8(parts::blocks_name(name.as_bytes())).expect("text")
}

/// The octets that a later transfer to `directory/name` does not need again.
pub fn recorded(directory: &Path, name: &str) -> u64 {
    let sidecar = fs::read(directory.join(blocks_name(name))).ok();
    sidecar.and_then(|octets| sidecar::read(&octets)).map_or(0, |known| known.blocks.len() as u64 * BLOCK)
}

/// The names in a directory, sorted.
pub fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A number of bytes, in MiB.
pub fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / MIB as f64)
}

/// Reports a test in one line: on the standard output, and in the file that FAULTS_REPORT names.
pub fn report(line: &str) {
    let line = format!("files, {line}");
    println!("{line}");
    if let Some(path) = std::env::var_os("FAULTS_REPORT") {
        let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}

/// A folder with the folders `source`, which has one file, and `target`.
pub fn folder_with(content: &[u8]) -> Folder {
    let folder = Folder::new();
    for name in ["source", "target"] {
        fs::create_dir(folder.path(name)).unwrap();
    }
    fs::write(folder.path("source/file"), content).unwrap();
    folder
}
