//! Exactly-once processing: a key that a receiver stores with a message's effect, in one transaction of its database.

use super::Delivery;
use crate::dead_letters::number_text;
use crate::wire::Id;

/// Identifies a message: the combination of client, sender, stream and number is never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cursor {
    /// The id of the sender's store.
    pub sender: Id,
    /// The stream in that store: of messages to all, one for each receiver and topic; of messages to one, one for each
    /// topic. A message that another client gets keeps its stream and number, so clients that share work can share a
    /// database too.
    pub stream: u64,
    /// Its number in the stream; later messages have larger ones.
    pub number: u64,
    /// Messages of the stream up to this number are not delivered again, to any client: their rows can be deleted.
    pub settled: u64,
}

/// A table for cursors, in SQL that SQLite, PostgreSQL, MySQL and others understand.
///
/// For each message, in one transaction: insert client, sender, stream and number. If that row exists, this is a
/// redelivery: roll back, and acknowledge it. Otherwise apply the effect, delete the rows of the same client, sender
/// and stream with numbers up to `settled`, commit, and acknowledge. [`sql`](crate::sql) has these statements.
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
        id_text(&self.sender)
    }

    /// The stream and the number as `STREAM.EPOCH.NUMBER`, as [`browse`](crate::browse()) shows the message in its
    /// sender's store.
    pub fn number_text(&self) -> String {
        number_text(self.stream, self.number)
    }
}

pub(super) fn id_text(id: &Id) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Delivery {
    /// The key to store with the message's effect, so that the effect happens once despite crashes: see
    /// [`CURSOR_SCHEMA`].
    pub fn cursor(&self) -> Cursor {
        let Some(message) = self.message() else {
            return Cursor { sender: [0; 16], stream: 0, number: 0, settled: 0 };
        };
        let (_, sender, stream) = message.parts.first().frame.origin.of;
        Cursor { sender, stream, number: message.parts.last_seq(), settled: message.settled }
    }
}
