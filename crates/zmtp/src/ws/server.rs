//! The server's side of the upgrade: the checks on the request, and the responses (RFC 6455, section 4.2).
//!
//! Neither the path nor the origin is checked, as in libzmq's listeners; the caller can read both from the
//! [request](super::Upgrade::request). Extensions are never accepted.

use super::http::{self, Gathered};
use super::upgrade::{Offer, Subprotocol};
use super::{Error, MAX_HEADERS};
use httparse::Header;

/// A client's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The path and the query, as received.
    pub path: String,
    /// The `Host` header.
    pub host: Vec<u8>,
    /// The `Origin` header: the site of the script that runs in a browser. Clients other than browsers send none,
    /// or any.
    pub origin: Option<Vec<u8>>,
}

#[derive(Debug, Default)]
pub(super) struct Server {
    request: Option<Request>,
}

impl Server {
    pub(super) fn request(&self) -> Option<&Request> {
        self.request.as_ref()
    }

    pub(super) fn advance(
        &mut self,
        gathered: Gathered,
        head: &[u8],
        offer: &Offer,
        output: &mut Vec<u8>,
    ) -> Result<Option<Subprotocol>, Error> {
        // Detect another protocol by its first byte; the end of its head may never come.
        if !head.first().is_none_or(u8::is_ascii_alphabetic) {
            return Err(bad(400, "this is not HTTP"));
        }
        match gathered {
            Gathered::Part => Ok(None),
            Gathered::Whole => self.check(head, offer, output).map(Some),
            Gathered::LongLine => Err(bad(414, "the request line is too long")),
            Gathered::LongHead => Err(bad(431, "the headers are too long")),
            Gathered::Malformed => Err(bad(400, "this is not HTTP")),
        }
    }

    fn check(&mut self, head: &[u8], offer: &Offer, output: &mut Vec<u8>) -> Result<Subprotocol, Error> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(head) {
            Ok(httparse::Status::Complete(_)) => {}
            Err(httparse::Error::TooManyHeaders) => return Err(bad(431, "there are too many headers")),
            Err(httparse::Error::Version) => return Err(bad(400, "this is not HTTP/1.1")),
            Ok(httparse::Status::Partial) | Err(_) => return Err(bad(400, "the head is malformed")),
        }
        if request.method != Some("GET") {
            return Err(bad(405, "only GET can be upgraded"));
        }
        if request.version != Some(1) {
            return Err(bad(400, "this is not HTTP/1.1"));
        }
        let headers = &*request.headers;
        let host = http::single(headers, "Host").ok_or(bad(400, "there must be exactly one Host header"))?;
        let key = check_upgrade(headers)?;
        let subprotocol = choose(headers, offer)?;
        self.request = Some(Request {
            path: request.path.unwrap_or_default().to_owned(),
            host: host.to_vec(),
            origin: http::values(headers, "Origin").next().map(<[u8]>::to_vec),
        });
        append_acceptance(key, &offer.name(subprotocol), output);
        Ok(subprotocol)
    }
}

/// The key, if the headers request an upgrade that we support.
fn check_upgrade<'h>(headers: &'h [Header<'h>]) -> Result<&'h [u8], Error> {
    if !http::has_token(headers, "Upgrade", "websocket") || !http::has_token(headers, "Connection", "upgrade")
    {
        return Err(bad(426, "this is a ZeroMQ socket: it accepts only WebSocket"));
    }
    if http::single(headers, "Sec-WebSocket-Version").map(<[u8]>::trim_ascii) != Some(b"13") {
        return Err(bad(426, "the version of WebSocket is not 13"));
    }
    // A body would be parsed as frames.
    let body = http::single(headers, "Content-Length").is_some_and(|len| len.trim_ascii() != b"0");
    if body || http::values(headers, "Transfer-Encoding").next().is_some() {
        return Err(bad(400, "the request has a body"));
    }
    http::single(headers, "Sec-WebSocket-Key")
        .map(<[u8]>::trim_ascii)
        .filter(|key| http::is_key(key))
        .ok_or(bad(400, "there must be exactly one Sec-WebSocket-Key, of 16 bytes"))
}

/// Our mechanism if the client offers it, in any position; else none, if both sides accept that.
fn choose(headers: &[Header<'_>], offer: &Offer) -> Result<Subprotocol, Error> {
    let is_offered = |subprotocol: &Subprotocol| {
        let name = offer.name(*subprotocol);
        http::tokens(headers, "Sec-WebSocket-Protocol").any(|token| token == name.as_bytes())
    };
    offer.all().iter().copied().find(is_offered).ok_or(bad(400, "no offered subprotocol is supported"))
}

/// libzmq's clients accept no other status line, and no other value of Connection.
fn append_acceptance(key: &[u8], subprotocol: &str, output: &mut Vec<u8>) {
    let response = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {}\r\n\
         Sec-WebSocket-Protocol: {subprotocol}\r\n\r\n",
        http::accept(key),
    );
    output.extend_from_slice(response.as_bytes());
}

/// Appends the response to a rejected request.
pub(super) fn append_refusal(error: &Error, output: &mut Vec<u8>) {
    let &Error::BadRequest { status, why } = error else { return };
    let (reason, header) = match status {
        405 => ("Method Not Allowed", "Allow: GET\r\n"),
        414 => ("URI Too Long", ""),
        426 => ("Upgrade Required", "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"),
        431 => ("Request Header Fields Too Large", ""),
        _ => ("Bad Request", ""),
    };
    let connection = if status == 426 { "Upgrade, close" } else { "close" };
    let response = format!(
        "HTTP/1.1 {status} {reason}\r\n{header}Connection: {connection}\r\nContent-Type: text/plain\r\n\
         Content-Length: {}\r\n\r\n{why}\n",
        why.len() + 1,
    );
    output.extend_from_slice(response.as_bytes());
}

fn bad(status: u16, why: &'static str) -> Error {
    Error::BadRequest { status, why }
}
