//! Child processes that run this test program again with a role: with another library, under limits, or in order to
//! crash or be killed.
//!
//! A test file names its roles once, `support::roles!(reader, writer);`, and starts them by name:
//!
//! ```text
//! let mut reader = Child::start("reader", &[&endpoint]);
//! assert_eq!(reader.line(), "ready");
//! reader.succeeds();
//! ```
//!
//! Parent and child exchange lines: the role with [`say`] and [`hear`], the parent with [`Child::line`] and
//! [`Child::tell`]. A child is killed when the thread that started it ends, when its `Child` is dropped, or when a
//! wait for it exceeds its deadline.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::panic::Location;
use std::path::PathBuf;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::{api, transport};

/// What a child does; its arguments are the strings given to [`Child::start`].
pub type Role = fn(&[String]);

/// Deadline for one line from a child, and for its end.
fn deadline() -> Duration {
    Duration::from_secs(crate::deadline::test_limit_s())
}

const ROLE: &str = "PINNACE_TEST_ROLE";
const ARGS: &str = "PINNACE_TEST_ARGS";
pub(crate) const SCRATCH: &str = "PINNACE_TEST_SCRATCH";

/// Defines the test through which the file's children find their role. Run without a role, it checks that a child
/// with an unknown role fails, so a misspelt role fails its test.
#[macro_export]
macro_rules! roles {
    ($($role:ident),* $(,)?) => {
        #[test]
        fn role() {
            $crate::child::enter(&[$((stringify!($role), $role as $crate::child::Role)),*]);
        }
    };
}

/// For tests that measure or change their whole process: `alone!(a, b)` defines the tests `alone::a` and `alone::b`,
/// each of which runs its function in a process of its own. `alone!(a, b; roles c)` replaces `roles!(c)` in the same
/// file.
#[macro_export]
macro_rules! alone {
    ($($name:ident),* $(,)? $(; roles $($role:ident),* $(,)?)?) => {
        #[test]
        fn role() {
            $crate::child::enter(&[
                $((stringify!($name), |_: &[String]| $name()),)*
                $($((stringify!($role), $role as $crate::child::Role),)*)?
            ]);
        }

        mod alone {
            $(#[test]
            fn $name() {
                $crate::child::alone(stringify!($name), &[]);
            })*
        }
    };
}

/// Plays the role named in the environment. Without one, checks that a child with an unknown role fails.
#[track_caller]
pub fn enter(roles: &[(&str, Role)]) {
    let Ok(name) = std::env::var(ROLE) else {
        let status = Child::start("nobody's", &[]).ends();
        assert!(!status.success(), "a role that nobody has was played");
        return;
    };
    let args = std::env::var(ARGS).unwrap_or_default();
    let args: Vec<String> = args.split_terminator('\x1f').map(String::from).collect();
    let (_, role) = roles.iter().find(|(known, _)| *known == name).expect("a role of this file");
    role(&args);
}

/// Sends the parent one line.
pub fn say(line: impl std::fmt::Display) {
    // The test harness may have begun a line of its own on stdout.
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "\n@{line}");
    let _ = out.flush();
}

/// Waits for a line from the parent; exits when the parent has closed the pipe.
pub fn hear() -> String {
    let mut line = String::new();
    match std::io::stdin().read_line(&mut line) {
        Ok(0) | Err(_) => std::process::exit(3),
        Ok(_) => line.trim_end().to_string(),
    }
}

/// Ends the process at once, without exit handlers of the library or the harness.
pub fn leave(status: i32) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(status) }
}

pub struct Child {
    process: std::process::Child,
    lines: Receiver<String>,
    ahead: Option<String>,
    input: Option<ChildStdin>,
    complaints: PathBuf,
}

impl Child {
    /// Starts a role with the library that this process tests.
    #[track_caller]
    pub fn start(role: &str, args: &[&str]) -> Child {
        Child::with_library(role, args, api::library_path())
    }

    /// Starts a role with the system's libzmq.
    #[track_caller]
    pub fn with_system(role: &str, args: &[&str]) -> Child {
        Child::with_library(role, args, api::system_library_path())
    }

    #[track_caller]
    pub fn with_library(role: &str, args: &[&str], library: PathBuf) -> Child {
        let entry = format!("{}::role", module(Location::caller().file()));
        let complaints = PathBuf::from(transport::socket_path()).with_extension("stderr");
        let mut command = Command::new(std::env::current_exe().expect("own path"));
        command
            .args([entry.as_str(), "--exact", "--nocapture", "--test-threads=1"])
            .env("PINNACE_LIB", library)
            .env(ROLE, role)
            .env(ARGS, args.iter().map(|arg| format!("{arg}\x1f")).collect::<String>())
            .env(SCRATCH, transport::scratch())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&complaints).expect("a file for the child's complaints"));
        // SAFETY: one system call, which is allowed between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            })
        };
        let mut process = command.spawn().expect("the test program starts again");
        let output = BufReader::new(process.stdout.take().expect("piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if let Some(line) = line.strip_prefix('@') {
                    let _ = sender.send(line.to_string());
                }
            }
        });
        let input = process.stdin.take();
        Child { process, lines, ahead: None, input, complaints }
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Waits for the child's next line.
    #[track_caller]
    pub fn line(&mut self) -> String {
        if let Some(line) = self.ahead.take() {
            return line;
        }
        match self.lines.recv_timeout(deadline()) {
            Ok(line) => line,
            Err(_) => panic!("the child says nothing more:\n{}", self.autopsy()),
        }
    }

    /// Returns true if the child has sent a line, which [`Child::line`] then returns at once.
    pub fn has_line(&mut self) -> bool {
        if self.ahead.is_none() {
            self.ahead = self.lines.try_recv().ok();
        }
        self.ahead.is_some()
    }

    /// Sends the child one line.
    pub fn tell(&mut self, line: impl std::fmt::Display) {
        if let Some(input) = &mut self.input {
            let _ = writeln!(input, "{line}");
        }
    }

    /// Kills the child with SIGKILL and reaps it.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    pub fn signal(&self, number: i32) {
        // SAFETY: the child has not been collected, so the id is its own.
        unsafe { libc::kill(self.pid() as i32, number) };
    }

    /// Waits for the end of the child.
    #[track_caller]
    pub fn ends(&mut self) -> ExitStatus {
        self.ends_within(deadline())
    }

    #[track_caller]
    pub fn ends_within(&mut self, limit: Duration) -> ExitStatus {
        if !exited(self.pid(), limit) {
            let report = self.autopsy();
            self.kill();
            panic!("the child does not end within {limit:?}:\n{report}");
        }
        self.process.wait().expect("collected")
    }

    /// Waits for the child's exit, and asserts that it succeeded.
    #[track_caller]
    pub fn succeeds(&mut self) {
        let status = self.ends();
        assert!(status.success(), "the child ended with {}:\n{}", verdict(status), self.autopsy());
    }

    fn autopsy(&self) -> String {
        std::fs::read_to_string(&self.complaints).unwrap_or_default()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The module path of a test file: `hostile` for `faults/tests/faults/hostile.rs`.
fn module(file: &str) -> String {
    let inside = file.rsplit_once("/tests/").map_or(file, |(_, inside)| inside);
    let below = inside.split_once('/').map_or(inside, |(_, below)| below);
    below.trim_end_matches(".rs").replace('/', "::")
}

fn verdict(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("signal {signal}"),
        None => format!("status {}", status.code().unwrap_or(-1)),
    }
}

/// Waits until the process has exited, without reaping it.
fn exited(pid: u32, limit: Duration) -> bool {
    // SAFETY: opens a descriptor for a child of ours, polls and closes it.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0) as i32;
        assert!(fd >= 0, "pidfd_open");
        let mut item = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let ended = libc::poll(&mut item, 1, limit.as_millis() as i32) == 1;
        libc::close(fd);
        ended
    }
}

/// Runs a role that needs a process of its own but exchanges no lines.
#[track_caller]
pub fn alone(role: &str, args: &[&str]) {
    Child::start(role, args).succeeds();
}

/// Returns true if `FAULTS=long` asks for the long forms of the tests.
pub fn long() -> bool {
    std::env::var("FAULTS").is_ok_and(|value| value == "long")
}
