//! A ZAP handler (RFC 27) for all sockets of a context, on a thread of its own.

use crate::context::Context;
use crate::error::Error;
use crate::pipe::Outgoing;
use crate::socket::Socket;
use pinnace_zmtp::SocketType;

const ENDPOINT: &str = "inproc://zeromq.zap.01";

/// A peer's request to be admitted, by a ZAP request of its socket.
#[derive(Debug)]
pub struct AdmissionRequest(Vec<Vec<u8>>);

impl AdmissionRequest {
    /// The domain of the socket.
    pub fn domain(&self) -> &[u8] {
        self.frame(2)
    }

    /// The mechanism, such as `CURVE`.
    pub fn mechanism(&self) -> &[u8] {
        self.frame(5)
    }

    /// A credential: for CURVE, 0 is the key; for PLAIN, 0 is the name and 1 the password. Empty: there is none.
    pub fn credential(&self, index: usize) -> &[u8] {
        self.frame(6 + index)
    }

    fn frame(&self, at: usize) -> &[u8] {
        self.0.get(at).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Answers the requests of a context until it ends. `admit` returns the user id of a peer that is admitted. Errors: the
/// context has a handler; no memory for the thread.
pub fn handle_zap(
    context: &Context,
    thread: &str,
    admit: impl Fn(&AdmissionRequest) -> Option<String> + Send + 'static,
) -> Result<(), Error> {
    let socket = context.socket(SocketType::Rep)?;
    socket.bind(ENDPOINT)?;
    let answer_all = move || {
        while answer(socket, &admit).is_ok() {}
        let _ = socket.close();
    };
    pinnace_sys::thread::start(thread, answer_all).map(drop).map_err(|_| Error::NoMemory)
}

fn answer(socket: Socket, admit: &impl Fn(&AdmissionRequest) -> Option<String>) -> Result<(), Error> {
    let mut frames: Vec<Vec<u8>> = Vec::new();
    socket.recv_frames(true, &mut |frame| frames.push(frame.data().to_vec()))?;
    let request = AdmissionRequest(frames);
    let user_id = admit(&request);
    let status: [&[u8]; 2] = if user_id.is_some() { [b"200", b"OK"] } else { [b"400", b"not known here"] };
    let user_id = user_id.unwrap_or_default();
    let reply: [&[u8]; 6] = [b"1.0", request.frame(1), status[0], status[1], user_id.as_bytes(), b""];
    socket.send_message(&mut reply.map(Outgoing::Bytes), true)
}
