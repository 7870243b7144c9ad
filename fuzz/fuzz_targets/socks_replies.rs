//! A SOCKS5 proxy's replies, fed whole and in chunks: both must have the same result.
//!
//! The first byte chooses whether we have credentials, the second is the chunk size.

use pinnace_zmtp::socks::{Client, Credentials, Error, ProxyTarget};

fn feed(auth: bool, bytes: &[u8], piece: usize) -> (usize, Vec<u8>, Result<Option<ProxyTarget>, Error>) {
    let credentials = || Credentials { user_name: b"me".to_vec(), password: b"secret".as_slice().into() };
    let mut client =
        Client::new(ProxyTarget::new("example.org", 5555), auth.then(credentials)).expect("good arguments");
    let mut consumed = 0;
    for piece in bytes.chunks(piece) {
        match client.input(piece) {
            Ok(used) => consumed += used,
            Err(error) => {
                assert_eq!(client.input(b""), Err(error.clone()));
                let _ = error.to_string();
                return (0, client.output().to_vec(), Err(error));
            }
        }
    }
    (consumed, client.output().to_vec(), Ok(client.bound().cloned()))
}

pub fn run(data: &[u8]) {
    let [kind, piece, bytes @ ..] = data else { return };
    let auth = kind & 1 == 1;
    let whole = feed(auth, bytes, bytes.len().max(1));
    assert_eq!(whole, feed(auth, bytes, usize::from(*piece).max(1)));
    let (consumed, output, _) = whole;
    assert!(consumed <= bytes.len().min(4 + 262) && output.len() < 64);
}
