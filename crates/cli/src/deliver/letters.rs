//! `pinnace deliver dead-letters` and `requeue`: lists messages that their receivers have given up, read from the
//! stores' files, and sends them again.
//!
//! A requeued letter is removed once the new message is on the disk: a process killed in between leaves both, never
//! neither.

use std::collections::HashSet;
use std::path::Path;

use pinnace::delivery::{DeadLetter, LetterNumber, dead_letters};
use serde_json::json;

use super::client::{self, failure};
use super::columns::columns;
use super::recv::{add_properties, reason};
use super::stores::{require_client, stores, unseen};
use crate::outcome::{self, Failure, Outcome};
use crate::output::{json_of, print};
use crate::signals::Signals;
use crate::sockets;
use crate::table::deliver::{DeadLetters, Requeue};

/// Maximum length of a body in its column, in characters.
pub const SHOWN: usize = 40;

pub fn list(given: &DeadLetters) -> Outcome {
    let (mut letters, mut outcome) = (Vec::new(), Ok(()));
    for store in stores(given.data_dir.as_deref())? {
        match dead_letters(&store) {
            Ok(found) => letters.extend(found.into_iter().map(|letter| (store.clone(), letter))),
            Err(error) => outcome = outcome::both(outcome, Err(unseen(&store, error))),
        }
    }
    if given.json {
        let lines = letters.iter().map(|(store, letter)| {
            let mut object = to_json(letter);
            object["store"] = json!(store.to_string_lossy());
            format!("{object}\n")
        });
        return print(lines.collect::<String>().as_bytes()).and(outcome);
    }
    let head = ["FROM", "NUMBER", "TOPIC", "RECEIVER", "REASON", "DELIVERIES", "BYTES", "BODY"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(letters.iter().map(|(_, letter)| row(letter)));
    print(columns(&rows).as_bytes()).and(outcome)
}

fn row(letter: &DeadLetter) -> Vec<String> {
    let DeadLetter { number, from, dead, bytes, preview, .. } = letter;
    let body = String::from_utf8_lossy(whole_characters(preview)).chars().take(SHOWN).collect();
    let (topic, receiver) = (dead.topic.clone(), dead.receiver.clone());
    let (deliveries, bytes) = (dead.deliveries.to_string(), bytes.to_string());
    let reason = reason(dead.reason).to_owned();
    vec![from.clone(), number.to_string(), topic, receiver, reason, deliveries, bytes, body]
}

fn to_json(letter: &DeadLetter) -> serde_json::Value {
    let mut object = json!({
        "from": letter.from,
        "number": letter.number.to_string(),
        "topic": letter.dead.topic,
        "receiver": letter.dead.receiver,
        "reason": reason(letter.dead.reason),
        "deliveries": letter.dead.deliveries,
        "accepted_ms": letter.accepted_ms,
        "bytes": letter.bytes,
        "preview": json_of(whole_characters(&letter.preview)),
    });
    let of = &letter.properties;
    add_properties(
        &mut object,
        [of.id(), of.content_type(), of.traceparent(), of.tracestate(), of.ordering_key()],
        of.headers(),
    );
    object
}

/// The bytes without an incomplete UTF-8 character at the end.
pub fn whole_characters(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}

pub fn requeue(given: &Requeue) -> Outcome {
    if given.client.listen.is_some() || given.client.advertise.is_some() {
        return Err(Failure::usage(
            "--listen and --advertise are for a client that receives, and requeue does not",
        ));
    }
    let signals = Signals::new(false)?;
    let store = client::store_of(&given.client);
    let found = dead_letters(&store).map_err(|error| unseen(&store, error))?;
    let own: Vec<DeadLetter> = found.into_iter().filter(|letter| letter.from == given.client.name).collect();
    if own.is_empty() {
        require_client(&store, &given.client.name)?;
    }
    let (wanted, mut outcome) = wanted(given, &own);
    if wanted.is_empty() {
        return outcome;
    }
    // What the client listens on stays as it is: a letter is sent again, and nothing is received meanwhile.
    let builder = client::builder(&given.client, &given.client.name)?.send_only();
    let client = client::start(builder, &given.client, &signals)?;
    for number in &wanted {
        let number = *number;
        signals.check()?;
        match client.requeue(number, sockets::deadline(given.timeout)) {
            Ok(true) => print(format!("{number}\n").as_bytes())?,
            Ok(false) => outcome = outcome::both(outcome, Err(missing(number))),
            Err(error) => return outcome::both(Err(failure(error)), outcome),
        }
    }
    if !given.wait {
        return outcome;
    }
    let topics = own.iter().filter(|letter| wanted.contains(&letter.number)).map(|letter| &letter.dead.topic);
    let topics: HashSet<&String> = topics.collect();
    let waiting = || -> u64 {
        let pending = client.pending_by_peer();
        pending.iter().filter(|one| topics.contains(&one.topic)).map(|one| one.messages).sum()
    };
    let deadline = sockets::deadline(given.timeout);
    let waited = client::wait_handled(&client, &signals, deadline, "they stay in the store", waiting);
    // Its end brings to the disk which letters there are now.
    drop(client);
    outcome::both(waited.and_then(|()| no_new_letters(&store, &own)), outcome)
}

/// Error: messages that were sent again have been given up again.
fn no_new_letters(store: &Path, before: &[DeadLetter]) -> Outcome {
    let now = dead_letters(store).map_err(|error| unseen(store, error))?;
    let is_new = |letter: &&DeadLetter| {
        letter.from == before[0].from && !before.iter().any(|other| other.number == letter.number)
    };
    match now.iter().filter(is_new).count() {
        0 => Ok(()),
        dead => Err(Failure::Failed(format!("messages given up by their receivers: {dead}"))),
    }
}

/// The numbers of the letters to send again, and a failure for each number that does not exist.
fn wanted(given: &Requeue, own: &[DeadLetter]) -> (Vec<LetterNumber>, Outcome) {
    if given.numbers.is_empty() {
        let is_wanted = |letter: &&DeadLetter| given.all || given.topics.contains(&letter.dead.topic);
        return (own.iter().filter(is_wanted).map(|letter| letter.number).collect(), Ok(()));
    }
    let (there, gone): (Vec<_>, Vec<_>) =
        given.numbers.iter().partition(|number| own.iter().any(|letter| letter.number == **number));
    let mut outcome = Ok(());
    for number in gone {
        outcome = outcome::both(outcome, Err(missing(number)));
    }
    (there, outcome)
}

fn missing(number: LetterNumber) -> Failure {
    Failure::of(number, "no such dead letter")
}
