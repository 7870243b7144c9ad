//! CURVE's server. The first byte is the chunk size; the second chooses what follows the greeting: arbitrary bytes, a
//! valid HELLO and arbitrary bytes, an INITIATE with arbitrary content, or a valid INITIATE with arbitrary metadata.

use pinnace_fuzz::*;

const NUMBER: [u8; 8] = [0, 0, 0, 0, 0, 0, 0, 1];

fn hello() -> Vec<u8> {
    let transient = pair(CLIENT_ENTROPY);
    let sealed = seal(&pair(SERVER), &transient, &[b"CurveZMQHELLO---", &NUMBER], &[0; 64]);
    command(&[b"\x05HELLO\x01\x00", &[0; 72][..], &transient.public, &NUMBER, &sealed].concat())
}

/// The cookie is the same in every run, because the server's entropy is fixed.
fn initiate(told: &[u8]) -> Vec<u8> {
    let (client, server) = (pair(CLIENT_ENTROPY), pair(SERVER_ENTROPY));
    let key = pinnace_crypto::BoxKey::symmetric(pinnace_crypto::Secret::copy_of(&[SERVER_ENTROPY; 32]));
    let nonce = [SERVER_ENTROPY; 16];
    let whole: [u8; 24] = [b"COOKIE--", &nonce[..]].concat().try_into().expect("24 bytes");
    let cookie = key.seal(&whole, &[client.public, *server.secret].concat());
    let sealed = seal(&server, &client, &[b"CurveZMQINITIATE", &NUMBER], told);
    command(&[b"\x08INITIATE", &nonce[..], &cookie, &NUMBER, &sealed].concat())
}

fn vouched(metadata: &[u8]) -> Vec<u8> {
    let told = [pair(CLIENT_ENTROPY).public, pair(SERVER).public].concat();
    let vouch = seal(&pair(SERVER_ENTROPY), &pair(CLIENT), &[b"VOUCH---", &[5; 16]], &told);
    [&pair(CLIENT).public[..], &[5; 16], &vouch, metadata].concat()
}

pub fn run(data: &[u8]) {
    let [piece, kind, told @ ..] = data else { return };
    let mut bytes = greeting(b"CURVE");
    match kind % 4 {
        0 => bytes.extend_from_slice(told),
        1 => bytes.extend([&hello(), told].concat()),
        2 => bytes.extend([hello(), initiate(told)].concat()),
        _ => bytes.extend([hello(), initiate(&vouched(told))].concat()),
    }
    let seen = whole_and_in_pieces(|| dealer(curve_server(), piece & 1 == 0), &bytes, *piece);
    assert!(kind % 4 == 3 || !matches!(seen.result, Ok(Some(_))), "let in without a vouch");
    assert!(kind % 4 == 0 || seen.output.len() >= 64 + 170, "no WELCOME");
}
