//! One program for all targets; `FUZZ_TARGET` names the one to run. tools/fuzz reads the names from the `mod` lines.
#![no_main]

use std::sync::LazyLock;

mod command;
mod curve_client;
mod curve_server;
mod curve_traffic;
mod endpoint;
mod files_frames;
mod files_paths;
mod files_sidecar;
mod frame_stream;
mod handshake_input;
mod metadata;
mod options;
mod pgm_packets;
mod plain_client;
mod plain_server;
mod port_packets;
mod shared_ring;
mod socks_replies;
mod ws_request;
mod ws_response;
mod ws_stream;
mod z85;
mod zap_reply;

type Target = fn(&[u8]);

const TARGETS: &[(&str, Target)] = &[
    ("command", command::run),
    ("curve_client", curve_client::run),
    ("curve_server", curve_server::run),
    ("curve_traffic", curve_traffic::run),
    ("endpoint", endpoint::run),
    ("files_frames", files_frames::run),
    ("files_paths", files_paths::run),
    ("files_sidecar", files_sidecar::run),
    ("frame_stream", frame_stream::run),
    ("handshake_input", handshake_input::run),
    ("metadata", metadata::run),
    ("options", options::run),
    ("pgm_packets", pgm_packets::run),
    ("plain_client", plain_client::run),
    ("plain_server", plain_server::run),
    ("port_packets", port_packets::run),
    ("shared_ring", shared_ring::run),
    ("socks_replies", socks_replies::run),
    ("ws_request", ws_request::run),
    ("ws_response", ws_response::run),
    ("ws_stream", ws_stream::run),
    ("z85", z85::run),
    ("zap_reply", zap_reply::run),
];

static CHOSEN: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").expect("FUZZ_TARGET names a target");
    TARGETS.iter().find(|(known, _)| *known == name).expect("FUZZ_TARGET is in the table").1
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| CHOSEN(data));
