//! The progress of a transfer: a bar on a terminal, lines of JSON for programs.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pinnace::files::client::Event;
use serde_json::{Value, json};

use crate::outcome::Outcome;
use crate::output::print;

/// The progress of one transfer.
pub struct Progress {
    bar: ProgressBar,
    is_json: bool,
    /// Nothing is transferred: each planned change is a difference.
    is_comparison: bool,
}

impl Progress {
    /// Without a terminal there is no bar.
    pub fn new(is_json: bool, is_quiet: bool) -> Progress {
        let target = match is_json || is_quiet {
            true => ProgressDrawTarget::hidden(),
            false => ProgressDrawTarget::stderr(),
        };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{bytes} {bytes_per_sec} {elapsed} {wide_msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress { bar, is_json, is_comparison: false }
    }

    pub fn of_comparison(is_json: bool, is_quiet: bool) -> Progress {
        Progress { is_comparison: true, ..Progress::new(is_json, is_quiet) }
    }

    pub fn on_event(&mut self, event: &Event) -> Outcome {
        match event {
            Event::Begun { path, .. } => self.bar.set_message(path.clone()),
            Event::Progress { bytes } => self.bar.inc(*bytes),
            _ => {}
        }
        let line = match self.is_json {
            true => line_of(event).map(|line| line.to_string()),
            false => text_of(event, self.is_comparison),
        };
        line.map_or(Ok(()), |line| self.bar.suspend(|| print(format!("{line}\n").as_bytes())))
    }

    /// So many more bytes were written.
    pub fn add(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// The line that a person reads about a removal, a move, or a planned change.
fn text_of(event: &Event, is_comparison: bool) -> Option<String> {
    Some(match event {
        Event::Planned { path, removal: false } if is_comparison => format!("differs: {path}"),
        Event::Planned { path, removal: true } if is_comparison => format!("not at the source: {path}"),
        Event::Planned { path, removal: false } => format!("would fetch {path}"),
        Event::Planned { path, removal: true } => format!("would remove {path}"),
        Event::Removed { path, here: true } => format!("removed {path}"),
        Event::Removed { path, here: false } => format!("removed at the source: {path}"),
        Event::Moved { from, to, here: true } => format!("moved {from} to {to}"),
        Event::Moved { from, to, here: false } => format!("moved at the source: {from} to {to}"),
        _ => return None,
    })
}

fn line_of(event: &Event) -> Option<Value> {
    Some(match event {
        Event::Begun { path, size } => json!({"event": "begun", "path": path, "size": size}),
        Event::Finished { path, size, digest } => {
            let digest: String = digest.iter().map(|octet| format!("{octet:02x}")).collect();
            json!({"event": "finished", "path": path, "size": size, "blake3": digest})
        }
        Event::Removed { path, here } => json!({"event": "removed", "path": path, "here": here}),
        Event::Moved { from, to, here } => json!({"event": "moved", "from": from, "path": to, "here": here}),
        Event::Linked { path, first } => json!({"event": "linked", "path": path, "first": first}),
        Event::Planned { path, removal } => {
            json!({"event": "planned", "path": path, "action": if *removal { "remove" } else { "fetch" }})
        }
        Event::Current => json!({"event": "current"}),
        Event::Failed { path, error } => {
            let code = String::from_utf8_lossy(error.code.name());
            json!({"event": "failed", "path": path, "code": code, "error": error.text})
        }
        Event::Ended(report) => {
            json!({"event": "ended", "files": report.files, "bytes": report.bytes, "failed": report.failed.len()})
        }
        Event::Lost(error) => json!({"event": "lost", "error": error.to_string()}),
        Event::Aborted(error) => json!({"event": "aborted", "error": error.to_string()}),
        _ => return None,
    })
}
