//! Admits clients by keys or passwords: the ZAP handler (RFC 27) of a server's context, on a thread of its own.

use std::sync::Arc;

use pinnace_engine::{Context, Error, Outgoing, Socket, SocketType};

use crate::access::Access;

/// The property of a connection that holds the user's name.
pub const USER_ID: &str = "User-Id";

/// Answers questions until the context ends.
pub fn start(context: &Context, access: Arc<Access>) -> Result<(), Error> {
    let socket = context.socket(SocketType::Rep)?;
    socket.bind("inproc://zeromq.zap.01")?;
    let answer_all = move || {
        while answer(socket, &access).is_ok() {}
        let _ = socket.close();
    };
    pinnace_sys::thread::start("files-users", answer_all).map(drop).map_err(|_| Error::NoMemory)
}

/// Answers one question: version, request id, domain, address, routing id, mechanism, credentials.
fn answer(socket: Socket, access: &Access) -> Result<(), Error> {
    let mut frames: Vec<Vec<u8>> = Vec::new();
    socket.recv_frames(true, &mut |frame| frames.push(frame.data().to_vec()))?;
    let user = match &frames[..] {
        [_, _, _, _, _, mechanism, key] if mechanism == b"CURVE" => match access.has_keys() {
            true => access.user_of_key(key),
            // Whoever knows the server's key is admitted.
            false => Some(""),
        },
        [_, _, _, _, _, mechanism, name, password] if mechanism == b"PLAIN" => {
            access.user_of_password(name, password)
        }
        _ => None,
    };
    let request_id = frames.get(1).map(Vec::as_slice).unwrap_or_default();
    let status: [&[u8]; 2] = if user.is_some() { [b"200", b"OK"] } else { [b"400", b"not a user here"] };
    let user = user.unwrap_or_default().as_bytes();
    let reply: [&[u8]; 6] = [b"1.0", request_id, status[0], status[1], user, b""];
    socket.send_message(&mut reply.map(Outgoing::Bytes), true)
}
