//! CURVE's traffic: a sequence of bodies, each of arbitrary bytes, or a box that opens, with arbitrary content.
//!
//! Input for each body: a length, a kind, and that many bytes.

use std::sync::OnceLock;

use pinnace_crypto::{BoxKey, StreamKey};
use pinnace_fuzz::*;
use pinnace_zmtp::curve::{OVERHEAD, Opener};
use pinnace_zmtp::frame::{COMMAND, MORE};
use pinnace_zmtp::{Handshake, Traffic};

/// The server's end of a connection.
fn opener() -> Opener {
    let mut client = Handshake::new(dealer(curve_client(), false));
    let mut server = Handshake::new(dealer(curve_server(), false));
    while server.peer().is_none() {
        let (to_server, to_client) = (client.output().to_vec(), server.output().to_vec());
        client.sent(to_server.len());
        server.sent(to_client.len());
        server.input(&to_server).expect("honest");
        client.input(&to_client).expect("honest");
    }
    match server.into_parts() {
        Some((_, Traffic::Sealed(_, opener))) => opener,
        _ => panic!("not sealed"),
    }
}

pub fn run(data: &[u8]) {
    static KEY: OnceLock<StreamKey> = OnceLock::new();
    let key = KEY.get_or_init(|| {
        let shared = BoxKey::shared(&pair(SERVER_ENTROPY).public, &pair(CLIENT_ENTROPY).secret);
        StreamKey::new(&shared.expect("our own keys"), b"CurveZMQMESSAGEC")
    });
    let (mut opener, mut rest, mut last) = (opener(), data, 2);
    while let [len, kind, bytes @ ..] = rest {
        let (content, behind) = bytes.split_at(usize::from(*len).min(bytes.len()));
        rest = behind;
        let Some((&flags, payload)) = content.split_first().filter(|_| kind & 1 == 1) else {
            assert!(opener.open(&mut content.to_vec()).is_err(), "a forgery");
            continue;
        };
        let number = u64::from(kind >> 1);
        let mut body = Vec::new();
        let head: [u8; 16] = [*b"\x07MESSAGE", number.to_be_bytes()].concat().try_into().expect("16 bytes");
        key.seal(&number.to_be_bytes(), &head, flags, payload, &mut body).expect("memory");
        assert_eq!(body.len(), payload.len() + OVERHEAD);
        match opener.open(&mut body) {
            Ok(opened) => {
                assert!(number > last);
                last = number;
                assert_eq!((opened.payload, opened.flags & !(MORE | COMMAND)), (payload, 0));
            }
            Err(_) => assert!(number <= last),
        }
    }
}
