//! `pinnace files get PATH -` and `put - PATH`: a file to standard output, and from standard input.

use std::fs::File;
use std::io::{self, Write};

use pinnace::files::client::{Client, Transfer};
use pinnace::files::error::{Code, Error};
use pinnace::files::rules::Rules;

use super::paths::Paths;
use super::progress::Progress;
use super::{counted, total};
use crate::outcome::{Failure, Outcome, closed_output_fails_if, say};
use crate::table::files::FilesGet;

/// Writes a file to standard output. A signal ends the process at once: nothing is to be tidied up.
pub fn get(client: &Client, given: &FilesGet, rules: &Rules) -> Outcome {
    if given.output.json || given.discard || *rules != Rules::default() {
        return Err(Failure::usage(
            "-: --json, --discard and rules are for files, and not for standard output",
        ));
    }
    let out = rustix::stdio::stdout().try_clone_to_owned();
    let mut out = File::from(out.map_err(|error| Failure::of("standard output", error))?);
    let progress = Progress::new(&given.output, Paths::of(&given.path));
    let (mut download, mut bytes) = (client.open(&given.path), 0);
    let outcome = loop {
        match download.next_piece() {
            Ok(Some(piece)) => {
                if let Err(error) = out.write_all(&piece) {
                    break closed_output_fails_if(true, Err(Failure::of_output(&error)));
                }
                bytes += piece.len() as u64;
                progress.add(piece.len() as u64);
            }
            Ok(None) => break Ok(()),
            Err(error) => break Err(of_error(&error, bytes)),
        }
    };
    progress.end();
    outcome?;
    if !given.output.quiet {
        say(total(1, bytes));
    }
    Ok(())
}

/// Begins to upload standard input, once it has ended.
pub fn put(client: &Client, path: &str, rules: Rules) -> Outcome<Transfer> {
    client.put_from(&mut io::stdin().lock(), path, rules).map_err(|error| match error {
        Error::Stream(error) if error.kind() == io::ErrorKind::StorageFull => {
            Failure::NoRoom(format!("standard input: {error}"))
        }
        Error::Stream(error) => Failure::of("standard input", error),
        error => Failure::usage(error),
    })
}

/// Why a file did not arrive, of which so many bytes were written.
fn of_error(error: &Error, bytes: u64) -> Failure {
    let text = match bytes {
        0 => error.to_string(),
        bytes => format!("{error}; standard output has only the first {}", counted(bytes, "byte")),
    };
    match error {
        Error::NoServer(_) => Failure::TimedOut(text),
        Error::Refused(_) => Failure::Refused(text),
        Error::File { error, .. } if error.code == Code::Denied => Failure::Refused(text),
        _ => Failure::Failed(text),
    }
}
