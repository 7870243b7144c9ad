//! What a socket's options say of security: the mechanism, our part in it, and its keys and names.
//!
//! As in libzmq there is no option for the mechanism: it is that of the option that was set last.

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
    /// What a client shows of itself; zeros: what belongs to its secret key. Another one than that is refused by the
    /// server, which looks whether the two go together.
    pub public_key: PublicKey,
    pub secret_key: SecretKey,
    pub server_key: PublicKey,
    pub zap_domain: String,
    /// Whether a handler of ZAP is asked only where a domain is set (RFC 27).
    pub zap_enforce_domain: bool,
}

/// A text that is wiped where it lies, and does not show itself.
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
    /// What the handshake needs; keys are made anew from the options, and the randomness is of this handshake
    /// alone.
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

    /// Whether connections are secured by CURVE.
    pub(crate) fn is_curve(&self) -> bool {
        self.mechanism == Mechanism::Curve
    }

    /// Whether a handler of ZAP is to be asked who may come in (RFC 27): by servers of a mechanism, and under NULL by
    /// both sides where a domain is set. Who enforces domains and sets none wants CURVE for its secrecy alone.
    pub fn asks(&self) -> bool {
        match self.mechanism {
            Mechanism::Null => !self.zap_domain.is_empty(),
            Mechanism::Plain => self.as_server,
            Mechanism::Curve => self.as_server && (!self.zap_enforce_domain || !self.zap_domain.is_empty()),
        }
    }

    /// What becomes of a peer where there is no handler to ask. True: it may come in.
    pub fn admits_unasked(&self) -> bool {
        self.mechanism != Mechanism::Plain && !self.zap_enforce_domain
    }

    /// Whether this is a server of the mechanism.
    pub(super) fn is_server(&self, mechanism: Mechanism) -> bool {
        self.mechanism == mechanism && self.as_server
    }

    /// Makes it a server of the mechanism, or one of none.
    pub(super) fn serve(&mut self, mechanism: Mechanism, on: bool) {
        self.as_server = on;
        self.mechanism = if on { mechanism } else { Mechanism::Null };
    }

    pub(super) fn be_client(&mut self, mechanism: Mechanism) {
        (self.mechanism, self.as_server) = (mechanism, false);
    }
}

impl std::fmt::Debug for Security {
    /// Says nothing that is secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Security")
            .field("mechanism", &self.mechanism)
            .field("as_server", &self.as_server)
            .field("zap_domain", &self.zap_domain)
            .finish_non_exhaustive()
    }
}
