//! The tables of the registry, and their verification.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::failed;
use crate::registry::{LOCK_TIMEOUT, RegistryError};

/// `PRAGMA application_id`: "PNrg".
const APPLICATION: i64 = 0x504e_7267;
/// `PRAGMA user_version`, of the tables below.
const VERSION: i64 = 1;

/// Exactly the text that SQLite stores. Times are in milliseconds since 1970. `changes.count` grows with every change
/// that other clients see, except the expiry of a lease.
const STATEMENTS: [&str; 5] = [
    "CREATE TABLE clients (
        name TEXT NOT NULL PRIMARY KEY,
        id BLOB NOT NULL CHECK (length(id) = 16),
        endpoint TEXT NOT NULL,
        lease_ms INTEGER NOT NULL,
        until_ms INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID",
    "CREATE TABLE topics (
        client TEXT NOT NULL REFERENCES clients (name) ON DELETE CASCADE,
        topic TEXT NOT NULL,
        PRIMARY KEY (client, topic)
    ) STRICT, WITHOUT ROWID",
    "CREATE INDEX clients_by_until ON clients (until_ms)",
    "CREATE INDEX topics_by_topic ON topics (topic)",
    "CREATE TABLE changes (one INTEGER PRIMARY KEY CHECK (one = 1), count INTEGER NOT NULL) STRICT",
];

/// Between two attempts to open the database.
const PAUSE: Duration = Duration::from_millis(5);

/// The kind of a database.
#[derive(PartialEq, Eq)]
enum Kind {
    Empty,
    Ours,
}

/// Opens the database, and creates it if it is missing. A foreign database is not changed.
pub fn open(path: &Path) -> Result<Connection, RegistryError> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    connection.busy_timeout(LOCK_TIMEOUT).map_err(failed)?;
    let deadline = Instant::now() + LOCK_TIMEOUT;
    loop {
        match prepare(&mut connection) {
            // Changing the journal mode does not always wait for locks.
            Err(RegistryError::Busy) if Instant::now() < deadline => {
                std::thread::sleep(PAUSE);
            }
            prepared => return prepared.map(|()| connection),
        }
    }
}

fn prepare(connection: &mut Connection) -> Result<(), RegistryError> {
    // Read one consistent state, even while another process creates the tables.
    let kind = connection.transaction().map_err(failed).and_then(|work| kind_of(&work))?;
    if kind == Kind::Empty {
        // Stored in the file: later connections use it as well.
        connection.pragma_update(None, "journal_mode", "WAL").map_err(failed)?;
        let work = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        // Another process may have been first.
        if kind_of(&work)? == Kind::Empty {
            for statement in STATEMENTS {
                work.execute_batch(statement).map_err(failed)?;
            }
            work.execute("INSERT INTO changes VALUES (1, 0)", ()).map_err(failed)?;
            work.pragma_update(None, "application_id", APPLICATION).map_err(failed)?;
            work.pragma_update(None, "user_version", VERSION).map_err(failed)?;
        }
        work.commit().map_err(failed)?;
    }
    // In WAL mode this syncs at checkpoints only. A power cut may lose the last claims, but their clients die with it.
    connection.pragma_update(None, "synchronous", "NORMAL").map_err(failed)?;
    connection.pragma_update(None, "foreign_keys", true).map_err(failed)
}

/// Error: Foreign, neither empty nor ours.
fn kind_of(connection: &Connection) -> Result<Kind, RegistryError> {
    let number = |query| connection.query_row(query, (), |row| row.get::<_, i64>(0)).map_err(failed);
    let (application, version) = (number("PRAGMA application_id")?, number("PRAGMA user_version")?);
    if application == 0 && version == 0 && number("SELECT count(*) FROM sqlite_schema")? == 0 {
        return Ok(Kind::Empty);
    }
    if application != APPLICATION {
        return Err(RegistryError::Foreign("the database belongs to another application".to_owned()));
    }
    if version != VERSION {
        let text = format!("the tables have version {version}, not {VERSION}");
        return Err(RegistryError::Foreign(text));
    }
    for statement in STATEMENTS {
        let found = connection
            .query_row("SELECT count(*) FROM sqlite_schema WHERE sql = ?", [statement], |row| {
                row.get::<_, i64>(0)
            })
            .map_err(failed)?;
        if found != 1 {
            let what = statement.split(" (").next().unwrap_or(statement).trim_start_matches("CREATE ");
            return Err(RegistryError::Foreign(format!("the database's {what} is missing or differs")));
        }
    }
    Ok(Kind::Ours)
}
