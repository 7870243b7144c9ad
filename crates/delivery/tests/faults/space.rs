//! A disk that fills up and gets space again: sends wait or fail as they choose, whatever frees space continues, and no
//! message is lost.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pinnace_delivery::{Builder, Client, Durability, Error, Options};

use crate::checker::{Message, STRICT, Shared};
use crate::common::{client, kept, short_or_long, soon};

/// A small tmpfs, which only root can mount.
struct Disk(PathBuf);

impl Disk {
    fn mount(dir: &Path) -> Option<Disk> {
        std::fs::create_dir_all(dir).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=24m", "tmpfs"]).arg(dir).stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then(|| Disk(dir.to_owned()))
    }

    /// Uses up all space.
    fn fill(&self) {
        let mut ballast = File::options().create(true).append(true).open(self.0.join("ballast")).unwrap();
        while ballast.write_all(&[7; 4096]).is_ok() {}
    }

    fn make_room(&self) {
        std::fs::remove_file(self.0.join("ballast")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

struct Day<'a> {
    sender: &'a Client,
    books: &'a Shared,
    next: u32,
    refused: u32,
}

impl Day<'_> {
    fn send(&mut self, deadline: Option<Instant>) -> Result<(), Error> {
        let message = Message { flow: 0, run: 0, number: self.next };
        let len = if self.next % 9 == 4 { 1_500_000 } else { 100_000 };
        let options = Options { durability: Durability::Sync, deadline, ..Options::default() };
        let sent = self.sender.send("news", &message.body(len), &options);
        match sent {
            Ok(()) => {
                self.books.accept(message);
                self.next += 1;
            }
            // No part of this message was kept.
            Err(Error::NoRoom(_)) => self.refused += 1,
            Err(ref error) => panic!("{error}"),
        }
        sent
    }

    /// Sends until there is no room.
    fn send_until_full(&mut self) {
        while self.send(Some(Instant::now() + Duration::from_millis(500))).is_ok() {}
    }
}

/// Receives `count` messages.
fn receive(receiver: &Client, books: &Shared, count: usize) {
    for _ in 0..count {
        let delivery = receiver.recv(soon()).unwrap();
        books.handle(0, 0, delivery.body());
        delivery.ack();
    }
}

fn fill_again_and_again(what: &str, sender: Builder, receiver: Client, disk: Option<&Disk>) {
    let sender = sender.peer("receiver", receiver.endpoint(), &["news"]).start().unwrap();
    let books = Shared::default();
    let mut day = Day { sender: &sender, books: &books, next: 0, refused: 0 };
    if let Some(disk) = disk {
        // Another file takes all space, and frees it later.
        disk.fill();
        day.send_until_full();
        disk.make_room();
        for _ in 0..20 {
            assert_eq!(day.send(soon()), Ok(()), "there is space again");
        }
        receive(&receiver, &books, books.waiting());
    }
    for _ in 0..short_or_long(2, 20) {
        // A waiting send gets room once messages are handled.
        day.send_until_full();
        let count = books.waiting();
        std::thread::scope(|scope| {
            let sends = scope.spawn(|| day.send(None));
            receive(&receiver, &books, count);
            assert_eq!(sends.join().unwrap(), Ok(()));
        });
        receive(&receiver, &books, 1);
        sender.wait_pending(0, soon()).unwrap();
    }
    let more = format!("{} refused for want of room", day.refused);
    assert_eq!(receiver.recv(Some(Instant::now())).err(), Some(Error::TimedOut));
    books.lock().close(what, &STRICT, &more);
}

#[test]
fn what_a_sender_may_have_is_full() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = client("receiver", dir.path()).start().unwrap();
    let sender = client("sender", dir.path()).disk_limit(24 << 20).compress_from(usize::MAX);
    fill_again_and_again("a store that is at its limit, and gets room", sender, receiver, None);
}

#[test]
fn a_sender_s_disk_is_full() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::mount(&dir.path().join("disk")) else {
        return println!(
            "a full disk of the sender's: only root can make a small one; the store's limit is tested"
        );
    };
    let receiver = client("receiver", dir.path()).start().unwrap();
    let sender = client("sender", &disk.0).disk_limit(u64::MAX).compress_from(usize::MAX);
    fill_again_and_again("a sender's disk that is full, and gets room", sender, receiver, Some(&disk));
}

#[test]
fn a_receiver_s_disk_is_full() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::mount(&dir.path().join("disk")) else {
        return println!("a full disk of the receiver's: only root can make a small one");
    };
    let receiver = client("receiver", &disk.0).disk_limit(u64::MAX).start().unwrap();
    let sender =
        client("sender", dir.path()).peer("receiver", receiver.endpoint(), &["news"]).start().unwrap();
    let books = Shared::default();
    let count = short_or_long(20_000, 500_000);
    disk.fill();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..count {
                let message = Message { flow: 0, run: 0, number };
                sender.send("news", &message.body(12), &kept(Durability::Interval)).unwrap();
                books.accept(message);
            }
        });
        receive(&receiver, &books, count as usize / 2);
        disk.make_room();
        receive(&receiver, &books, count as usize / 2);
    });
    sender.wait_pending(0, soon()).unwrap();
    books.lock().close("a receiver's disk that is full, and gets room", &STRICT, "");
}
