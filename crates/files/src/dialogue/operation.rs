//! What a client has under way, and how it talks to the server.

use std::time::Instant;

use super::plain_follow::PlainFollow;
use crate::error::{Code, Error, FileError};
use crate::wire::{Cheezburger, Headers, Request};

/// A frame of the server that replies to a request.
pub struct Reply<'a> {
    pub burger: Cheezburger<'a>,
    pub headers: &'a Headers,
    /// The most octets of a chunk that were asked for.
    pub chunk_max: u64,
}

impl Reply<'_> {
    /// What the server says of a failure.
    pub fn failure(&self) -> FileError {
        let text = String::from_utf8_lossy(&self.headers.text);
        FileError::new(Code::of_name(&self.headers.error), text)
    }
}

/// Requests that an operation wants to be sent, and those that it needs no longer.
#[derive(Default)]
pub struct Asks {
    pub requests: Vec<Request>,
    pub cancelled: Vec<u32>,
    pub skipped: Vec<(u32, Vec<u8>)>,
}

impl Asks {
    /// Sends a request; its number is assigned later.
    pub fn ask(&mut self, request: Request) {
        self.requests.push(request);
    }

    /// The rest of the file that a reply belongs to is not needed.
    pub fn skip_rest(&mut self, reply: &Reply<'_>) {
        let filename = reply.burger.filename;
        self.skipped.extend(reply.headers.request.map(|number| (number, filename.to_vec())));
    }

    /// Ends a request: no reply to it is handled any more.
    pub fn cancel(&mut self, request: u32) {
        self.cancelled.push(request);
    }
}

/// Something that a client does by one or more requests.
pub trait Operation: Send {
    /// Begins, or begins again on a new connection, where no request is known.
    fn begin(&mut self, asks: &mut Asks);

    /// Handles a reply. Returns the octets of content that are settled: their credit is given back.
    fn on_reply(&mut self, reply: &Reply<'_>, asks: &mut Asks) -> u64;

    fn is_over(&self) -> bool;

    /// What it gave to another thread may have been used. Returns the octets that are settled by that.
    fn collect(&mut self, _: &mut Asks) -> u64 {
        0
    }

    /// When `on_due` is to be called. None: it waits for no time.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// The time for which it has waited has come. Returns the octets that are settled.
    fn on_due(&mut self, _: Instant, _: &mut Asks) -> u64 {
        0
    }

    /// It ends before it is complete. Returns the octets whose credit was not given back.
    fn abort(&mut self, error: Error) -> u64;

    /// The server does not answer any more. Returns true if the operation waits until it does; else it is aborted.
    fn waits_for_server(&mut self, _: &dyn Fn() -> Error) -> bool {
        false
    }

    /// The server does not know requests. None: it ends by `abort`, because it follows no path.
    fn follow_plainly(&mut self) -> Option<PlainFollow> {
        None
    }
}
