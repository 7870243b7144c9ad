//! The progress of a transfer: a bar on a terminal, lines of text, or lines of JSON for programs.

use std::io::{IsTerminal, stdout};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pinnace::files::client::Event;

use super::json::{line_of, line_of_difference};
use super::paths::Paths;
use crate::outcome::Outcome;
use crate::output::{escaped, print};
use crate::table::files::ProgressArgs;

/// The progress of one transfer.
pub struct Progress {
    bar: ProgressBar,
    is_json: bool,
    is_quiet: bool,
    /// Nothing is transferred: each planned change is a difference.
    is_comparison: bool,
    pub paths: Paths,
}

/// How a name here differs from the source's.
#[derive(Clone, Copy)]
pub enum Difference {
    /// It is not here.
    Missing,
    /// It is another kind of file, has other content, or leads elsewhere.
    Content,
    /// It is only here.
    NotAtSource,
}

impl Difference {
    /// As `--json` tells it.
    pub fn word(self) -> &'static str {
        match self {
            Difference::Missing => "missing",
            Difference::Content => "content",
            Difference::NotAtSource => "not-at-source",
        }
    }
}

impl Progress {
    /// Without a terminal there is no bar.
    pub fn new(given: &ProgressArgs, paths: Paths) -> Progress {
        let target = match given.json || given.quiet {
            true => ProgressDrawTarget::hidden(),
            false => ProgressDrawTarget::stderr(),
        };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{bytes} {bytes_per_sec} {elapsed} {wide_msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress { bar, is_json: given.json, is_quiet: given.quiet, is_comparison: false, paths }
    }

    pub fn of_comparison(self) -> Progress {
        Progress { is_comparison: true, ..self }
    }

    pub fn on_event(&mut self, event: &Event) -> Outcome {
        match event {
            Event::Begun { path, .. } => self.bar.set_message(path.clone()),
            Event::Progress { bytes } => self.bar.inc(*bytes),
            _ => {}
        }
        let line = match self.is_json {
            true => self.json_of(event),
            false => self
                .text_of(event)
                .map(|line| if stdout().is_terminal() { escaped(line.as_bytes()) } else { line }),
        };
        line.map_or(Ok(()), |line| self.bar.suspend(|| print(format!("{line}\n").as_bytes())))
    }

    /// The difference that an event of a comparison tells, and its path.
    fn difference_of<'a>(&self, event: &'a Event) -> Option<(&'a str, Difference)> {
        let Event::Planned { path, removal } = event else { return None };
        let is_missing = || self.paths.local(path).is_some_and(|local| local.symlink_metadata().is_err());
        let difference = match removal {
            true => Difference::NotAtSource,
            false if is_missing() => Difference::Missing,
            false => Difference::Content,
        };
        self.is_comparison.then_some((path, difference))
    }

    fn json_of(&self, event: &Event) -> Option<String> {
        let line = match self.difference_of(event) {
            Some((path, difference)) => Some(line_of_difference(path, difference, &self.paths)),
            None => line_of(event, &self.paths),
        };
        line.map(|line| line.to_string())
    }

    /// The line of text that the command prints for an event. With `--quiet` it prints planned changes only.
    fn text_of(&self, event: &Event) -> Option<String> {
        let here = |path: &str| self.paths.here(path);
        if let Some((path, difference)) = self.difference_of(event) {
            return Some(match difference {
                Difference::Missing => format!("missing: {path}"),
                Difference::Content => format!("differs: {path}"),
                Difference::NotAtSource => format!("not at the source: {}", here(path)),
            });
        }
        Some(match event {
            Event::Planned { path, removal: false } if self.paths.is_upload() => format!("would send {path}"),
            Event::Planned { path, removal: false } => format!("would fetch {path}"),
            Event::Planned { path, removal: true } => format!("would remove {}", here(path)),
            _ if self.is_quiet => return None,
            Event::Removed { path, here: true } => format!("removed {}", here(path)),
            Event::Removed { path, here: false } => format!("removed at the source: {path}"),
            Event::Moved { from, to, here: true } => format!("moved {} to {}", here(from), here(to)),
            Event::Moved { from, to, here: false } => format!("moved at the source: {from} to {to}"),
            _ => return None,
        })
    }

    /// So many more bytes were written.
    pub fn add(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}
