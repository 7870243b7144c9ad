//! `pinnace files`: file transfer for shells and scripts.
//!
//! | module | what it is |
//! | --- | --- |
//! | `serve`, `ls` | a command each |
//! | `transfer` | `get`, `put`, `sync`, `verify` and `watch` |
//! | `streams` | `get` to standard output, `put` from standard input |
//! | `progress`, `json` | the progress of a transfer, for a terminal or as lines of JSON |
//! | `paths` | the paths of a transfer, at the server and on this host |

mod json;
mod ls;
mod paths;
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
use paths::Paths;

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

/// Says why a file failed, whose name may have any characters.
fn say_failed(path: &str, error: &FileError, paths: &Paths) {
    let text = format!("{}: {error}", paths.name_of_failed(path, error));
    say(if stderr().is_terminal() { escaped(text.as_bytes()) } else { text });
}

/// Names the files that failed.
fn of_report(report: &Report, paths: &Paths) -> Outcome {
    report.failed.iter().for_each(|(path, error)| say_failed(path, error, paths));
    outcome_of(report, paths)
}

/// What a transfer has come to whose failures were named.
fn outcome_of(report: &Report, paths: &Paths) -> Outcome {
    let failed = &report.failed;
    if failed.is_empty() {
        return Ok(());
    }
    let text = format!("{} failed", counted(failed.len() as u64, "file"));
    let is_refused =
        |(path, error): &(String, FileError)| error.code == Code::Denied && paths.is_whole(path, error);
    Err(match failed.iter().any(|(_, error)| error.code == Code::NoRoom) {
        true => Failure::NoRoom(text),
        false if failed.iter().all(is_refused) => Failure::Refused(text),
        false => Failure::Failed(text),
    })
}

/// A number and a noun in its singular or plural.
fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// The line at the end of a transfer.
fn total(files: u64, bytes: u64) -> String {
    format!("{}, {}", counted(files, "file"), counted(bytes, "byte"))
}
