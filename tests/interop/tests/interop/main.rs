//! Against other implementations of ZMTP, and against raw bytes of each ZMTP version.

mod drafts;
#[cfg(feature = "pgm")]
mod pgm;
mod security;
mod subscriptions;
mod system;
mod zmtp3;
mod zmtp_old;
