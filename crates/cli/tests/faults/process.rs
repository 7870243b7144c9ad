//! Servers and clients: the built command, as processes that end with their test.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Done, PINNACE};
use crate::support::deadline;

/// How often a condition is looked at again that nothing tells of.
pub const AGAIN: Duration = Duration::from_millis(10);

/// What a process has written to its standard output or error.
#[derive(Default)]
struct Stream {
    said: Mutex<Said>,
    changed: Condvar,
}

#[derive(Default)]
struct Said {
    text: String,
    has_ended: bool,
}

impl Stream {
    fn of(from: impl Read + Send + 'static) -> Arc<Stream> {
        let stream = Arc::new(Stream::default());
        let shared = stream.clone();
        std::thread::spawn(move || {
            let (mut from, mut line) = (BufReader::new(from), Vec::new());
            while from.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                shared.said.lock().unwrap().text += &String::from_utf8_lossy(&line);
                shared.changed.notify_all();
                line.clear();
            }
            shared.said.lock().unwrap().has_ended = true;
            shared.changed.notify_all();
        });
        stream
    }

    /// Waits until `is`, or until the time has passed.
    fn wait(&self, until: Instant, is: impl Fn(&Said) -> bool) -> MutexGuard<'_, Said> {
        let left = until.saturating_duration_since(Instant::now());
        self.changed.wait_timeout_while(self.said.lock().unwrap(), left, |said| !is(said)).unwrap().0
    }
}

/// The command with these arguments.
pub fn command<S: AsRef<OsStr>>(arguments: &[S]) -> Command {
    let mut command = Command::new(PINNACE);
    command.args(arguments);
    command
}

/// A process that is killed when dropped.
pub struct Process {
    child: Child,
    out: Arc<Stream>,
    err: Arc<Stream>,
}

impl Process {
    pub fn spawn(mut command: Command) -> Process {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (out, err) = (Stream::of(child.stdout.take().unwrap()), Stream::of(child.stderr.take().unwrap()));
        Process { child, out, err }
    }

    pub fn start<S: AsRef<OsStr>>(arguments: &[S]) -> Process {
        Process::spawn(command(arguments))
    }

    /// Waits until standard error has these words.
    fn wait_for(&self, words: &str) {
        let said = self.err.wait(deadline(), |said| said.has_ended || said.text.contains(words));
        assert!(said.text.contains(words), "it says {:?} and not {words:?}", said.text);
    }

    pub fn has_ended(&self) -> bool {
        self.err.said.lock().unwrap().has_ended
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub fn kill(mut self) {
        assert!(self.child.try_wait().unwrap().is_none(), "it ended by itself: {}", self.text());
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn text(&self) -> String {
        self.err.said.lock().unwrap().text.clone()
    }

    /// Waits for its end.
    pub fn end(mut self) -> Done {
        for stream in [&self.out, &self.err] {
            assert!(
                stream.wait(deadline(), |said| said.has_ended).has_ended,
                "it runs still: {}",
                self.text()
            );
        }
        let status = self.child.wait().unwrap();
        let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap();
        Done { code, out: self.out.said.lock().unwrap().text.clone(), err: self.text() }
    }

    /// Waits for its end. Returns also the most memory that it had, in bytes.
    pub fn end_with_peak(self) -> (Done, u64) {
        let (mut peak, deadline) = (0, deadline());
        while !self.err.wait(Instant::now() + AGAIN, |said| said.has_ended).has_ended {
            peak = peak.max(self.peak());
            assert!(Instant::now() < deadline, "it runs still: {}", self.text());
        }
        (self.end(), peak)
    }

    /// The most memory that it has had, in bytes; 0 if it has ended.
    pub fn peak(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        line.map_or(0, |line| line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the command to its end.
pub fn run<S: AsRef<OsStr>>(arguments: &[S]) -> Done {
    Process::start(arguments).end()
}

/// An endpoint within the host that no other test has, and that a killed process leaves free.
pub fn endpoint() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("ipc://@pinnace-faults-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A server, which can be killed and started again at its endpoint.
pub struct Server {
    pub endpoint: String,
    /// Another endpoint, until it is killed.
    pub tcp: String,
    process: Option<Process>,
}

impl Server {
    /// Serves writable folders: `DIR=/ALIAS`.
    pub fn start(folders: &[&str]) -> Server {
        Server::start_by(|command| {
            command.args(folders);
        })
    }

    pub fn start_by(add: impl FnOnce(&mut Command)) -> Server {
        let mut server = Server { endpoint: endpoint(), tcp: String::new(), process: None };
        server.restart_by(add);
        server
    }

    pub fn restart(&mut self, folders: &[&str]) {
        self.restart_by(|command| {
            command.args(folders);
        });
    }

    /// Starts it by a command to which `add` gives folders, and perhaps more.
    fn restart_by(&mut self, add: impl FnOnce(&mut Command)) {
        let binds = ["--bind", "tcp://127.0.0.1:*", "--bind", &self.endpoint];
        let mut command = command(&[&["files", "serve", "--writable", "--verbose"], &binds[..]].concat());
        add(&mut command);
        let process = Process::spawn(command);
        let listening = format!("listening at {}\n", self.endpoint);
        process.wait_for(&listening);
        let told = process.text();
        let tcp = told.split_whitespace().find(|word| word.starts_with("tcp://"));
        (self.tcp, self.process) = (tcp.unwrap().to_owned(), Some(process));
    }

    pub fn kill(&mut self) {
        self.process.take().unwrap().kill();
    }

    /// The most memory that it has had, in bytes.
    pub fn peak(&self) -> u64 {
        self.process.as_ref().unwrap().peak()
    }
}
