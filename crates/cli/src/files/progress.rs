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
        Progress { bar, is_json }
    }

    pub fn on_event(&mut self, event: &Event) -> Outcome {
        match event {
            Event::Begun { path, .. } => self.bar.set_message(path.clone()),
            Event::Progress { bytes } => self.bar.inc(*bytes),
            _ => {}
        }
        match line_of(event).filter(|_| self.is_json) {
            Some(line) => print(format!("{line}\n").as_bytes()),
            None => Ok(()),
        }
    }

    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

fn line_of(event: &Event) -> Option<Value> {
    Some(match event {
        Event::Begun { path, size } => json!({"event": "begun", "path": path, "size": size}),
        Event::Finished { path, size, digest } => {
            let digest: String = digest.iter().map(|octet| format!("{octet:02x}")).collect();
            json!({"event": "finished", "path": path, "size": size, "blake3": digest})
        }
        Event::Failed { path, error } => {
            let code = String::from_utf8_lossy(error.code.name());
            json!({"event": "failed", "path": path, "code": code, "error": error.text})
        }
        Event::Ended(report) => {
            json!({"event": "ended", "files": report.files, "bytes": report.bytes, "failed": report.failed.len()})
        }
        Event::Aborted(error) => json!({"event": "aborted", "error": error.to_string()}),
        _ => return None,
    })
}
