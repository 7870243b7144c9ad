//! Frames that do not go out as they lie in the queue, but as an encoder makes them.
//!
//! Frames stay in the queue until all their bytes are written, so that what a lost connection cut is there to
//! be sent again, to a peer that may speak another version. Subscriptions are not sent again like that: what
//! waited for an earlier connection may not be wanted any more. After a reconnect they are passed over until
//! [`restart`] says that those of the present follow.

use pinnace_ring::{Body, COMMAND, Consumer};
use pinnace_zmtp::frame;

use pinnace_sys::Errno;

use super::codec::Encoder;

/// Bytes that are encoded at once.
const ENCODE_BYTES: usize = 64 * 1024;

/// The name of the command that says for which connection of the pipe the subscriptions behind it are; it goes
/// on no wire.
const RESTART: &[u8] = b"\x07RESTART";

/// The body of the command that all subscriptions of the present follow, for the pipe's connection of this
/// number.
pub(crate) fn restart(connection: u64) -> Vec<u8> {
    [RESTART, &connection.to_be_bytes()].concat()
}

pub(super) struct Anew {
    encoder: Option<Encoder>,
    connection: u64,
    /// Subscriptions are an earlier connection's.
    stale: bool,
    failed: Option<Errno>,
    /// Encoded frames, and how many of their bytes were written.
    bytes: Vec<u8>,
    sent: usize,
    /// Where each of them ends in `bytes`, and how many were passed in the queue.
    ends: Vec<usize>,
    passed: usize,
}

impl Anew {
    pub(super) fn new(encoder: Option<Encoder>, connection: u64) -> Anew {
        let (bytes, ends) = (Vec::new(), Vec::new());
        Anew { encoder, connection, stale: connection > 0, failed: None, bytes, sent: 0, ends, passed: 0 }
    }

    /// Whether frames have to be encoded at all.
    pub(super) fn is_needed(&self) -> bool {
        self.encoder.is_some()
    }

    /// Appends a command of the link's own to `control`; it is written before anything that is encoded later.
    pub(super) fn encode_control(&mut self, command: &[u8], control: &mut Vec<u8>) {
        match &mut self.encoder {
            Some(encoder) => self.failed = encoder.encode_control(command, control).err().or(self.failed),
            None => control.extend_from_slice(command),
        }
    }

    /// Appends a message of one frame to `out`. Errors: NOMEM.
    pub(super) fn encode_message(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<(), Errno> {
        match &mut self.encoder {
            Some(encoder) => encoder.encode(0, body, out),
            None => {
                frame::append(0, &[body], out);
                Ok(())
            }
        }
    }

    /// Appends what the peer is told before our end is shut.
    pub(super) fn encode_farewell(&mut self, control: &mut Vec<u8>) {
        if let Some(encoder) = &mut self.encoder {
            encoder.encode_farewell(control);
        }
    }

    /// Why nothing can be encoded any more.
    pub(super) fn failed(&self) -> Option<Errno> {
        self.failed
    }

    /// Whether all that was encoded is written.
    pub(super) fn is_done(&self) -> bool {
        self.sent == self.bytes.len()
    }

    /// Gives its memory back, where nothing is under way.
    pub(super) fn shrink(&mut self) {
        if self.passed == self.ends.len() {
            (self.bytes, self.ends) = (Vec::new(), Vec::new());
            (self.sent, self.passed) = (0, 0);
        }
    }

    /// What is to be written next: the rest, or what comes next in the queue. None: there is nothing.
    pub(super) fn next(&mut self, queue: &mut Consumer) -> Option<&[u8]> {
        if self.passed == self.ends.len() {
            self.bytes.clear();
            self.ends.clear();
            (self.sent, self.passed) = (0, 0);
            queue.show_frames(|flags, body| {
                self.encode(flags, body);
                self.ends.push(self.bytes.len());
                self.bytes.len() < ENCODE_BYTES && self.failed.is_none()
            });
        }
        (self.passed < self.ends.len()).then_some(&self.bytes[self.sent..])
    }

    /// So many more bytes are written. Bodies of frames that are whole go to `done`.
    pub(super) fn wrote(&mut self, taken: usize, queue: &mut Consumer, done: &mut Vec<Body>) {
        self.sent += taken;
        let whole = self.ends.partition_point(|&end| end <= self.sent);
        queue.pass_frames(whole - self.passed, done);
        self.passed = whole;
    }

    fn encode(&mut self, flags: u8, body: &[u8]) {
        // Commands in the queue are subscriptions, and the mark of a new beginning.
        if flags & COMMAND != 0 && self.stale {
            self.stale = body != restart(self.connection);
            return;
        }
        if let Some(encoder) = &mut self.encoder
            && let Err(error) = encoder.encode(flags, body, &mut self.bytes)
        {
            self.failed = Some(error);
        }
    }
}
