//! `pinnace files get`, `put`, `sync` and `watch`: transfers a file or a folder.

use pinnace::files::client::{Event, Report, Transfer};
use pinnace::files::rules::{Deletion, Existing, Pattern, Rules};
use pinnace::files::transfer::selection::Filter;

use super::paths::Paths;
use super::progress::Progress;
use super::{cancel_on_signal, connect, of_error, of_report, outcome_of, say_failed, streams, total};
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
    let (transfer, paths) = match given.discard {
        true => (client.discard(&given.path), Paths::of(&given.path)),
        false => (client.get_by(&given.path, &given.to, rules), Paths::to(&given.path, &given.to)),
    };
    complete(&transfer, &given.output, paths)
}

pub fn put(given: &FilesPut) -> Outcome {
    let client = connect(&given.server)?;
    let rules = rules(&given.rules, deletion(&given.deletion)?)?;
    let transfer = match given.from.as_os_str() == STANDARD {
        true => streams::put(&client, &given.path, rules)?,
        false => client.put_by(&given.from, &given.path, rules),
    };
    complete(&transfer, &given.output, Paths::from(&given.from, &given.path))
}

pub fn sync(given: &FilesSync) -> Outcome {
    let client = connect(&given.server)?;
    let rules = rules(&given.rules, Some(limited(&given.limits)))?;
    let transfer = client.get_by(&given.path, &given.to, rules);
    complete(&transfer, &given.output, Paths::to(&given.path, &given.to))
}

/// Plans a transfer that compares contents: each name that it would change differs.
pub fn verify(given: &FilesVerify) -> Outcome {
    let client = connect(&given.server)?;
    let deletion = Some(Deletion { most: None, force: true });
    let filter = filter(&given.patterns)?;
    let rules = Rules { filter, deletion, checksum: true, dry_run: true, ..Rules::default() };
    let mut count = 0_u64;
    let paths = Paths::to(&given.path, &given.to);
    let mut progress = Progress::new(&given.output, paths).of_comparison();
    let report = follow_events(&client.get_by(&given.path, &given.to, rules), &mut progress, |event, _| {
        count += u64::from(matches!(event, Event::Planned { .. }));
    })?;
    of_report(&report, &progress.paths)?;
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
    let mut progress = Progress::new(output, Paths::to(&given.path, &given.to));
    // There is no report before the end.
    let ended = follow_events(&transfer, &mut progress, |event, paths| match event {
        Event::Failed { path, error } if !output.json => say_failed(path, error, paths),
        Event::Lost(error) if !output.json => say(format!("{error}; trying again")),
        _ => {}
    });
    match ended {
        Err(Failure::Signal(_)) => Ok(()),
        ended if output.json => of_report(&ended?, &progress.paths),
        ended => outcome_of(&ended?, &progress.paths),
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

/// Shows a transfer's progress until its end.
fn complete(transfer: &Transfer, given: &ProgressArgs, paths: Paths) -> Outcome {
    let mut progress = Progress::new(given, paths);
    let report = follow_events(transfer, &mut progress, |_, _| {})?;
    if !given.quiet && !given.json {
        say(total(report.files, report.bytes));
    }
    of_report(&report, &progress.paths)
}

/// Shows a transfer's progress until its end. Returns the report.
fn follow_events(
    transfer: &Transfer,
    progress: &mut Progress,
    mut on_event: impl FnMut(&Event, &Paths),
) -> Outcome<Report> {
    let ended_by = cancel_on_signal(transfer)?;
    while let Some(event) = transfer.next_event() {
        progress.on_event(&event)?;
        on_event(&event, &progress.paths);
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
