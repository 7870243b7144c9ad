//! What is in files, and how programs change it.

use super::disk::SimulatedDisk;
use super::random::Random;

/// Sizes of files: empty, small ones that go many to a message, and those of several blocks.
const SIZES: [u64; 10] = [0, 1, 300, 16_384, 65_536, 65_537, 262_144, 300_000, 1_048_576, 1_400_000];

pub fn octets(random: &mut Random, len: u64) -> Vec<u8> {
    let mut octets = Vec::with_capacity(len as usize + 8);
    while octets.len() < len as usize {
        octets.extend_from_slice(&random.next().to_le_bytes());
    }
    octets.truncate(len as usize);
    octets
}

pub fn new_file(random: &mut Random) -> Vec<u8> {
    let len = *random.pick(&SIZES);
    match random.chance(30) {
        true => vec![random.next() as u8; len as usize],
        false => octets(random, len),
    }
}

/// A file of several blocks.
pub fn large_file(random: &mut Random) -> Vec<u8> {
    let len = 600_000 + random.below(1_400_000);
    octets(random, len)
}

/// Fills a folder: some directories, files and links.
pub fn fill(disk: &SimulatedDisk, random: &mut Random, base: &str) {
    disk.put_directory(base.as_bytes());
    let directories = ["", "a/", "b/", "b/c/"];
    for directory in &directories[1..] {
        disk.put_directory(format!("{base}/{directory}").trim_end_matches('/').as_bytes());
    }
    for number in 0..2 + random.below(6) {
        let directory = random.pick(&directories);
        let octets = new_file(random);
        disk.put(format!("{base}/{directory}f{number}").as_bytes(), octets);
    }
    if random.chance(30) {
        disk.put_link(format!("{base}/link").as_bytes(), b"a");
    }
}

/// Changes a file as a program would. Returns what it has done.
pub fn change(disk: &SimulatedDisk, random: &mut Random, base: &str) -> String {
    let files: Vec<Vec<u8>> = disk
        .walk()
        .into_iter()
        .filter(|(path, _)| path.starts_with(base.as_bytes()) && disk.content(path).is_some())
        .map(|(path, _)| path)
        .collect();
    let new = format!("{base}/n{}", random.below(4));
    let path = if files.is_empty() { new.clone().into_bytes() } else { random.pick(&files).clone() };
    let shown = String::from_utf8_lossy(&path).into_owned();
    match random.below(6) {
        0 => {
            let octets = new_file(random);
            disk.put(new.as_bytes(), octets);
            format!("{new} is new")
        }
        1 => {
            disk.remove(&path);
            format!("{shown} is removed")
        }
        2 => {
            let more = octets(random, 100_000);
            disk.change(&path, |octets| octets.extend(more));
            format!("{shown} has grown")
        }
        3 => {
            let part = random.below(2) as usize;
            disk.change(&path, |octets| octets.truncate(octets.len() / 2 * part));
            format!("{shown} is truncated")
        }
        4 => {
            let octets = new_file(random);
            disk.put(&path, octets);
            format!("{shown} is another file")
        }
        _ => {
            let (at, value) = (random.next(), random.next() as u8);
            disk.change(&path, |octets| {
                let len = octets.len() as u64;
                if len > 0 {
                    octets[(at % len) as usize] ^= value | 1;
                }
            });
            format!("{shown} has another octet")
        }
    }
}
