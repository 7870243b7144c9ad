//! A handshake fed whole and fed in chunks: both must have the same result, within the limits.
//!
//! The first byte chooses our socket type, and whether it is a WebSocket client's handshake; the second is the chunk
//! size, the third the limit.

use pinnace_zmtp::ws::Subprotocol;
use pinnace_zmtp::{Config, Error, Handshake, Limits, Peer, SocketType};

/// Feeds all chunks; returns the consumed bytes, the output and the result.
fn feed(
    mut handshake: Handshake,
    bytes: &[u8],
    piece: usize,
) -> (usize, Vec<u8>, Result<Option<Peer>, Error>) {
    let mut output = Vec::new();
    let mut consumed = 0;
    for piece in bytes.chunks(piece) {
        let result = handshake.input(piece);
        output.extend_from_slice(handshake.output());
        handshake.sent(handshake.output().len());
        match result {
            Ok(used) => {
                assert!(used <= piece.len());
                consumed += used;
                if used < piece.len() {
                    assert!(handshake.peer().is_some());
                    break;
                }
            }
            Err(error) => {
                assert_eq!(handshake.input(b""), Err(error.clone()));
                let _ = (error.to_string(), error.protocol_code(), error.reply());
                return (0, output, Err(error));
            }
        }
    }
    (consumed, output, Ok(handshake.into_parts().map(|(peer, _)| peer)))
}

pub fn run(data: &[u8]) {
    let [kind, piece, limit, bytes @ ..] = data else { return };
    let socket_type = SocketType::ALL[usize::from(*kind) % SocketType::ALL.len()];
    let max_handshake_bytes = usize::from(*limit) * 4;
    let limits = Limits { max_handshake_bytes, max_properties: 4, ..Limits::default() };
    let config = || Config { limits, routing_id: b"me".to_vec(), ..Config::new(socket_type) };
    let start = || match *kind {
        0x80.. => Handshake::over_ws_to_server(config(), Subprotocol::Mechanism),
        _ => Handshake::new(config()),
    };

    let whole = feed(start(), bytes, bytes.len().max(1));
    let pieces = feed(start(), bytes, usize::from(*piece).max(1));
    assert_eq!(whole, pieces);

    let (consumed, output, result) = whole;
    assert!(consumed <= max_handshake_bytes);
    assert!(output.len() < 1024);
    if let Ok(Some(peer)) = result {
        assert!(peer.routing_id.len() <= 255);
        assert!(peer.properties.len() <= 4);
        assert!(peer.socket_type.is_none_or(|theirs| socket_type.compatible(theirs)));
    }
}
