//! Signals as poll items: SIGINT, SIGTERM and SIGHUP end a command in order, a second one ends it at once.
//!
//! A signal that was ignored at the start of the process stays ignored, as the parent intends (nohup, background
//! jobs of a shell).

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pinnace::{Interest, PollItem};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGXFSZ};
use signal_hook::{flag, low_level::pipe};

use crate::outcome::{Failure, Outcome};

/// The signals of this process, from the creation of this value on.
pub struct Signals {
    /// Readable once a signal has come.
    pipe: UnixStream,
    /// The number of the last signal that ends the process; 0 if none.
    ending: Arc<AtomicUsize>,
    asked: Arc<AtomicBool>,
}

impl Signals {
    /// With `reports`, SIGUSR1 requests a report, and does not end the process.
    pub fn new(reports: bool) -> Outcome<Signals> {
        Signals::watch(reports).map_err(|error| Failure::of("signals", error))
    }

    fn watch(reports: bool) -> io::Result<Signals> {
        let (pipe, told) = UnixStream::pair()?;
        pipe.set_nonblocking(true)?;
        let (ending, again) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let asked = Arc::new(AtomicBool::new(false));
        let ignored = ignored();
        let is_wanted = |signal: &i32| ignored >> (signal - 1) & 1 == 0;
        for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(is_wanted) {
            // Order matters: a second signal must find the flag of the first, and the woken thread must find the
            // number.
            flag::register_conditional_default(signal, again.clone())?;
            flag::register(signal, again.clone())?;
            flag::register_usize(signal, ending.clone(), signal as usize)?;
            pipe::register(signal, told.try_clone()?)?;
        }
        if reports && is_wanted(&SIGUSR1) {
            flag::register(SIGUSR1, asked.clone())?;
            pipe::register(SIGUSR1, told)?;
        }
        Ok(Signals { pipe, ending, asked })
    }

    /// A poll item that is readable once a signal has come.
    pub fn item(&self) -> PollItem<'_> {
        PollItem::fd(self.pipe.as_fd(), Interest::READABLE)
    }

    /// The signal that ends the process, if one has come.
    pub fn ending(&self) -> Option<i32> {
        match self.ending.load(Ordering::Acquire) {
            0 => None,
            number => i32::try_from(number).ok(),
        }
    }

    /// Returns [`ending`](Signals::ending) as an error.
    pub fn check(&self) -> Outcome {
        self.ending().map_or(Ok(()), |number| Err(Failure::Signal(number)))
    }

    /// Whether SIGUSR1 has come since the last call.
    pub fn was_asked(&self) -> bool {
        let asked = self.asked.swap(false, Ordering::AcqRel);
        if asked {
            let mut rest = [0; 64];
            while matches!((&self.pipe).read(&mut rest), Ok(len) if len > 0) {}
        }
        asked
    }
}

/// Handles SIGXFSZ (getrlimit(2)), so that a write beyond the file size limit fails and does not end the process.
/// Ignoring the signal would be inherited by the commands that this process starts; a handler is not.
pub fn handle_file_limit() -> Outcome {
    flag::register(SIGXFSZ, Arc::default()).map(drop).map_err(|error| Failure::of("signals", error))
}

/// The ignored signals, the first one in the lowest bit; 0 if the system does not tell.
fn ignored() -> u64 {
    let status = std::fs::read("/proc/self/status").unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let digits = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    digits.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or(0)
}
