//! A server that tells how many octets of content it has sent.

use std::io;
use std::path::Path;

use pinnace::files::server::Server;

use crate::Outcome;

pub fn main(dir: &str, endpoint: &str) -> Outcome {
    let server = Server::builder().folder("/data", Path::new(dir))?.bind(endpoint).start()?;
    // The harness keeps standard input open for as long as it needs the server.
    io::copy(&mut io::stdin(), &mut io::sink())?;
    println!("sent_bytes={}", server.sent_bytes());
    Ok(())
}
