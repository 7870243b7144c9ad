//! Statements for the application's own database: an outbox that a relay sends from, and the cursors of a receiver.
//!
//! The library does not connect to that database: the application executes these texts on its own connection. All but
//! the two schemas of the outbox are the same for SQLite (3.24 or later) and PostgreSQL (13 or later). Parameters are
//! `$1`, `$2`, ... in the order in which they appear, so that a client of SQLite can bind them by position.
//!
//! **The sender** inserts a row into `pinnace_outbox` in the transaction of its own changes, after them; `topic` and
//! `body` are enough.
//!
//! **The relay** has a connection and a client of its own, started with
//! [`deduplicate_for(Duration::MAX)`](crate::Builder::deduplicate_for). It repeats:
//!
//! 1. [`OUTBOX_OWNER`]; if there is no row, [`OUTBOX_CLAIM`] with [`Client::store_id`](crate::Client::store_id), and
//!    read again. Another store than the client's: end, since what that store has sent, this one would send again.
//! 2. Begin. [`OUTBOX_NEXT`] with the most rows to send at once, at most 1,000; [`OUTBOX_HEADERS`] with the first and
//!    the last `id`. Commit.
//! 3. Send each row in this order with its `message_id` ([`send_async`](crate::Client::send_async), then
//!    [`wait`](crate::Client::wait) for the last ticket).
//! 4. In one transaction: [`OUTBOX_DELETE`] for each row that is on the disk, and [`OUTBOX_REFUSE`] with the error for
//!    each that the client does not accept as it is (Name, TooLarge, Ttl, Property). Commit.
//!
//! A relay that is killed between 3 and 4 sends the same rows again, and the store takes them for retries: it has their
//! ids, which are the newest of this client. So each row is in the store once, however long the relay was away.
//!
//! **The receiver** does, in the transaction of the effect: [`CURSOR_INSERT`]. If no row was inserted, this is a
//! redelivery: roll back and acknowledge it. Otherwise [`CURSOR_FORGET`] and the effect; commit, and acknowledge.

pub use crate::client::CURSOR_SCHEMA;

/// The tables of an outbox in SQLite. To be executed once, before senders and relays are started.
pub const OUTBOX_SCHEMA_SQLITE: &str = "\
CREATE TABLE IF NOT EXISTS pinnace_outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    message_id TEXT NOT NULL DEFAULT (lower(hex(randomblob(16))))
        CHECK (length(CAST(message_id AS BLOB)) BETWEEN 1 AND 255),
    topic TEXT NOT NULL CHECK (length(CAST(topic AS BLOB)) BETWEEN 1 AND 255),
    body BLOB NOT NULL,
    to_all SMALLINT NOT NULL DEFAULT 0 CHECK (to_all IN (0, 1)),
    ttl_ms BIGINT CHECK (ttl_ms BETWEEN 1 AND 4294967295),
    content_type TEXT,
    traceparent TEXT,
    tracestate TEXT,
    ordering_key TEXT CHECK (length(CAST(ordering_key AS BLOB)) BETWEEN 1 AND 255),
    refused TEXT
);
CREATE TABLE IF NOT EXISTS pinnace_outbox_headers (
    row_id INTEGER NOT NULL REFERENCES pinnace_outbox (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    value BLOB NOT NULL,
    position SMALLINT NOT NULL DEFAULT 0,
    PRIMARY KEY (row_id, name)
);
CREATE TRIGGER IF NOT EXISTS pinnace_outbox_deleted AFTER DELETE ON pinnace_outbox BEGIN
    DELETE FROM pinnace_outbox_headers WHERE row_id = OLD.id;
END;
CREATE TABLE IF NOT EXISTS pinnace_outbox_relay (
    one SMALLINT PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    store_id CHAR(32) NOT NULL
);
";

/// The tables of an outbox in PostgreSQL. To be executed once, before senders and relays are started.
pub const OUTBOX_SCHEMA_POSTGRESQL: &str = "\
CREATE TABLE IF NOT EXISTS pinnace_outbox (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    message_id TEXT NOT NULL DEFAULT CAST(gen_random_uuid() AS TEXT)
        CHECK (octet_length(message_id) BETWEEN 1 AND 255),
    topic TEXT NOT NULL CHECK (octet_length(topic) BETWEEN 1 AND 255),
    body BYTEA NOT NULL,
    to_all SMALLINT NOT NULL DEFAULT 0 CHECK (to_all IN (0, 1)),
    ttl_ms BIGINT CHECK (ttl_ms BETWEEN 1 AND 4294967295),
    content_type TEXT,
    traceparent TEXT,
    tracestate TEXT,
    ordering_key TEXT CHECK (octet_length(ordering_key) BETWEEN 1 AND 255),
    refused TEXT
);
CREATE TABLE IF NOT EXISTS pinnace_outbox_headers (
    row_id BIGINT NOT NULL REFERENCES pinnace_outbox (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    value BYTEA NOT NULL,
    position SMALLINT NOT NULL DEFAULT 0,
    PRIMARY KEY (row_id, name)
);
CREATE TABLE IF NOT EXISTS pinnace_outbox_relay (
    one SMALLINT PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    store_id CHAR(32) NOT NULL
);
";

/// The store whose client sends from the outbox; no row: none has yet.
pub const OUTBOX_OWNER: &str = "SELECT store_id FROM pinnace_outbox_relay";

/// $1: the store's id. Changes nothing if the outbox has an owner.
pub const OUTBOX_CLAIM: &str =
    "INSERT INTO pinnace_outbox_relay (store_id) VALUES ($1) ON CONFLICT DO NOTHING";

/// $1: the most rows. The committed rows with the lowest ids, in their order.
pub const OUTBOX_NEXT: &str = "\
SELECT id, message_id, topic, body, to_all, ttl_ms, content_type, traceparent, tracestate, ordering_key \
FROM pinnace_outbox WHERE refused IS NULL ORDER BY id LIMIT $1";

/// $1, $2: the first and the last id. The headers of these rows, and perhaps of others, in the order of OUTBOX_NEXT.
pub const OUTBOX_HEADERS: &str = "\
SELECT row_id, name, value FROM pinnace_outbox_headers WHERE row_id BETWEEN $1 AND $2 ORDER BY row_id, position, name";

/// $1: a row's id. Never all rows up to an id: in PostgreSQL a lower id may be committed later.
pub const OUTBOX_DELETE: &str = "DELETE FROM pinnace_outbox WHERE id = $1";

/// $1: why, $2: the row's id. The row stays, and OUTBOX_NEXT leaves it out until `refused` is NULL again.
pub const OUTBOX_REFUSE: &str = "UPDATE pinnace_outbox SET refused = $1 WHERE id = $2";

/// $1 to $4: the receiver's name, and sender, stream and number of the cursor. No row inserted: it was handled before.
pub const CURSOR_INSERT: &str = "\
INSERT INTO pinnace_handled (client, sender, stream, number) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";

/// $1 to $4: the receiver's name, and sender, stream and `settled` of the cursor. Deletes what is not needed any more.
pub const CURSOR_FORGET: &str = "\
DELETE FROM pinnace_handled WHERE client = $1 AND sender = $2 AND stream = $3 AND number <= $4";
