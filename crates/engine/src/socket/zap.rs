//! ZAP (RFC 27): asks the context's handler, a REP or ROUTER bound at inproc://zeromq.zap.01, to authorize peers.
//!
//! Each handshake asks through a socket of its own, which lives until the answer arrives. A malformed answer costs
//! the peer its connection. If no answer arrives, ZMQ_HANDSHAKE_IVL ends the handshake.

use std::task::Waker;
use std::time::Duration;

use pinnace_zmtp::{AuthorizationRequest, Refusal, SocketType, metadata};

use super::{Core, Socket};
use crate::authorization::{Admission, Answer, Authorizer, Inquiry};
use crate::context::Context;
use crate::error::Error;
use crate::mailbox::WakerPlace;
use crate::options::Options;
use crate::pipe::Outgoing;

const HANDLER: &str = "zeromq.zap.01";
const VERSION: &[u8] = b"1.0";
/// Each request has its own socket, so all can have the same id, as in libzmq.
const REQUEST_ID: &[u8] = b"1";
/// Limits of an answer, in frames and bytes.
const FRAMES_MAX: usize = 16;
const BYTES_MAX: usize = 64 * 1024;
/// Limit of properties in an answer.
const PROPERTIES_MAX: usize = 64;

/// The ZAP handler of a context.
pub(super) struct Handler(pub(super) Context);

/// A request to the handler. Dropping it closes its socket.
struct ZapRequest {
    socket: Socket,
    place: Option<WakerPlace>,
}

// ZMQ_PROTOCOL_ERROR_ZAP_: zmq_socket_monitor(3).
const UNSPECIFIED: u32 = 0x2000_0000;
const MALFORMED_REPLY: u32 = 0x2000_0001;
const BAD_REQUEST_ID: u32 = 0x2000_0002;
const BAD_VERSION: u32 = 0x2000_0003;
const INVALID_STATUS_CODE: u32 = 0x2000_0004;
const INVALID_METADATA: u32 = 0x2000_0005;

impl Authorizer for Handler {
    fn ask(
        &self,
        options: &Options,
        address: &str,
        request: &AuthorizationRequest<'_>,
    ) -> Result<Option<Box<dyn Inquiry>>, Error> {
        let context = &self.0;
        match context.inproc().kind_at(HANDLER) {
            None => return Ok(None),
            Some(SocketType::Rep | SocketType::Router) => {}
            // A socket of another type could not answer.
            Some(_) => return Err(Error::Fault),
        }
        let socket = context.internal_socket(SocketType::Dealer)?;
        let inquiry = ZapRequest { socket, place: None }; // Closes the socket on any return.
        socket.configure(|options| options.linger = Some(Duration::ZERO))?;
        socket.connect(&format!("inproc://{HANDLER}"))?;
        let domain = options.security.zap_domain.as_bytes();
        let mechanism = request.mechanism.as_bytes();
        let head = [b"", VERSION, REQUEST_ID, domain, address.as_bytes(), &options.routing_id, mechanism];
        let frames = head.iter().chain(&request.credentials);
        let mut frames: Vec<_> = frames.map(|frame| Outgoing::Bytes(frame)).collect();
        socket.send_message(&mut frames, false)?;
        Ok(Some(Box::new(inquiry)))
    }
}

impl Inquiry for ZapRequest {
    fn wake_with(&mut self, waker: &Waker) -> Result<(), Error> {
        self.socket.wake_task(&mut self.place, waker)
    }

    fn answer(&self) -> Result<Option<Answer>, Error> {
        // Both in one call: the notices that it handles are not reported again.
        let look = |core: &mut Core| Ok((core.pattern.can_recv(&mut core.pipes), core.peers().is_empty()));
        match self.socket.call(false, look)? {
            (true, _) => {}
            (false, true) => return Err(Error::Fault),
            (false, false) => return Ok(None),
        }
        let (mut frames, mut bytes, mut more) = (Vec::new(), 0, true);
        while more {
            more = self.socket.recv(false, &mut |frame| {
                bytes += frame.data().len();
                if frames.len() < FRAMES_MAX && bytes <= BYTES_MAX {
                    frames.push(frame.data().to_vec());
                }
            })?;
        }
        Ok(Some(if bytes > BYTES_MAX { Answer::Broken(MALFORMED_REPLY) } else { read(&frames) }))
    }
}

impl Drop for ZapRequest {
    fn drop(&mut self) {
        // The socket is ours alone; closing it fails only if the context has ended.
        let _ = self.socket.close();
    }
}

pub(crate) fn read(frames: &[Vec<u8>]) -> Answer {
    let [delimiter, version, request_id, status, _text, user_id, properties] = frames else {
        return Answer::Broken(MALFORMED_REPLY);
    };
    if !delimiter.is_empty() {
        return Answer::Broken(UNSPECIFIED);
    }
    if version != VERSION {
        return Answer::Broken(BAD_VERSION);
    }
    if request_id != REQUEST_ID {
        return Answer::Broken(BAD_REQUEST_ID);
    }
    match status.as_slice() {
        b"200" => {}
        b"300" => return Answer::Refused(Refusal::Temporary),
        b"400" => return Answer::Refused(Refusal::Denied),
        b"500" => return Answer::Refused(Refusal::Failed),
        _ => return Answer::Broken(INVALID_STATUS_CODE),
    }
    match metadata::parse(properties, PROPERTIES_MAX) {
        Ok(properties) => Answer::Admitted(Admission { user_id: user_id.clone(), properties }),
        Err(_) => Answer::Broken(INVALID_METADATA),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(frames: &[&[u8]]) -> Answer {
        read(&frames.iter().map(|frame| frame.to_vec()).collect::<Vec<_>>())
    }

    #[test]
    fn answers_are_read_to_the_letter() {
        let admitted = of(&[b"", b"1.0", b"1", b"200", b"OK", b"joe", b"\x03X-a\0\0\0\x01b"]);
        let properties = vec![("X-a".to_owned(), b"b".to_vec())];
        assert_eq!(admitted, Answer::Admitted(Admission { user_id: b"joe".to_vec(), properties }));
        for (status, refusal) in
            [(b"300", Refusal::Temporary), (b"400", Refusal::Denied), (b"500", Refusal::Failed)]
        {
            assert_eq!(of(&[b"", b"1.0", b"1", status, b"", b"", b""]), Answer::Refused(refusal));
        }
        for (frames, code) in [
            (&[&b"x"[..], b"1.0", b"1", b"200", b"", b"", b""][..], UNSPECIFIED),
            (&[b"", b"1.0", b"1", b"200", b"", b""], MALFORMED_REPLY),
            (&[b"", b"1.0", b"1", b"200", b"", b"", b"", b""], MALFORMED_REPLY),
            (&[b"", b"1.1", b"1", b"200", b"", b"", b""], BAD_VERSION),
            (&[b"", b"1.0", b"2", b"200", b"", b"", b""], BAD_REQUEST_ID),
            (&[b"", b"1.0", b"1", b"201", b"", b"", b""], INVALID_STATUS_CODE),
            (&[b"", b"1.0", b"1", b"2000", b"", b"", b""], INVALID_STATUS_CODE),
            (&[b"", b"1.0", b"1", b"200", b"", b"", b"\x09X"], INVALID_METADATA),
        ] {
            assert_eq!(of(frames), Answer::Broken(code), "{frames:?}");
        }
    }
}
