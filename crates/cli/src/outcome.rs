//! Why a command ended, and the exit code that tells a script.
//!
//! | code | meaning |
//! | --- | --- |
//! | 0 | done |
//! | 1 | the network, the peer, a file or a line of input was at fault, or messages were lost |
//! | 2 | the arguments were |
//! | 3 | a time given by `--timeout` or `--linger` was over |
//! | 130, 143 | ended by SIGINT, SIGTERM |

use std::fmt::Display;
use std::io::{self, ErrorKind};

/// How a command ends.
pub type Outcome<T = ()> = Result<T, Failure>;

/// Why a command did not do all that it was asked to.
#[derive(Debug)]
pub enum Failure {
    /// The caller's: the arguments.
    Usage(String),
    /// The network's, the peer's, or a file's.
    Failed(String),
    /// The time is over.
    TimedOut(String),
    /// A signal came.
    Signal(i32),
    /// Nobody reads our output any more: that is an end, and no error, where no other was asked for (`reached`).
    Unread,
}

impl Failure {
    pub fn usage(what: impl Display) -> Failure {
        Failure::Usage(what.to_string())
    }

    /// `what` is the file, endpoint or thing that it happened to.
    pub fn of(what: impl Display, why: impl Display) -> Failure {
        Failure::Failed(format!("{what}: {why}"))
    }

    /// An error in writing to standard output.
    pub fn of_output(error: &io::Error) -> Failure {
        match error.kind() {
            ErrorKind::BrokenPipe => Failure::Unread,
            _ => Failure::of("standard output", error),
        }
    }
}

/// Says what went wrong, in one line on standard error; returns the exit code.
pub fn report(outcome: Outcome) -> u8 {
    match outcome {
        Ok(()) | Err(Failure::Unread) => 0,
        Err(Failure::Signal(number)) => u8::try_from(128 + number).unwrap_or(1),
        Err(failure @ Failure::Failed(_)) => tell(failure, 1),
        Err(failure @ Failure::Usage(_)) => tell(failure, 2),
        Err(failure @ Failure::TimedOut(_)) => tell(failure, 3),
    }
}

/// An end by an output that nobody reads is a failure where there is a `goal`, which was not reached.
pub fn reached(outcome: Outcome, goal: bool) -> Outcome {
    match outcome {
        Err(Failure::Unread) if goal => Err(Failure::of("standard output", "closed before all was done")),
        outcome => outcome,
    }
}

/// Both outcomes as one: of two failures the first stands, and the second is said now.
pub fn both(first: Outcome, second: Outcome) -> Outcome {
    match (first, second) {
        (Err(first), Err(second)) => {
            tell(second, 0);
            Err(first)
        }
        (first, second) => first.and(second),
    }
}

/// Says a failure that has words; returns the code.
fn tell(failure: Failure, code: u8) -> u8 {
    if let Failure::Failed(text) | Failure::Usage(text) | Failure::TimedOut(text) = failure {
        say(text);
    }
    code
}

/// A line on standard error, written as one: those of several processes do not mix. That it cannot be
/// written stops nothing.
pub fn say(text: impl Display) {
    use std::io::Write;
    let _ = io::stderr().write_all(format!("pinnace: {text}\n").as_bytes());
}
