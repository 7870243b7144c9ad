//! CURVE's client. The first byte is the chunk size; the second chooses what follows the greeting: arbitrary bytes, a
//! WELCOME with arbitrary content, or a valid WELCOME and a READY with arbitrary content.

use pinnace_fuzz::*;

fn welcome(told: &[u8]) -> Vec<u8> {
    let sealed = seal(&pair(CLIENT_ENTROPY), &pair(SERVER), &[b"WELCOME-", &[9; 16]], told);
    command(&[b"\x07WELCOME", &[9; 16][..], &sealed].concat())
}

pub fn run(data: &[u8]) {
    let [piece, kind, told @ ..] = data else { return };
    let mut bytes = greeting(b"CURVE");
    match kind % 3 {
        0 => bytes.extend_from_slice(told),
        1 => bytes.extend(welcome(told)),
        _ => {
            let transient = pair(SERVER_ENTROPY);
            bytes.extend(welcome(&[&transient.public[..], &[7; 96]].concat()));
            let sealed = seal(&pair(CLIENT_ENTROPY), &transient, &[b"CurveZMQREADY---", &[0; 8]], told);
            bytes.extend(command(&[b"\x05READY", &[0; 8][..], &sealed].concat()));
        }
    }
    let seen = whole_and_in_pieces(|| dealer(curve_client(), false), &bytes, *piece);
    assert!(kind % 3 == 2 || !matches!(seen.result, Ok(Some(_))), "READY came out of nothing");
}
