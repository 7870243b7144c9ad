//! A server's response to our HTTP request, fed whole and in chunks: both must have the same result.
//!
//! The first byte is the chunk size; the next two are the offset and length of the part of a valid response that is
//! replaced. The key is the one in RFC 6455's example.

use pinnace_fuzz::splice;
use pinnace_zmtp::ws::{Error, MAX_HEAD, Offer, Subprotocol, Target, Upgrade};

const GOOD: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: ZWS2.0/NULL\r\n\r\n";

fn feed(bytes: &[u8], piece: usize) -> (usize, Result<Option<Subprotocol>, Error>) {
    let target = Target { host: "example.org", path: "/" };
    let offer = Offer { mechanism: "NULL", bare: true };
    let mut upgrade = Upgrade::client(&target, offer, b"the sample nonce").expect("a good target");
    upgrade.sent(usize::MAX);
    let mut consumed = 0;
    for piece in bytes.chunks(piece) {
        match upgrade.input(piece) {
            Ok(used) => consumed += used,
            Err(error) => {
                assert_eq!(upgrade.input(b""), Err(error.clone()));
                let _ = error.to_string();
                assert!(upgrade.output().is_empty());
                return (0, Err(error));
            }
        }
    }
    (consumed, Ok(upgrade.subprotocol()))
}

pub fn run(data: &[u8]) {
    let [piece, at, len, bytes @ ..] = data else { return };
    let bytes = &splice(GOOD, *at, *len, bytes)[..];
    let whole = feed(bytes, bytes.len().max(1));
    assert_eq!(whole, feed(bytes, usize::from(*piece).max(1)));
    assert!(whole.0 <= bytes.len().min(MAX_HEAD));
    if let Ok(Some(_)) = whole.1 {
        let head = &bytes[..whole.0];
        assert!(head.windows(28).any(|text| text == b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        assert!(head.starts_with(b"HTTP/1.1 101") && head.ends_with(b"\n"));
    }
}
