//! The sockets by which clients reach each other.

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
/// Ours: bytes of one connection that wait to be written, and to be read.
const SNDBYTES: i32 = 10_001;
const RCVBYTES: i32 = 10_002;
const HANDSHAKE_IVL: i32 = 66;
const HEARTBEAT_IVL: i32 = 75;

/// Bytes that the kernel is asked to take for a process of this machine (the most it does is net.core.wmem_max).
const LOCAL_BUFFER: i32 = 1 << 20;

/// Bytes that wait to be written to one peer. What there is credit for and what opens streams is less, by far.
const UNSENT_MAX: usize = 64 << 20;

/// Sets what all sockets have in common: no marks for messages, because credit limits what is under way, and for who
/// does not keep to it bytes; no frame that is longer than any of ours; and signs of life.
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

/// Has the kernel take more of what goes to a process of this machine before it says to wait; over a network it knows
/// best itself.
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
