//! The C ABI, over every transport.

mod connection;
mod context;
mod mechanism;
mod message;
mod option;
mod socket;
mod waiting;
