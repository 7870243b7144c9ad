//! Configurations of the mechanisms, with fixed keys and randomness.
use std::sync::Arc;

use pinnace_crypto::{KeyPair, Secret, SecretBytes};
use pinnace_zmtp::curve::Entropy;
use pinnace_zmtp::{Config, Handshake, MechanismConfig, SocketType};

pub fn keys(seed: u8) -> Arc<KeyPair> {
    Arc::new(KeyPair::from_secret(Secret::copy_of(&[seed; 32])))
}

pub fn client_keys() -> Arc<KeyPair> {
    keys(11)
}

pub fn server_keys() -> Arc<KeyPair> {
    keys(22)
}

pub fn entropy(seed: u8) -> Entropy {
    let mut bytes = Secret::zeroed();
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = seed.wrapping_add(at as u8);
    }
    Entropy::new(bytes)
}

pub fn with(socket_type: SocketType, mechanism: MechanismConfig) -> Config {
    Config { mechanism, ..Config::new(socket_type) }
}

pub fn asking(config: Config) -> Config {
    Config { authorize: true, ..config }
}

pub fn curve_client(socket_type: SocketType) -> Config {
    let (keys, server_key) = (client_keys(), server_keys().public);
    with(socket_type, MechanismConfig::CurveClient { keys, server_key, entropy: entropy(3) })
}

pub fn curve_server(socket_type: SocketType) -> Config {
    let keys = server_keys();
    with(socket_type, MechanismConfig::CurveServer { keys, entropy: entropy(101) })
}

pub fn plain_client(socket_type: SocketType) -> Config {
    let (username, password) = (b"admin".to_vec(), SecretBytes::from(&b"secret"[..]));
    with(socket_type, MechanismConfig::PlainClient { username, password })
}

pub fn plain_server(socket_type: SocketType) -> Config {
    with(socket_type, MechanismConfig::PlainServer)
}

/// Passes bytes between two sides until neither consumes any more.
pub fn meet(a: &mut Handshake, b: &mut Handshake) -> Result<(), pinnace_zmtp::Error> {
    loop {
        let to_b = b.input(a.output())?;
        a.sent(to_b);
        let to_a = a.input(b.output())?;
        b.sent(to_a);
        if to_a + to_b == 0 {
            return Ok(());
        }
    }
}
