//! PLAIN's server, against arbitrary bytes from a client. The first byte is the chunk size, and whether the server
//! asks a ZAP handler.

use pinnace_fuzz::{dealer, greeting, whole_and_in_pieces};
use pinnace_zmtp::MechanismConfig::PlainServer;

pub fn run(data: &[u8]) {
    let Some((&piece, bytes)) = data.split_first() else { return };
    let config = || dealer(PlainServer, piece & 1 == 0);
    whole_and_in_pieces(config, &[&greeting(b"PLAIN"), bytes].concat(), piece);
}
