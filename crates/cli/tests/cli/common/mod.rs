//! Runs the built command as a child that cannot outlive its test: with a deadline, its lines, its exit code.

pub mod clients;
pub mod files;

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// A child that runs longer has failed.
const DEADLINE: Duration = Duration::from_secs(60);

/// The exit code and output of a child.
#[derive(Debug)]
pub struct Done {
    /// 128 plus the signal number if a signal killed it, as in a shell.
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Done {
    /// Asserts the exit code; prints all output on failure.
    pub fn expect(self, code: i32) -> Done {
        assert_eq!(self.code, code, "{self:?}");
        self
    }
}

pub struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    out: BufReader<ChildStdout>,
    err: BufReader<ChildStderr>,
    seen: String,
    /// Dropped when the child has ended, so that the watchdog does not kill it.
    _watch: Sender<()>,
}

pub const PINNACE: &str = env!("CARGO_BIN_EXE_pinnace");

/// Starts the command with all streams piped. No signal is ignored, even if the test runner ignores some.
pub fn start<S: AsRef<OsStr>>(arguments: &[S]) -> Running {
    start_command(Command::new("env").args(["--default-signal=HUP,INT,TERM,USR1", PINNACE]).args(arguments))
}

/// As `start`, with a file size limit in blocks (`ulimit -f`); the shell gets `more` after the command.
pub fn start_limited<S: AsRef<OsStr>>(blocks: &str, arguments: &[S], more: &str) -> Running {
    let script = format!("ulimit -f $0 && exec env --default-signal=XFSZ \"$@\" {more}");
    start_command(Command::new("sh").args(["-c", &script, blocks, PINNACE]).args(arguments))
}

pub fn start_command(command: &mut Command) -> Running {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command is built");
    let (watch, ended) = channel::<()>();
    let id = pid(&child);
    thread::spawn(move || {
        if ended.recv_timeout(DEADLINE) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            let _ = kill_process(id, Signal::KILL);
        }
    });
    let stdin = child.stdin.take();
    let out = BufReader::new(child.stdout.take().expect("piped"));
    let err = BufReader::new(child.stderr.take().expect("piped"));
    Running { child, stdin, out, err, seen: String::new(), _watch: watch }
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// Starts the command, writes all of `input`, and waits for its end.
pub fn run<S: AsRef<OsStr>>(arguments: &[S], input: &[u8]) -> Done {
    let mut running = start(arguments);
    let mut stdin = running.stdin.take().expect("piped");
    let input = input.to_vec();
    // The command may exit without reading all of the input.
    let writer = thread::spawn(move || drop(stdin.write_all(&input)));
    let done = running.end();
    writer.join().expect("it does not panic");
    done
}

impl Running {
    /// Writes to the child's standard input, which stays open.
    pub fn write(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().expect("still open").write_all(bytes).expect("it reads");
    }

    /// The next line of standard output, without its end.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("text");
        assert!(line.ends_with('\n'), "ended after {line:?}; on stderr: {}", self.rest_of_err());
        line.trim_end_matches('\n').to_owned()
    }

    /// The next line of standard error, without its end and without the command's name.
    pub fn said(&mut self) -> String {
        let mut line = String::new();
        self.err.read_line(&mut line).expect("text");
        assert!(line.ends_with('\n'), "ended after {line:?}");
        self.seen += &line;
        line.trim_end().trim_start_matches("pinnace: ").to_owned()
    }

    /// The text of the next line after `bound to`, `listening on` or the like.
    pub fn said_after(&mut self, words: &str) -> String {
        let line = self.said();
        line.strip_prefix(words).unwrap_or_else(|| panic!("{line:?} and not {words:?}")).trim().to_owned()
    }

    fn rest_of_err(&mut self) -> String {
        let mut rest = String::new();
        let _ = self.err.read_to_string(&mut rest);
        rest
    }

    pub fn id(&self) -> Pid {
        pid(&self.child)
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.id(), signal).expect("it runs");
    }

    /// Closes the reading end of the child's standard output.
    pub fn close_out(&mut self) {
        let (mut other, _) = (Command::new("true").stdout(Stdio::piped()).spawn().expect("true"), ());
        let empty = other.stdout.take().expect("piped");
        other.wait().expect("true ends");
        self.out = BufReader::new(empty);
    }

    /// Closes the child's standard input and waits for its end.
    pub fn end(mut self) -> Done {
        drop(self.stdin.take());
        let (mut err, mut text) = (self.err, self.seen);
        let reader = thread::spawn(move || {
            let mut rest = Vec::new();
            err.read_to_end(&mut rest).expect("readable");
            text += &String::from_utf8_lossy(&rest);
            text
        });
        let mut out = Vec::new();
        self.out.read_to_end(&mut out).expect("readable");
        let status = self.child.wait().expect("our child");
        let code = status.code().or(status.signal().map(|signal| 128 + signal)).expect("ended");
        let (out, err) = (String::from_utf8_lossy(&out).into_owned(), reader.join().expect("no panic"));
        Done { code, out, err }
    }
}

/// A directory that is removed with the test.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("pinnace-cli-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for temporary files");
        Folder(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    pub fn ipc(&self, name: &str) -> String {
        format!("ipc://{}", self.text(name))
    }

    pub fn write(&self, name: &str, bytes: &[u8]) -> String {
        std::fs::write(self.path(name), bytes).expect("a file");
        self.text(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The system's Python, which has pyzmq on the system's libzmq.
pub fn python(program: &str, arguments: &[&str]) -> Running {
    start_command(Command::new("/usr/bin/python3").arg("-u").arg("-c").arg(program).args(arguments))
}

/// The path of a file in this repository.
pub fn repository(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}
