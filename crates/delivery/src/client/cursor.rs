//! Exactly once: what a receiver stores with a message's effect, in one transaction of its own database.

use super::Delivery;
use crate::wire::Id;

/// Which message it is, beyond doubt: no other ever has the same client, sender, stream and number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cursor {
    /// The store it comes from.
    pub sender: Id,
    /// Which of that store's streams it belongs to: one for each receiver and topic.
    pub stream: u64,
    /// Its number there; later messages have larger ones.
    pub number: u64,
    /// Messages of the stream up to this number are not delivered again: what is known of them can be forgotten.
    pub settled: u64,
}

/// A table for cursors, in SQL that SQLite, PostgreSQL, MySQL and others understand.
///
/// For each message, in one transaction: insert client, sender, stream and number. Where that row is there already,
/// this is the same message once more: roll back, and acknowledge it. Else bring about the effect, delete the rows of
/// the same client, sender and stream with numbers up to `settled`, commit, and acknowledge.
pub const CURSOR_SCHEMA: &str = "\
CREATE TABLE IF NOT EXISTS pinnace_handled (
    client VARCHAR(255) NOT NULL,
    sender CHAR(32) NOT NULL,
    stream BIGINT NOT NULL,
    number BIGINT NOT NULL,
    PRIMARY KEY (client, sender, stream, number)
)";

impl Cursor {
    /// The sender as 32 hexadecimal digits, for `CURSOR_SCHEMA`.
    pub fn sender_text(&self) -> String {
        self.sender.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Delivery {
    /// What to store with the message's effect, so that it happens once, whatever crashes: see [`CURSOR_SCHEMA`].
    pub fn cursor(&self) -> Cursor {
        let Some(message) = self.message() else {
            return Cursor { sender: [0; 16], stream: 0, number: 0, settled: 0 };
        };
        let (_, sender, stream) = message.parts.first().frame.origin.of;
        Cursor { sender, stream, number: message.parts.last_seq(), settled: message.settled }
    }
}
