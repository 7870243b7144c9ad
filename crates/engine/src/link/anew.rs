//! Frames that do not go out as they lie in the queue: all of them to a peer of ZMTP 1.0, and those of sockets
//! that send subscriptions.
//!
//! Frames stay in the queue until all their bytes are written, so that what a lost connection cut is there to
//! be sent again, to a peer that may speak another version. Subscriptions are not sent again like that: what
//! waited for an earlier connection may not be wanted any more. After a reconnect they are passed over until
//! [`restart`] says that those of the present follow.

use pinnace_ring::{Body, COMMAND, Consumer, MORE};
use pinnace_zmtp::command::{self, Command};
use pinnace_zmtp::{Version, frame, subscription, v1};

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
    version: Version,
    connection: u64,
    /// Subscriptions are an earlier connection's.
    stale: bool,
    /// Encoded frames, and how many of their bytes were written.
    bytes: Vec<u8>,
    sent: usize,
    /// Where each of them ends in `bytes`, and how many were passed in the queue.
    ends: Vec<usize>,
    passed: usize,
}

impl Anew {
    pub(super) fn new(version: Version, connection: u64) -> Anew {
        let (bytes, ends) = (Vec::new(), Vec::new());
        Anew { version, connection, stale: connection > 0, bytes, sent: 0, ends, passed: 0 }
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
                self.bytes.len() < ENCODE_BYTES
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
        let (version, out) = (self.version, &mut self.bytes);
        if flags & COMMAND != 0 {
            match command::parse(body) {
                Ok(Command::Subscribe(topic)) if !self.stale => {
                    subscription::encode(version, true, topic, out)
                }
                Ok(Command::Cancel(topic)) if !self.stale => subscription::encode(version, false, topic, out),
                _ => self.stale &= body != restart(self.connection), // No other command is ever queued.
            }
            return;
        }
        if version.uses_v1_framing() {
            let mut head = [0; v1::MAX_HEADER];
            let len = v1::encode(flags & MORE, body.len() as u64, &mut head);
            out.extend_from_slice(&head[..len]);
        } else {
            let mut head = [0; frame::MAX_HEADER];
            let len = frame::encode(flags & MORE, body.len() as u64, &mut head);
            out.extend_from_slice(&head[..len]);
        }
        out.extend_from_slice(body);
    }
}
