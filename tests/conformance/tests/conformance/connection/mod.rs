//! Connections and transports: how they are made, lost and ended.

mod connections;
mod ending;
mod endpoints;
mod families;
mod heartbeats;
mod lingering;
mod shared_memory;
mod shared_memory_waits;
mod socks;
mod tls;
mod udp;
mod udp_groups;
mod waiting_for_peers;
