//! Removes the parts of transfers that ended early.

use std::time::{Duration, SystemTime};

use super::incoming::lock_part;
use crate::tree::parts::{is_part, part_of};
use crate::tree::{Attributes, Directory};

/// Removes what transfers have left long ago in a directory. What cannot be removed stays.
pub fn remove_old_parts(directory: &dyn Directory, age: Duration) {
    let Some(limit) = SystemTime::now().checked_sub(age) else { return };
    let Ok(limit) = limit.duration_since(SystemTime::UNIX_EPOCH) else { return };
    let Ok(names) = directory.names() else { return };
    for name in names.map_while(Result::ok).filter(|name| is_part(name)) {
        let is_old = |known: Attributes| {
            // A further name of a file has that file's time of change, however young the name is.
            let changed_ns = known.shared.map_or(known.mtime_ns, |_| known.ctime_ns);
            i128::from(known.mtime_ns.max(changed_ns)) < limit.as_nanos() as i128
        };
        if !directory.attributes(&name).is_ok_and(is_old) {
            continue;
        }
        // A part that a transfer writes is not old, whatever the clocks say. The lock is held until it is removed.
        let part = part_of(&name);
        let lock = directory.attributes(part).map(|_| lock_part(directory, part));
        if !matches!(lock, Ok(Ok(None))) {
            let _ = directory.remove_file(&name);
        }
    }
}
