//! The cryptography that CURVE needs: a thin, safe wrapper around libsodium.
//!
//! | module | what it is |
//! | --- | --- |
//! | `secret` | [`Secret`] and [`SecretBytes`]: bytes that are wiped on drop and never printed |
//! | `keys` | [`KeyPair`] of X25519, [`random`] bytes |
//! | `boxes` | [`BoxKey`]: NaCl's box and secretbox (XSalsa20 and Poly1305), for the boxes of a handshake |
//! | `stream` | [`StreamKey`]: the same boxes for a stream of messages with nonces that share their first 16 bytes |
//! | `digest` | [`digest`]: BLAKE2b, for data that is not secret |
//!
//! All functions are pure, except [`random`] and the constructors that use it (`random`, `generate`). Nothing
//! panics or ends the process, and no initialization call is needed. libsodium is built from source and linked
//! statically. Its own random source is never used, because it aborts the process if there is no randomness.
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
mod digest;
mod keys;
mod random;
mod secret;
mod sodium;
mod stream;

pub use boxes::{BoxKey, NONCE_LEN};
pub use digest::{DIGEST_LEN, digest};
pub use keys::{KEY_LEN, KeyPair, PublicKey, SecretKey};
pub use random::{NoRandomness, random};
pub use secret::{Secret, SecretBytes, equal};
pub use stream::StreamKey;

/// Bytes that sealing adds to a message.
pub const TAG_LEN: usize = 16;

/// The box was made with another key or nonce, or was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forged;

impl std::error::Error for Forged {}

impl std::fmt::Display for Forged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the box does not open with this key")
    }
}
