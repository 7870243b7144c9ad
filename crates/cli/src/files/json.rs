//! The events of a transfer as lines of JSON. `tools/check-docs` compares them with the table in docs/files.md.

use pinnace::files::client::Event;
use serde_json::{Value, json};

use super::paths::Paths;
use super::progress::Difference;

/// The line of an event. None: it is not printed.
pub fn line_of(event: &Event, paths: &Paths) -> Option<Value> {
    let line = match event {
        Event::Begun { path, size } => json!({"event": "begun", "path": path, "size": size}),
        Event::Finished { path, size, digest } => {
            let digest: String = digest.iter().map(|octet| format!("{octet:02x}")).collect();
            json!({"event": "finished", "path": path, "size": size, "blake3": digest})
        }
        Event::Removed { path, here } => json!({"event": "removed", "path": path, "here": here}),
        Event::Moved { from, to, here } => json!({"event": "moved", "path": to, "from": from, "here": here}),
        Event::Linked { path, first } => json!({"event": "linked", "path": path, "first": first}),
        Event::Planned { path, removal } => {
            json!({"event": "planned", "path": path, "action": if *removal { "remove" } else { "fetch" }})
        }
        Event::Current => json!({"event": "current"}),
        Event::Failed { path, error } => {
            let code = String::from_utf8_lossy(error.code.name());
            let at = paths.virtual_path_of_failed(path, error);
            let mut line = json!({"event": "failed", "path": at, "code": code, "error": error.text});
            if error.here {
                line["local"] = json!(paths.name_of_failed(path, error));
            }
            return Some(line);
        }
        Event::Ended(report) => {
            let failed = report.failed.len();
            json!({"event": "ended", "files": report.files, "bytes": report.bytes, "failed": failed})
        }
        Event::Lost(error) => json!({"event": "lost", "error": error.to_string()}),
        Event::Aborted(error) => json!({"event": "aborted", "error": error.to_string()}),
        _ => return None,
    };
    Some(with_local(line, paths))
}

/// The line of a name that differs.
pub fn line_of_difference(path: &str, difference: Difference, paths: &Paths) -> Value {
    with_local(json!({"event": "differs", "path": path, "reason": difference.word()}), paths)
}

/// Adds the path on this host, if the transfer has a target here.
fn with_local(mut line: Value, paths: &Paths) -> Value {
    if let Some(local) = line["path"].as_str().and_then(|path| paths.local(path)) {
        line["local"] = json!(local.to_string_lossy());
    }
    line
}
