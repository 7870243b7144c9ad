//! `pinnace files get` and `put`: transfers a file or a folder.

use std::path::Path;

use pinnace::files::client::{Client, Event, Transfer};

use super::progress::Progress;
use super::{cancel_on_signal, connect, of_error, of_report};
use crate::outcome::{Failure, Outcome, say};
use crate::table::files::{FilesGet, FilesPut, ProgressArgs};

pub fn get(given: &FilesGet) -> Outcome {
    let client: Client = connect(&given.server)?;
    let transfer = match (given.discard, &given.to) {
        (true, _) => client.discard(&given.path),
        (false, Some(to)) => client.get(&given.path, to),
        (false, None) => client.get(&given.path, Path::new(last_name(&given.path)?)),
    };
    complete(&transfer, &given.output)
}

pub fn put(given: &FilesPut) -> Outcome {
    let client = connect(&given.server)?;
    complete(&client.put(&given.from, &given.path), &given.output)
}

/// Shows a transfer's progress until its end.
fn complete(transfer: &Transfer, given: &ProgressArgs) -> Outcome {
    let ended_by = cancel_on_signal(transfer)?;
    let mut progress = Progress::new(given.json, given.quiet);
    while let Some(event) = transfer.next_event() {
        progress.on_event(&event)?;
        match event {
            Event::Ended(report) => {
                progress.end();
                if !given.quiet && !given.json {
                    say(format!("{} files, {} bytes", report.files, report.bytes));
                }
                return of_report(&report);
            }
            Event::Aborted(error) => {
                progress.end();
                return Err(of_error(&error, &ended_by));
            }
            _ => {}
        }
    }
    Err(Failure::Failed("the client has ended".to_owned()))
}

/// The last name of a virtual path.
fn last_name(path: &str) -> Outcome<&str> {
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    match name {
        "" => Err(Failure::usage("name a folder that gets the content of /")),
        _ => Ok(name),
    }
}
