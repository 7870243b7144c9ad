//! `pinnace files get`, `put`, `sync` and `watch`: transfers a file or a folder.

use pinnace::files::client::{Event, Report, Transfer};
use pinnace::files::rules::{Deletion, Existing, Pattern, Rules};
use pinnace::files::transfer::selection::Filter;

use super::progress::Progress;
use super::{cancel_on_signal, connect, of_error, of_report, say_name, streams};
use crate::outcome::{Failure, Outcome, say};
use crate::table::files::{
    DeletionArgs, DeletionLimits, FilesGet, FilesPut, FilesSync, FilesVerify, FilesWatch, Patterns,
    ProgressArgs, RulesArgs,
};

/// Standard output or input, in place of a file.
const STANDARD: &str = "-";

pub fn get(given: &FilesGet) -> Outcome {
    let client = connect(&given.server)?;
    let rules = rules(&given.rules, None)?;
    if given.to.as_os_str() == STANDARD {
        return streams::get(&client, given, &rules);
    }
    let transfer = match given.discard {
        true => client.discard(&given.path),
        false => client.get_by(&given.path, &given.to, rules),
    };
    complete(&transfer, &given.output, progress(&given.output).to(&given.path, &given.to))
}

pub fn put(given: &FilesPut) -> Outcome {
    let client = connect(&given.server)?;
    let rules = rules(&given.rules, deletion(&given.deletion)?)?;
    let transfer = match given.from.as_os_str() == STANDARD {
        true => streams::put(&client, &given.path, rules)?,
        false => client.put_by(&given.from, &given.path, rules),
    };
    complete(&transfer, &given.output, progress(&given.output))
}

pub fn sync(given: &FilesSync) -> Outcome {
    let client = connect(&given.server)?;
    let rules = rules(&given.rules, Some(limited(&given.limits)))?;
    let progress = progress(&given.output).to(&given.path, &given.to);
    complete(&client.get_by(&given.path, &given.to, rules), &given.output, progress)
}

/// Plans a transfer that compares contents: each name that it would change differs.
pub fn verify(given: &FilesVerify) -> Outcome {
    let client = connect(&given.server)?;
    let deletion = Some(Deletion { most: None, force: true });
    let filter = filter(&given.patterns)?;
    let rules = Rules { filter, deletion, checksum: true, dry_run: true, ..Rules::default() };
    let mut count = 0_u64;
    let mut progress = progress(&given.output).to(&given.path, &given.to).of_comparison();
    let report = follow_events(&client.get_by(&given.path, &given.to, rules), &mut progress, |event| {
        count += u64::from(matches!(event, Event::Planned { .. }));
    })?;
    of_report(&report)?;
    match count {
        0 => Ok(()),
        1 => Err(Failure::Failed("1 name differs".to_owned())),
        count => Err(Failure::Failed(format!("{count} names differ"))),
    }
}

/// A signal is the way to end it.
pub fn watch(given: &FilesWatch) -> Outcome {
    let client = connect(&given.server)?;
    let rules = rules(&given.rules, deletion(&given.deletion)?)?;
    let (transfer, output) = (client.follow(&given.path, &given.to, rules), &given.output);
    let mut progress = progress(output).to(&given.path, &given.to);
    // There is no report before the end.
    let ended = follow_events(&transfer, &mut progress, |event| match event {
        Event::Failed { path, error } if !output.json => say_name(path, error),
        Event::Lost(error) if !output.json => say(format!("{error}; trying again")),
        _ => {}
    });
    match ended {
        Err(Failure::Signal(_)) => Ok(()),
        ended => of_report(&ended?),
    }
}

fn rules(given: &RulesArgs, deletion: Option<Deletion>) -> Outcome<Rules> {
    let existing = match (given.update, given.ignore_existing) {
        (true, _) => Existing::NotNewer,
        (_, true) => Existing::Nothing,
        _ => Existing::Different,
    };
    let (filter, whole_files) = (filter(&given.patterns)?, given.whole_file);
    let (checksum, fsync, dry_run) = (given.checksum, given.fsync, given.dry_run);
    let (owner, xattrs) = (given.owner, given.xattrs);
    let (compress, sparse, hard_links) = (given.compress, given.sparse, given.hard_links);
    Ok(Rules {
        filter,
        existing,
        checksum,
        whole_files,
        deletion,
        fsync,
        dry_run,
        compress,
        sparse,
        hard_links,
        owner,
        xattrs,
    })
}

/// The patterns, if they are valid.
fn filter(given: &Patterns) -> Outcome<Vec<Pattern>> {
    Filter::new(&given.0).map_err(Failure::usage)?;
    Ok(given.0.clone())
}

fn deletion(given: &DeletionArgs) -> Outcome<Option<Deletion>> {
    let limits = limited(&given.limits);
    match given.delete || limits == Deletion::default() {
        true => Ok(given.delete.then_some(limits)),
        false => Err(Failure::usage("--max-delete and --force are for --delete")),
    }
}

fn limited(given: &DeletionLimits) -> Deletion {
    Deletion { most: given.max_delete, force: given.force }
}

fn progress(given: &ProgressArgs) -> Progress {
    Progress::new(given.json, given.quiet)
}

/// Shows a transfer's progress until its end.
fn complete(transfer: &Transfer, given: &ProgressArgs, mut progress: Progress) -> Outcome {
    let report = follow_events(transfer, &mut progress, |_| {})?;
    if !given.quiet && !given.json {
        say(format!("{} files, {} bytes", report.files, report.bytes));
    }
    of_report(&report)
}

/// Shows a transfer's progress until its end. Returns the report.
fn follow_events(
    transfer: &Transfer,
    progress: &mut Progress,
    mut on_event: impl FnMut(&Event),
) -> Outcome<Report> {
    let ended_by = cancel_on_signal(transfer)?;
    while let Some(event) = transfer.next_event() {
        progress.on_event(&event)?;
        on_event(&event);
        match event {
            Event::Ended(report) => {
                progress.end();
                return Ok(report);
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
