//! Tests of the Rust API.

mod blocking;
mod drafts;
mod ending;
mod examples;
mod limits;
mod security;
mod tasks;
mod untyped;
