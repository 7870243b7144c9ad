//! The sockets between clients.

use std::sync::Arc;
use std::time::Duration;

use pinnace_engine::{Context, Error, Socket, SocketType};

use super::{Keyring, LOST};
use crate::wire::{FRAME_MAX, WINDOW};

/// The kernel's send buffer for a peer on this machine, in bytes (limited by net.core.wmem_max).
const LOCAL_BUFFER: i32 = 1 << 20;

/// The most bytes waiting to be written to one peer. Credit and the frames that open streams need far less.
const UNSENT_MAX: u64 = 64 << 20;

/// Sets the options of all sockets: no high-water marks in messages, because credit limits what is in flight; limits in
/// bytes for peers that ignore credit; the largest frame; and heartbeats.
pub(super) fn prepare(socket: Socket) -> Result<(), Error> {
    socket.configure(|options| {
        options.linger = Some(Duration::ZERO);
        (options.sndhwm, options.rcvhwm) = (0, 0);
        (options.snd_bytes, options.rcv_bytes) = (UNSENT_MAX, WINDOW);
        options.maxmsgsize = Some(FRAME_MAX as u64);
        options.reconnect_ivl = Some(Duration::from_millis(10));
        options.reconnect_ivl_max = Duration::from_secs(1);
        options.handshake_ivl = Duration::from_secs(10);
        options.heartbeat_ivl = Duration::from_secs(1);
    })
}

/// Enlarges the kernel's send buffer for peers on this machine; for networks the kernel's own tuning is best.
pub(super) fn roomy(socket: Socket, endpoint: &str) -> Result<(), Error> {
    match endpoint.starts_with("ipc:") {
        true => socket.configure(|options| options.sndbuf = LOCAL_BUFFER),
        false => Ok(()),
    }
}

/// A socket on which a client listens, and its endpoint.
pub fn listen(
    context: &Context,
    endpoint: &str,
    keys: Option<&Arc<Keyring>>,
) -> Result<(Socket, String), Error> {
    let socket = context.socket(SocketType::Server)?;
    let bound = prepare(socket)
        .and_then(|()| keys.map_or(Ok(()), |keys| keys.guard(context, socket)))
        .and_then(|()| socket.configure(|options| options.disconnect_msg = Some(LOST.to_vec())))
        .and_then(|()| socket.bind(endpoint))
        .and_then(|()| socket.last_endpoint());
    bound.map(|endpoint| (socket, endpoint)).inspect_err(|_| {
        let _ = socket.close();
    })
}
