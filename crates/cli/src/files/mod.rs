//! `pinnace files`: file transfer for shells and scripts.
//!
//! | module | what it is |
//! | --- | --- |
//! | `serve`, `ls` | a command each |
//! | `transfer` | `get`, `put`, `sync`, `verify` and `watch` |
//! | `streams` | `get` to standard output, `put` from standard input |
//! | `progress` | the progress of a transfer, for a terminal or as lines of JSON |

mod ls;
mod progress;
mod serve;
mod streams;
mod transfer;

use std::io::{IsTerminal, stderr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use pinnace::files::client::{Client, Report, Transfer};
use pinnace::files::error::{Code, Error, FileError};

use crate::outcome::{Failure, Outcome, say};
use crate::output::escaped;
use crate::secrets;
use crate::settings::{own_keys, public_key};
use crate::signals::Signals;
use crate::table::files::{Files, ServerArgs};

pub fn run(command: &Files) -> Outcome {
    match command {
        Files::Serve(given) => serve::run(given),
        Files::Get(given) => transfer::get(given),
        Files::Put(given) => transfer::put(given),
        Files::Sync(given) => transfer::sync(given),
        Files::Verify(given) => transfer::verify(given),
        Files::Watch(given) => transfer::watch(given),
        Files::Ls(given) => ls::run(given),
    }
}

fn connect(given: &ServerArgs) -> Outcome<Client> {
    let mut builder = Client::builder(&given.server).patience(given.timeout);
    if let (Some(own), Some(server)) = (&given.cert, &given.server_key) {
        let keys = own_keys(own).and_then(|own| Ok((own, public_key(server)?)));
        let (own, server) = keys.map_err(Failure::into_usage)?;
        builder = builder.curve(&own, &server);
    }
    if let (Some(user), Some(file)) = (&given.user, &given.password_file) {
        let text = secrets::read(file, PASSWORD_MAX).map_err(Failure::into_usage)?;
        builder = builder.password(user, text_of(file, secrets::first_line(&text))?);
    }
    if let Some(rate) = given.limit_rate {
        builder = builder.limit_rate(rate);
    }
    if let Some(domain) = &given.domain {
        builder = builder.domain(domain);
    }
    builder.connect().map_err(|error| Failure::usage(format!("{}: {error}", given.server)))
}

/// A password, which PLAIN sends as text.
fn text_of<'a>(file: &Path, octets: &'a [u8]) -> Outcome<&'a str> {
    std::str::from_utf8(octets)
        .map_err(|_| Failure::usage(format!("{}: a password that is not UTF-8", file.display())))
}

/// The largest file with a password, in bytes.
const PASSWORD_MAX: usize = 4096;

/// The signal that has ended a transfer; 0: none.
type EndedBy = Arc<AtomicI32>;

/// Cancels a transfer when a signal comes.
fn cancel_on_signal(transfer: &Transfer) -> Outcome<EndedBy> {
    let (signals, cancel) = (Signals::new(false)?, transfer.canceller());
    let ended_by = EndedBy::default();
    let writer = ended_by.clone();
    let on_signal = move || {
        wait(&signals);
        writer.store(signals.ending().unwrap_or(0), Ordering::Release);
        cancel();
    };
    pinnace_sys::thread::start("signals", on_signal).map_err(|error| Failure::of("a thread", error))?;
    Ok(ended_by)
}

/// Waits for a signal that ends the process.
fn wait(signals: &Signals) {
    while signals.ending().is_none() {
        let _ = pinnace::poll(&mut [signals.item()], None);
    }
}

/// The exit code of a transfer that did not complete.
fn of_error(error: &Error, ended_by: &EndedBy) -> Failure {
    match (error, ended_by.load(Ordering::Acquire)) {
        (Error::NoServer(_), _) => Failure::TimedOut(error.to_string()),
        (Error::Refused(_), _) => Failure::Refused(error.to_string()),
        (Error::Cancelled, signal) if signal != 0 => Failure::Signal(signal),
        _ => Failure::Failed(error.to_string()),
    }
}

/// Says what has become of a name, which may have any characters.
fn say_name(path: &str, error: &FileError) {
    let text = format!("{path}: {error}");
    say(if stderr().is_terminal() { escaped(text.as_bytes()) } else { text });
}

/// Names the files that failed.
fn of_report(report: &Report) -> Outcome {
    for (path, error) in &report.failed {
        say_name(path, error);
    }
    let count = report.failed.len();
    if count == 0 {
        return Ok(());
    }
    let text = if count == 1 { "1 file failed".to_owned() } else { format!("{count} files failed") };
    let all = |code| report.failed.iter().all(|(_, error)| error.code == code);
    Err(match (all(Code::Denied), report.failed.iter().any(|(_, error)| error.code == Code::NoRoom)) {
        (_, true) => Failure::NoRoom(text),
        (true, false) => Failure::Refused(text),
        (false, false) => Failure::Failed(text),
    })
}
