//! Frames in another form than the queue's, for peers that do not take that one: of ZMTP 1.0 all of them, of
//! anything below 3.1 subscriptions.
//!
//! Frames stay in the queue until all their bytes are written, so that what a lost connection cut is there to
//! be sent again, to a peer that may speak another version.

use pinnace_ring::{Body, COMMAND, Consumer, MORE};
use pinnace_zmtp::{Version, command, frame, subscription, v1};

/// Bytes that are encoded at once.
const ENCODE_BYTES: usize = 64 * 1024;

#[derive(Default)]
pub(super) struct Anew {
    /// Encoded frames, and how many of their bytes were written.
    bytes: Vec<u8>,
    sent: usize,
    /// Where each of them ends in `bytes`, and how many were passed in the queue.
    ends: Vec<usize>,
    passed: usize,
}

impl Anew {
    /// Whether all that was encoded is written.
    pub(super) fn is_done(&self) -> bool {
        self.sent == self.bytes.len()
    }

    /// What is to be written next: the rest, or what comes next in the queue. None: there is nothing.
    pub(super) fn next(&mut self, version: Version, queue: &mut Consumer) -> Option<&[u8]> {
        if self.passed == self.ends.len() {
            self.bytes.clear();
            self.ends.clear();
            (self.sent, self.passed) = (0, 0);
            queue.show_frames(|flags, body| {
                encode(version, flags, body, &mut self.bytes);
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
}

/// Encodes one frame of the queue for a peer that does not speak 3.1.
fn encode(version: Version, flags: u8, body: &[u8], out: &mut Vec<u8>) {
    if flags & COMMAND != 0 {
        match command::parse(body) {
            Ok(command::Command::Subscribe(topic)) => subscription::encode(version, true, topic, out),
            Ok(command::Command::Cancel(topic)) => subscription::encode(version, false, topic, out),
            _ => {} // No other command is ever queued.
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
