//! Clients of guaranteed delivery, run as commands.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Done, Folder, Running, run, start};

/// Clients that share a registry; each has its own store.
pub struct Clients {
    pub folder: Folder,
}

impl Clients {
    pub fn new() -> Clients {
        Clients { folder: Folder::new() }
    }

    pub fn registry(&self) -> String {
        format!("dir://{}", self.folder.text("registry"))
    }

    /// The command line of a command for the client of this name.
    pub fn arguments(&self, command: &str, name: &str, more: &[&str]) -> Vec<String> {
        let own = ["deliver", command, "--name", name, "--registry", &self.registry(), "--data-dir"];
        let own = own.iter().copied().chain([self.folder.text(name).as_str()]).map(str::to_owned).collect();
        [own, more.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()].concat()
    }

    pub fn start(&self, command: &str, name: &str, more: &[&str]) -> Running {
        start(&self.arguments(command, name, more))
    }

    pub fn run(&self, command: &str, name: &str, more: &[&str], input: &[u8]) -> Done {
        run(&self.arguments(command, name, more), input)
    }

    /// Sends `input` as client "shop", and waits until it is handled.
    pub fn sent(&self, more: &[&str], input: &[u8]) -> Done {
        let wait = ["--wait", "--timeout", "30000", "orders"];
        self.run("send", "shop", &[&wait, more].concat(), input).expect(0)
    }

    /// Waits until a client of this name lives.
    pub fn until_registered(&self, name: &str) {
        let name = format!("\"name\":\"{name}\"");
        let deadline = Instant::now() + Duration::from_secs(30);
        let living = || {
            let seen = run(&["deliver", "registry", &self.registry(), "--json"], b"").out;
            serde_json::from_str::<Value>(&seen).is_ok_and(|seen| seen["clients"].to_string().contains(&name))
        };
        while !living() {
            assert!(Instant::now() < deadline, "{name} does not register");
        }
    }
}

/// Asserts that the command ended with `code` and printed one error line that contains `words`.
pub fn fails(done: Done, code: i32, words: &str) {
    let done = done.expect(code);
    assert!(done.err.starts_with("pinnace: ") && done.err.lines().count() == 1, "{done:?}");
    assert!(done.err.contains(words), "{words:?} is not in {done:?}");
}
