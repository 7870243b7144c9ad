//! A raw peer that speaks the shared-memory protocol (`docs/reference/shared-memory.md`) byte by byte, and may
//! violate it.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::deadline::{PATIENCE_MS, until, until_some};
use crate::peer::{RawListener, RawPeer};
use crate::pinnace::text;
use crate::{Socket, Transport, filler, wire};

/// Offsets in one process's memory: the numbers, ...
pub const SENT: usize = 0;
pub const TAKEN: usize = 128;
pub const ARMED: usize = 256;
pub const REPAID: usize = 512;
pub const BELL: usize = 768;
/// ... then the ring, then the arena.
pub const HEAD: usize = 4096;
pub const RING: usize = 64 * 1024;
pub const ARENA: usize = 4 * RING;
pub const SIZE: usize = HEAD + RING + ARENA;
/// `ARMED`, for a receiver that sleeps on its doorbell. Bit 0: it waits; bit 1: on the doorbell.
pub const AT_BELL: u32 = 3;
/// The seals that the memory must have.
pub const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// Waits until the only peer's messages go through memory.
#[track_caller]
pub fn switched(socket: &Socket) {
    until("it has switched to memory", || socket.peers().iter().any(|peer| text(&peer.medium) == "memory"));
}

/// Makes both sockets of a pair send enough that their connection switches to memory, and waits until it has.
#[track_caller]
pub fn switch_over(one: &Socket, other: &Socket) {
    one.put(filler::body(0, 100_000));
    other.take();
    other.put("enough");
    one.take();
    switched(one);
    switched(other);
}

/// The medium of the only peer's messages, and the fallback reason; waits for the peer.
#[track_caller]
pub fn way(socket: &Socket) -> (String, String) {
    let peer = until_some("a peer", || socket.peers().into_iter().find(|peer| peer.connected == 1));
    (text(&peer.medium), text(&peer.fallback_reason))
}

/// The raw peer's memory, mapped.
pub struct Memory {
    pub fd: OwnedFd,
    at: *mut u8,
}

// SAFETY: another process changes these bytes at any time anyway; writes are of one word or one run of bytes.
unsafe impl Sync for Memory {}

impl Memory {
    pub fn new(bytes: usize, seals: i32) -> Memory {
        // SAFETY: system calls with our own arguments; the mapping has the file's size.
        unsafe {
            let fd = libc::memfd_create(c"peer".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
            assert!(fd >= 0 && libc::ftruncate(fd, bytes as i64) == 0);
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let at = libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED, fd, 0);
            assert_ne!(at, libc::MAP_FAILED);
            assert_eq!(libc::fcntl(fd, libc::F_ADD_SEALS, seals), 0);
            Memory { fd: OwnedFd::from_raw_fd(fd), at: at.cast() }
        }
    }

    /// Writes a 64-bit number.
    pub fn set(&self, offset: usize, number: u64) {
        assert!(offset + 8 <= SIZE, "beyond the memory");
        // SAFETY: within the mapping, which is never unmapped.
        unsafe { self.at.add(offset).cast::<u64>().write_volatile(number) }
    }

    /// Writes bytes at the start of the ring.
    pub fn write(&self, bytes: &[u8]) {
        assert!(bytes.len() <= RING, "more than the ring");
        self.put(HEAD, bytes);
    }

    /// Writes bytes to the arena.
    pub fn write_arena(&self, position: usize, bytes: &[u8]) {
        self.put(HEAD + RING + position, bytes);
    }

    fn put(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= SIZE, "beyond the memory");
        // SAFETY: as above; the bytes fit.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at.add(at), bytes.len()) }
    }
}

/// The library's memory, mapped for reading.
pub struct Theirs(*const u8);

// SAFETY: as above; this mapping is only read, one word at a time.
unsafe impl Sync for Theirs {}

impl Theirs {
    fn new(fd: &OwnedFd) -> Theirs {
        // SAFETY: maps one page within the file.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), HEAD, libc::PROT_READ, libc::MAP_SHARED, fd.as_raw_fd(), 0)
        };
        assert_ne!(at, libc::MAP_FAILED);
        Theirs(at.cast())
    }

    /// Reads 32 bits of a number.
    pub fn get(&self, offset: usize) -> u32 {
        assert!(offset + 4 <= HEAD, "beyond the page");
        // SAFETY: within the mapping.
        unsafe { self.0.add(offset).cast::<u32>().read_volatile() }
    }

    /// Wakes one sleeper on a number's futex word (futex(2)). False if there is none.
    pub fn wake(&self, offset: usize) -> bool {
        assert!(offset + 4 <= HEAD, "beyond the page");
        // SAFETY: the address of a number within the mapping.
        unsafe { libc::syscall(libc::SYS_futex, self.0.add(offset), libc::FUTEX_WAKE, 1) == 1 }
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        // SAFETY: unmaps our own mapping, which is not used again.
        unsafe { libc::munmap(self.0.cast_mut().cast(), HEAD) };
    }
}

/// Sends bytes, with a descriptor attached (SCM_RIGHTS).
pub fn pass(peer: &RawPeer, bytes: &[u8], fd: i32) {
    let mut slice = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = [0_u64; 3];
    // SAFETY: our own structures with correct sizes (cmsg(3)).
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&mut slice, 1);
        (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), 24);
        let head = libc::CMSG_FIRSTHDR(&message);
        (*head).cmsg_level = libc::SOL_SOCKET;
        (*head).cmsg_type = libc::SCM_RIGHTS;
        (*head).cmsg_len = libc::CMSG_LEN(4) as usize;
        libc::CMSG_DATA(head).cast::<i32>().write_unaligned(fd);
        assert_eq!(libc::sendmsg(peer.fd(), &message, 0), bytes.len() as isize);
    }
}

/// Reads `count` bytes; asserts that no descriptor is attached.
#[track_caller]
pub fn read_alone(peer: &RawPeer, count: usize) -> Vec<u8> {
    let (bytes, passed) = read_along(peer, count);
    assert!(passed.is_none(), "something was passed along");
    bytes
}

/// Reads `count` bytes, and the descriptor attached to them.
#[track_caller]
fn read_along(peer: &RawPeer, count: usize) -> (Vec<u8>, Option<OwnedFd>) {
    let (mut bytes, mut along) = (vec![0; count], None);
    let mut have = 0;
    while have < count {
        assert!(peer.stirs(PATIENCE_MS), "{have} of {count} bytes");
        let rest = &mut bytes[have..];
        let mut slice = libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() };
        let mut control = [0_u64; 3];
        // SAFETY: as in `pass`; the structures outlive the call. The received descriptor is new and ours.
        let come = unsafe {
            let mut message: libc::msghdr = std::mem::zeroed();
            (message.msg_iov, message.msg_iovlen) = (&mut slice, 1);
            (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), 24);
            let come = libc::recvmsg(peer.fd(), &mut message, libc::MSG_CMSG_CLOEXEC);
            if message.msg_controllen > 0 {
                let fd = libc::CMSG_DATA(libc::CMSG_FIRSTHDR(&message)).cast::<i32>().read_unaligned();
                along = Some(OwnedFd::from_raw_fd(fd));
            }
            come
        };
        assert!(come > 0, "the library hung up after {have} of {count} bytes");
        have += come as usize;
    }
    (bytes, along)
}

/// A step of the protocol: o, a, g, d.
pub fn step(letter: &str) -> Vec<u8> {
    wire::command("MEMORY", letter.as_bytes())
}

/// The ring's entry for a body in the arena.
pub fn loan(flags: u8, position: u64, len: u64) -> Vec<u8> {
    [&[flags | 0x40][..], &position.to_be_bytes(), &len.to_be_bytes()].concat()
}

/// The protocol version.
pub const VERSION: &[u8] = b"4";

/// The READY of a peer with this protocol version.
fn ready(socket_type: &str, version: &[u8]) -> Vec<u8> {
    let properties = [("Socket-Type", socket_type.as_bytes()), ("X-Pinnace-Memory", version)];
    wire::command("READY", &wire::metadata(&properties))
}

/// Shakes hands as a peer with this protocol version, and expects the library's READY with its own version.
#[track_caller]
pub fn announce(peer: &mut RawPeer, types: [&str; 2], version: &[u8]) {
    let [ours, the_librarys] = types;
    peer.send(&wire::greeting(1, "NULL", false));
    peer.read(64);
    peer.send(&ready(ours, version));
    peer.expect(&ready(the_librarys, VERSION));
}

/// A raw peer connected to `socket`, which is bound here. It has offered shared memory in its handshake.
pub fn offering(socket: &Socket, socket_type: &str) -> RawPeer {
    offering_to(&Transport::Ipc.bind(socket), socket_type)
}

fn offering_to(endpoint: &str, socket_type: &str) -> RawPeer {
    let mut peer = RawPeer::connect(endpoint);
    peer.send(&wire::greeting(1, "NULL", false));
    peer.read(64);
    peer.send(&ready(socket_type, VERSION));
    let ready = peer.read_frame().body;
    assert!(ready.windows(16).any(|name| name == b"X-Pinnace-Memory"), "it offers, too");
    peer
}

/// As `offering`, with the raw peer's memory, after the whole exchange.
pub fn sharing(socket: &Socket, socket_type: &str) -> (RawPeer, Memory) {
    let (peer, memory, _) = sharing_both(socket, socket_type);
    (peer, memory)
}

/// As `sharing`, with the library's memory too.
pub fn sharing_both(socket: &Socket, socket_type: &str) -> (RawPeer, Memory, Theirs) {
    let both = sharing_at(&Transport::Ipc.bind(socket), socket_type);
    switched(socket);
    both
}

/// A raw peer that `socket` connects to, able to share memory.
#[track_caller]
pub fn connected(socket: &Socket, socket_type: &str) -> RawPeer {
    let listener = RawListener::bind(Transport::Ipc);
    socket.connect(&listener.endpoint()).expect("connect");
    let mut peer = listener.accept();
    peer.send(&wire::greeting(1, "NULL", false));
    peer.read(64);
    peer.send(&ready(socket_type, VERSION));
    peer.read_frame();
    peer
}

/// A raw peer that `socket` connects to. The library has offered its memory, has received the peer's, and has
/// announced that it now writes to memory; the peer has not. All bytes up to that point have been read.
#[track_caller]
pub fn accepting(socket: &Socket, socket_type: &str) -> (RawPeer, Memory, Theirs) {
    let peer = connected(socket, socket_type);
    let large = filler::body(0, 100_000);
    socket.put(&large);
    read_alone(&peer, wire::message(&[&large]).len());
    socket.put("and one more");
    let (mut theirs, mut ours) = (None, None);
    for awaited in [step("o"), step("g")] {
        loop {
            let (frame, passed) = read_short(&peer);
            if passed.is_some() {
                theirs = passed;
            }
            if frame == awaited {
                break;
            }
        }
        if awaited == step("o") {
            let memory = Memory::new(SIZE, SEALS);
            pass(&peer, &step("a"), memory.fd.as_raw_fd());
            ours = Some(memory);
        }
    }
    (peer, ours.expect("it was given"), Theirs::new(&theirs.expect("memory comes with it")))
}

/// Reads a frame with a short header, and the descriptor attached to it.
#[track_caller]
fn read_short(peer: &RawPeer) -> (Vec<u8>, Option<OwnedFd>) {
    let (mut frame, passed) = read_along(peer, 2);
    let (body, later) = read_along(peer, frame[1].into());
    frame.extend(body);
    (frame, passed.or(later))
}

/// As `sharing_both`, for a socket already bound to `endpoint`, in any process.
pub fn sharing_at(endpoint: &str, socket_type: &str) -> (RawPeer, Memory, Theirs) {
    let (mut peer, memory) = (offering_to(endpoint, socket_type), Memory::new(SIZE, SEALS));
    pass(&peer, &step("o"), memory.fd.as_raw_fd());
    let (said, theirs) = read_along(&peer, step("a").len());
    assert_eq!(said, step("a"));
    peer.send(&step("g"));
    assert_eq!(read_alone(&peer, step("g").len()), step("g"));
    (peer, memory, Theirs::new(&theirs.expect("memory comes with it")))
}
