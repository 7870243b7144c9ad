//! The part of OpenPGM 5.3's headers that we use (pgm/socket.h, skbuff.h, msgv.h, error.h, engine.h).

use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;

use libc::{sa_family_t, size_t, sockaddr_storage, socklen_t};

/// PGM's IP protocol number, also the level of its options.
pub(super) const IPPROTO_PGM: c_int = 113;

// Options, counted up from 0x2000.
pub(super) const SEND_SOCK: c_int = 0x2000;
pub(super) const RECV_SOCK: c_int = 0x2001;
pub(super) const REPAIR_SOCK: c_int = 0x2002;
pub(super) const PENDING_SOCK: c_int = 0x2003;
pub(super) const TIME_REMAIN: c_int = 0x2005;
pub(super) const RATE_REMAIN: c_int = 0x2006;
pub(super) const MTU: c_int = 0x2008;
pub(super) const MSS: c_int = 0x200a;
pub(super) const MULTICAST_LOOP: c_int = 0x200c;
pub(super) const MULTICAST_HOPS: c_int = 0x200d;
pub(super) const TOS: c_int = 0x200e;
pub(super) const AMBIENT_SPM: c_int = 0x200f;
pub(super) const HEARTBEAT_SPM: c_int = 0x2010;
pub(super) const TXW_SQNS: c_int = 0x2012;
pub(super) const PEER_EXPIRY: c_int = 0x2015;
pub(super) const SPMR_EXPIRY: c_int = 0x2016;
pub(super) const RXW_SQNS: c_int = 0x2018;
pub(super) const NAK_BO_IVL: c_int = 0x201b;
pub(super) const NAK_RPT_IVL: c_int = 0x201c;
pub(super) const NAK_RDATA_IVL: c_int = 0x201d;
pub(super) const NAK_DATA_RETRIES: c_int = 0x201e;
pub(super) const NAK_NCF_RETRIES: c_int = 0x201f;
pub(super) const SEND_ONLY: c_int = 0x2023;
pub(super) const RECV_ONLY: c_int = 0x2024;
pub(super) const NOBLOCK: c_int = 0x2027;
pub(super) const SEND_GROUP: c_int = 0x2028;
pub(super) const JOIN_GROUP: c_int = 0x2029;
pub(super) const UDP_ENCAP_UCAST_PORT: c_int = 0x2030;
pub(super) const UDP_ENCAP_MCAST_PORT: c_int = 0x2031;
pub(super) const ODATA_MAX_RTE: c_int = 0x2034;

// Results of a call.
pub(super) const STATUS_ERROR: c_int = 0;
pub(super) const STATUS_NORMAL: c_int = 1;
pub(super) const STATUS_RESET: c_int = 2;
pub(super) const STATUS_WOULD_BLOCK: c_int = 5;
pub(super) const STATUS_RATE_LIMITED: c_int = 6;
pub(super) const STATUS_TIMER_PENDING: c_int = 7;

// Error codes that correspond to a system error number.
pub(super) const ERROR_MFILE: c_int = 13;
pub(super) const ERROR_NFILE: c_int = 14;
pub(super) const ERROR_NOBUFS: c_int = 15;
pub(super) const ERROR_NODEV: c_int = 17;
pub(super) const ERROR_NOMEM: c_int = 19;
pub(super) const ERROR_PERM: c_int = 26;

/// The most fragments of one message.
pub(super) const MAX_FRAGMENTS: usize = 16;

/// `pgm_sock_t`, an opaque type.
#[repr(C)]
pub(super) struct Sock {
    _private: [u8; 0],
}

#[repr(C)]
pub(super) struct PgmError {
    pub(super) domain: c_int,
    pub(super) code: c_int,
    pub(super) message: *mut c_char,
}

/// `pgm_tsi_t`: an identifier and a source port, as they are on the wire.
#[repr(C, align(2))]
#[derive(Clone, Copy)]
pub(super) struct RawTsi(pub(super) [u8; 8]);

#[repr(C)]
pub(super) struct SockAddr {
    pub(super) port: u16,
    pub(super) tsi: RawTsi,
}

/// The system's `struct group_req` (RFC 3678).
#[repr(C)]
pub(super) struct GroupReq {
    pub(super) interface: u32,
    pub(super) group: sockaddr_storage,
}

#[repr(C)]
pub(super) struct InterfaceReq {
    pub(super) interface: u32,
    pub(super) scope: u32,
    pub(super) address: sockaddr_storage,
}

/// `struct pgm_sk_buff_t`: a packet.
#[repr(C)]
pub(super) struct Packet {
    list: [*mut c_void; 3],
    sock: *mut Sock,
    stamp: u64,
    pub(super) tsi: RawTsi,
    pub(super) sequence: u32,
    padding: u32,
    control: [c_char; 48],
    pub(super) len: u16,
    zero_padded: u32,
    headers: [*mut c_void; 4],
    head: *mut c_void,
    pub(super) data: *mut c_void,
    tail: *mut c_void,
    end: *mut c_void,
    true_size: u32,
    pub(super) users: u32,
}

#[repr(C)]
pub(super) struct Message {
    pub(super) len: u32,
    pub(super) packets: [*mut Packet; MAX_FRAGMENTS],
}

// The layout of a C compiler with pointers of eight bytes.
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(offset_of!(Packet, tsi) == 40 && offset_of!(Packet, sequence) == 48);
    assert!(offset_of!(Packet, len) == 104);
    assert!(offset_of!(Packet, data) == 152 && offset_of!(Packet, users) == 180);
    assert!(offset_of!(Message, packets) == 8 && size_of::<Message>() == 136);
    assert!(size_of::<SockAddr>() == 10 && size_of::<InterfaceReq>() == 136);
    assert!(offset_of!(GroupReq, group) == 8 && size_of::<GroupReq>() == 136);
};

unsafe extern "C" {
    pub(super) fn pgm_init(error: *mut *mut PgmError) -> bool;
    pub(super) fn pgm_shutdown() -> bool;
    pub(super) fn pgm_error_free(error: *mut PgmError);
    pub(super) fn pgm_free(memory: *mut c_void);
    pub(super) fn pgm_socket(
        sock: *mut *mut Sock,
        family: sa_family_t,
        kind: c_int,
        protocol: c_int,
        error: *mut *mut PgmError,
    ) -> bool;
    pub(super) fn pgm_bind3(
        sock: *mut Sock,
        at: *const SockAddr,
        at_len: socklen_t,
        send: *const InterfaceReq,
        send_len: socklen_t,
        recv: *const InterfaceReq,
        recv_len: socklen_t,
        error: *mut *mut PgmError,
    ) -> bool;
    pub(super) fn pgm_connect(sock: *mut Sock, error: *mut *mut PgmError) -> bool;
    pub(super) fn pgm_close(sock: *mut Sock, flush: bool) -> bool;
    pub(super) fn pgm_setsockopt(
        sock: *mut Sock,
        level: c_int,
        option: c_int,
        value: *const c_void,
        len: socklen_t,
    ) -> bool;
    pub(super) fn pgm_getsockopt(
        sock: *mut Sock,
        level: c_int,
        option: c_int,
        value: *mut c_void,
        len: *mut socklen_t,
    ) -> bool;
    pub(super) fn pgm_send(sock: *mut Sock, data: *const c_void, len: size_t, sent: *mut size_t) -> c_int;
    pub(super) fn pgm_recvmsg(
        sock: *mut Sock,
        message: *mut Message,
        flags: c_int,
        read: *mut size_t,
        error: *mut *mut PgmError,
    ) -> c_int;
}
