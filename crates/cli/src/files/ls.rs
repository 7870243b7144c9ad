//! `pinnace files ls`: lists the names below a path.

use std::collections::BTreeMap;
use std::io::{IsTerminal, stdout};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use pinnace::files::client::{Event, Listed};
use pinnace::files::tree::Kind;
use serde_json::json;

use super::paths::Paths;
use super::{cancel_on_signal, connect, of_error, of_report};
use crate::outcome::{Failure, Outcome};
use crate::output::{escaped, print};
use crate::table::files::FilesLs;

pub fn run(given: &FilesLs) -> Outcome {
    let client = connect(&given.server)?;
    let transfer = client.list(&given.path);
    let ended_by = cancel_on_signal(&transfer)?;
    // Sorted; after a lost connection names come again.
    let mut names = BTreeMap::new();
    while let Some(event) = transfer.next_event() {
        match event {
            Event::Listed(listed) => drop(names.insert(listed.name.clone(), listed)),
            Event::Ended(report) => {
                let lines: Vec<Vec<u8>> = names.values().map(|listed| shown(given, listed)).collect();
                print(&lines.concat())?;
                return of_report(&report, &Paths::of(&given.path));
            }
            Event::Aborted(error) => return Err(of_error(&error, &ended_by)),
            _ => {}
        }
    }
    Err(Failure::Failed("the client has ended".to_owned()))
}

fn shown(given: &FilesLs, listed: &Listed) -> Vec<u8> {
    let name = if listed.name.is_empty() { given.path.as_bytes() } else { &listed.name };
    let kind = match listed.kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Link => "link",
    };
    if given.json {
        let mut line = json!({
            "name": String::from_utf8_lossy(name), "kind": kind, "size": listed.size, "mtime_ns": listed.mtime_ns,
            "mode": format!("{:o}", listed.mode), "target": String::from_utf8_lossy(&listed.target),
        });
        for (field, octets) in [("name_base64", name), ("target_base64", &listed.target)] {
            if std::str::from_utf8(octets).is_err() {
                line[field] = json!(BASE64_STANDARD.encode(octets));
            }
        }
        return format!("{line}\n").into_bytes();
    }
    let slash: &[u8] = if listed.kind == Kind::Directory { b"/" } else { b"" };
    let shown = if stdout().is_terminal() { escaped(name).into_bytes() } else { name.to_vec() };
    let line = [&shown[..], slash, b"\n"].concat();
    if !given.long {
        return line;
    }
    let seconds = listed.mtime_ns.div_euclid(1_000_000_000);
    [format!("{kind:<9} {:>4o} {:>15} {seconds:>11} ", listed.mode, listed.size).into_bytes(), line].concat()
}
