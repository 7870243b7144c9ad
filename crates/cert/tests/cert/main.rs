//! Tests of certificate files.

mod czmq;
mod files;
