//! Stream sockets of two rarer families: vsock(7), between a virtual machine and its host, and TIPC (tipc(7)),
//! within a cluster. A kernel without the family returns EAFNOSUPPORT.

use std::os::fd::FromRawFd;

use rustix::net;

use crate::net::{Setup, buffers};
use crate::{AsFd, AsRawFd, Errno, OwnedFd};

/// An address of either family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Address {
    /// A machine (CID) and a port; None is any.
    Vsock { cid: Option<u32>, port: Option<u32> },
    /// The instances of a service that a socket answers for.
    TipcRange { service: u32, lower: u32, upper: u32 },
    /// One instance of a service, looked up in a domain; 0 is everywhere.
    TipcService { service: u32, instance: u32, domain: u32 },
    /// One socket.
    TipcSocket { node: u32, reference: u32 },
}

/// sockaddr_tipc (linux/tipc.h), which libc does not define.
#[repr(C)]
struct TipcAddress {
    family: u16,
    kind: u8,
    scope: i8,
    words: [u32; 3],
}

const TIPC_RANGE: u8 = 1;
const TIPC_SERVICE: u8 = 2;
const TIPC_SOCKET: u8 = 3;
/// Visible to the whole cluster.
const TIPC_CLUSTER_SCOPE: i8 = 2;

impl Address {
    fn family(&self) -> libc::c_int {
        match self {
            Address::Vsock { .. } => libc::AF_VSOCK,
            _ => libc::AF_TIPC,
        }
    }

    /// Calls `with` with the address in the kernel's format, and its size.
    fn with_raw<R>(&self, with: impl FnOnce(*const libc::sockaddr, libc::socklen_t) -> R) -> R {
        let (kind, words) = match *self {
            Address::Vsock { cid, port } => {
                // SAFETY: it consists of numbers, for which zeros are valid.
                let mut raw: libc::sockaddr_vm = unsafe { std::mem::zeroed() };
                raw.svm_family = libc::AF_VSOCK as libc::sa_family_t;
                raw.svm_cid = cid.unwrap_or(libc::VMADDR_CID_ANY);
                raw.svm_port = port.unwrap_or(libc::VMADDR_PORT_ANY);
                return with((&raw const raw).cast(), size_of_val(&raw) as libc::socklen_t);
            }
            Address::TipcRange { service, lower, upper } => (TIPC_RANGE, [service, lower, upper]),
            Address::TipcService { service, instance, domain } => (TIPC_SERVICE, [service, instance, domain]),
            Address::TipcSocket { node, reference } => (TIPC_SOCKET, [reference, node, 0]),
        };
        let raw = TipcAddress { family: libc::AF_TIPC as u16, kind, scope: TIPC_CLUSTER_SCOPE, words };
        with((&raw const raw).cast(), size_of_val(&raw) as libc::socklen_t)
    }
}

fn socket(address: &Address, setup: &Setup) -> Result<OwnedFd, Errno> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the call takes three numbers.
    let raw = unsafe { libc::socket(address.family(), kind, 0) };
    if raw < 0 {
        return Err(crate::last_error());
    }
    // SAFETY: the descriptor is new, and ours.
    let fd = unsafe { OwnedFd::from_raw_fd(raw) };
    if let Address::Vsock { .. } = address {
        return Ok(fd); // vsock has buffers of another kind.
    }
    buffers(&fd, setup)?;
    Ok(fd)
}

/// Listens. A TIPC socket without a service name (`TipcSocket`) gets a reference from the kernel.
pub fn listen(at: &Address, backlog: i32, setup: &Setup) -> Result<OwnedFd, Errno> {
    let fd = socket(at, setup)?;
    if !matches!(at, Address::TipcSocket { .. }) {
        // SAFETY: the address lives for the call, and the size is its own.
        let result = at.with_raw(|raw, size| unsafe { libc::bind(fd.as_raw_fd(), raw, size) });
        if result < 0 {
            return Err(crate::last_error());
        }
    }
    net::listen(&fd, backlog)?;
    Ok(fd)
}

/// Begins to connect, as `net::connect_tcp` does.
pub fn connect(to: &Address, setup: &Setup) -> Result<OwnedFd, Errno> {
    let fd = socket(to, setup)?;
    // SAFETY: as above.
    let result = to.with_raw(|raw, size| unsafe { libc::connect(fd.as_raw_fd(), raw, size) });
    match if result < 0 { crate::last_error() } else { return Ok(fd) } {
        Errno::INPROGRESS => Ok(fd),
        error => Err(error),
    }
}

/// A socket's own address, if it is one of vsock or of a TIPC socket.
pub fn local(fd: &impl AsFd) -> Option<Address> {
    let mut raw = [0u8; 32];
    let mut size = size_of_val(&raw) as libc::socklen_t;
    // SAFETY: a buffer of ours and its size.
    let result = unsafe { libc::getsockname(fd.as_fd().as_raw_fd(), raw.as_mut_ptr().cast(), &mut size) };
    if result < 0 {
        return None;
    }
    let word = |at: usize| u32::from_ne_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
    match libc::c_int::from(u16::from_ne_bytes([raw[0], raw[1]])) {
        libc::AF_VSOCK => {
            let given = |number: u32| (number != u32::MAX).then_some(number);
            Some(Address::Vsock { cid: given(word(8)), port: given(word(4)) })
        }
        libc::AF_TIPC if raw[2] == TIPC_SOCKET => {
            Some(Address::TipcSocket { reference: word(4), node: word(8) })
        }
        _ => None,
    }
}

/// Returns true if this kernel has the address's family.
pub fn is_supported(address: &Address) -> bool {
    socket(address, &Setup::default()).is_ok()
}
