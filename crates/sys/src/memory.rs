//! Memory that two processes share (memfd_create(2)): one creates and writes it, the other reads it.
//!
//! The creator first seals the size, so that an access by the reader cannot fault (SIGBUS), and then passes on a
//! read-only descriptor. The reader refuses anything else ([`Refused`]). The descriptors may be closed after mapping:
//! the memory lives as long as either process has it mapped.
//!
//! The other process can still change the bytes at any time. So they are only copied, or accessed as atomics, by
//! address; no slice of them is ever made.
//!
//! [`sealed_file`] is for a process that reads instead of mapping: nobody can change the bytes.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{self, MemfdFlags, OFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{self, Advice, MapFlags, ProtFlags};
use rustix::process::{Resource, getrlimit};

use crate::fork;

/// Why memory could not be created or opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// A peer's descriptor is not such memory, or its size can still change.
    Unsealed,
    /// The size is not an expected one.
    Size(u64),
    /// This process has the most mappings that it may have ([`MAPPINGS`]).
    TooManyMappings,
    /// An error of the system.
    System(Errno),
}

/// A mapping of this process, until it is dropped. A child of fork(2) does not have it.
#[derive(Debug)]
pub struct Memory {
    at: NonNull<u8>,
    len: usize,
    /// `fork::generation` of the process that made the mapping.
    generation: u32,
}

// SAFETY: it is an address and a length; the memory is reached only by the user's own unsafe code.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// The most pieces of memory that a process may have, its own and its peers': half of the mappings that the system
/// allows a process (vm.max_map_count, 65,530; proc(5)), since malloc(3) needs some, too.
pub const MAPPINGS: usize = 32_768;
static MAPPED: AtomicUsize = AtomicUsize::new(0);

/// The seals that a peer's memory must have.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);
/// TMPFS_MAGIC (statfs(2)). Pages of any other kind, such as huge pages, may be unavailable when they are touched.
const TMPFS: i64 = 0x0102_1994;

impl Memory {
    /// Creates `len` bytes of zeroed memory, with a descriptor for the reader.
    pub fn create(len: usize) -> Result<(Memory, OwnedFd), Refused> {
        check_file_size(len).map_err(Refused::System)?;
        // Pages are allocated when they are touched, and may be refused then, with SIGBUS.
        if never_overcommits() {
            return Err(Refused::System(Errno::NOMEM));
        }
        let (ours, theirs) = Memory::descriptors(len).map_err(Refused::System)?;
        Ok((Memory::map(&ours, len, ProtFlags::READ | ProtFlags::WRITE)?, theirs))
    }

    /// One descriptor to write, and one to read.
    fn descriptors(len: usize) -> Result<(OwnedFd, OwnedFd), Errno> {
        let ours = memfd()?;
        fs::ftruncate(&ours, len as u64)?;
        fs::fcntl_add_seals(&ours, SEALS)?;
        let path = format!("/proc/self/fd/{}", ours.as_raw_fd());
        let theirs = fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, fs::Mode::empty())?;
        // Else another user's process could open it for writing in the same way.
        fs::fchmod(&ours, fs::Mode::empty())?;
        Ok((ours, theirs))
    }

    /// Maps the memory behind a peer's descriptor for reading, if `len` accepts its size.
    pub fn open(theirs: &OwnedFd, len: impl FnOnce(u64) -> bool) -> Result<Memory, Refused> {
        // Anything but a memfd has no seals (EINVAL).
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
            return Err(Refused::TooManyMappings);
        }
        // SAFETY: a new mapping, which nothing else in this process refers to.
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

    /// The address of its first byte.
    #[inline(always)]
    pub fn as_ptr(&self) -> *mut u8 {
        self.at.as_ptr()
    }

    /// Its size in bytes.
    #[inline(always)]
    pub fn size(&self) -> usize {
        self.len
    }

    /// Returns true if this process made the mapping, false in a forked child.
    pub fn belongs_to_this_process(&self) -> bool {
        self.generation == fork::generation()
    }

    /// Returns the pages from offset `from` on to the system, for memory that was created here. They read as zeros
    /// again.
    pub fn give_back(&self, from: usize) {
        let Some(len) = self.len.checked_sub(from).filter(|&len| len > 0) else { return };
        // SAFETY: within the mapping, on whole pages as the kernel demands; it refuses a read-only mapping (EACCES).
        // A failure only costs memory.
        let _ = unsafe { mm::madvise(self.at.as_ptr().add(from).cast(), len, Advice::LinuxRemove) };
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.belongs_to_this_process() {
            // SAFETY: the mapping belongs to this value. The call fails only for an invalid range.
            let _ = unsafe { mm::munmap(self.at.as_ptr().cast(), self.len) };
            MAPPED.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// An empty file in memory that can be sealed.
fn memfd() -> Result<OwnedFd, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match fs::memfd_create(c"pinnace", flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => fs::memfd_create(c"pinnace", flags), // Before Linux 6.3.
        made => made,
    }
}

/// Error: FBIG. Growing a file beyond this limit ends the process (SIGXFSZ, getrlimit(2)).
fn check_file_size(len: usize) -> Result<(), Errno> {
    match getrlimit(Resource::Fsize).current {
        Some(limit) if limit < len as u64 => Err(Errno::FBIG),
        _ => Ok(()),
    }
}

/// A file in memory with these bytes, at their begin. Nobody can change it any more; it lives as long as a process has
/// it open.
pub fn sealed_file(bytes: &[u8]) -> io::Result<File> {
    check_file_size(bytes.len())?;
    let mut file = File::from(memfd()?);
    file.write_all(bytes)?;
    fs::fcntl_add_seals(&file, SEALS | SealFlags::WRITE)?;
    file.rewind()?;
    Ok(file)
}

/// Returns true if the system never overcommits memory (vm.overcommit_memory is 2, proc(5)). Read once.
fn never_overcommits() -> bool {
    static KEPT: OnceLock<bool> = OnceLock::new();
    *KEPT.get_or_init(|| {
        std::fs::read_to_string("/proc/sys/vm/overcommit_memory").is_ok_and(|text| text.trim() == "2")
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    const LEN: usize = 64 * 1024;

    #[test]
    fn a_sealed_file_is_read_from_its_begin_and_cannot_change() {
        for bytes in [&b""[..], b"some bytes"] {
            let (mut file, mut read) = (sealed_file(bytes).unwrap(), Vec::new());
            file.read_to_end(&mut read).unwrap();
            assert_eq!(read, bytes);
            assert_eq!(rustix::io::write(&file, b"x"), Err(Errno::PERM));
            assert_eq!(fs::ftruncate(&file, LEN as u64), Err(Errno::PERM));
        }
    }

    #[test]
    fn what_one_writes_the_other_reads() {
        let (ours, fd) = Memory::create(LEN).unwrap();
        let theirs = Memory::open(&fd, |len| len == LEN as u64).unwrap();
        drop(fd);
        // SAFETY: both have so many bytes, and nothing else uses them.
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
        // SAFETY: a new mapping, if the call succeeded.
        let mapped =
            unsafe { mm::mmap(std::ptr::null_mut(), LEN, ProtFlags::WRITE, MapFlags::SHARED, &fd, 0) };
        assert_eq!(mapped, Err(Errno::ACCESS));
        assert_eq!(fs::fstat(&fd).unwrap().st_mode & 0o777, 0, "nobody else may open it");
        let again = format!("/proc/self/fd/{}", fd.as_raw_fd());
        // Root may open it, and so may its own user after a change of the mode.
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
