//! Fetches a file in order, for a program that reads it: every octet is verified before it is handed over.
//!
//! Credit is given back for what the program has read, so at most a window of octets waits for it.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::operation::{Asks, Operation, Reply};
use super::shown;
use crate::error::{Code, Error, FileError};
use crate::transfer::digest::{GROUP, GroupHasher, ValueTree, group_value};
use crate::tree::Kind;
use crate::wire::{DIGEST, Form, Mode, Request};

/// How often a wrong group, or a file that changes before its first octet was handed over, is fetched again.
const ATTEMPTS: u32 = 3;

/// What has arrived, between the client's thread and the one that reads.
#[derive(Default)]
pub struct Pipe {
    state: Mutex<PipeState>,
    changed: Condvar,
}

#[derive(Default)]
struct PipeState {
    pieces: VecDeque<Piece>,
    /// Credit of pieces that were read, and is to be given back.
    read: u64,
    end: Option<Result<(), Error>>,
}

/// Verified octets, and the credit that they hold.
struct Piece {
    octets: Vec<u8>,
    cost: u64,
}

impl Pipe {
    fn state(&self) -> MutexGuard<'_, PipeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next octets. None: the file is complete. Afterwards the operation is to be told by `collect`.
    pub fn next(&self) -> Result<Option<Vec<u8>>, Error> {
        let waits = |state: &mut PipeState| state.pieces.is_empty() && state.end.is_none();
        let mut state = self.changed.wait_while(self.state(), waits).unwrap_or_else(PoisonError::into_inner);
        if let Some(Piece { octets, cost }) = state.pieces.pop_front() {
            state.read += cost;
            return Ok(Some(octets));
        }
        match state.end.replace(Err(Error::Cancelled)) {
            Some(Ok(())) => {
                state.end = Some(Ok(()));
                Ok(None)
            }
            Some(Err(error)) => Err(error),
            None => Err(Error::Cancelled),
        }
    }

    fn push(&self, octets: Vec<u8>, cost: u64) {
        self.state().pieces.push_back(Piece { octets, cost });
        self.changed.notify_one();
    }

    fn end(&self, end: Result<(), Error>) {
        self.state().end.get_or_insert(end);
        self.changed.notify_one();
    }

    /// Takes the credit that the read octets held.
    fn take_read(&self) -> u64 {
        std::mem::take(&mut self.state().read)
    }

    /// The credit of all that is here, which holds none afterwards.
    fn take_all(&self) -> u64 {
        let mut state = self.state();
        let waiting: u64 = state.pieces.iter_mut().map(|piece| std::mem::take(&mut piece.cost)).sum();
        waiting + std::mem::take(&mut state.read)
    }

    fn is_empty(&self) -> bool {
        self.state().pieces.is_empty()
    }
}

/// A file that is read.
pub struct Stream {
    path: Vec<u8>,
    pipe: Arc<Pipe>,
    file: Option<Arriving>,
    attempts: u32,
    /// A request is due when the program has read all that is here.
    waits: bool,
    is_over: bool,
}

/// The version that arrives, and how far.
struct Arriving {
    size: u64,
    tag: Vec<u8>,
    hasher: GroupHasher,
    tree: ValueTree,
    /// The octets before this offset are verified.
    verified: u64,
    /// What follows them, less than a group; and its credit.
    begun: Vec<u8>,
    held: u64,
}

impl Arriving {
    fn new(size: u64, tag: &[u8]) -> Arriving {
        let (hasher, tree) = (GroupHasher::new(0, size), ValueTree::new(size));
        Arriving { size, tag: tag.to_vec(), hasher, tree, verified: 0, begun: Vec::new(), held: 0 }
    }

    /// Forgets what is not verified. Returns its credit.
    fn rewind(&mut self) -> u64 {
        self.hasher = GroupHasher::new(self.verified, self.size);
        self.begun.clear();
        std::mem::take(&mut self.held)
    }

    /// Takes the next octets. Returns what is verified now, and whether a group was wrong. Error: Invalid, they are
    /// not the next ones.
    fn take(&mut self, reply: &Reply<'_>) -> Result<(Vec<u8>, bool), FileError> {
        let (chunk, offset) = (reply.burger.chunk, self.hasher.offset());
        self.held += chunk.len() as u64;
        if reply.burger.offset != offset || chunk.len() as u64 > self.size - offset {
            return Err(FileError::new(Code::Invalid, "a chunk that is not the next one"));
        }
        self.begun.extend_from_slice(chunk);
        let mut values = Vec::with_capacity(reply.headers.groups.len() / DIGEST);
        if self.size == 0 {
            values.push((0, group_value(0, b"", 0)));
        }
        self.hasher.update(chunk, |index, value| values.push((index, value)));
        let (mut announced, mut end) = (reply.headers.groups.chunks_exact(DIGEST), self.verified);
        let mut is_wrong = false;
        for (index, value) in values {
            is_wrong = announced.next() != Some(&value[..]);
            if is_wrong {
                break;
            }
            self.tree.add(index, value);
            end = ((index + 1) * GROUP).min(self.size);
        }
        let rest = self.begun.split_off((end - self.verified) as usize);
        self.verified = end;
        Ok((std::mem::replace(&mut self.begun, rest), is_wrong))
    }
}

impl Stream {
    pub fn new(path: &[u8], pipe: Arc<Pipe>) -> Stream {
        let (file, attempts, waits, is_over) = Default::default();
        Stream { path: path.to_vec(), pipe, file, attempts, waits, is_over }
    }

    /// Asks for what is missing.
    fn ask(&mut self, asks: &mut Asks) {
        let request = Request::new(0, Mode::Fetch, &self.path);
        asks.ask(match &self.file {
            Some(file) if file.verified > 0 => {
                Request { ranges: vec![(file.verified, file.size)], tag: file.tag.clone(), ..request }
            }
            _ => request,
        });
    }

    fn fail(&mut self, error: FileError) {
        self.end(Err(Error::File { path: shown(&self.path), error }));
    }

    fn end(&mut self, end: Result<(), Error>) {
        self.is_over = true;
        self.pipe.end(end);
    }

    fn on_begin(&mut self, reply: &Reply<'_>) -> Result<(), FileError> {
        if reply.headers.kind == Some(Kind::Directory) {
            return Err(FileError::new(Code::NotPlain, "a directory has no content to be read"));
        }
        let (size, tag) = (reply.headers.size.unwrap_or(0), &reply.headers.tag[..]);
        match &self.file {
            Some(file) if file.verified > 0 && (file.size, &file.tag[..]) != (size, tag) => Err(changed()),
            Some(file) if file.verified > 0 => Ok(()),
            _ => {
                self.file = Some(Arriving::new(size, tag));
                Ok(())
            }
        }
    }

    /// Returns the credit that is settled.
    fn on_data(&mut self, reply: &Reply<'_>, asks: &mut Asks) -> Result<u64, FileError> {
        let Some(file) = &mut self.file else {
            return Err(FileError::new(Code::Invalid, "a chunk of a file that has not begun"));
        };
        let (octets, is_wrong) = file.take(reply)?;
        if !octets.is_empty() {
            self.pipe.push(octets, std::mem::take(&mut file.held));
        }
        if is_wrong {
            let (at, settled) = (file.verified, file.rewind());
            self.attempts += 1;
            if self.attempts > ATTEMPTS {
                let text = format!("the octets from {at} on are not those that were announced");
                return Err(FileError::new(Code::Corrupt, text));
            }
            reply.headers.request.into_iter().for_each(|number| asks.cancel(number));
            self.ask(asks);
            return Ok(settled);
        }
        let is_whole = file.verified == file.size;
        if !reply.burger.eof && !is_whole {
            return Ok(0);
        }
        match (file.tree.digest(), reply.headers.digest) {
            (None, _) => Err(ended_early()),
            (own, announced) if announced.is_some() && own != announced => {
                Err(FileError::new(Code::Corrupt, "the file has another digest than was announced"))
            }
            _ => {
                self.end(Ok(()));
                Ok(0)
            }
        }
    }

    fn on_failed(&mut self, reply: &Reply<'_>, asks: &mut Asks) -> Result<(), FileError> {
        let error = reply.failure();
        let is_untouched = self.file.as_ref().is_none_or(|file| file.verified == 0);
        self.attempts += 1;
        if error.code != Code::Changed || !is_untouched || self.attempts > ATTEMPTS {
            return Err(error);
        }
        reply.headers.request.into_iter().for_each(|number| asks.cancel(number));
        self.ask(asks);
        Ok(())
    }

    /// The credit of all that has arrived and was not settled.
    fn unsettled(&mut self) -> u64 {
        self.pipe.take_all() + self.file.as_mut().map_or(0, |file| std::mem::take(&mut file.held))
    }
}

impl Operation for Stream {
    fn begin(&mut self, asks: &mut Asks) {
        // The credit of an earlier connection is void.
        self.unsettled();
        if let Some(file) = &mut self.file {
            file.rewind();
        }
        self.waits = !self.pipe.is_empty();
        if !self.waits {
            self.ask(asks);
        }
    }

    fn on_reply(&mut self, reply: &Reply<'_>, asks: &mut Asks) -> u64 {
        let is_kept = reply.headers.form == Form::Data && self.file.is_some();
        let mut settled = if is_kept { 0 } else { reply.burger.chunk.len() as u64 };
        let outcome = match reply.headers.form {
            Form::Begin => self.on_begin(reply),
            Form::Data => self.on_data(reply, asks).map(|more| settled += more),
            Form::Failed => self.on_failed(reply, asks),
            Form::End => Err(ended_early()),
            _ => Ok(()),
        };
        if let Err(error) = outcome {
            reply.headers.request.into_iter().for_each(|number| asks.cancel(number));
            self.fail(error);
        }
        // Nobody collects from an operation that is over.
        settled + if self.is_over { self.unsettled() } else { 0 }
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

    fn collect(&mut self, asks: &mut Asks) -> u64 {
        if self.waits && self.pipe.is_empty() {
            self.waits = false;
            self.ask(asks);
        }
        self.pipe.take_read()
    }

    fn abort(&mut self, error: Error) -> u64 {
        self.end(Err(error));
        self.unsettled()
    }
}

fn ended_early() -> FileError {
    FileError::new(Code::Invalid, "the sender ended before the file did")
}

fn changed() -> FileError {
    FileError::new(Code::Changed, "the file was changed while it was read")
}
