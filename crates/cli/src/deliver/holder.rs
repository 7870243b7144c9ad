//! The process that has a store open: it holds the lock (flock(2)) on the directory, as listed in /proc/locks
//! (proc_locks(5)).

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Number of reads of the list: the kernel may omit locks while others are taken or released.
const READS: u32 = 4;

/// The id of the process that has a store open; `None` if no process has, or if the kernel does not list it.
pub fn holder(store: &Path) -> Option<u32> {
    let inode = fs::metadata(store).ok()?.ino();
    (0..READS).find_map(|_| {
        let locks = fs::read_to_string("/proc/locks").ok()?;
        locks.lines().find_map(|line| process_of(line, inode))
    })
}

/// A line is: number, FLOCK or POSIX, ADVISORY, WRITE or READ, process, device:inode, and more. An arrow after the
/// number marks a process that waits for a lock.
fn process_of(line: &str, inode: u64) -> Option<u32> {
    let mut words = line.split_whitespace().skip(1);
    if words.next()? != "FLOCK" {
        return None;
    }
    let (process, file) = (words.nth(2)?, words.next()?);
    let is_it = file.rsplit(':').next()?.parse() == Ok(inode);
    process.parse().ok().filter(|process| is_it && *process > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_the_process_that_has_the_lock() {
        let line = "1: FLOCK  ADVISORY  WRITE 4711 00:2b:815 0 EOF";
        assert_eq!(process_of(line, 815), Some(4711));
        assert_eq!(process_of(line, 816), None);
        assert_eq!(process_of("1: -> FLOCK  ADVISORY  WRITE 4711 00:2b:815 0 EOF", 815), None, "it waits");
        assert_eq!(process_of("1: POSIX  ADVISORY  WRITE 4711 00:2b:815 0 EOF", 815), None);
        assert_eq!(
            process_of("1: FLOCK  ADVISORY  WRITE -1 00:2b:815 0 EOF", 815),
            None,
            "of another system"
        );
        assert_eq!(process_of("", 815), None);
    }
}
