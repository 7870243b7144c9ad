//! Signals as something to wait for: SIGINT, SIGTERM and SIGHUP end a command in order, a second one ends it at once.
//!
//! One that was ignored when the process began stays so: who started it wants that (nohup, a shell's background jobs).

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pinnace::PollItem;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGXFSZ};
use signal_hook::{flag, low_level::pipe};

use crate::outcome::{Failure, Outcome};

/// Signals of this process, from its making on.
pub struct Signals {
    /// Readable once a signal came.
    news: UnixStream,
    /// The number of the last that ends us; 0: none.
    ending: Arc<AtomicUsize>,
    asked: Arc<AtomicBool>,
}

impl Signals {
    /// `reports`: SIGUSR1 is a question too, and does not end the process.
    pub fn new(reports: bool) -> Outcome<Signals> {
        Signals::watch(reports).map_err(|error| Failure::of("signals", error))
    }

    fn watch(reports: bool) -> io::Result<Signals> {
        let (news, told) = UnixStream::pair()?;
        news.set_nonblocking(true)?;
        let (ending, again) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let asked = Arc::new(AtomicBool::new(false));
        let ignored = ignored();
        let is_wanted = |signal: &i32| ignored >> (signal - 1) & 1 == 0;
        for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(is_wanted) {
            // In this order: a second one finds the mark of the first, and who is woken finds the number.
            flag::register_conditional_default(signal, again.clone())?;
            flag::register(signal, again.clone())?;
            flag::register_usize(signal, ending.clone(), signal as usize)?;
            pipe::register(signal, told.try_clone()?)?;
        }
        if reports && is_wanted(&SIGUSR1) {
            flag::register(SIGUSR1, asked.clone())?;
            pipe::register(SIGUSR1, told)?;
        }
        Ok(Signals { news, ending, asked })
    }

    /// For a poll: readable when a signal came.
    pub fn item(&self) -> PollItem<'_> {
        crate::face::readable(self.news.as_fd())
    }

    /// The signal that wants the process to end.
    pub fn ending(&self) -> Option<i32> {
        match self.ending.load(Ordering::Acquire) {
            0 => None,
            number => i32::try_from(number).ok(),
        }
    }

    /// As an error where there is one.
    pub fn check(&self) -> Outcome {
        self.ending().map_or(Ok(()), |number| Err(Failure::Signal(number)))
    }

    /// Whether SIGUSR1 came since the last look.
    pub fn was_asked(&self) -> bool {
        let asked = self.asked.swap(false, Ordering::AcqRel);
        if asked {
            let mut rest = [0; 64];
            while matches!((&self.news).read(&mut rest), Ok(len) if len > 0) {}
        }
        asked
    }
}

/// A write beyond the limit of file sizes (SIGXFSZ, getrlimit(2)) fails, and does not end the process. By a handler: if
/// it were ignored, commands that this process starts would ignore it too.
pub fn handle_file_limit() -> Outcome {
    flag::register(SIGXFSZ, Arc::default()).map(drop).map_err(|error| Failure::of("signals", error))
}

/// The signals that are ignored, the first as the lowest bit; none where the system does not say.
fn ignored() -> u64 {
    let status = std::fs::read("/proc/self/status").unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let digits = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    digits.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or(0)
}
