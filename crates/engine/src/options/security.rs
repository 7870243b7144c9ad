//! The security options of a socket: its mechanism and role, keys and names.
//!
//! As in libzmq no option selects the mechanism: the security option that was set last determines it.

use std::sync::Arc;

use pinnace_crypto::{KeyPair, NoRandomness, PublicKey, Secret, SecretBytes, SecretKey};
use pinnace_zmtp::MechanismConfig;
use pinnace_zmtp::curve::Entropy;

/// libzmq's numbers of the mechanisms (ZMQ_MECHANISM).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(i32)]
pub enum Mechanism {
    #[default]
    Null = 0,
    Plain = 1,
    Curve = 2,
}

#[derive(Clone)]
pub struct Security {
    pub mechanism: Mechanism,
    pub as_server: bool,
    pub username: String,
    pub password: SecretText,
    /// The public key that a client presents; zeros: derived from its secret key. A server refuses a key that does
    /// not match the secret key.
    pub public_key: PublicKey,
    pub secret_key: SecretKey,
    pub server_key: PublicKey,
    pub zap_domain: String,
    /// Asks the ZAP handler only if a domain is set (RFC 27).
    pub zap_enforce_domain: bool,
}

/// Text that is wiped from memory and not shown in debug output.
#[derive(Debug, Clone, Default)]
pub struct SecretText(SecretBytes);

impl SecretText {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    pub fn bytes(&self) -> &SecretBytes {
        &self.0
    }
}

impl From<&str> for SecretText {
    fn from(text: &str) -> SecretText {
        SecretText(SecretBytes::from(text.as_bytes()))
    }
}

impl Default for Security {
    fn default() -> Security {
        Security {
            mechanism: Mechanism::Null,
            as_server: false,
            username: String::new(),
            password: SecretText::default(),
            public_key: [0; 32],
            secret_key: SecretKey::zeroed(),
            server_key: [0; 32],
            zap_domain: String::new(),
            zap_enforce_domain: false,
        }
    }
}

impl Security {
    /// The configuration of one handshake. Keys are derived from the options each time, and the randomness must not
    /// be used for another handshake.
    pub fn mechanism_config(&self) -> Result<MechanismConfig, NoRandomness> {
        let keys = || Arc::new(KeyPair::from_secret(self.secret_key.clone()));
        let shown = || match self.public_key {
            public if public == [0; 32] => keys(),
            public => Arc::new(KeyPair { public, secret: self.secret_key.clone() }),
        };
        let entropy = || Secret::random().map(Entropy::new);
        Ok(match (self.mechanism, self.as_server) {
            (Mechanism::Null, _) => MechanismConfig::Null,
            (Mechanism::Plain, true) => MechanismConfig::PlainServer,
            (Mechanism::Plain, false) => MechanismConfig::PlainClient {
                username: self.username.clone().into_bytes(),
                password: self.password.bytes().clone(),
            },
            (Mechanism::Curve, true) => MechanismConfig::CurveServer { keys: keys(), entropy: entropy()? },
            (Mechanism::Curve, false) => MechanismConfig::CurveClient {
                keys: shown(),
                server_key: self.server_key,
                entropy: entropy()?,
            },
        })
    }

    /// Makes the socket a CURVE server with these keys.
    pub fn be_curve_server(&mut self, own: &KeyPair) {
        self.serve(Mechanism::Curve, true);
        (self.public_key, self.secret_key) = (own.public, own.secret.clone());
    }

    /// Makes the socket a CURVE client with these keys, which connects to the server with this public key alone.
    pub fn be_curve_client(&mut self, own: &KeyPair, server: &PublicKey) {
        self.be_client(Mechanism::Curve);
        (self.public_key, self.secret_key, self.server_key) = (own.public, own.secret.clone(), *server);
    }

    /// Makes the socket a PLAIN server: a ZAP handler checks names and passwords.
    pub fn be_plain_server(&mut self) {
        self.serve(Mechanism::Plain, true);
    }

    /// Makes the socket a PLAIN client.
    pub fn be_plain_client(&mut self, name: &str, password: &str) {
        self.be_client(Mechanism::Plain);
        (self.username, self.password) = (name.to_owned(), SecretText::from(password));
    }

    /// Returns true if connections are secured by CURVE.
    pub(crate) fn is_curve(&self) -> bool {
        self.mechanism == Mechanism::Curve
    }

    /// Returns true if peers need authorization by the ZAP handler (RFC 27): for servers of a mechanism, and under
    /// NULL on both sides if a domain is set. An application that enforces domains and sets none wants CURVE for
    /// encryption only.
    pub fn asks(&self) -> bool {
        match self.mechanism {
            Mechanism::Null => !self.zap_domain.is_empty(),
            Mechanism::Plain => self.as_server,
            Mechanism::Curve => self.as_server && (!self.zap_enforce_domain || !self.zap_domain.is_empty()),
        }
    }

    /// Returns true if a peer is admitted when there is no ZAP handler.
    pub fn admits_unasked(&self) -> bool {
        self.mechanism != Mechanism::Plain && !self.zap_enforce_domain
    }

    /// Returns true if this is a server of the mechanism.
    pub(super) fn is_server(&self, mechanism: Mechanism) -> bool {
        self.mechanism == mechanism && self.as_server
    }

    /// Makes the socket a server of the mechanism (`on`), or resets it to NULL.
    pub(super) fn serve(&mut self, mechanism: Mechanism, on: bool) {
        self.as_server = on;
        self.mechanism = if on { mechanism } else { Mechanism::Null };
    }

    pub(super) fn be_client(&mut self, mechanism: Mechanism) {
        (self.mechanism, self.as_server) = (mechanism, false);
    }
}

impl std::fmt::Debug for Security {
    /// Omits all secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Security")
            .field("mechanism", &self.mechanism)
            .field("as_server", &self.as_server)
            .field("zap_domain", &self.zap_domain)
            .finish_non_exhaustive()
    }
}
