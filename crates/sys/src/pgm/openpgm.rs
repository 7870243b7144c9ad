//! [`Socket`] over OpenPGM.

use std::ffi::{c_int, c_void};
use std::mem::{forget, zeroed};
use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::FdFlags;
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, socket_with};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags};
use rustix::time::{timerfd_create, timerfd_settime};

use super::{Config, Received, Tsi, ffi};
use crate::poll::{Foreign, Interest, Poller, timespec};
use crate::wake::WakeFd;
use crate::{AsFd, BorrowedFd, Errno, OwnedFd};

/// The shortest delay before the next call, where OpenPGM says "now".
const SOON: Duration = Duration::from_micros(100);
/// The delay before the next call after a network error.
const LATER: Duration = Duration::from_millis(10);
/// Expedited forwarding, for routers (RFC 3246).
const TOS: c_int = 0x2e << 2;
/// The smallest packet, with room for data behind the headers, and the largest (RFC 791). In bytes.
const MIN_PACKET: c_int = 100;
const MAX_PACKET: c_int = 65_535;
const MAX_HOPS: c_int = 255;
/// The most descriptors that binding opens.
const SPARE: usize = 3;
const MS: c_int = 1_000;
const SECOND: c_int = 1_000 * MS;
/// A silent sender is forgotten after this time.
const PEER_EXPIRY: c_int = 300 * SECOND;
/// How soon, and how often, a receiver asks for missing data.
const SPMR_EXPIRY: c_int = 25 * MS;
const NAK_BACK_OFF: c_int = 50 * MS;
const NAK_REPEAT: c_int = 200 * MS;
const NAK_DATA: c_int = 200 * MS;
const NAK_RETRIES: c_int = 50;
/// How often a sender announces its position: while idle, and after each packet.
const AMBIENT: c_int = 30 * SECOND;
const HEARTBEATS: [c_int; 9] =
    [100 * MS, 100 * MS, 100 * MS, 100 * MS, 1300 * MS, 7 * SECOND, 16 * SECOND, 25 * SECOND, 30 * SECOND];

/// The number of open sockets: OpenPGM is initialised while there are any. OpenPGM's own counter lets a second caller
/// in before the first has finished initialising.
static OPEN: Mutex<u64> = Mutex::new(0);

/// OpenPGM is initialised as long as this lives.
struct Library;

/// A sender or a receiver. It holds the descriptors that OpenPGM opens, and two or three more.
pub struct Socket {
    inner: Mutex<Inner>,
    set: Poller,
    sends: bool,
    max_data: usize,
}

struct Inner {
    sock: Owned,
    /// When to receive again, and when to send again.
    receive_at: Timer,
    send_at: Timer,
    /// Whether the poll set includes room to send, and pending repairs.
    wants_room: bool,
    repairs: bool,
    _library: Library,
}

/// A socket of OpenPGM's, closed when this is dropped.
struct Owned {
    sock: NonNull<ffi::Sock>,
    /// True if OpenPGM has opened the descriptors by which it wakes us. Without them pgm_close would close descriptor
    /// 0 in their place, which may be in use, so such a socket is never closed; see [`Owned::bind`].
    is_whole: bool,
}

// SAFETY: OpenPGM binds a socket to no thread; each caller holds the lock of `Socket::inner`.
unsafe impl Send for Owned {}

/// Becomes readable after a time (timerfd_create(2)).
struct Timer(OwnedFd);

impl Library {
    fn enter() -> Result<Library, Errno> {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if *open == 0 {
            let mut error = null_mut();
            // SAFETY: a variable for an error.
            if !unsafe { ffi::pgm_init(&mut error) } {
                taken(error);
                return Err(Errno::NOSYS);
            }
        }
        *open += 1;
        Ok(Library)
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        *open -= 1;
        if *open == 0 {
            // SAFETY: it was initialised, and all of our sockets are closed.
            unsafe { ffi::pgm_shutdown() };
        }
    }
}

/// Frees an error; returns the system's error number for it, if there is one.
fn taken(error: *mut ffi::PgmError) -> Option<Errno> {
    let error = NonNull::new(error)?;
    // SAFETY: OpenPGM set it, and nothing else refers to it.
    let code = unsafe { error.as_ref().code };
    // SAFETY: as above; it is not used afterwards.
    unsafe { ffi::pgm_error_free(error.as_ptr()) };
    match code {
        ffi::ERROR_PERM => Some(Errno::PERM),
        ffi::ERROR_MFILE => Some(Errno::MFILE),
        ffi::ERROR_NFILE => Some(Errno::NFILE),
        ffi::ERROR_NOMEM | ffi::ERROR_NOBUFS => Some(Errno::NOMEM),
        ffi::ERROR_NODEV => Some(Errno::NODEV),
        _ => None,
    }
}

/// A socket like the three that OpenPGM opens.
fn probe(over_udp: bool) -> Result<OwnedFd, Errno> {
    let (kind, protocol) =
        if over_udp { (SocketType::DGRAM, libc::IPPROTO_UDP) } else { (SocketType::RAW, ffi::IPPROTO_PGM) };
    let protocol = NonZeroU32::new(protocol as u32).map(Protocol::from_raw);
    socket_with(AddressFamily::INET, kind, SocketFlags::CLOEXEC, protocol)
}

impl Owned {
    /// Checks first that the privilege and the descriptors for OpenPGM's sockets are available: if pgm_socket failed
    /// for lack of them, it would close descriptor 0, too.
    fn new(over_udp: bool) -> Result<Owned, Errno> {
        drop([probe(over_udp)?, probe(over_udp)?, probe(over_udp)?]);
        let family = libc::AF_INET as libc::sa_family_t;
        let protocol = if over_udp { libc::IPPROTO_UDP } else { ffi::IPPROTO_PGM };
        let (mut sock, mut error) = (null_mut(), null_mut());
        // SAFETY: variables for both answers.
        let ok = unsafe { ffi::pgm_socket(&mut sock, family, libc::SOCK_SEQPACKET, protocol, &mut error) };
        let error = taken(error);
        match NonNull::new(sock) {
            Some(sock) if ok => Ok(Owned { sock, is_whole: false }),
            _ => Err(error.unwrap_or(Errno::INVAL)),
        }
    }

    fn set<T>(&self, level: c_int, option: c_int, value: &T) -> Result<(), Errno> {
        let len = size_of::<T>() as libc::socklen_t;
        // SAFETY: an open socket, and a value of this size, which is only read.
        let ok = unsafe {
            ffi::pgm_setsockopt(self.sock.as_ptr(), level, option, std::ptr::from_ref(value).cast(), len)
        };
        if ok { Ok(()) } else { Err(Errno::INVAL) }
    }

    fn set_all(&self, options: &[(c_int, c_int)]) -> Result<(), Errno> {
        options.iter().try_for_each(|(option, value)| self.set(ffi::IPPROTO_PGM, *option, value))
    }

    /// Returns `initial` if OpenPGM does not set the value.
    fn get<T: Copy>(&self, option: c_int, initial: T) -> T {
        let (mut value, mut len) = (initial, size_of::<T>() as libc::socklen_t);
        let room: *mut c_void = (&raw mut value).cast();
        // SAFETY: an open socket, and a variable of this size for a plain number or time.
        unsafe { ffi::pgm_getsockopt(self.sock.as_ptr(), ffi::IPPROTO_PGM, option, room, &mut len) };
        value
    }

    /// The delay that an option holds.
    fn time(&self, option: c_int) -> Duration {
        let time = self.get(option, libc::timeval { tv_sec: 0, tv_usec: 0 });
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        Duration::from_secs(seconds) + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
    }

    fn fd(&self, option: c_int) -> Result<Foreign, Errno> {
        Foreign::new(self.get(option, -1)).ok_or(Errno::BADF)
    }

    /// Makes the descriptors that we know of close on exec.
    fn close_on_exec(&self, sends: bool) -> Result<(), Errno> {
        let all = [ffi::RECV_SOCK, ffi::SEND_SOCK, ffi::PENDING_SOCK, ffi::REPAIR_SOCK];
        let known = if sends { &all[..] } else { &all[..3] };
        known.iter().try_for_each(|&option| rustix::io::fcntl_setfd(self.fd(option)?, FdFlags::CLOEXEC))
    }

    /// Sets the options that have to be set before binding.
    fn set_up(&self, config: &Config<'_>) -> Result<(), Errno> {
        if config.over_udp {
            let port = c_int::from(config.port);
            self.set_all(&[(ffi::UDP_ENCAP_UCAST_PORT, port), (ffi::UDP_ENCAP_MCAST_PORT, port)])?;
        }
        for (option, bytes) in [(libc::SO_RCVBUF, config.recv_buffer), (libc::SO_SNDBUF, config.send_buffer)]
        {
            bytes.map_or(Ok(()), |bytes| self.set(libc::SOL_SOCKET, option, &bytes))?;
        }
        self.set_all(&[(ffi::MTU, config.max_packet)])?;
        if !config.sends {
            return self.set_all(&[
                (ffi::RECV_ONLY, 1),
                (ffi::RXW_SQNS, config.window),
                (ffi::PEER_EXPIRY, PEER_EXPIRY),
                (ffi::SPMR_EXPIRY, SPMR_EXPIRY),
                (ffi::NAK_BO_IVL, NAK_BACK_OFF),
                (ffi::NAK_RPT_IVL, NAK_REPEAT),
                (ffi::NAK_RDATA_IVL, NAK_DATA),
                (ffi::NAK_DATA_RETRIES, NAK_RETRIES),
                (ffi::NAK_NCF_RETRIES, NAK_RETRIES),
            ]);
        }
        self.set_all(&[
            (ffi::SEND_ONLY, 1),
            (ffi::ODATA_MAX_RTE, config.rate),
            (ffi::TXW_SQNS, config.window),
            (ffi::AMBIENT_SPM, AMBIENT),
        ])?;
        self.set(ffi::IPPROTO_PGM, ffi::HEARTBEAT_SPM, &HEARTBEATS)
    }

    /// Frees the descriptors in `spare` for those that binding opens: a socket that then finds none cannot be closed.
    fn bind(&mut self, config: &Config<'_>, spare: [WakeFd; SPARE]) -> Result<(), Errno> {
        let mut tsi = ffi::RawTsi([0; 8]); // A source port of 0: OpenPGM chooses one.
        tsi.0[..6].copy_from_slice(&config.id);
        let at = ffi::SockAddr { port: config.port, tsi };
        // SAFETY: all zeros is an interface request without any choice.
        let mut interface: ffi::InterfaceReq = unsafe { zeroed() };
        interface.interface = config.interface;
        let len = size_of::<ffi::InterfaceReq>() as libc::socklen_t;
        let (at_len, mut error) = (size_of::<ffi::SockAddr>() as libc::socklen_t, null_mut());
        drop(spare);
        // SAFETY: an open socket; structures of the given lengths; a variable for an error.
        let ok = unsafe {
            ffi::pgm_bind3(self.sock.as_ptr(), &at, at_len, &interface, len, &interface, len, &mut error)
        };
        let error = taken(error);
        self.is_whole = !matches!(error, Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM));
        if ok { Ok(()) } else { Err(error.unwrap_or(Errno::INVAL)) }
    }

    /// Joins the groups and starts to operate.
    fn join(&self, config: &Config<'_>) -> Result<(), Errno> {
        for &group in config.groups {
            self.set(ffi::IPPROTO_PGM, ffi::JOIN_GROUP, &group_on(config.interface, group))?;
        }
        self.set(ffi::IPPROTO_PGM, ffi::SEND_GROUP, &group_on(config.interface, config.send_group))?;
        // What we send does not loop back to this host, as with libzmq.
        self.set_all(&[(ffi::MULTICAST_LOOP, 0), (ffi::MULTICAST_HOPS, config.hops)])?;
        let _ = self.set_all(&[(ffi::TOS, TOS)]); // Not every system has it.
        self.set_all(&[(ffi::NOBLOCK, 1)])?;
        let mut error = null_mut();
        // SAFETY: a bound socket, and a variable for an error.
        let ok = unsafe { ffi::pgm_connect(self.sock.as_ptr(), &mut error) };
        let error = taken(error);
        if ok { Ok(()) } else { Err(error.unwrap_or(Errno::INVAL)) }
    }
}

fn group_on(interface: u32, group: Ipv4Addr) -> ffi::GroupReq {
    // SAFETY: all zeros is an address without a family.
    let mut request = ffi::GroupReq { interface, group: unsafe { zeroed() } };
    // SAFETY: it has room for an address of any family, and is aligned for it; all zeros is an IPv4 address.
    let address = unsafe { &mut *(&raw mut request.group).cast::<libc::sockaddr_in>() };
    address.sin_family = libc::AF_INET as libc::sa_family_t;
    address.sin_addr.s_addr = u32::from_ne_bytes(group.octets());
    request
}

impl Drop for Owned {
    fn drop(&mut self) {
        if self.is_whole {
            // SAFETY: an open socket that is not used any more. A sender announces its end.
            unsafe { ffi::pgm_close(self.sock.as_ptr(), true) };
        } else if let Ok(library) = Library::enter() {
            forget(library); // Shutting OpenPGM down would close the socket, too.
        }
    }
}

impl Timer {
    fn new() -> Result<Timer, Errno> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        timerfd_create(TimerfdClockId::Monotonic, flags).map(Timer)
    }

    /// Expires after this time, in place of the previous one; None is never.
    fn set(&self, after: Option<Duration>) {
        let at = after.map_or(Duration::ZERO, |after| after.max(SOON));
        let spec = Itimerspec { it_interval: timespec(Duration::ZERO), it_value: timespec(at) };
        // It fails only for times that this never passes.
        let _ = timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &spec);
    }
}

impl Inner {
    /// Adds room to send to the poll set, or removes it.
    fn want_room(&mut self, set: &Poller, wanted: bool) -> Result<(), Errno> {
        if self.wants_room == wanted {
            return Ok(());
        }
        let fd = self.sock.fd(ffi::SEND_SOCK)?;
        if wanted {
            set.add(&fd, 0, Interest::WRITE)?
        } else {
            set.remove(&fd)?
        }
        self.wants_room = wanted;
        Ok(())
    }

    /// Adds pending repairs to the poll set, or removes them. Not while the rate limit allows none: that would
    /// busy-loop.
    fn want_repairs(&mut self, set: &Poller, wanted: bool) -> Result<(), Errno> {
        if self.repairs != wanted {
            let interest = if wanted { Interest::READ } else { Interest::NONE };
            set.modify(&self.sock.fd(ffi::REPAIR_SOCK)?, 0, interest)?;
            self.repairs = wanted;
        }
        Ok(())
    }

    /// Nothing was received: sets when to try again.
    fn rest(&mut self, set: &Poller, sends: bool, status: c_int) -> Result<(), Errno> {
        self.receive_at.set(match status {
            ffi::STATUS_TIMER_PENDING => Some(self.sock.time(ffi::TIME_REMAIN)),
            ffi::STATUS_RATE_LIMITED => Some(self.sock.time(ffi::RATE_REMAIN)),
            ffi::STATUS_ERROR => Some(LATER),
            _ => None,
        });
        if sends { self.want_repairs(set, status != ffi::STATUS_RATE_LIMITED) } else { Ok(()) }
    }
}

impl Socket {
    /// Opens a sender or a receiver. Errors: INVAL for values that OpenPGM does not take; PERM where PGM over IP
    /// needs a privilege (CAP_NET_RAW); NODEV, MFILE, NFILE, NOMEM; NOSYS if OpenPGM itself cannot be initialised.
    pub fn open(config: &Config<'_>) -> Result<Socket, Errno> {
        let library = Library::enter()?;
        // Reject values that OpenPGM would refuse, or would end the process over.
        let is_valid = (MIN_PACKET..=MAX_PACKET).contains(&config.max_packet)
            && (0..=MAX_HOPS).contains(&config.hops)
            && config.window > 0
            && (config.rate >= config.max_packet || !config.sends);
        if !is_valid {
            return Err(Errno::INVAL);
        }
        let spare = [WakeFd::new()?, WakeFd::new()?, WakeFd::new()?];
        let mut sock = Owned::new(config.over_udp)?;
        sock.set_up(config)?;
        sock.bind(config, spare)?;
        sock.join(config)?;
        sock.close_on_exec(config.sends)?;
        let max_data = usize::try_from(sock.get::<c_int>(ffi::MSS, 0)).unwrap_or(0);
        let (set, receive_at, send_at) = (Poller::new()?, Timer::new()?, Timer::new()?);
        set.add(&sock.fd(ffi::RECV_SOCK)?, 0, Interest::READ)?;
        set.add(&sock.fd(ffi::PENDING_SOCK)?, 0, Interest::READ)?;
        set.add(&receive_at.0, 0, Interest::READ)?;
        if config.sends {
            set.add(&sock.fd(ffi::REPAIR_SOCK)?, 0, Interest::READ)?;
            set.add(&send_at.0, 0, Interest::READ)?;
        }
        let repairs = config.sends;
        let inner = Inner { sock, receive_at, send_at, wants_room: false, repairs, _library: library };
        Ok(Socket { inner: Mutex::new(inner), set, sends: config.sends, max_data })
    }

    /// Bytes of data that one packet carries.
    pub fn max_data(&self) -> usize {
        self.max_data
    }

    /// Sends one packet's data. AGAIN: not now, and not before the descriptor is readable.
    pub fn send(&self, data: &[u8]) -> Result<(), Errno> {
        let mut inner = self.lock();
        let mut sent = 0;
        // SAFETY: an open socket, and data of this length, which OpenPGM copies.
        let status =
            unsafe { ffi::pgm_send(inner.sock.sock.as_ptr(), data.as_ptr().cast(), data.len(), &mut sent) };
        inner.send_at.set(match status {
            ffi::STATUS_NORMAL | ffi::STATUS_WOULD_BLOCK => None,
            ffi::STATUS_RATE_LIMITED => Some(inner.sock.time(ffi::RATE_REMAIN)),
            _ => Some(LATER), // Other errors are temporary, such as a missing route.
        });
        inner.want_room(&self.set, status == ffi::STATUS_WOULD_BLOCK)?;
        if status == ffi::STATUS_NORMAL { Ok(()) } else { Err(Errno::AGAIN) }
    }

    /// Replaces the content of `into` by the next packet's data, and does other work that is due. AGAIN: there is no
    /// more, and will not be before the descriptor is readable.
    pub fn receive(&self, into: &mut Vec<u8>) -> Result<Received, Errno> {
        let mut inner = self.lock();
        into.clear();
        let mut message = ffi::Message { len: 0, packets: [null_mut(); ffi::MAX_FRAGMENTS] };
        let (mut read, mut error) = (0, null_mut());
        // SAFETY: an open socket, and variables for the results.
        let status = unsafe {
            ffi::pgm_recvmsg(
                inner.sock.sock.as_ptr(),
                &mut message,
                libc::MSG_ERRQUEUE,
                &mut read,
                &mut error,
            )
        };
        taken(error);
        let packets = &message.packets[..ffi::MAX_FRAGMENTS.min(message.len as usize)];
        match status {
            ffi::STATUS_NORMAL => data_of(packets, into),
            ffi::STATUS_RESET => {
                // OpenPGM lost data and reports it late: it has already delivered most packets behind the gap. The
                // caller detects the gap by the sequence numbers.
                release(message.packets[0]);
                Ok(Received::Nothing)
            }
            ffi::STATUS_WOULD_BLOCK
            | ffi::STATUS_RATE_LIMITED
            | ffi::STATUS_TIMER_PENDING
            | ffi::STATUS_ERROR => {
                inner.rest(&self.set, self.sends, status)?;
                Err(Errno::AGAIN)
            }
            _ => Ok(Received::Nothing), // A packet without data, or a sender that has ended.
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Appends the data of packets, which belong to OpenPGM and stay valid until the next call. Errors: NOMEM.
fn data_of(packets: &[*mut ffi::Packet], into: &mut Vec<u8>) -> Result<Received, Errno> {
    let mut received = Received::Nothing;
    for packet in packets.iter().filter_map(|&packet| NonNull::new(packet)) {
        // SAFETY: OpenPGM has filled the packet in, with `len` bytes at `data`.
        let (packet, data) = unsafe {
            let packet = packet.as_ref();
            (packet, std::slice::from_raw_parts(packet.data.cast::<u8>(), packet.len.into()))
        };
        into.try_reserve(data.len()).map_err(|_| Errno::NOMEM)?;
        into.extend_from_slice(data);
        received = match received {
            Received::Data(tsi, first, _) => Received::Data(tsi, first, packet.sequence),
            Received::Nothing => Received::Data(Tsi(packet.tsi.0), packet.sequence, packet.sequence),
        };
    }
    Ok(received)
}

/// Releases the packet that names the sender of lost data.
fn release(packet: *mut ffi::Packet) {
    let Some(packet) = NonNull::new(packet).map(NonNull::as_ptr) else { return };
    // SAFETY: OpenPGM has made it for us. It counts its users, and the last one frees it.
    unsafe {
        if AtomicU32::from_ptr(&raw mut (*packet).users).fetch_sub(1, Ordering::AcqRel) == 1 {
            ffi::pgm_free(packet.cast());
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}
