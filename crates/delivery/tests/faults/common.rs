//! Shared by the fault tests: clients, child processes, and waiting.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pinnace_delivery::{Builder, Client, Durability, Options};
use rustix::process::{Pid, Signal, kill_process};

const ROLE: &str = "PINNACE_DELIVERY_ROLE";
const DIR: &str = "PINNACE_DELIVERY_DIR";
const RUN: &str = "PINNACE_DELIVERY_RUN";

pub fn soon() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(60))
}

/// Returns true if the long tests are requested.
pub fn is_long() -> bool {
    std::env::var("FAULTS").is_ok_and(|value| value == "long")
}

/// The value for the short or the long tests.
pub fn short_or_long<T>(short: T, long: T) -> T {
    if is_long() { long } else { short }
}

/// A client with its own store that knows only the peers it is given.
pub fn client(name: &str, dir: &Path) -> Builder {
    Client::builder(name, &format!("{name}'s")).data_dir(dir.join(name)).registry("none")
}

/// Closes a client when dropped, also after a panic, so that its receivers do not wait for ever.
pub struct Closing<'a>(pub &'a Client);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let _ = self.0.close(Some(Instant::now()));
    }
}

pub fn kept(durability: Durability) -> Options<'static> {
    Options { durability, deadline: soon(), ..Options::default() }
}

/// Cycles through the three kinds.
pub fn durability(number: u32) -> Durability {
    [Durability::Interval, Durability::Memory, Durability::Sync][number as usize % 3]
}

/// Waits for a condition, for far longer than it should take.
pub fn until(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = soon().unwrap();
    while !is() {
        assert!(Instant::now() < deadline, "waited for {what}");
        std::thread::yield_now();
    }
}

/// Spins for a time that differs from round to round.
pub fn spin(round: u32) {
    let until = Instant::now() + Duration::from_micros(u64::from(round.wrapping_mul(7919) % 5000));
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

/// The role of this process, its directory, and the number of its run, if a test started it.
pub fn role() -> Option<(String, PathBuf, u32)> {
    let role = std::env::var(ROLE).ok()?;
    let dir = PathBuf::from(std::env::var_os(DIR).unwrap());
    Some((role, dir, std::env::var(RUN).unwrap().parse().unwrap()))
}

/// A child process that is killed when dropped.
pub struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A command that runs this test binary in a role.
pub fn command(role: &str, dir: &Path, run: u32) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["role", "--exact", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env(DIR, dir)
        .env(RUN, run.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

pub fn start(role: &str, dir: &Path, run: u32) -> Running {
    Running(command(role, dir, run).spawn().unwrap())
}

impl Running {
    pub fn of(mut command: Command) -> Running {
        Running(command.spawn().unwrap())
    }

    pub fn kill(&mut self) {
        self.goes_on();
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    pub fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    /// Panics if the process has ended by itself.
    pub fn goes_on(&mut self) {
        if let Some(status) = self.0.try_wait().unwrap() {
            let mut said = String::new();
            self.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            panic!("it ended by itself: {status}\n{said}");
        }
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

pub fn bytes(dir: &Path, name: &str) -> u64 {
    std::fs::metadata(dir.join(name)).map_or(0, |file| file.len())
}

/// Waits until a journal is longer than `than` bytes.
pub fn wait_for_more(dir: &Path, name: &str, than: u64) {
    until(&format!("{name} to grow"), || bytes(dir, name) > than);
}

/// Resident memory of this process, in bytes.
pub fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = pages.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}

/// Copies a directory recursively.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
}
