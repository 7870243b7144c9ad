//! A scripted stream for tests: the script gives the result of each read and of each write.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;

use parking_lot::Mutex;
use pinnace_sys::Errno;

/// The result of one read.
#[derive(Debug, Clone)]
pub(crate) enum Read {
    Bytes(Vec<u8>),
    /// EAGAIN.
    Nothing,
    End,
    Fails(Errno),
}

/// The result of one write: it takes at most this many bytes, or fails.
pub(crate) type Write = Result<usize, Errno>;

/// The results still to come, and the bytes written so far. Without further results a read returns EAGAIN, and a write
/// takes everything.
#[derive(Default)]
pub(crate) struct Script {
    reads: Mutex<VecDeque<Read>>,
    writes: Mutex<VecDeque<Write>>,
    written: Mutex<Vec<u8>>,
}

impl Script {
    pub(crate) fn new() -> Arc<Script> {
        Arc::default()
    }

    pub(crate) fn reads(&self, steps: impl IntoIterator<Item = Read>) {
        self.reads.lock().extend(steps);
    }

    pub(crate) fn writes(&self, steps: impl IntoIterator<Item = Write>) {
        self.writes.lock().extend(steps);
    }

    /// Returns the bytes written since the last call.
    pub(crate) fn take_written(&self) -> Vec<u8> {
        std::mem::take(&mut self.written.lock())
    }

    pub(super) fn read(&self, first: &mut [u8], second: &mut [u8]) -> Result<usize, Errno> {
        let mut reads = self.reads.lock();
        match reads.pop_front() {
            None | Some(Read::Nothing) => Err(Errno::AGAIN),
            Some(Read::End) => {
                reads.push_front(Read::End);
                Ok(0)
            }
            Some(Read::Fails(error)) => Err(error),
            Some(Read::Bytes(mut bytes)) => {
                let into_first = bytes.len().min(first.len());
                let into_second = (bytes.len() - into_first).min(second.len());
                let taken = into_first + into_second;
                first[..into_first].copy_from_slice(&bytes[..into_first]);
                second[..into_second].copy_from_slice(&bytes[into_first..taken]);
                let rest = bytes.split_off(taken);
                if !rest.is_empty() {
                    reads.push_front(Read::Bytes(rest));
                }
                Ok(taken)
            }
        }
    }

    pub(super) fn write(&self, slices: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let most = self.writes.lock().pop_front().unwrap_or(Ok(usize::MAX))?;
        let mut written = self.written.lock();
        let before = written.len();
        for slice in slices {
            let left = most - (written.len() - before);
            written.extend_from_slice(&slice[..slice.len().min(left)]);
        }
        Ok(written.len() - before)
    }
}
