//! Certificates in files.

mod czmq;
mod files;
