//! Secrets, and the cryptography beside another implementation.

mod oracle;
mod secrets;
