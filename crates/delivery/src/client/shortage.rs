//! What uses the space that a send waited for in vain.

use std::collections::HashMap;
use std::fmt;

use super::{Client, Pending};
use crate::Error;
use crate::log::LogError;
use crate::signal::Patience;
use crate::store::{State, Stream};

/// The receivers and topics that an error lists.
const LISTED: usize = 3;

/// Which space ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// The file system, or the user's quota.
    Disk,
    /// [`Builder::disk_limit`](crate::Builder::disk_limit), in bytes.
    DiskLimit(u64),
    /// [`Builder::memory_limit`](crate::Builder::memory_limit), in bytes.
    MemoryLimit(u64),
}

/// What uses the space that a send waited for in vain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortage {
    pub full: Full,
    /// Bytes of all files of the store; for `MemoryLimit`, what the messages in memory cost.
    pub used_bytes: u64,
    /// The receivers and topics with the most bytes pending, of all clients of the store, the largest first; at most 3.
    /// For `MemoryLimit`, only messages in memory count.
    pub largest: Vec<Pending>,
    /// Further receivers and topics with pending messages.
    pub others: u64,
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = self.used_bytes;
        match self.full {
            Full::Disk => write!(f, "the disk is full; the store has {used} bytes")?,
            Full::DiskLimit(limit) => {
                write!(f, "the store has {used} bytes, and may have {limit} (disk_limit)")?;
            }
            Full::MemoryLimit(limit) => {
                write!(f, "messages in memory have {used} bytes, and may have {limit} (memory_limit)")?;
            }
        }
        for (at, Pending { receiver, topic, bytes, .. }) in self.largest.iter().enumerate() {
            let begin = if at == 0 { "; pending: " } else { ", " };
            write!(f, "{begin}{bytes} bytes for ")?;
            match receiver {
                Some(receiver) => write!(f, "{receiver} on {topic}")?,
                None => write!(f, "any receiver on {topic}")?,
            }
        }
        match self.others {
            0 => Ok(()),
            others => write!(f, ", and less for {others} more"),
        }
    }
}

impl Client {
    /// Waits until the store has room for a new segment. Errors: NoRoom, at the deadline; TimedOut, Io, Failed.
    pub(super) fn wait_for_room(&self, patience: Patience<'_>) -> Result<(), Error> {
        self.instance.store.log().wait_for_room(patience).map_err(|error| match error {
            LogError::NoRoom(reason) => Error::NoRoom(Some(Box::new(self.disk_shortage(reason)))),
            error => error.into(),
        })
    }

    fn disk_shortage(&self, reason: Option<std::io::ErrorKind>) -> Shortage {
        let usage = self.instance.store.log().usage();
        let is_limit = reason == Some(std::io::ErrorKind::QuotaExceeded) && usage.disk_limit < u64::MAX;
        let full = if is_limit { Full::DiskLimit(usage.disk_limit) } else { Full::Disk };
        shortage(full, usage.disk_bytes, &self.instance.store.lock(), Stream::pending_cost)
    }

    pub(super) fn memory_shortage(&self) -> Error {
        let state = self.instance.store.lock();
        let (full, used) = (Full::MemoryLimit(self.memory_limit), state.outbox.held_cost());
        Error::NoRoom(Some(Box::new(shortage(full, used, &state, Stream::held_pending_cost))))
    }
}

fn shortage(full: Full, used_bytes: u64, state: &State, cost_of: fn(&Stream) -> u64) -> Shortage {
    let mut all: HashMap<(Option<String>, String), Pending> = HashMap::new();
    for stream in state.outbox.iter() {
        let bytes = cost_of(stream);
        if bytes == 0 {
            continue;
        }
        let of = Pending { bytes, ..Pending::of(stream) };
        let sum = all.entry((of.receiver.clone(), of.topic.clone()));
        sum.and_modify(|sum| sum.add(&of)).or_insert(of);
    }
    let mut largest: Vec<Pending> = all.into_values().collect();
    largest.sort_unstable_by(|one, other| {
        let names = |of: &Pending| (of.receiver.clone(), of.topic.clone());
        other.bytes.cmp(&one.bytes).then_with(|| names(one).cmp(&names(other)))
    });
    let others = largest.len().saturating_sub(LISTED) as u64;
    largest.truncate(LISTED);
    Shortage { full, used_bytes, largest, others }
}
