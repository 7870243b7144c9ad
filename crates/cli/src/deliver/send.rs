//! `pinnace deliver send`: sends messages from the command line or standard input. Success means accepted: the
//! messages are on this machine's disk and will be delivered from there. With `--wait`, or with messages only in
//! memory, it means handled.
//!
//! Messages that were accepted before a failure stay on the disk.

use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use pinnace::delivery::{self, Client, Error, Options, Ticket};

use super::client::{self, LOOK_EVERY, Trouble, failure};
use crate::input::{Framing, Input};
use crate::outcome::{self, Failure, Outcome};
use crate::signals::Signals;
use crate::sockets;
use crate::table::deliver::{DeliverSend, Durability};

pub fn run(given: &DeliverSend) -> Outcome {
    if (given.raw || given.null) && !reads_input(given) {
        return Err(Failure::usage("--raw and --null apply to standard input, and cannot be used with BODY"));
    }
    if given.id.is_some() && !given.raw && (reads_input(given) || given.bodies.len() > 1) {
        return Err(Failure::usage("--id is for one message: one BODY, or standard input with --raw"));
    }
    let signals = Signals::new(false)?;
    let own = given.own.as_ref().unwrap_or(&given.client.name);
    // Messages in memory are waited for here, not when the client is dropped.
    let builder = client::builder(&given.client, own)?.deduplicate_for(given.deduplicate_for);
    let builder = builder.dead_letter_expired(given.dead_letter_expired);
    let client = client::start(builder.linger(Duration::ZERO), &given.client, &signals)?;
    Trouble::default().tell(&client)?;
    let given_up = dead_letters(&client, given);
    let (mut sent, mut last) = (0, None);
    let outcome = send_all(given, &client, &signals, &mut sent, &mut last);
    let deadline = sockets::deadline(given.timeout);
    let accepted = match last {
        Some(ticket) if given.durability != Durability::Memory => {
            client::wait(&signals, deadline, |until| client.wait(ticket, Some(until)))
        }
        _ => Ok(()),
    };
    let outcome = outcome::both(outcome, accepted);
    let waits = given.wait || (given.durability == Durability::Memory && sent > 0);
    if !waits || matches!(outcome, Err(Failure::Signal(_))) {
        return outcome;
    }
    outcome::both(outcome, wait_handled(given, &client, &signals, deadline, given_up))
}

fn reads_input(given: &DeliverSend) -> bool {
    given.bodies.is_empty() || given.bodies == ["-"]
}

/// The topics that each message goes to.
fn topics(given: &DeliverSend) -> impl Iterator<Item = &String> {
    std::iter::once(&given.topic).chain(&given.also)
}

/// Sends all messages. Counts them in `sent`, and stores the `last` ticket to wait for.
fn send_all(
    given: &DeliverSend,
    client: &Client,
    signals: &Signals,
    sent: &mut u64,
    last: &mut Option<Ticket>,
) -> Outcome {
    if !reads_input(given) {
        for body in &given.bodies {
            accept_everywhere(given, client, signals, body.as_bytes(), (&mut *sent, &mut *last))?;
        }
        return Ok(());
    }
    let cut = match given {
        DeliverSend { raw: true, .. } => Framing::Whole,
        DeliverSend { null: true, .. } => Framing::At(0),
        _ => Framing::At(b'\n'),
    };
    let mut input = Input::new(Vec::new(), cut, given.max);
    while let Some(body) = input.next(signals)? {
        accept_everywhere(given, client, signals, &body, (&mut *sent, &mut *last))?;
    }
    Ok(())
}

/// Sends a message to all topics.
fn accept_everywhere(
    given: &DeliverSend,
    client: &Client,
    signals: &Signals,
    body: &[u8],
    (sent, last): (&mut u64, &mut Option<Ticket>),
) -> Outcome {
    for topic in topics(given) {
        let what = match given.also.len() {
            0 => format!("message {}", *sent + 1),
            _ => format!("message {} to {topic}", *sent + 1),
        };
        *last = Some(accept(given, client, signals, (topic, body), &what)?);
    }
    *sent += 1;
    Ok(())
}

/// Sends a message once there is room. A timed-out attempt accepts nothing, so it can be repeated: attempts are
/// short, to check for signals, and each is twice as long as the last, so that a large message gets the time it
/// needs.
fn accept(
    given: &DeliverSend,
    client: &Client,
    signals: &Signals,
    (topic, body): (&str, &[u8]),
    what: &str,
) -> Outcome<Ticket> {
    let durability = match given.durability {
        Durability::Sync => delivery::Durability::Sync,
        Durability::Interval => delivery::Durability::Interval,
        Durability::Memory => delivery::Durability::Memory,
    };
    let headers: Vec<(&str, &[u8])> =
        given.headers.iter().map(|header| (header.key.as_str(), header.value.as_slice())).collect();
    let (end, mut step) = (sockets::deadline(given.timeout), LOOK_EVERY);
    loop {
        signals.check()?;
        let next = Instant::now() + step;
        let deadline = Some(end.map_or(next, |end| end.min(next)));
        let options = Options {
            all: given.all,
            durability,
            ttl: given.ttl,
            deadline,
            id: given.id.as_deref(),
            content_type: given.content_type.as_deref(),
            traceparent: given.traceparent.as_deref(),
            tracestate: given.tracestate.as_deref(),
            ordering_key: given.ordering_key.as_deref(),
            headers: &headers,
        };
        match client.send_async(topic, body, &options) {
            Ok(ticket) => return Ok(ticket),
            Err(Error::TimedOut | Error::NoRoom(_)) if end.is_none_or(|end| end > Instant::now()) => {
                step *= 2
            }
            Err(Error::NoRoom(Some(shortage))) => {
                return Err(Failure::TimedOut(format!("timed out: no room for {what}: {shortage}")));
            }
            Err(Error::TimedOut | Error::NoRoom(None)) => {
                return Err(Failure::TimedOut(format!("timed out: no room for {what}")));
            }
            Err(Error::TooLarge) => {
                return Err(Failure::of(what, Error::TooLarge));
            }
            Err(error) => return Err(failure(error)),
        }
    }
}

/// Waits until all messages on the topics are handled. Messages given up meanwhile are a failure.
fn wait_handled(
    given: &DeliverSend,
    client: &Client,
    signals: &Signals,
    deadline: Option<Instant>,
    given_up: u64,
) -> Outcome {
    let fate = match given.durability {
        Durability::Memory => "those in memory are lost",
        Durability::Sync | Durability::Interval => "they stay in the store",
    };
    client::wait_handled(client, signals, deadline, fate, || {
        topics(given).map(|topic| pending(client, topic)).sum()
    })?;
    match dead_letters(client, given).saturating_sub(given_up) {
        0 => Ok(()),
        dead => Err(Failure::Failed(format!("messages given up by their receivers: {dead}"))),
    }
}

/// Number of pending messages on a topic.
fn pending(client: &Client, topic: &str) -> u64 {
    let all = client.pending_by_peer();
    all.iter().filter(|pending| pending.topic == topic).map(|pending| pending.messages).sum()
}

fn dead_letters(client: &Client, given: &DeliverSend) -> u64 {
    topics(given).map(|topic| pending(client, &format!("{topic}.dead"))).sum()
}
