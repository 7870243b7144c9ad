//! The client's side towards a server that does not know the extensions: subscriptions of RFC 35.
//!
//! A session begins with OHAI, again after each loss of the connection. When the server has answered, each followed
//! path is subscribed to, with RESYNC and the digests of the client's files.

use std::collections::BTreeMap;

use super::operation::Operation;
use super::plain_follow::PlainFollow;
use crate::error::Error;
use crate::wire::{Cheezburger, Message};

/// Credit is granted in multiples of the chunks of libfilemq's server. If the credit is less than its next chunk but
/// not 0, that server sends its last chunk again, for ever.
const CHUNK_BYTES: u64 = 1_000_000;
const CREDIT_BYTES: u64 = 5 * CHUNK_BYTES;

/// How often in a row that server may send its last chunk again.
const REPEATS_MAX: u32 = 100;

/// What is said to operations that need the extensions.
const ONLY_FOLLOW: &str = "the server speaks FILEMQ without the extensions for requests: only follow works";

/// The subscriptions, and the credit that is granted.
#[derive(Default)]
pub struct PlainRequester {
    operations: BTreeMap<u64, PlainFollow>,
    /// The server has answered OHAI.
    is_open: bool,
    /// Credit that the server has not used.
    credit: u64,
    /// Number, path and offset of the last chunk, and how often it came again.
    last: (u64, Vec<u8>, u64),
    repeats: u32,
    frames: Vec<Vec<u8>>,
}

impl PlainRequester {
    /// A new connection, or a new session: nothing that came before counts.
    pub fn begin_again(&mut self) {
        (self.is_open, self.credit, self.repeats) = (false, 0, 0);
        self.frames = vec![Message::GREETING.to_frame()];
    }

    /// The server has answered OHAI.
    pub fn open(&mut self) {
        if !std::mem::replace(&mut self.is_open, true) {
            self.operations.values_mut().for_each(PlainFollow::begin);
            self.top_up();
        }
    }

    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Starts an operation, if it follows a path.
    pub fn start(&mut self, operation: u64, mut what: Box<dyn Operation>) {
        match what.follow_plainly() {
            Some(mut follow) => {
                if self.is_open {
                    follow.begin();
                }
                self.operations.insert(operation, follow);
            }
            None => drop(what.abort(Error::Refused(ONLY_FOLLOW.to_owned()))),
        }
    }

    pub fn cancel(&mut self, operation: u64) {
        if let Some(mut follow) = self.operations.remove(&operation) {
            follow.abort(Error::Cancelled);
        }
    }

    /// Ends all operations.
    pub fn abort(&mut self, error: &dyn Fn() -> Error) {
        std::mem::take(&mut self.operations).values_mut().for_each(|follow| follow.abort(error()));
    }

    /// The server does not answer any more: ends the operations that it never has answered.
    pub fn server_lost(&mut self, error: &dyn Fn() -> Error) {
        for (_, mut follow) in self.operations.extract_if(.., |_, follow| !follow.waits_for_server(error)) {
            follow.abort(error());
        }
    }

    /// Hashes the next piece of the client's files. False: all are hashed.
    pub fn work(&mut self) -> bool {
        let Some(follow) = self.operations.values_mut().find(|follow| follow.is_preparing()) else {
            return false;
        };
        self.frames.extend(follow.prepare());
        true
    }

    /// Handles a chunk, or a deletion. Error: the server has sent more than was granted, or the same for ever.
    pub fn on_chunk(&mut self, burger: &Cheezburger<'_>) -> Result<(), String> {
        if !self.is_open {
            return Ok(());
        }
        let left = self.credit.checked_sub(burger.chunk.len() as u64);
        self.credit = left.ok_or("more octets than were granted")?;
        let this = (burger.sequence, burger.filename.to_vec(), burger.offset);
        self.repeats = if this == self.last { self.repeats + 1 } else { 0 };
        if self.repeats > REPEATS_MAX {
            return Err("the same chunk came more than 100 times in a row".to_owned());
        }
        self.last = this;
        self.operations.values_mut().for_each(|follow| follow.on_chunk(burger));
        self.top_up();
        Ok(())
    }

    /// Grants credit when half of it is used.
    fn top_up(&mut self) {
        if self.credit <= CREDIT_BYTES / 2 {
            let credit = (CREDIT_BYTES - self.credit) / CHUNK_BYTES * CHUNK_BYTES;
            self.credit += credit;
            self.frames.push(Message::Nom { credit, sequence: self.last.0 }.to_frame());
        }
    }

    /// The frames to send.
    pub fn take_frames(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.frames)
    }
}
