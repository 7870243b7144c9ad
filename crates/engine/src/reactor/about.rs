//! The properties of a peer, from its handshake and its connection.

use std::sync::Arc;

use pinnace_sys::{AsFd, AsRawFd, OwnedFd};

use pinnace_zmtp::sharing;

use super::session::Shaken;
use super::stage::Behind;
use crate::authorization::Admission;
use crate::link::{Codec, Stream};
use crate::medium::{FallbackReason, Medium};
use crate::options::Options;
use crate::peer::{About, Peer};
use crate::transports;

impl Shaken {
    /// A connection that needs no handshake: its peer does not speak ZMTP.
    pub(super) fn raw(fd: OwnedFd, options: &Options) -> Shaken {
        let mut about = About::default();
        about.set("Peer-Address", transports::peer_address(&fd).as_bytes());
        about.set("__fd", fd.as_raw_fd().to_string().as_bytes());
        let max = options.maxmsgsize.map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(usize::MAX));
        let peer = Peer { about: Some(Arc::new(about)), ..Peer::default() };
        let (stream, codec, medium) =
            (Stream::plain(fd), Codec::raw(max), Medium::Socket(FallbackReason::Raw));
        Shaken { stream, peer, codec, behind: Behind::default(), medium }
    }
}

/// Properties that a peer cannot set: a ZAP handler or we set them, or they are for the engine alone.
const OURS: [&str; 5] = ["User-Id", "Routing-Id", "Peer-Address", "__fd", sharing::PROPERTY];

/// The properties of the peer's messages: those that it announced, those of the ZAP handler, and its address.
pub(super) fn about(peer: &pinnace_zmtp::Peer, stream: &Stream, admission: Admission) -> Arc<About> {
    let mut about = About::default();
    let is_ours = |name: &str| OURS.iter().any(|ours| ours.eq_ignore_ascii_case(name));
    for (name, value) in peer.properties.iter().filter(|(name, _)| !is_ours(name)) {
        about.set(if name == "Identity" { "Routing-Id" } else { name }, value);
    }
    if let Some(socket_type) = peer.socket_type {
        about.set("Socket-Type", socket_type.name().as_bytes());
    }
    for (name, value) in &admission.properties {
        about.set(name, value);
    }
    if !admission.user_id.is_empty() {
        about.set("User-Id", &admission.user_id);
    }
    about.set("Peer-Address", transports::peer_address(stream).as_bytes());
    about.set("__fd", stream.as_fd().as_raw_fd().to_string().as_bytes());
    Arc::new(about)
}
