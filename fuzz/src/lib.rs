//! Shared code of the targets: a handshake fed in chunks, CURVE's two sides with fixed keys, and valid text with a
//! part replaced.

use std::sync::Arc;

use pinnace_crypto::{BoxKey, KeyPair, Secret};
use pinnace_zmtp::curve::Entropy;
use pinnace_zmtp::{Config, Decision, Error, Handshake, Limits, MechanismConfig, Peer, SocketType};

/// Maximum bytes of a peer's side.
pub const MAX_BYTES: usize = 4096;

/// All that is observable of a handshake.
#[derive(Debug, PartialEq)]
pub struct Seen {
    pub consumed: usize,
    pub output: Vec<u8>,
    pub result: Result<Option<Peer>, Error>,
}

/// Feeds all chunks, and accepts every authorization request.
pub fn feed(config: Config, bytes: &[u8], piece: usize) -> Seen {
    let mut handshake = Handshake::new(config);
    let (mut consumed, mut output) = (0, Vec::new());
    loop {
        let rest = &bytes[consumed..];
        let piece = &rest[..rest.len().min(piece.max(1))];
        let result = handshake.input(piece);
        output.extend_from_slice(handshake.output());
        handshake.sent(handshake.output().len());
        match result {
            Ok(used) => {
                assert!(used <= piece.len());
                consumed += used;
                if let Some(request) = handshake.authorization() {
                    assert!(request.credentials.len() <= 2);
                    if let Err(error) = handshake.authorize(Decision::Accept) {
                        return failed(&mut handshake, output, error);
                    }
                } else if used == 0 {
                    break;
                }
            }
            Err(error) => return failed(&mut handshake, output, error),
        }
    }
    assert!(consumed == bytes.len() || handshake.peer().is_some());
    assert!(consumed <= MAX_BYTES);
    Seen { consumed, output, result: Ok(handshake.into_parts().map(|(peer, _)| peer)) }
}

fn failed(handshake: &mut Handshake, mut output: Vec<u8>, error: Error) -> Seen {
    output.extend_from_slice(handshake.output());
    assert_eq!(handshake.input(b""), Err(error.clone()));
    assert!(handshake.authorization().is_none() && handshake.peer().is_none());
    let _ = (error.to_string(), error.protocol_code(), error.reply(), error.zap_status());
    Seen { consumed: 0, output, result: Err(error) }
}

/// Feeds the bytes whole and in chunks, and asserts the same result.
pub fn whole_and_in_pieces(config: impl Fn() -> Config, bytes: &[u8], piece: u8) -> Seen {
    let whole = feed(config(), bytes, bytes.len());
    assert_eq!(whole, feed(config(), bytes, piece.into()));
    if let Ok(Some(peer)) = &whole.result {
        assert!(peer.routing_id.len() <= 255 && peer.properties.len() <= 4);
        assert!(peer.socket_type.is_none_or(|theirs| SocketType::Dealer.compatible(theirs)));
    }
    whole
}

/// A DEALER with this mechanism and narrow limits.
pub fn dealer(mechanism: MechanismConfig, authorize: bool) -> Config {
    let limits = Limits { max_handshake_bytes: MAX_BYTES, max_properties: 4, ..Limits::default() };
    Config { mechanism, authorize, limits, ..Config::new(SocketType::Dealer) }
}

pub fn greeting(mechanism: &[u8]) -> Vec<u8> {
    let mut greeting = [b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\x01", mechanism].concat();
    greeting.resize(64, 0);
    greeting
}

pub fn command(body: &[u8]) -> Vec<u8> {
    match u8::try_from(body.len()) {
        Ok(len) => [&[4, len], body].concat(),
        Err(_) => [&[6], &(body.len() as u64).to_be_bytes()[..], body].concat(),
    }
}

pub fn pair(seed: u8) -> KeyPair {
    KeyPair::from_secret(Secret::copy_of(&[seed; 32]))
}

pub const CLIENT: u8 = 1;
pub const SERVER: u8 = 2;
/// The client's entropy, and its transient secret, consist of this byte.
pub const CLIENT_ENTROPY: u8 = 3;
pub const SERVER_ENTROPY: u8 = 4;

fn entropy(seed: u8) -> Entropy {
    Entropy::new(Secret::copy_of(&[seed; Entropy::LEN]))
}

pub fn curve_client() -> MechanismConfig {
    MechanismConfig::CurveClient {
        keys: Arc::new(pair(CLIENT)),
        server_key: pair(SERVER).public,
        entropy: entropy(CLIENT_ENTROPY),
    }
}

pub fn curve_server() -> MechanismConfig {
    MechanismConfig::CurveServer { keys: Arc::new(pair(SERVER)), entropy: entropy(SERVER_ENTROPY) }
}

/// A box sealed by `ours` for `theirs`.
pub fn seal(theirs: &KeyPair, ours: &KeyPair, nonce: &[&[u8]], message: &[u8]) -> Vec<u8> {
    let nonce: [u8; 24] = nonce.concat().try_into().expect("a nonce of 24 bytes");
    BoxKey::shared(&theirs.public, &ours.secret).expect("our own keys").seal(&nonce, message)
}

/// A valid text with a part replaced by the fuzzer's bytes; or those bytes alone.
pub fn splice(good: &[u8], at: u8, len: u8, bytes: &[u8]) -> Vec<u8> {
    if at == u8::MAX {
        return bytes.to_vec();
    }
    let (start, behind) = good.split_at(usize::from(at).min(good.len()));
    [start, bytes, &behind[usize::from(len).min(behind.len())..]].concat()
}
