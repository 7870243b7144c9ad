//! Damage to a client's files between two runs: either the accepted messages arrive, or the client reports the damaged
//! places at its start. Started without the damaged parts, it delivers the rest.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use pinnace_delivery::{Builder, Client, Damage, Durability, Error};

use crate::checker::{Books, Handled, Message, Rules, STRICT, Sums, Twice, next, report};
use crate::common::{client, copy, kept, short_or_long, soon, until};

/// Messages sent before the damage, and how many of them are handled.
const COUNT: u32 = 400;
const HANDLED: u32 = 90;
/// Messages sent between two waits for the disk.
const AT_ONCE: u32 = 10;

fn message(number: u32) -> Message {
    Message { flow: 0, run: 0, number }
}

fn len(number: u32) -> usize {
    [12, 700, 12_000, 90_000][(number % 4) as usize]
}

fn builder(name: &str, dir: &Path) -> Builder {
    client(name, dir).listen(&format!("ipc://{}/{name}.ipc", dir.display()))
}

/// Damage reported by running clients.
type Told = Arc<Mutex<Vec<Damage>>>;

fn telling(builder: Builder, told: &Told) -> Builder {
    let told = told.clone();
    builder.on_error(move |error| match error {
        Error::Damaged(places) => told.lock().unwrap().extend_from_slice(places),
        error => panic!("{error}"),
    })
}

fn start_sender(dir: &Path, build: impl FnOnce(Builder) -> Builder) -> Result<Client, Error> {
    let endpoint = format!("ipc://{}/receiver.ipc", dir.display());
    build(builder("sender", dir)).peer("receiver", &endpoint, &["news"]).start()
}

/// Two clients after some traffic. `killed`: they were not closed.
fn filled(dir: &Path, killed: bool) -> Vec<Handled> {
    let receiver = builder("receiver", dir).start().unwrap();
    let sender = start_sender(dir, |builder| builder).unwrap();
    let mut handled = Vec::new();
    let mut last = None;
    for number in 0..COUNT {
        last = Some(
            sender.send_async("news", &message(number).body(len(number)), &kept(Durability::Sync)).unwrap(),
        );
        if number < HANDLED {
            let delivery = receiver.recv(soon()).unwrap();
            handled.push(Handled { by: 0, run: 0, message: Message::of(delivery.body()) });
            delivery.ack();
        }
        if number == HANDLED {
            sender.wait_pending(1, soon()).unwrap();
        }
        if number % AT_ONCE == AT_ONCE - 1 {
            sender.wait(last.unwrap(), None).unwrap();
        }
    }
    sender.wait(last.unwrap(), None).unwrap();
    if killed {
        // Copy the files while both run: everything is on the disk.
        let (left, all) = (dir.join("left"), ["sender", "receiver"]);
        all.iter().for_each(|name| copy(&dir.join(name), &left.join(name)));
        drop((sender, receiver));
        for name in all {
            std::fs::remove_dir_all(dir.join(name)).unwrap();
            std::fs::rename(left.join(name), dir.join(name)).unwrap();
        }
    }
    handled
}

/// Damages a file of a client. Returns a description.
fn spoil(dir: &Path, random: &mut u64) -> String {
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "log"));
    files.sort();
    let file = &files[next(random) as usize % files.len()];
    let mut bytes = std::fs::read(file).unwrap();
    // Most of a file may be unused.
    let used =
        bytes[..bytes.len() - 4096].iter().rposition(|byte| *byte != 0).map_or(bytes.len(), |at| at + 1);
    let at = next(random) as usize % if next(random).is_multiple_of(4) { bytes.len() } else { used };
    let end = |len: usize| (at + len).min(bytes.len());
    let name = file.file_name().unwrap().display().to_string();
    let how = match next(random) % 5 {
        0 => {
            bytes[at] ^= 1 << (next(random) % 8);
            "flipped"
        }
        1 => {
            let end = end(4096);
            bytes[at..end].fill(0);
            "zeroed"
        }
        2 => {
            let end = end(700);
            bytes[at..end].iter_mut().for_each(|byte| *byte = next(random) as u8);
            "garbled"
        }
        3 => {
            bytes.truncate(at);
            "truncated"
        }
        _ => {
            bytes[at..].fill(0);
            "torn"
        }
    };
    std::fs::write(file, &bytes).unwrap();
    format!("{name} of {} {how} at {at}", dir.file_name().unwrap().display())
}

/// Sends one more message, and receives up to that one.
fn receive_all(sender: &Client, receiver: &Client, handled: &mut Vec<Handled>) {
    sender.send("news", &message(COUNT).body(12), &kept(Durability::Sync)).unwrap();
    loop {
        let delivery = receiver.recv(soon()).unwrap();
        let message = Message::of(delivery.body());
        handled.push(Handled { by: 0, run: 1, message });
        delivery.ack();
        if message.number == COUNT {
            return;
        }
    }
}

/// Starts a client, without the damaged parts if there are any. Returns the number of damaged places.
fn start_anyway(start: &dyn Fn(bool) -> Result<Client, Error>) -> (Client, usize) {
    match start(false) {
        Ok(client) => (client, 0),
        Err(Error::Damaged(places)) => {
            assert!(!places.is_empty());
            let client = start(true).unwrap();
            assert!(!client.damage().is_empty(), "it says what it has left out");
            (client, places.len())
        }
        Err(error) => panic!("{error}"),
    }
}

/// Returns true if only the end of the log is missing, and nothing after it can reveal that: the last batch of a log
/// that was not closed, or an end that was lost together with the seal.
fn is_at_end(missing: &[u32], killed: bool, how: &str) -> bool {
    let Some(first) = missing.first() else { return false };
    let is_end = missing.iter().copied().eq(*first..COUNT);
    is_end
        && (how.contains("torn")
            || how.contains("truncated")
            || (killed && missing.len() <= AT_ONCE as usize))
}

fn rot(what: &str, who: &[&str], killed: bool, rounds: u32) {
    let filled_dir = tempfile::tempdir().unwrap();
    let before = filled(filled_dir.path(), killed);
    let (mut sums, mut noticed, mut unseen) = (Sums::default(), 0, 0);
    let mut random = 0x5eed + u64::from(rounds);
    let mut rules = Rules { twice: Twice::BetweenRuns(usize::MAX), ..STRICT };
    for round in 0..rounds {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        ["sender", "receiver"].iter().for_each(|name| copy(&filled_dir.path().join(name), &dir.join(name)));
        let how = spoil(&dir.join(who[round as usize % who.len()]), &mut random);
        let told = Told::default();
        let skipping = |builder: Builder, skip| {
            let builder = telling(builder, &told);
            if skip { builder.skip_damage() } else { builder }
        };
        let (receiver, lost_by_receiver) =
            start_anyway(&|skip| skipping(builder("receiver", dir), skip).start());
        let (sender, lost_by_sender) =
            start_anyway(&|skip| start_sender(dir, |builder| skipping(builder, skip)));
        let mut books = Books {
            accepted: (0..=COUNT).map(message).collect(),
            handled: before.clone(),
            ..Books::default()
        };
        let begin = Instant::now();
        receive_all(&sender, &receiver, &mut books.handled);
        assert!(begin.elapsed().as_secs() < 30, "{how}");
        let there: BTreeSet<u32> = books.handled.iter().map(|handled| handled.message.number).collect();
        let missing: Vec<u32> = (0..COUNT).filter(|number| !there.contains(number)).collect();
        let is_at_end = is_at_end(&missing, killed, &how);
        if lost_by_sender == 0 && !missing.is_empty() && !is_at_end {
            until(&format!("{how}: a word of {missing:?}"), || !told.lock().unwrap().is_empty());
        }
        let told = told.lock().unwrap().len();
        unseen += u32::from(lost_by_sender + told == 0 && is_at_end);
        if lost_by_sender + told > 0 || is_at_end {
            (rules.may_lose, rules.may_skip) = (|_| true, true);
        } else {
            (rules.may_lose, rules.may_skip) = (|_| false, false);
        }
        if lost_by_receiver == 0 && !killed {
            rules.twice = Twice::Never;
        } else {
            rules.twice = Twice::BetweenRuns(HANDLED as usize);
        }
        let done = std::panic::catch_unwind(|| books.sums(&rules));
        let done =
            done.unwrap_or_else(|_| panic!("{how}: damaged places {lost_by_sender}, {lost_by_receiver}"));
        noticed += u32::from(lost_by_sender + lost_by_receiver + told > 0);
        sums.sent += done.sent;
        sums.lost += done.lost;
        sums.duplicated += done.duplicated;
        sums.reordered += done.reordered;
    }
    let lost = std::mem::take(&mut sums.lost);
    let more = format!(
        "{noticed} of {rounds} said to be damaged, {unseen} ended before their end; {lost} left out with that"
    );
    report(what, &sums, &rules, &more);
}

#[test]
fn a_sender_s_bytes_that_rot() {
    rot("rot in the sender's log, closed", &["sender"], false, short_or_long(40, 1500));
}

#[test]
fn a_receiver_s_bytes_that_rot() {
    rot("rot in the receiver's log, closed", &["receiver"], false, short_or_long(20, 500));
}

#[test]
fn bytes_of_the_killed_that_rot() {
    rot("rot in either log, not closed", &["sender", "receiver"], true, short_or_long(40, 1500));
}
