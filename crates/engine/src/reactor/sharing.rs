//! Whether a connection may use shared memory, as far as the handshake can tell (`link::switch` does the rest).

use pinnace_sys::{AsFd, net, process};
use pinnace_zmtp::sharing;

use crate::medium::FallbackReason;
use crate::options::Options;

/// Whether our side allows it; the error says why not.
pub(super) fn may_share(fd: &impl AsFd, options: &Options) -> Result<(), FallbackReason> {
    let Some(peer) = net::peer_process(fd) else { return Err(FallbackReason::Remote) };
    match options.shared_memory {
        0 => Err(FallbackReason::Off),
        _ if options.security.is_curve() => Err(FallbackReason::Secured),
        1 if peer.uid != process::user() => Err(FallbackReason::User),
        _ => Ok(()),
    }
}

/// Whether the peer offers it.
pub(super) fn offers_memory(peer: &pinnace_zmtp::Peer) -> bool {
    peer.property(sharing::PROPERTY) == Some(sharing::VERSION)
}
