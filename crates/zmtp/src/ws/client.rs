//! The client's side of the upgrade: the request, and the checks on the response (RFC 6455, section 4.1).

use super::http::{self, Gathered};
use super::upgrade::{Offer, Subprotocol};
use super::{Error, MAX_HEADERS};

const REASON_SHOWN: usize = 64;
/// The first bytes of every response.
const START: &[u8] = b"HTTP/1.";

/// The server, and the path to request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target<'a> {
    /// The host as in the URL: with the port unless it is the scheme's default, and IPv6 in brackets.
    pub host: &'a str,
    /// The path with its leading slash, and the query if any. Empty means "/".
    pub path: &'a str,
}

#[derive(Debug)]
pub(super) struct Client {
    /// The `Sec-WebSocket-Accept` value that proves that the server has read our key.
    accept: String,
}

/// Appends the request, with the same headers as libzmq.
pub(super) fn start(
    target: &Target<'_>,
    offer: &Offer,
    random: &[u8; 16],
    output: &mut Vec<u8>,
) -> Result<Client, Error> {
    let path = if target.path.is_empty() { "/" } else { target.path };
    let clean = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    if !clean(target.host) || !clean(path) || !path.starts_with('/') {
        return Err(Error::BadTarget);
    }
    let key = http::key(random);
    let protocols: Vec<_> = offer.all().iter().map(|&subprotocol| offer.name(subprotocol)).collect();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n\
         Sec-WebSocket-Protocol: {}\r\nSec-WebSocket-Version: 13\r\n\r\n",
        target.host,
        protocols.join(","),
    );
    output.extend_from_slice(request.as_bytes());
    Ok(Client { accept: http::accept(key.as_bytes()) })
}

impl Client {
    pub(super) fn advance(
        &self,
        gathered: Gathered,
        head: &[u8],
        offer: &Offer,
    ) -> Result<Option<Subprotocol>, Error> {
        // Detect another protocol by its first bytes; the end of its head may never come.
        let begun = head.len().min(START.len());
        if head[..begun] != START[..begun] {
            return Err(bad("it is not HTTP/1.1"));
        }
        match gathered {
            Gathered::Part => Ok(None),
            Gathered::Whole => self.check(head, offer).map(Some),
            Gathered::LongLine => Err(bad("its status line is too long")),
            Gathered::LongHead => Err(bad("its headers are too long")),
            Gathered::Malformed => Err(bad("its head has invalid bytes")),
        }
    }

    fn check(&self, head: &[u8], offer: &Offer) -> Result<Subprotocol, Error> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        match response.parse(head) {
            Ok(httparse::Status::Complete(_)) => {}
            Err(httparse::Error::TooManyHeaders) => return Err(bad("it has too many headers")),
            Ok(httparse::Status::Partial) | Err(_) => return Err(bad("its head is malformed")),
        }
        let status = response.code.unwrap_or_default();
        if status != 101 {
            let reason = response.reason.unwrap_or_default().as_bytes();
            return Err(Error::Refused { status, reason: reason[..reason.len().min(REASON_SHOWN)].to_vec() });
        }
        if response.version != Some(1) {
            return Err(bad("it is not HTTP/1.1"));
        }
        let headers = &*response.headers;
        if !http::has_token(headers, "Upgrade", "websocket") {
            return Err(bad("it does not upgrade to websocket"));
        }
        if !http::has_token(headers, "Connection", "upgrade") {
            return Err(bad("its Connection header does not contain Upgrade"));
        }
        if http::single(headers, "Sec-WebSocket-Accept").map(<[u8]>::trim_ascii)
            != Some(self.accept.as_bytes())
        {
            return Err(bad("its Sec-WebSocket-Accept does not match our key"));
        }
        if http::tokens(headers, "Sec-WebSocket-Extensions").next().is_some() {
            return Err(bad("it has an extension that we did not offer"));
        }
        let chosen = http::single(headers, "Sec-WebSocket-Protocol")
            .ok_or(bad("it does not choose exactly one subprotocol"))?;
        let is_chosen =
            |subprotocol: &Subprotocol| offer.name(*subprotocol).as_bytes() == chosen.trim_ascii();
        offer.all().iter().copied().find(is_chosen).ok_or(bad("it chose a subprotocol that we did not offer"))
    }
}

fn bad(why: &'static str) -> Error {
    Error::BadResponse { why }
}
