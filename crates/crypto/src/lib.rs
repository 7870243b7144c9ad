//! What CURVE needs of cryptography: a thin, safe cover over libsodium.
//!
//! | module | what it is |
//! | --- | --- |
//! | `secret` | [`Secret`] and [`SecretBytes`]: bytes that are wiped when they go, and that nobody prints |
//! | `keys` | [`KeyPair`] of X25519, [`random`] bytes |
//! | `boxes` | [`BoxKey`]: NaCl's box and secretbox (XSalsa20 and Poly1305), for the few boxes of a handshake |
//! | `stream` | [`StreamKey`]: the same boxes for a stream of messages whose nonces share their first 16 bytes |
//!
//! All but [`random`] and what says so by its name are pure functions. Nothing panics or ends the process, and
//! nothing has to be called first. libsodium is built from its source and linked statically; its own source of
//! randomness is never used, because it would abort where there is none.
//!
//! ```
//! use pinnace_crypto::{BoxKey, KeyPair};
//!
//! let (alice, bob) = (KeyPair::generate()?, KeyPair::generate()?);
//! let nonce = [7; 24];
//! let sealed = BoxKey::shared(&bob.public, &alice.secret).unwrap().seal(&nonce, b"hello");
//! let opened = BoxKey::shared(&alice.public, &bob.secret).unwrap().open(&nonce, &sealed);
//! assert_eq!(*opened.unwrap(), *b"hello");
//! # Ok::<(), pinnace_crypto::NoRandomness>(())
//! ```

#![warn(missing_docs)]

mod boxes;
mod keys;
mod secret;
mod sodium;
mod stream;

pub use boxes::{BoxKey, NONCE_LEN};
pub use keys::{KEY_LEN, KeyPair, NoRandomness, PublicKey, SecretKey, random};
pub use secret::{Secret, SecretBytes, equal};
pub use stream::StreamKey;

/// How many bytes a box is longer than what is in it.
pub const TAG_LEN: usize = 16;

/// A box that was not made with this key and nonce, or was changed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forged;

impl std::error::Error for Forged {}

impl std::fmt::Display for Forged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the box does not open with this key")
    }
}
