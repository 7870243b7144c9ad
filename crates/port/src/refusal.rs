//! Why operations fail, and how requests are answered.

use std::fmt;
use std::path::PathBuf;

use pinnace_engine::Error;
use pinnace_interface::{Unset, errno};
use rustix::io::Errno;

use crate::pipes::Output;
use crate::wire::{Malformed, ProgramPacket};

/// Why an operation failed.
pub enum Refusal {
    Engine(Error),
    Arguments(Malformed),
    Delivery(pinnace_delivery::Error),
    Files(pinnace_files::error::Error),
    Certificate {
        file: PathBuf,
        error: pinnace_cert::Error,
    },
    Unset(Unset),
    /// An errno, and what is wrong.
    Other(Errno, &'static str),
}

impl Refusal {
    fn errno(&self) -> i32 {
        match self {
            Refusal::Engine(error) => error.errno(),
            Refusal::Arguments(_) | Refusal::Unset(_) => Errno::INVAL.raw_os_error(),
            Refusal::Delivery(error) => errno::of_delivery(error),
            Refusal::Files(error) => errno::of_files(error),
            Refusal::Certificate { error, .. } => errno::of_certificate(error),
            Refusal::Other(errno, _) => errno.raw_os_error(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Engine(error) => error.fmt(f),
            Refusal::Arguments(error) => error.fmt(f),
            Refusal::Delivery(error) => error.fmt(f),
            Refusal::Files(error) => error.fmt(f),
            Refusal::Certificate { file, error } => write!(f, "{}: {error}", file.display()),
            Refusal::Unset(error) => error.fmt(f),
            Refusal::Other(_, text) => f.write_str(text),
        }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal::Engine(error)
    }
}

impl From<Malformed> for Refusal {
    fn from(error: Malformed) -> Refusal {
        Refusal::Arguments(error)
    }
}

/// Answers a request.
pub fn answer(output: &mut Output, id: u32, outcome: Result<Vec<u8>, Refusal>) {
    match outcome {
        Ok(values) => output.put(ProgramPacket::Result { id, values: &values }),
        Err(error) => {
            let text = error.to_string();
            output.put(ProgramPacket::Failure { id, errno: error.errno(), text: &text });
        }
    }
}
