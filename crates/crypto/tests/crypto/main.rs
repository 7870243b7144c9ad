//! Tests of the secret types, and of the cryptography against another implementation.

mod oracle;
mod secrets;
