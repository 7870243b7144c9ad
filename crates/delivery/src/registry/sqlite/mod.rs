//! A registry in an SQLite database: a file shared by processes of one host.
//!
//! A client has its name until its lease ends, and extends the lease by renewing; the clock is the database's, which is
//! the host's (`unixepoch('subsec')`). Setting that clock makes leases longer or shorter. Each claim is one IMMEDIATE
//! transaction, so concurrent claims are serialized.
//!
//! Guarantees: those of [`Registry`], also if a process is killed at any point. After a power cut the last claims may
//! be missing, but the database is intact. Not guaranteed: use across a fork (an object works only in the process that
//! opened it), and use on a file system that other hosts share.
//!
//! One query tells whether anything has changed: a change counter, and the count of expired leases. With the same
//! counter, leases can only expire, because renewing an expired one counts as a change; so an equal count means the
//! same leases.
//!
//! A database file that was removed or replaced is no longer used: the file at its path is opened instead.

mod schema;

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pinnace_sys::signals::as_errors;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior, params};

use super::members::check_name;
use super::{Entry, Id, LEFT_FOR, Lasting, Member, Members, NO_ID, Registry, RegistryError};

const NOW_MS: &str = "SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER)";

/// A registry in an SQLite database.
pub struct Sqlite {
    path: PathBuf,
    /// The device and inode of the open file.
    file: FileId,
    connection: Connection,
    last_seen: Option<SqliteSeen>,
}

/// A device, and an inode there.
type FileId = (u64, u64);

/// Identifies a state of the registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SqliteSeen {
    changes: i64,
    over: i64,
}

/// The holder of a name.
struct Holder {
    id: Id,
    lease_ms: i64,
    lives: bool,
}

impl Sqlite {
    /// Opens the database, and creates it if it is missing; its directory must exist. Errors: Foreign, Damaged.
    pub fn open(path: &Path) -> Result<Sqlite, RegistryError> {
        // An absolute path never is SQLite's name for a database in memory.
        let path = std::path::absolute(path).map_err(|error| RegistryError::io(&error, path.display()))?;
        let connection = as_errors(|| schema::open(&path))?;
        Ok(Sqlite { file: file_id(&path)?, path, connection, last_seen: None })
    }

    /// The connection to the file that is at the path now.
    fn connection(&mut self) -> Result<&mut Connection, RegistryError> {
        if file_id(&self.path).ok() != Some(self.file) {
            *self = Sqlite::open(&self.path)?;
        }
        Ok(&mut self.connection)
    }

    /// Runs `work` in one exclusive transaction, which is rolled back after an error.
    fn alone<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>, i64) -> Result<T, RegistryError>,
    ) -> Result<T, RegistryError> {
        as_errors(|| {
            let behavior = TransactionBehavior::Immediate;
            let transaction = self.connection()?.transaction_with_behavior(behavior).map_err(failed)?;
            let now_ms = now_ms(&transaction).map_err(failed)?;
            let done = work(&transaction, now_ms)?;
            transaction.commit().map_err(failed)?;
            Ok(done)
        })
    }

    fn give_back(&mut self, name: &str, id: &Id, keeps_topics: bool) -> Result<(), RegistryError> {
        check_name(name)?;
        self.alone(|work, now_ms| match holder(work, name, now_ms).map_err(failed)? {
            Some(holder) if holder.id == *id => leave(work, name, now_ms, keeps_topics).map_err(failed),
            Some(holder) if holder.lives => Err(RegistryError::Lost),
            _ => Ok(()),
        })
    }

    /// All members; None: nothing has changed since the last call.
    fn read_if_changed(&mut self) -> Result<Option<Members>, RegistryError> {
        self.connection()?;
        // Read one consistent state.
        let work = self.connection.transaction().map_err(failed)?;
        let now_ms = now_ms(&work).map_err(failed)?;
        let seen = seen(&work, now_ms).map_err(failed)?;
        if self.last_seen == Some(seen) {
            return Ok(None);
        }
        let members = members(&work, now_ms).map_err(failed)?;
        drop(work);
        self.last_seen = Some(seen);
        Ok(Some(members))
    }
}

impl Registry for Sqlite {
    fn claim(&mut self, me: &Entry) -> Result<(), RegistryError> {
        me.check()?;
        self.alone(|work, now_ms| {
            let holder = holder(work, &me.name, now_ms).map_err(failed)?;
            match holder.is_some_and(|holder| holder.lives && holder.id != me.id) {
                true => Err(RegistryError::NameTaken),
                false => put(work, me, now_ms).map_err(failed),
            }
        })
    }

    fn renew(&mut self, name: &str, id: &Id) -> Result<(), RegistryError> {
        check_name(name)?;
        self.alone(|work, now_ms| {
            let holder = holder(work, name, now_ms).map_err(failed)?;
            let holder = holder.filter(|holder| holder.id == *id).ok_or(RegistryError::Lost)?;
            let until_ms = now_ms + holder.lease_ms;
            work.prepare_cached("UPDATE clients SET until_ms = ? WHERE name = ?")
                .and_then(|mut update| update.execute(params![until_ms, name]))
                .map_err(failed)?;
            if holder.lives { Ok(()) } else { changed(work).map_err(failed) }
        })
    }

    fn release(&mut self, name: &str, id: &Id) -> Result<(), RegistryError> {
        self.give_back(name, id, false)
    }

    fn detach(&mut self, name: &str, id: &Id) -> Result<(), RegistryError> {
        self.give_back(name, id, true)
    }

    fn members(&mut self) -> Result<Option<Members>, RegistryError> {
        // The call may reopen the database, and recover its log.
        as_errors(|| self.read_if_changed())
    }

    fn clear(&mut self, topic: &str) -> Result<usize, RegistryError> {
        self.alone(|work, now_ms| {
            let dead = "UPDATE clients SET id = ? WHERE until_ms <= ?
                        AND name IN (SELECT client FROM topics WHERE topic = ?)";
            let cleared = work.execute(dead, params![NO_ID, now_ms, topic]).map_err(failed)?;
            if cleared > 0 {
                let ended = "DELETE FROM topics WHERE topic = ?
                             AND client IN (SELECT name FROM clients WHERE until_ms <= ?)";
                work.execute(ended, params![topic, now_ms]).map_err(failed)?;
                changed(work).map_err(failed)?;
            }
            Ok(cleared)
        })
    }
}

fn file_id(path: &Path) -> Result<FileId, RegistryError> {
    let file = path.metadata().map_err(|error| RegistryError::io(&error, path.display()))?;
    Ok((file.dev(), file.ino()))
}

fn now_ms(work: &Transaction<'_>) -> rusqlite::Result<i64> {
    work.prepare_cached(NOW_MS)?.query_row((), |row| row.get(0))
}

fn seen(work: &Transaction<'_>, now_ms: i64) -> rusqlite::Result<SqliteSeen> {
    work.prepare_cached("SELECT count, (SELECT count(*) FROM clients WHERE until_ms <= ?) FROM changes")?
        .query_row([now_ms], |row| Ok(SqliteSeen { changes: row.get(0)?, over: row.get(1)? }))
}

fn changed(work: &Transaction<'_>) -> rusqlite::Result<()> {
    work.prepare_cached("UPDATE changes SET count = count + 1")?.execute(()).map(drop)
}

fn holder(work: &Transaction<'_>, name: &str, now_ms: i64) -> rusqlite::Result<Option<Holder>> {
    work.prepare_cached("SELECT id, lease_ms, until_ms > ? FROM clients WHERE name = ?")?
        .query_row(params![now_ms, name], |row| {
            Ok(Holder { id: row.get(0)?, lease_ms: row.get(1)?, lives: row.get(2)? })
        })
        .optional()
}

/// Writes a client's entry, in place of any other under its name.
fn put(work: &Transaction<'_>, me: &Entry, now_ms: i64) -> rusqlite::Result<()> {
    let member = me.to_member();
    let long_ago = now_ms - LEFT_FOR.as_millis() as i64;
    work.prepare_cached(
        "DELETE FROM clients WHERE until_ms <= ?
         AND (name NOT IN (SELECT client FROM topics WHERE topic NOT LIKE char(1) || '%')
              OR name IN (SELECT client FROM topics WHERE topic = char(1) || 'transient'))",
    )?
    .execute([long_ago])?;
    // A lease is at most 30 days.
    let lease_ms = me.lease.as_millis() as i64;
    work.prepare_cached("DELETE FROM clients WHERE name = ?")?.execute([&me.name])?;
    work.prepare_cached("INSERT INTO clients VALUES (?, ?, ?, ?, ?)")?.execute(params![
        me.name,
        me.id,
        me.endpoint,
        lease_ms,
        now_ms + lease_ms
    ])?;
    let mut insert = work.prepare_cached("INSERT INTO topics VALUES (?, ?)")?;
    for topic in member.stored_topics() {
        insert.execute([&me.name, &topic])?;
    }
    changed(work)
}

/// Replaces a client's entry by that of a client that is away.
fn leave(work: &Transaction<'_>, name: &str, now_ms: i64, keeps_topics: bool) -> rusqlite::Result<()> {
    work.execute("UPDATE clients SET id = ?, until_ms = ? WHERE name = ?", params![NO_ID, now_ms, name])?;
    if !keeps_topics {
        work.execute("DELETE FROM topics WHERE client = ? AND topic NOT LIKE char(1) || '%'", [name])?;
    }
    changed(work)
}

fn members(work: &Transaction<'_>, now_ms: i64) -> rusqlite::Result<Members> {
    let mut query = work.prepare_cached(
        "SELECT name, id, endpoint, topic, until_ms > ? FROM clients LEFT JOIN topics ON client = name
         ORDER BY name, topic",
    )?;
    let mut rows = query.query([now_ms])?;
    let mut members: Vec<(Member, bool)> = Vec::new();
    while let Some(row) = rows.next()? {
        let name = row.get_ref(0)?.as_str()?;
        if members.last().is_none_or(|(last, _)| last.name != name) {
            let (name, id, endpoint) = (name.to_owned(), Some(row.get(1)?), row.get(2)?);
            let member =
                Member { name, id, endpoint, topics: Vec::new(), version: 0, lasting: Lasting::Durable };
            members.push((member, row.get(4)?));
        }
        if let (Some((member, _)), Some(topic)) = (members.last_mut(), row.get(3)?) {
            member.topics.push(topic);
        }
    }
    let with_fields = |(mut member, lives): (Member, bool)| {
        let topics = std::mem::take(&mut member.topics);
        (member.with_stored_topics(topics), lives)
    };
    let (living, away): (Vec<_>, Vec<_>) =
        members.into_iter().map(with_fields).partition(|(_, lives)| *lives);
    let living: Members = living.into_iter().map(|(member, _)| member).collect();
    Ok(living.with_away(away.into_iter().map(|(member, _)| member)))
}

/// Maps an error to its cause.
fn failed(error: rusqlite::Error) -> RegistryError {
    let text = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => RegistryError::Busy,
        Some(ErrorCode::NotADatabase) => RegistryError::Foreign(text),
        Some(ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => {
            RegistryError::Io { kind: ErrorKind::PermissionDenied, text }
        }
        Some(ErrorCode::DiskFull) => RegistryError::Io { kind: ErrorKind::StorageFull, text },
        Some(ErrorCode::OutOfMemory) => RegistryError::Io { kind: ErrorKind::OutOfMemory, text },
        Some(ErrorCode::CannotOpen | ErrorCode::SystemIoFailure) => {
            RegistryError::Io { kind: ErrorKind::Other, text }
        }
        // Missing tables, or invalid values.
        _ => RegistryError::Damaged(text),
    }
}
