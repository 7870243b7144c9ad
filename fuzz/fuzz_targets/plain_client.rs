//! PLAIN's client, against arbitrary bytes from a server. The first byte is the chunk size.

use pinnace_crypto::SecretBytes;
use pinnace_fuzz::{dealer, greeting, whole_and_in_pieces};
use pinnace_zmtp::MechanismConfig::PlainClient;

pub fn run(data: &[u8]) {
    let Some((&piece, bytes)) = data.split_first() else { return };
    let config = || {
        let password = SecretBytes::from(&b"password"[..]);
        dealer(PlainClient { username: b"name".to_vec(), password }, false)
    };
    whole_and_in_pieces(config, &[&greeting(b"PLAIN"), bytes].concat(), piece);
}
