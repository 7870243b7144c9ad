//! The progress of a transfer: a bar on a terminal, lines of JSON for programs.

use std::io::{IsTerminal, stdout};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pinnace::files::client::Event;
use serde_json::{Value, json};

use crate::outcome::Outcome;
use crate::output::{escaped, print};

/// The progress of one transfer.
pub struct Progress {
    bar: ProgressBar,
    is_json: bool,
    is_quiet: bool,
    /// Nothing is transferred: each planned change is a difference.
    is_comparison: bool,
    /// Present if files come here.
    here: Option<Here>,
}

/// Where the files of a transfer are on this host.
struct Here {
    /// The virtual path that is transferred, without a slash at its end.
    path: String,
    /// The name by which it goes into `to`.
    own: Option<String>,
    to: PathBuf,
}

impl Here {
    fn new(path: &str, to: &Path) -> Here {
        let own = path.rsplit('/').next().filter(|own| !own.is_empty()).map(str::to_owned);
        Here { path: path.strip_suffix('/').unwrap_or(path).to_owned(), own, to: to.to_owned() }
    }

    /// The path here of a virtual path.
    fn path_of(&self, virtual_path: &str) -> PathBuf {
        let below = virtual_path.strip_prefix(&self.path).unwrap_or(virtual_path).trim_start_matches('/');
        let is_directory =
            !below.is_empty() || self.to.is_dir() || self.to.as_os_str().as_bytes().ends_with(b"/");
        let own = self.own.iter().filter(|_| is_directory).map(Path::new);
        let names = own.chain((!below.is_empty()).then_some(Path::new(below)));
        names.fold(self.to.clone(), |path, name| path.join(name))
    }
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
        Progress { bar, is_json, is_quiet, is_comparison: false, here: None }
    }

    /// Of a transfer from a virtual path to one of this host.
    pub fn to(self, path: &str, to: &Path) -> Progress {
        Progress { here: Some(Here::new(path, to)), ..self }
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
            true => line_of(event).map(|line| line.to_string()),
            false => self
                .text_of(event)
                .map(|line| if stdout().is_terminal() { escaped(line.as_bytes()) } else { line }),
        };
        line.map_or(Ok(()), |line| self.bar.suspend(|| print(format!("{line}\n").as_bytes())))
    }

    /// The path on this host of a virtual path, if the transfer has a target here; otherwise the virtual path.
    fn here(&self, path: &str) -> String {
        self.here.as_ref().map_or_else(|| path.to_owned(), |here| here.path_of(path).display().to_string())
    }

    /// Returns true if a file that differs is not here.
    fn is_missing(&self, path: &str) -> bool {
        self.here.as_ref().is_some_and(|here| here.path_of(path).symlink_metadata().is_err())
    }

    /// The line of text that the command prints for an event. With `--quiet` it prints planned changes only.
    fn text_of(&self, event: &Event) -> Option<String> {
        Some(match event {
            Event::Planned { path, removal: false } if self.is_comparison => match self.is_missing(path) {
                true => format!("missing: {path}"),
                false => format!("differs: {path}"),
            },
            Event::Planned { path, removal: true } if self.is_comparison => {
                format!("not at the source: {}", self.here(path))
            }
            Event::Planned { path, removal: false } => format!("would fetch {path}"),
            Event::Planned { path, removal: true } => format!("would remove {}", self.here(path)),
            _ if self.is_quiet => return None,
            Event::Removed { path, here: true } => format!("removed {}", self.here(path)),
            Event::Removed { path, here: false } => format!("removed at the source: {path}"),
            Event::Moved { from, to, here: true } => {
                format!("moved {} to {}", self.here(from), self.here(to))
            }
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
