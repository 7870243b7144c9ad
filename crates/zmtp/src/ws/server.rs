//! The server's side of the upgrade: what makes a request one for us, and the answers (RFC 6455, section 4.2).
//!
//! The path is not looked at, as libzmq's listeners do not, and neither is the origin; both are
//! [told](super::Upgrade::request) to whoever wants to. Extensions are never agreed on.

use super::http::{self, Gathered};
use super::upgrade::{Offer, Subprotocol};
use super::{Error, MAX_HEADERS};
use httparse::Header;

/// What a client has asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The path and the query, as they came.
    pub path: String,
    /// The `Host` header.
    pub host: Vec<u8>,
    /// The `Origin` header: the site whose script a browser runs. Others than browsers send none, or any.
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
        // A stranger is seen by its first byte, and not by the end of a head that never comes.
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
        let host = http::single(headers, "Host").ok_or(bad(400, "there is not one Host"))?;
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

/// The key, where the headers ask for the upgrade that we can do.
fn check_upgrade<'h>(headers: &'h [Header<'h>]) -> Result<&'h [u8], Error> {
    if !http::has_token(headers, "Upgrade", "websocket") || !http::has_token(headers, "Connection", "upgrade")
    {
        return Err(bad(426, "this is a ZeroMQ socket, which speaks WebSocket"));
    }
    if http::single(headers, "Sec-WebSocket-Version").map(<[u8]>::trim_ascii) != Some(b"13") {
        return Err(bad(426, "the version of WebSocket is not 13"));
    }
    // What would follow as a body would be taken for frames.
    let body = http::single(headers, "Content-Length").is_some_and(|len| len.trim_ascii() != b"0");
    if body || http::values(headers, "Transfer-Encoding").next().is_some() {
        return Err(bad(400, "the request has a body"));
    }
    http::single(headers, "Sec-WebSocket-Key")
        .map(<[u8]>::trim_ascii)
        .filter(|key| http::is_key(key))
        .ok_or(bad(400, "there is not one Sec-WebSocket-Key of 16 bytes"))
}

/// Our mechanism if the client offers it, in whatever place; else none, if both sides can do without.
fn choose(headers: &[Header<'_>], offer: &Offer) -> Result<Subprotocol, Error> {
    let is_offered = |subprotocol: &Subprotocol| {
        let name = offer.name(*subprotocol);
        http::tokens(headers, "Sec-WebSocket-Protocol").any(|token| token == name.as_bytes())
    };
    offer.all().iter().copied().find(is_offered).ok_or(bad(400, "no subprotocol of this socket is offered"))
}

/// libzmq's clients know no other first line, and no other value of Connection.
fn append_acceptance(key: &[u8], subprotocol: &str, output: &mut Vec<u8>) {
    let response = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {}\r\n\
         Sec-WebSocket-Protocol: {subprotocol}\r\n\r\n",
        http::accept(key),
    );
    output.extend_from_slice(response.as_bytes());
}

/// Appends the answer to a request that cannot be granted.
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
