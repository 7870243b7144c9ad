//! `pinnace deliver status`: the messages that the clients of stores have sent and that are not yet acknowledged as
//! handled, read from the stores' files.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use pinnace::delivery::statistics::pending_to_prometheus;
use pinnace::delivery::{Sender, peek};
use serde_json::{Value, json};

use super::client::{LOOK_EVERY, look_later};
use super::columns::columns;
use super::holder::holder;
use super::live;
use super::peek::age;
use super::stores::{stores, unseen};
use crate::outcome::{self, Failure, Outcome};
use crate::output::print;
use crate::signals::Signals;
use crate::table::deliver::Status;

/// A file with a younger modification time may be written again without a change of that time.
const TIME_STEP: Duration = Duration::from_millis(50);
/// The pause between two scans, as a multiple of the last scan's duration.
const REST: u32 = 4;

pub fn run(given: &Status) -> Outcome {
    if let Some(address) = &given.metrics {
        return live::run(given, address);
    }
    let signals = Signals::new(false)?;
    let mut seen = HashMap::new();
    if !given.watch {
        let (shown, outcome) = look(given, &mut seen)?;
        return print(to_words(given, &shown).as_bytes()).and(outcome);
    }
    match watch(given, &mut seen, &signals) {
        Err(Failure::Signal(_)) => Ok(()),
        outcome => outcome,
    }
}

fn watch(given: &Status, seen: &mut HashMap<PathBuf, Seen>, signals: &Signals) -> Outcome {
    let mut printed: Option<Vec<Shown>> = None;
    loop {
        let start = Instant::now();
        let (shown, outcome) = look(given, seen)?;
        outcome?;
        // The ages in the text change all the time.
        if printed.as_ref() != Some(&shown) {
            let gap = if given.json || printed.is_none() { "" } else { "\n" };
            print(format!("{gap}{}", to_words(given, &shown)).as_bytes())?;
            printed = Some(shown);
        }
        look_later(signals, (start.elapsed() * REST).max(LOOK_EVERY))?;
    }
}

/// The result of a scan of a store, and its files with modification times before the scan.
struct Seen {
    files: Vec<(OsString, SystemTime)>,
    /// True if any later write must change a modification time.
    stable: bool,
    senders: Vec<Sender>,
}

/// What is in all stores, and the failures: stores that can be read are shown even if others fail.
fn look(given: &Status, seen: &mut HashMap<PathBuf, Seen>) -> Outcome<(Vec<Shown>, Outcome)> {
    let (mut shown, mut outcome) = (Vec::new(), Ok(()));
    for store in stores(given.data_dir.as_deref())? {
        match look_at(&store, seen.remove(&store)) {
            Ok(found) => {
                shown.push((store.clone(), holder(&store), found.senders.clone()));
                seen.insert(store, found);
            }
            Err(failure) => outcome = outcome::both(outcome, Err(failure)),
        }
    }
    Ok((shown, outcome))
}

fn look_at(store: &Path, before: Option<Seen>) -> Outcome<Seen> {
    let now = SystemTime::now();
    // If the files cannot be listed, `peek` reports why.
    let files = files_of(store).unwrap_or_default();
    if let Some(before) = before.filter(|before| before.stable && before.files == files) {
        return Ok(before);
    }
    let stable = files.iter().all(|(_, time)| now.duration_since(*time).is_ok_and(|age| age > TIME_STEP));
    let senders = peek(store).map_err(|error| unseen(store, error))?;
    Ok(Seen { files, stable, senders })
}

fn files_of(store: &Path) -> std::io::Result<Vec<(OsString, SystemTime)>> {
    let entries = fs::read_dir(store)?;
    let mut files = entries
        .map(|entry| entry.and_then(|entry| Ok((entry.file_name(), entry.metadata()?.modified()?))))
        .collect::<Result<Vec<_>, _>>()?;
    files.sort_unstable();
    Ok(files)
}

/// A store, the process that has it open, and its clients.
type Shown = (PathBuf, Option<u32>, Vec<Sender>);

fn to_words(given: &Status, shown: &[Shown]) -> String {
    match () {
        () if given.json => to_json(shown),
        () if given.prometheus => to_prometheus(shown),
        () => to_text(shown),
    }
}

fn to_prometheus(shown: &[Shown]) -> String {
    let stores: Vec<(String, &[Sender])> = shown
        .iter()
        .map(|(store, _, senders)| (store.to_string_lossy().into_owned(), &senders[..]))
        .collect();
    pending_to_prometheus(stores.iter().map(|(store, senders)| (store.as_str(), *senders)))
}

fn to_text(shown: &[Shown]) -> String {
    let row = |words: [&str; 7]| words.map(str::to_owned).to_vec();
    let mut rows = vec![row(["CLIENT", "PROCESS", "TOPIC", "RECEIVER", "PENDING", "BYTES", "OLDEST"])];
    let now_ms =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_millis() as u64);
    for (_, process, senders) in shown {
        let process = process.map(|process| process.to_string()).unwrap_or_default();
        for sender in senders {
            if sender.pending.is_empty() {
                rows.push(row([&sender.name, &process, "", "", "0", "0", ""]));
            }
            for pending in &sender.pending {
                let receiver = pending.receiver.as_deref().unwrap_or_default();
                let (messages, bytes) = (pending.messages.to_string(), pending.bytes.to_string());
                let oldest = pending.oldest_ms.map(|ms| age(now_ms.saturating_sub(ms))).unwrap_or_default();
                let words = [&sender.name, &process, &pending.topic, receiver, &messages, &bytes, &oldest];
                rows.push(row(words));
            }
        }
    }
    columns(&rows)
}

fn to_json(shown: &[Shown]) -> String {
    let clients = |senders: &[Sender]| -> Vec<Value> {
        senders.iter().map(|sender| json!({ "name": sender.name, "pending": pending(sender) })).collect()
    };
    let stores: Vec<Value> = shown
        .iter()
        .map(|(store, process, senders)| {
            json!({ "store": store.to_string_lossy(), "process": process, "clients": clients(senders) })
        })
        .collect();
    format!("{}\n", json!({ "stores": stores }))
}

/// The pending messages for each receiver and topic; a receiver of null means any receiver.
fn pending(sender: &Sender) -> Vec<Value> {
    let each = sender.pending.iter();
    each.map(|one| {
        json!({
            "topic": one.topic,
            "receiver": one.receiver,
            "messages": one.messages,
            "bytes": one.bytes,
            "oldest_ms": one.oldest_ms,
        })
    })
    .collect()
}
