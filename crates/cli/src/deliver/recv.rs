//! `pinnace deliver recv`: prints messages as they arrive, or passes each to a command.
//!
//! A message is acknowledged once it was printed and flushed, or its command has exited with 0. A message that
//! could not be printed has failed: its sender keeps it and delivers it again.

use std::ffi::OsStr;
use std::io::{self, BufWriter, Write};
use std::time::Instant;

use pinnace::delivery::{Client, Dead, Delivery, Error, Verdict};
use serde_json::json;

use super::client::{self, LOOK_EVERY, Trouble, failure};
use super::exec;
use crate::outcome::{self, Failure, Outcome};
use crate::output;
use crate::signals::Signals;
use crate::sockets;
use crate::table::deliver::DeliverRecv;

/// Maximum number of messages printed before a flush and their acknowledgement.
const BURST: usize = 1000;
/// Size of the output buffer in bytes.
const BUFFER: usize = 64 << 10;

pub fn run(given: &DeliverRecv) -> Outcome {
    let signals = Signals::new(false)?;
    let builder = client::builder(&given.client, &given.topics[0])?;
    let builder = match given.max_deliveries {
        Some(deliveries) => builder.max_deliveries(deliveries),
        None => builder,
    };
    let further: Vec<&str> = given.topics[1..].iter().map(String::as_str).collect();
    let client = client::start(builder.topics(&further), &given.client, &signals)?;
    let mut receiver = Receiver { given, client, signals, trouble: Trouble::default() };
    let outcome = match &given.exec {
        Some(command) => receiver.hand_all(command),
        None => receiver.print_all(),
    };
    outcome::closed_output_fails_if(given.count.is_some(), outcome)
}

struct Receiver<'a> {
    given: &'a DeliverRecv,
    client: Client,
    signals: Signals,
    trouble: Trouble,
}

impl Receiver<'_> {
    fn print_all(&mut self) -> Outcome {
        let mut out = BufWriter::with_capacity(BUFFER, io::stdout());
        let (mut count, mut printed) = (0, Vec::new());
        while self.given.count.is_none_or(|wanted| count < wanted) {
            let ready = match self.signals.check() {
                Ok(()) if printed.len() < BURST => self.client.recv(Some(Instant::now())),
                _ => Err(Error::TimedOut),
            };
            let delivery = match ready {
                Ok(delivery) => delivery,
                Err(_) => {
                    acknowledge(&mut out, &mut printed)?;
                    self.next()?
                }
            };
            print(self.given, &mut out, &delivery).map_err(|error| Failure::of_output(&error))?;
            printed.push(delivery);
            count += 1;
        }
        acknowledge(&mut out, &mut printed)
    }

    fn hand_all(&mut self, command: &OsStr) -> Outcome {
        let mut count = 0;
        while self.given.count.is_none_or(|wanted| count < wanted) {
            let delivery = self.next()?;
            if exec::run(command, &delivery)? {
                delivery.ack();
                count += 1;
            }
        }
        Ok(())
    }

    /// Waits for a message. A closed standard output, or a signal, is an error.
    fn next(&mut self) -> Outcome<Delivery> {
        let deadline = sockets::deadline(self.given.timeout);
        loop {
            self.signals.check()?;
            let is_read = sockets::wait_after_signal(vec![output::end_item()], Some(Instant::now()))?;
            if is_read.is_some_and(|items| items[0].is_over()) {
                return Err(Failure::OutputClosed);
            }
            let next = Instant::now() + LOOK_EVERY;
            match self.client.recv(Some(deadline.map_or(next, |deadline| deadline.min(next)))) {
                Ok(delivery) => return Ok(delivery),
                Err(Error::TimedOut) if deadline.is_some_and(|deadline| deadline <= Instant::now()) => {
                    return Err(Failure::TimedOut("timed out: no message received".to_owned()));
                }
                Err(Error::TimedOut) => self.trouble.tell(&self.client)?,
                Err(error) => return Err(failure(error)),
            }
        }
    }
}

/// Flushes the output, then acknowledges the printed messages.
fn acknowledge(out: &mut impl Write, printed: &mut Vec<Delivery>) -> Outcome {
    out.flush().map_err(|error| Failure::of_output(&error))?;
    printed.drain(..).for_each(Delivery::ack);
    Ok(())
}

fn print(given: &DeliverRecv, out: &mut impl Write, delivery: &Delivery) -> io::Result<()> {
    if given.json {
        return writeln!(out, "{}", to_json(delivery));
    }
    out.write_all(delivery.body())?;
    match given {
        DeliverRecv { raw: true, .. } => Ok(()),
        DeliverRecv { null: true, .. } => out.write_all(&[0]),
        _ => out.write_all(b"\n"),
    }
}

fn to_json(delivery: &Delivery) -> serde_json::Value {
    let mut object = json!({
        "from": delivery.from(),
        "topic": delivery.topic(),
        "accepted_ms": delivery.accepted_ms(),
        "deliveries": delivery.deliveries(),
        "body": output::json_of(delivery.body()),
    });
    add_properties(&mut object, texts(delivery), delivery.headers());
    if let Some(dead) = delivery.dead() {
        object["dead"] = json_of_dead(dead);
    }
    object
}

/// Why a message is a dead letter.
pub fn json_of_dead(dead: &Dead) -> serde_json::Value {
    json!({
        "topic": dead.topic,
        "receiver": dead.receiver,
        "reason": reason(dead.reason),
        "deliveries": dead.deliveries,
    })
}

/// The names of a message's id, content type, trace context and ordering key.
pub const TEXTS: [&str; 5] = ["id", "content_type", "traceparent", "tracestate", "ordering_key"];

/// The texts of a message, in the order of `TEXTS`.
pub fn texts(of: &Delivery) -> [Option<&str>; 5] {
    [of.id(), of.content_type(), of.traceparent(), of.tracestate(), of.ordering_key()]
}

/// Adds what a message carries beside its body.
pub fn add_properties<'a>(
    object: &mut serde_json::Value,
    texts: [Option<&str>; 5],
    headers: impl Iterator<Item = (&'a str, &'a [u8])>,
) {
    for (name, text) in TEXTS.iter().zip(texts) {
        if let Some(text) = text {
            object[*name] = json!(text);
        }
    }
    for (key, value) in headers {
        object["headers"][key] = output::json_of(value);
    }
}

/// The reason why a message was given up, as a word.
pub fn reason(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Terminated => "terminated",
        Verdict::Deliveries => "deliveries",
        Verdict::TooLarge => "too_large",
        Verdict::Unreadable => "unreadable",
        Verdict::Expired => "expired",
    }
}
