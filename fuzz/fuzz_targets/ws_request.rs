//! A client's HTTP request, fed whole and in chunks: both must have the same result.
//!
//! The first byte chooses what our socket accepts; the second is the chunk size; the next two are the offset and
//! length of the part of a valid request that is replaced.

use pinnace_fuzz::splice;
use pinnace_zmtp::ws::{Error, MAX_HEAD, Offer, Request, Subprotocol, Upgrade};

const GOOD: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: ZWS2.0/NULL,ZWS2.0\r\n\
    Sec-WebSocket-Version: 13\r\n\r\n";

type Seen = (usize, Vec<u8>, Result<Option<(Subprotocol, Request)>, Error>);

fn feed(offer: Offer, bytes: &[u8], piece: usize) -> Seen {
    let mut upgrade = Upgrade::server(offer);
    let mut consumed = 0;
    for piece in bytes.chunks(piece) {
        match upgrade.input(piece) {
            Ok(used) => consumed += used,
            Err(error) => {
                assert_eq!(upgrade.input(b""), Err(error.clone()));
                let _ = error.to_string();
                return (0, upgrade.output().to_vec(), Err(error));
            }
        }
    }
    let chosen = upgrade.subprotocol().map(|subprotocol| (subprotocol, upgrade.request().cloned().unwrap()));
    (consumed, upgrade.output().to_vec(), Ok(chosen))
}

pub fn run(data: &[u8]) {
    let [kind, piece, at, len, bytes @ ..] = data else { return };
    let bytes = &splice(GOOD, *at, *len, bytes)[..];
    let mechanism = ["NULL", "PLAIN", "CURVE"][usize::from(kind >> 1) % 3];
    let offer = Offer { mechanism, bare: kind & 1 == 1 };
    let whole = feed(offer, bytes, bytes.len().max(1));
    assert_eq!(whole, feed(offer, bytes, usize::from(*piece).max(1)));
    let (consumed, output, result) = whole;
    assert!(consumed <= bytes.len().min(MAX_HEAD));
    match result {
        Ok(None) => assert!(output.is_empty()),
        Ok(Some((subprotocol, _))) => {
            assert!(output.starts_with(b"HTTP/1.1 101 "));
            assert!(offer.bare || subprotocol == Subprotocol::Mechanism);
        }
        Err(error) => assert!(output.starts_with(b"HTTP/1.1 4") && matches!(error, Error::BadRequest { .. })),
    }
}
