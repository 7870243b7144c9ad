//! The sockets between clients.

use std::sync::Arc;

use pinnace_engine::{Context, Error, Socket};

use super::{DISCONNECT_MSG, Keyring, LINGER, LOST, SERVER};
use crate::wire::{FRAME_MAX, WINDOW};

/// libzmq's numbers of options.
const SNDBUF: i32 = 11;
const RECONNECT_IVL: i32 = 18;
const RECONNECT_IVL_MAX: i32 = 21;
const MAXMSGSIZE: i32 = 22;
const SNDHWM: i32 = 23;
const RCVHWM: i32 = 24;
/// Options of this engine: bytes of one connection that wait to be written, and to be read.
const SNDBYTES: i32 = 10_001;
const RCVBYTES: i32 = 10_002;
const HANDSHAKE_IVL: i32 = 66;
const HEARTBEAT_IVL: i32 = 75;

/// The kernel's send buffer for a peer on this machine, in bytes (limited by net.core.wmem_max).
const LOCAL_BUFFER: i32 = 1 << 20;

/// The most bytes waiting to be written to one peer. Credit and the frames that open streams need far less.
const UNSENT_MAX: usize = 64 << 20;

/// Sets the options of all sockets: no high-water marks in messages, because credit limits what is in flight; limits in
/// bytes for peers that ignore credit; the largest frame; and heartbeats.
pub(super) fn prepare(socket: Socket) -> Result<(), Error> {
    for (option, value) in [
        (LINGER, 0_i32),
        (SNDHWM, 0),
        (RCVHWM, 0),
        (RECONNECT_IVL, 10),
        (RECONNECT_IVL_MAX, 1000),
        (HANDSHAKE_IVL, 10_000),
        (HEARTBEAT_IVL, 1000),
    ] {
        socket.set_option(option, &value.to_ne_bytes())?;
    }
    for (option, bytes) in [(SNDBYTES, UNSENT_MAX), (RCVBYTES, WINDOW as usize), (MAXMSGSIZE, FRAME_MAX)] {
        socket.set_option(option, &(bytes as i64).to_ne_bytes())?;
    }
    Ok(())
}

/// Enlarges the kernel's send buffer for peers on this machine; for networks the kernel's own tuning is best.
pub(super) fn roomy(socket: Socket, endpoint: &str) -> Result<(), Error> {
    match endpoint.starts_with("ipc:") {
        true => socket.set_option(SNDBUF, &LOCAL_BUFFER.to_ne_bytes()),
        false => Ok(()),
    }
}

/// A socket on which a client listens, and its endpoint.
pub fn listen(
    context: &Context,
    endpoint: &str,
    keys: Option<&Arc<Keyring>>,
) -> Result<(Socket, String), Error> {
    const LAST_ENDPOINT: i32 = 32;
    let socket = context.socket(SERVER)?;
    let bound = prepare(socket)
        .and_then(|()| keys.map_or(Ok(()), |keys| keys.guard(context, socket)))
        .and_then(|()| socket.set_option(DISCONNECT_MSG, &LOST))
        .and_then(|()| socket.bind(endpoint))
        .and_then(|()| {
            let mut text = [0; 1024];
            let len = socket.get_option(LAST_ENDPOINT, &mut text)?;
            Ok(String::from_utf8_lossy(&text[..len]).trim_end_matches('\0').to_owned())
        });
    bound.map(|endpoint| (socket, endpoint)).inspect_err(|_| {
        let _ = socket.close();
    })
}
