//! Tests of the codecs and handshakes, with scripted peers and with other implementations.

mod codecs;
mod common;
mod curve_lies;
mod curve_traffic;
mod handshakes;
mod jszmq;
mod libzmq_bytes;
mod libzmq_live;
mod pgm;
mod properties;
mod refusals;
mod secure_handshakes;
mod socks;
mod transitions;
mod ws_handshake;
mod ws_peers;
mod ws_properties;
mod ws_stream;
mod ws_upgrade;
