//! Socket types: what each sends to which peer, and what it refuses.

mod client_server;
mod dealer_router;
mod multipart;
mod pair;
mod peer_channel;
mod pubsub;
mod pubsub_more;
mod pushpull;
mod radio_dish;
mod replaced_peers;
mod reqrep;
mod scatter_gather;
mod stream;
