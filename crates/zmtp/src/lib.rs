#![forbid(unsafe_code)]
//! The wire of ZMTP, without any I/O.
