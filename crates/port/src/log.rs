//! What the program writes to its standard error, for the client, which may have no terminal.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use pinnace_sys::wake::WakeFd;

/// The most octets of a line. A longer one is told in pieces.
const LINE_MAX: u64 = 4096;

/// Lines that were written to the standard error.
pub struct Log {
    lines: Receiver<String>,
    wake: Arc<WakeFd>,
    before: OwnedFd,
    reader: JoinHandle<()>,
}

impl Log {
    /// Takes over the standard error of the process.
    pub fn take_over() -> io::Result<Log> {
        let before = rustix::io::dup(rustix::stdio::stderr())?;
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        rustix::stdio::dup2_stderr(&write)?;
        let (sender, lines) = channel();
        let wake = Arc::new(WakeFd::new()?);
        let (signal, mut from) = (wake.clone(), BufReader::new(File::from(read)));
        let reader = pinnace_sys::thread::start("port-log", move || {
            let mut line = Vec::new();
            while (&mut from).take(LINE_MAX).read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                let text = String::from_utf8_lossy(line.trim_ascii_end()).into_owned();
                line.clear();
                if sender.send(text).is_err() {
                    break;
                }
                signal.signal();
            }
        })?;
        Ok(Log { lines, wake, before, reader })
    }

    /// It is readable when there are lines.
    pub fn descriptor(&self) -> RawFd {
        self.wake.raw()
    }

    /// The lines that have come.
    pub fn take(&self) -> Vec<String> {
        self.wake.clear();
        self.lines.try_iter().collect()
    }

    /// Gives the standard error back. Returns the lines that were left.
    pub fn give_back(self) -> Vec<String> {
        // The pipe's other end is closed by this, so the reader ends.
        if rustix::stdio::dup2_stderr(&self.before).is_ok() {
            let _ = self.reader.join();
        }
        self.lines.try_iter().collect()
    }
}
