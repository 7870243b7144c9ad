//! Frames that an encoder converts on their way from the queue to the wire.
//!
//! Frames stay in the queue until all their bytes are written. So a message that a lost connection cut can be sent
//! again, to a peer that may speak another version. Subscriptions are not sent again: those queued for an earlier
//! connection may be outdated. After a reconnect they are skipped up to the [`restart`] command, and the current ones
//! follow it.

use pinnace_ring::{Body, COMMAND, Consumer};
use pinnace_zmtp::frame;

use pinnace_sys::Errno;

use super::codec::Encoder;

/// Frames are encoded until this many bytes are ready.
const ENCODE_BYTES: usize = 64 * 1024;

/// Name of an internal command with the connection's number, which precedes the subscriptions for that connection. It
/// is never sent on the wire.
const RESTART: &[u8] = b"\x07RESTART";

/// The body of the command that precedes all current subscriptions, for the pipe's connection with this number.
pub(crate) fn restart(connection: u64) -> Vec<u8> {
    [RESTART, &connection.to_be_bytes()].concat()
}

pub(super) struct Reencoder {
    encoder: Option<Encoder>,
    connection: u64,
    /// The next subscriptions are those of an earlier connection.
    stale: bool,
    failed: Option<Errno>,
    /// Encoded frames, and how many of their bytes were written.
    bytes: Vec<u8>,
    sent: usize,
    /// The end of each frame in `bytes`, and the number of frames already passed in the queue.
    ends: Vec<usize>,
    passed: usize,
}

impl Reencoder {
    pub(super) fn new(encoder: Option<Encoder>, connection: u64) -> Reencoder {
        let (bytes, ends) = (Vec::new(), Vec::new());
        Reencoder {
            encoder,
            connection,
            stale: connection > 0,
            failed: None,
            bytes,
            sent: 0,
            ends,
            passed: 0,
        }
    }

    /// Whether frames have to be encoded at all.
    pub(super) fn is_needed(&self) -> bool {
        self.encoder.is_some()
    }

    /// Appends a command of the link's own to `control`, which is written before anything encoded later.
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

    /// Appends the closing message that is sent before our end is shut.
    pub(super) fn encode_farewell(&mut self, control: &mut Vec<u8>) {
        if let Some(encoder) = &mut self.encoder {
            encoder.encode_farewell(control);
        }
    }

    /// The error after which nothing can be encoded.
    pub(super) fn failed(&self) -> Option<Errno> {
        self.failed
    }

    /// Whether everything encoded is written.
    pub(super) fn is_done(&self) -> bool {
        self.sent == self.bytes.len()
    }

    /// Frees the buffers, unless a frame is partly written.
    pub(super) fn shrink(&mut self) {
        if self.passed == self.ends.len() {
            (self.bytes, self.ends) = (Vec::new(), Vec::new());
            (self.sent, self.passed) = (0, 0);
        }
    }

    /// The bytes to write next: the unwritten rest, or the next frames of the queue. None: the queue is empty.
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

    /// Records that `taken` more bytes are written. Bodies of frames written whole go to `done`.
    pub(super) fn wrote(&mut self, taken: usize, queue: &mut Consumer, done: &mut Vec<Body>) {
        self.sent += taken;
        let whole = self.ends.partition_point(|&end| end <= self.sent);
        queue.pass_frames(whole - self.passed, done);
        self.passed = whole;
    }

    fn encode(&mut self, flags: u8, body: &[u8]) {
        // Commands in the queue are subscriptions, and the restart command.
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
