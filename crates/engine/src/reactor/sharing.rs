//! Whether a connection may go through shared memory, as far as its handshake can say (`link::switch` does the rest).

use pinnace_sys::{AsFd, net, process};
use pinnace_zmtp::sharing;

use crate::link::Because;
use crate::options::Options;

/// Our side's answer.
pub(super) fn may_share(fd: &impl AsFd, options: &Options) -> Result<(), Because> {
    let Some(peer) = net::peer_process(fd) else { return Err(Because::Remote) };
    match options.shared_memory {
        0 => Err(Because::Off),
        _ if options.security.is_curve() => Err(Because::Secured),
        1 if peer.uid != process::user() => Err(Because::User),
        _ => Ok(()),
    }
}

/// The peer's.
pub(super) fn offers_memory(peer: &pinnace_zmtp::Peer) -> bool {
    peer.property(sharing::PROPERTY) == Some(sharing::VERSION)
}
