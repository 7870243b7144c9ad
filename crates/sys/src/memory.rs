//! Memory that two processes share (memfd_create(2)): one makes it and writes, the other reads.
//!
//! Whoever makes it seals its size first, so that its reader cannot be made to read where nothing is (SIGBUS), and
//! hands over a descriptor that is open for reading alone. The reader takes nothing that is not so ([`Refused`]). The
//! descriptors may be closed then: the memory lives as long as either of them has it.
//!
//! What the other process can do all the same is to change the bytes at any time. So they are only ever copied, or
//! looked at as atomics, by their addresses; there is no slice of them.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{self, MemfdFlags, OFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{self, Advice, MapFlags, ProtFlags};
use rustix::process::{Resource, getrlimit};

use crate::fork;

/// Why there is no memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// A peer's descriptor is no memory, or its size can still change.
    Unsealed,
    /// It has not the size that it should have.
    Size(u64),
    /// This process has as much as it may ([`MAPPINGS`]).
    Full,
    /// The system's.
    System(Errno),
}

/// Memory that this process has, until it is dropped. A child of fork(2) has it not.
#[derive(Debug)]
pub struct Memory {
    at: NonNull<u8>,
    len: usize,
    /// `fork::generation` of the process that has it.
    generation: u32,
}

// SAFETY: it is an address and a length, and what lies there is reached by its user's own unsafe code.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// How many pieces of memory a process may have, its own and its peers': half of the mappings that the system allows it
/// (vm.max_map_count, 65,530; proc(5)), since malloc(3) needs some, too.
pub const MAPPINGS: usize = 32_768;
static MAPPED: AtomicUsize = AtomicUsize::new(0);

/// The seals without which no memory is taken.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);
/// TMPFS_MAGIC (statfs(2)): pages of any other kind, huge ones among them, may be missing when they are touched.
const TMPFS: i64 = 0x0102_1994;

impl Memory {
    /// New memory, zeros, of so many bytes, with a descriptor for its reader.
    pub fn create(len: usize) -> Result<(Memory, OwnedFd), Refused> {
        // Beyond this a file that grows, and this is one, ends its process (SIGXFSZ, getrlimit(2)).
        if getrlimit(Resource::Fsize).current.is_some_and(|limit| limit < len as u64) {
            return Err(Refused::System(Errno::FBIG));
        }
        // Pages are had when they are touched; there they may be refused, with SIGBUS.
        if promises_are_kept() {
            return Err(Refused::System(Errno::NOMEM));
        }
        let (ours, theirs) = Memory::descriptors(len).map_err(Refused::System)?;
        Ok((Memory::map(&ours, len, ProtFlags::READ | ProtFlags::WRITE)?, theirs))
    }

    /// To be written, and to be read.
    fn descriptors(len: usize) -> Result<(OwnedFd, OwnedFd), Errno> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let ours = match fs::memfd_create(c"pinnace", flags | MemfdFlags::NOEXEC_SEAL) {
            Err(Errno::INVAL) => fs::memfd_create(c"pinnace", flags)?, // Before Linux 6.3.
            made => made?,
        };
        fs::ftruncate(&ours, len as u64)?;
        fs::fcntl_add_seals(&ours, SEALS)?;
        let path = format!("/proc/self/fd/{}", ours.as_raw_fd());
        let theirs = fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, fs::Mode::empty())?;
        // In the same way another user's process could open it to be written.
        fs::fchmod(&ours, fs::Mode::empty())?;
        Ok((ours, theirs))
    }

    /// The memory behind a peer's descriptor, to be read, if it is of `len` bytes.
    pub fn open(theirs: &OwnedFd, len: impl FnOnce(u64) -> bool) -> Result<Memory, Refused> {
        // Of anything but memory there are no seals to be asked for (EINVAL).
        let seals = fs::fcntl_get_seals(theirs).map_err(|_| Refused::Unsealed)?;
        let kind = fs::fstatfs(theirs).map_err(Refused::System)?.f_type;
        if !seals.contains(SEALS) || kind as i64 != TMPFS {
            return Err(Refused::Unsealed);
        }
        let size = fs::fstat(theirs).map_err(Refused::System)?.st_size as u64;
        match usize::try_from(size) {
            Ok(bytes) if bytes > 0 && len(size) => Memory::map(theirs, bytes, ProtFlags::READ),
            _ => Err(Refused::Size(size)),
        }
    }

    fn map(fd: &impl AsFd, len: usize, access: ProtFlags) -> Result<Memory, Refused> {
        if MAPPED.fetch_add(1, Ordering::Relaxed) >= MAPPINGS {
            MAPPED.fetch_sub(1, Ordering::Relaxed);
            return Err(Refused::Full);
        }
        // SAFETY: a new mapping, of which nobody else in this process knows.
        let at = unsafe { mm::mmap(std::ptr::null_mut(), len, access, MapFlags::SHARED, fd, 0) };
        let at = at.map_err(|error| {
            MAPPED.fetch_sub(1, Ordering::Relaxed);
            Refused::System(error)
        })?;
        let memory = Memory {
            at: NonNull::new(at.cast()).expect("the kernel maps nothing at 0"),
            len,
            generation: fork::generation(),
        };
        // SAFETY: the whole of the mapping. A child must neither write what its parent's peer reads, nor keep the
        // memory when both are gone.
        unsafe { mm::madvise(at, len, Advice::LinuxDontFork) }.map_err(Refused::System)?;
        Ok(memory)
    }

    /// Where it begins.
    #[inline(always)]
    pub fn as_ptr(&self) -> *mut u8 {
        self.at.as_ptr()
    }

    /// Its size in bytes.
    #[inline(always)]
    pub fn size(&self) -> usize {
        self.len
    }

    /// Whether this process has it, and is not a child of the one that has.
    pub fn is_here(&self) -> bool {
        self.generation == fork::generation()
    }

    /// Gives the pages from `from` on back to the system, of memory that was made here; they are zeros again.
    pub fn give_back(&self, from: usize) {
        let Some(len) = self.len.checked_sub(from).filter(|&len| len > 0) else { return };
        // SAFETY: within the mapping, on whole pages as the kernel demands; a read-only one is refused (EACCES). It is
        // but a wish.
        let _ = unsafe { mm::madvise(self.at.as_ptr().add(from).cast(), len, Advice::LinuxRemove) };
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.is_here() {
            // SAFETY: the mapping is this value's own. It can only fail for a range that is none.
            let _ = unsafe { mm::munmap(self.at.as_ptr().cast(), self.len) };
            MAPPED.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Whether the system gives no more memory than there is (vm.overcommit_memory of 2, proc(5)). Asked once.
fn promises_are_kept() -> bool {
    static KEPT: OnceLock<bool> = OnceLock::new();
    *KEPT.get_or_init(|| {
        std::fs::read_to_string("/proc/sys/vm/overcommit_memory").is_ok_and(|text| text.trim() == "2")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = 64 * 1024;

    #[test]
    fn what_one_writes_the_other_reads() {
        let (ours, fd) = Memory::create(LEN).unwrap();
        let theirs = Memory::open(&fd, |len| len == LEN as u64).unwrap();
        drop(fd);
        // SAFETY: both are of so many bytes, and nobody else has them.
        unsafe {
            ours.as_ptr().add(LEN - 1).write(7);
            assert_eq!(theirs.as_ptr().add(LEN - 1).read_volatile(), 7);
            ours.give_back(4096);
            assert_eq!(theirs.as_ptr().add(LEN - 1).read_volatile(), 0);
        }
        assert_eq!((ours.size(), theirs.size()), (LEN, LEN));
    }

    #[test]
    fn its_reader_can_neither_write_nor_resize_it() {
        let (_ours, fd) = Memory::create(LEN).unwrap();
        assert_eq!(fs::ftruncate(&fd, 0), Err(Errno::INVAL), "it is open for reading alone");
        assert_eq!(rustix::io::write(&fd, b"x"), Err(Errno::BADF));
        // SAFETY: a new mapping, if it were made.
        let mapped =
            unsafe { mm::mmap(std::ptr::null_mut(), LEN, ProtFlags::WRITE, MapFlags::SHARED, &fd, 0) };
        assert_eq!(mapped, Err(Errno::ACCESS));
        assert_eq!(fs::fstat(&fd).unwrap().st_mode & 0o777, 0, "nobody else may open it");
        let again = format!("/proc/self/fd/{}", fd.as_raw_fd());
        // Root may, and its own user once it has changed the mode.
        match fs::open(again, OFlags::RDWR, fs::Mode::empty()) {
            Err(error) => assert_eq!(error, Errno::ACCESS),
            Ok(writable) => {
                assert_eq!(fs::ftruncate(&writable, 0), Err(Errno::PERM));
                assert_eq!(fs::ftruncate(&writable, LEN as u64 + 1), Err(Errno::PERM));
            }
        }
    }

    #[test]
    fn what_may_shrink_or_is_no_memory_is_refused() {
        let any = |_| true;
        let file: OwnedFd = std::fs::File::open("/dev/zero").unwrap().into();
        assert_eq!(Memory::open(&file, any).err(), Some(Refused::Unsealed));
        let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(Memory::open(&socket.into(), any).err(), Some(Refused::Unsealed));
        let loose = fs::memfd_create(c"loose", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        fs::ftruncate(&loose, LEN as u64).unwrap();
        assert_eq!(Memory::open(&loose, any).err(), Some(Refused::Unsealed));
        fs::fcntl_add_seals(&loose, SealFlags::SHRINK | SealFlags::GROW).unwrap();
        assert_eq!(Memory::open(&loose, any).err(), Some(Refused::Unsealed));
        fs::fcntl_add_seals(&loose, SealFlags::SEAL).unwrap();
        assert_eq!(Memory::open(&loose, |len| len > LEN as u64).err(), Some(Refused::Size(LEN as u64)));
        assert!(Memory::open(&loose, any).is_ok());
        let (_ours, fd) = Memory::create(0).map_or((None, None), |(ours, fd)| (Some(ours), Some(fd)));
        assert!(fd.is_none(), "nothing cannot be mapped");
    }
}
