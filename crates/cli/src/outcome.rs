//! Why a command ended, and its exit code.
//!
//! | code | meaning |
//! | --- | --- |
//! | 0 | done |
//! | 1 | the network, the peer, a file or a line of input was at fault, or messages were lost |
//! | 2 | the arguments were wrong |
//! | 3 | a time limit of `--timeout` or `--linger` expired |
//! | 4 | refused: by the server, or the whole transfer is forbidden (`files`) |
//! | 5 | no room on the disk (`files`) |
//! | 130, 143 | ended by SIGINT, SIGTERM |

use std::fmt::Display;
use std::io::{self, ErrorKind};

/// How a command ends.
pub type Outcome<T = ()> = Result<T, Failure>;

/// Why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// Wrong arguments.
    Usage(String),
    /// The network, the peer or a file failed.
    Failed(String),
    /// A time limit expired.
    TimedOut(String),
    /// The server refuses.
    Refused(String),
    /// The disk has no room.
    NoRoom(String),
    /// A signal ended the command.
    Signal(i32),
    /// The reader of standard output is gone. No error, unless the command had a goal (`reached`).
    OutputClosed,
}

impl Failure {
    pub fn usage(what: impl Display) -> Failure {
        Failure::Usage(what.to_string())
    }

    /// `what` is the affected file, endpoint or object.
    pub fn of(what: impl Display, why: impl Display) -> Failure {
        Failure::Failed(format!("{what}: {why}"))
    }

    /// The same, of an argument that the user is to correct.
    pub fn into_usage(self) -> Failure {
        match self {
            Failure::Failed(text) => Failure::Usage(text),
            other => other,
        }
    }

    /// What to print, if anything.
    pub fn into_text(self) -> Option<String> {
        match self {
            Failure::Failed(text)
            | Failure::Usage(text)
            | Failure::TimedOut(text)
            | Failure::Refused(text)
            | Failure::NoRoom(text) => Some(text),
            Failure::Signal(_) | Failure::OutputClosed => None,
        }
    }

    /// An error in writing to standard output.
    pub fn of_output(error: &io::Error) -> Failure {
        match error.kind() {
            ErrorKind::BrokenPipe => Failure::OutputClosed,
            _ => Failure::of("standard output", error),
        }
    }
}

/// Prints the failure as one line on standard error; returns the exit code.
pub fn report(outcome: Outcome) -> u8 {
    match outcome {
        Ok(()) | Err(Failure::OutputClosed) => 0,
        Err(Failure::Signal(number)) => u8::try_from(128 + number).unwrap_or(1),
        Err(failure @ Failure::Failed(_)) => tell(failure, 1),
        Err(failure @ Failure::Usage(_)) => tell(failure, 2),
        Err(failure @ Failure::TimedOut(_)) => tell(failure, 3),
        Err(failure @ Failure::Refused(_)) => tell(failure, 4),
        Err(failure @ Failure::NoRoom(_)) => tell(failure, 5),
    }
}

/// Turns a closed standard output into a failure if the command has a goal (a number of messages, say).
pub fn closed_output_fails_if(has_goal: bool, outcome: Outcome) -> Outcome {
    match outcome {
        Err(Failure::OutputClosed) if has_goal => {
            Err(Failure::of("standard output", "closed before the command was done"))
        }
        outcome => outcome,
    }
}

/// Combines both outcomes. If both failed, the first is returned, and the second is printed now.
pub fn both(first: Outcome, second: Outcome) -> Outcome {
    match (first, second) {
        (Err(first), Err(second)) => {
            tell(second, 0);
            Err(first)
        }
        (first, second) => first.and(second),
    }
}

/// Prints a failure that has a text; returns the code.
fn tell(failure: Failure, code: u8) -> u8 {
    if let Some(text) = failure.into_text() {
        say(text);
    }
    code
}

/// Prints a line on standard error in one write, so that lines of several processes do not mix. Write errors are
/// ignored.
pub fn say(text: impl Display) {
    use std::io::Write;
    let _ = io::stderr().write_all(format!("pinnace: {text}\n").as_bytes());
}
