//! vsock:// and tipc://: stream sockets of families that not every kernel has.

use pinnace_sys::families::{self, Address};
use pinnace_sys::{Errno, OwnedFd};

use super::setup;
use crate::endpoint::FamilyEndpoint;
use crate::error::Error;
use crate::options::Options;

/// Listens; returns the address with the wildcards filled in. Errors: Transport if the kernel lacks the family.
pub(super) fn listen(
    endpoint: &FamilyEndpoint,
    options: &Options,
) -> Result<(OwnedFd, FamilyEndpoint), Error> {
    let fd = families::listen(&endpoint.0, options.backlog, &setup(options)).map_err(known)?;
    let at = match endpoint.0 {
        Address::Vsock { .. } | Address::TipcSocket { .. } => families::local(&fd).unwrap_or(endpoint.0),
        _ => endpoint.0,
    };
    Ok((fd, FamilyEndpoint(at)))
}

/// Where to dial. Errors: Transport if the kernel lacks the family.
pub(super) fn target(endpoint: &FamilyEndpoint) -> Result<Address, Error> {
    if families::is_supported(&endpoint.0) { Ok(endpoint.0) } else { Err(Error::Transport) }
}

/// Whether this kernel has vsock(7).
pub fn kernel_has_vsock() -> bool {
    families::is_supported(&Address::Vsock { cid: None, port: None })
}

/// Whether this kernel has TIPC.
pub fn kernel_has_tipc() -> bool {
    families::is_supported(&Address::TipcSocket { node: 0, reference: 0 })
}

fn known(error: Errno) -> Error {
    match error {
        Errno::AFNOSUPPORT | Errno::PROTONOSUPPORT | Errno::SOCKTNOSUPPORT => Error::Transport,
        other => other.into(),
    }
}
