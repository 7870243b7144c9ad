//! The values of files that were sent: a file that is sent again is read, and not hashed.
//!
//! They belong to a version of a file, by its tag. A file may change without another tag, if it is mapped into memory.
//! The receiver then finds that groups are wrong and asks for them; these are hashed, and if they have other values,
//! what is kept of the file is forgotten.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use super::digest::{Digest, groups_of};
use crate::tree::{Attributes, Tag};
use crate::wire::DIGEST;

/// Smaller files are hashed each time.
const SIZE_MIN: u64 = 1 << 20;

/// The most octets of values that are kept: those of files of 16 GiB.
const KEPT_MAX: usize = 32 << 20;

/// A file that was changed later than this before it is read may be changed again with the same time.
const UNSETTLED: Duration = Duration::from_secs(2);

/// The values of a file.
pub struct FileValues {
    /// Of all groups, one after the other.
    pub groups: Vec<u8>,
    pub digest: Digest,
}

/// What is kept, for all senders.
#[derive(Default)]
pub struct SentValues(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    /// With the number of their last use.
    files: HashMap<Tag, (Arc<FileValues>, u64)>,
    bytes: usize,
    uses: u64,
}

impl SentValues {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the values of a file are worth keeping, and sure to stay right.
    pub fn are_kept_of(file: &Attributes) -> bool {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let is_settled = i128::from(file.ctime_ns) < now.saturating_sub(UNSETTLED).as_nanos() as i128;
        let bytes = groups_of(file.size).saturating_mul(DIGEST as u64);
        file.size >= SIZE_MIN && bytes <= KEPT_MAX as u64 && is_settled
    }

    pub fn get(&self, tag: &Tag) -> Option<Arc<FileValues>> {
        let mut kept = self.kept();
        kept.uses += 1;
        let uses = kept.uses;
        let (values, used) = kept.files.get_mut(tag)?;
        *used = uses;
        Some(values.clone())
    }

    /// Keeps values, and forgets those that were not used for the longest time, if there is no room.
    pub fn keep(&self, tag: Tag, values: FileValues) {
        let mut kept = self.kept();
        kept.remove(&tag);
        kept.bytes += values.groups.len();
        while kept.bytes > KEPT_MAX {
            let oldest = kept.files.iter().min_by_key(|(_, (_, used))| *used).map(|(tag, _)| *tag);
            let Some(oldest) = oldest else { break };
            kept.remove(&oldest);
        }
        kept.uses += 1;
        let entry = (Arc::new(values), kept.uses);
        kept.files.insert(tag, entry);
    }

    pub fn forget(&self, tag: &Tag) {
        self.kept().remove(tag);
    }
}

impl Kept {
    fn remove(&mut self, tag: &Tag) {
        self.bytes -= self.files.remove(tag).map_or(0, |(values, _)| values.groups.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(number: usize) -> Tag {
        (number as u128).to_be_bytes()
    }

    fn values(len: usize) -> FileValues {
        FileValues { groups: vec![0; len], digest: Digest::default() }
    }

    #[test]
    fn what_was_not_used_for_long_is_forgotten() {
        let kept = SentValues::default();
        (0..4).for_each(|number| kept.keep(tag(number), values(KEPT_MAX / 4)));
        assert!(kept.get(&tag(0)).is_some());
        kept.keep(tag(4), values(KEPT_MAX / 2));
        let known: Vec<usize> = (0..5).filter(|number| kept.get(&tag(*number)).is_some()).collect();
        assert_eq!(known, [0, 3, 4]);
        kept.keep(tag(4), values(1));
        kept.forget(&tag(3));
        kept.forget(&tag(3));
        assert_eq!(kept.kept().bytes, KEPT_MAX / 4 + 1);
        kept.keep(tag(5), values(KEPT_MAX));
        assert_eq!(kept.kept().files.len(), 1);
    }
}
