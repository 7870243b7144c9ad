//! Servers of files.

use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use super::{Folder, Running, start};

/// A server, which ends with the test.
pub struct Serving(Option<Running>);

impl Serving {
    pub fn of(server: Running) -> Serving {
        Serving(Some(server))
    }

    /// Ends it by a signal.
    pub fn end(mut self) {
        self.0.take().into_iter().for_each(|server| {
            server.signal(Signal::TERM);
            server.end().expect(0);
        });
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.iter().for_each(|server| server.signal(Signal::KILL));
    }
}

/// Serves a folder. Returns also the endpoint.
pub fn serve_by(folder: &Folder, name: &str, words: &[&str]) -> (Serving, String) {
    let endpoint = folder.ipc(name);
    let mut server = start(&[&["files", "serve", "--bind", &endpoint, "--verbose"], words].concat());
    assert!(server.said().contains("listening at"));
    (Serving::of(server), endpoint)
}

pub fn serve(folder: &Folder, what: &str) -> (Serving, String) {
    serve_by(folder, "files", &[what])
}

pub fn same(one: &Path, other: &Path) -> bool {
    Command::new("diff").args(["-r", "--no-dereference"]).args([one, other]).status().unwrap().success()
}
