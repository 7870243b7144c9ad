//! PLAIN's server: what a client may send it. The first byte is the length of the pieces, and whether it asks.

use pinnace_fuzz::{dealer, greeting, whole_and_in_pieces};
use pinnace_zmtp::MechanismConfig::PlainServer;

pub fn run(data: &[u8]) {
    let Some((&piece, bytes)) = data.split_first() else { return };
    let config = || dealer(PlainServer, piece & 1 == 0);
    whole_and_in_pieces(config, &[&greeting(b"PLAIN"), bytes].concat(), piece);
}
