//! `kill -9` of either side, or both, at any moment: what was accepted is handled, in order, and twice only where the
//! receiver was killed between the two.
//!
//! Each side is a process that writes down what it knows of: the sender what Ok was said of, the receiver what it has
//! handled, before it acknowledges. A line that was written outlives its writer; lines are of 16 bytes each, because a
//! write that is killed ends between two pages.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pinnace_delivery::{Client, Options};
use rustix::process::{Pid, Signal, kill_process};

const ROLE: &str = "PINNACE_DELIVERY_ROLE";
const DIR: &str = "PINNACE_DELIVERY_DIR";
const RUN: &str = "PINNACE_DELIVERY_RUN";

/// Messages that a sender has under way before it waits for the disk.
const AT_ONCE: u32 = 40;

/// What this process is when another run of this test started it.
#[test]
fn role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let dir = PathBuf::from(std::env::var_os(DIR).unwrap());
    let run = std::env::var(RUN).unwrap().parse().unwrap();
    match role.as_str() {
        "sender" => send(&dir, run),
        "receiver" => receive(&dir, run),
        role => panic!("there is no role {role}"),
    }
}

fn endpoint(dir: &Path) -> String {
    format!("ipc://{}/receiver.ipc", dir.display())
}

/// What a journal says: the run of who writes it, and the sender's run and number, which are a message's body.
fn line(run: u32, body: &[u8]) -> Vec<u8> {
    [&run.to_le_bytes(), body, &[0; 4]].concat()
}

fn journal(dir: &Path, name: &str) -> File {
    OpenOptions::new().create(true).append(true).open(dir.join(name)).unwrap()
}

fn start_sender(dir: &Path) -> Client {
    let sender =
        Client::builder("sender", "s").registry("none").listen(&format!("ipc://{}/s.ipc", dir.display()));
    sender.data_dir(dir.join("s")).peer("receiver", &endpoint(dir), &["news"]).start().unwrap()
}

/// Sends until it is killed.
fn send(dir: &Path, run: u32) {
    let (sender, mut accepted) = (start_sender(dir), journal(dir, "accepted"));
    for first in (0..).step_by(AT_ONCE as usize) {
        let mut lines = Vec::new();
        let mut last = None;
        for number in first..first + AT_ONCE {
            let body = [run.to_le_bytes(), number.to_le_bytes()].concat();
            last = Some(sender.send_async("news", &body, &Options::default()).unwrap());
            lines.extend_from_slice(&line(0, &body));
        }
        sender.wait(last.unwrap(), None).unwrap();
        accepted.write_all(&lines).unwrap();
    }
}

/// Handles messages until it is killed.
fn receive(dir: &Path, run: u32) {
    let receiver = Client::builder("receiver", "r")
        .registry("none")
        .listen(&endpoint(dir))
        .data_dir(dir.join("r"))
        .start()
        .unwrap();
    let mut handled = journal(dir, "handled");
    loop {
        let delivery = receiver.recv(None).unwrap();
        handled.write_all(&line(run, delivery.body())).unwrap();
        delivery.ack();
    }
}

/// A process that does not outlive the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(role: &str, dir: &Path, run: u32) -> Running {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["role", "--exact", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env(DIR, dir)
        .env(RUN, run.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    Running(child.unwrap())
}

fn kill(Running(child): &mut Running) {
    // One that has ended by itself has failed.
    if let Some(status) = child.try_wait().unwrap() {
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        panic!("it ended by itself: {status}\n{said}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

fn lines(dir: &Path, name: &str) -> Vec<[u32; 3]> {
    let bytes = std::fs::read(dir.join(name)).unwrap();
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
    bytes
        .chunks_exact(16)
        .map(|line| [number(&line[..4]), number(&line[4..8]), number(&line[8..12])])
        .collect()
}

/// Waits until a journal has more lines than it had.
fn wait_for_more(dir: &Path, name: &str, than: u64) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while std::fs::metadata(dir.join(name)).map_or(0, |file| file.len()) <= than {
        assert!(Instant::now() < deadline, "{name} does not grow");
        std::thread::yield_now();
    }
}

fn bytes(dir: &Path, name: &str) -> u64 {
    std::fs::metadata(dir.join(name)).map_or(0, |file| file.len())
}

/// How many kills there are: many with FAULTS=long.
fn rounds() -> u32 {
    if std::env::var("FAULTS").is_ok_and(|value| value == "long") { 500 } else { 25 }
}

/// A moment that differs from kill to kill.
fn spin(round: u32) {
    let until = Instant::now() + Duration::from_micros(u64::from(round.wrapping_mul(7919) % 5000));
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

/// Kills whom `whom` says, by the number of the round: the sender, the receiver.
fn kill_in_turn(what: &str, whom: impl Fn(u32) -> (bool, bool)) {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (mut sender, mut receiver) = (start("sender", dir, 0), start("receiver", dir, 0));
    for round in 1..=rounds() {
        // Both have done something since the last kill.
        wait_for_more(dir, "accepted", bytes(dir, "accepted"));
        wait_for_more(dir, "handled", bytes(dir, "handled"));
        spin(round);
        let (kills_sender, kills_receiver) = whom(round);
        if kills_sender {
            kill(&mut sender);
            sender = start("sender", dir, round);
        }
        if kills_receiver {
            kill(&mut receiver);
            receiver = start("receiver", dir, round);
        }
    }
    finish(what, dir, sender, receiver);
}

/// Nobody sends any more; what was accepted is still delivered.
fn finish(what: &str, dir: &Path, mut sender: Running, mut receiver: Running) {
    kill(&mut sender);
    start_sender(dir).wait_pending(0, Some(Instant::now() + Duration::from_secs(60))).unwrap();
    kill(&mut receiver);
    check(what, &lines(dir, "accepted"), &lines(dir, "handled"));
}

#[test]
fn a_sender_that_is_killed_loses_nothing() {
    kill_in_turn("SIGKILL of the sender", |_| (true, false));
}

#[test]
fn a_receiver_that_is_killed_loses_nothing() {
    kill_in_turn("SIGKILL of the receiver", |_| (false, true));
}

#[test]
fn both_killed_lose_nothing() {
    kill_in_turn("SIGKILL of both", |_| (true, true));
}

#[test]
fn one_or_the_other_killed_loses_nothing() {
    kill_in_turn("SIGKILL of one or the other", |round| (round % 2 == 0, round % 3 == 0));
}

fn signal(Running(child): &Running, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn who_is_stopped_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (sender, receiver) = (start("sender", dir, 0), start("receiver", dir, 0));
    for round in 0..rounds() {
        let (stopped, other) = if round % 2 == 0 { (&receiver, "accepted") } else { (&sender, "handled") };
        wait_for_more(dir, "handled", bytes(dir, "handled"));
        spin(round);
        signal(stopped, Signal::STOP);
        if other == "accepted" {
            wait_for_more(dir, other, bytes(dir, other) + 100_000);
        }
        signal(stopped, Signal::CONT);
    }
    finish("SIGSTOP", dir, sender, receiver);
}

/// Each is a run, the receiver's in `handled`, and a run of the sender's and a number.
fn check(what: &str, accepted: &[[u32; 3]], handled: &[[u32; 3]]) {
    let mut seen: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    let mut last: Option<(u32, u32)> = None;
    let mut twice = BTreeSet::new();
    for line in handled {
        let [receiver, sender, number] = *line;
        match seen.insert((sender, number), receiver) {
            // In order, and with no gap within a run of the sender's.
            None => {
                let follows = last.is_none_or(|last| (sender, number) > last);
                let next = last.is_some_and(|last| last.0 == sender && last.1 + 1 == number);
                assert!(follows && (next || number == 0), "{line:?} after {last:?}");
                last = Some((sender, number));
            }
            Some(before) => {
                assert!(before < receiver, "{line:?}: handled twice by one run of the receiver's");
                twice.insert((sender, number));
            }
        }
    }
    for line in accepted {
        assert!(seen.contains_key(&(line[1], line[2])), "{line:?} was accepted, and is lost");
    }
    let (sent, duplicated) = (accepted.len(), twice.len());
    println!("{what}: {sent} sent, 0 lost, {duplicated} duplicated (allowed), 0 reordered");
}
