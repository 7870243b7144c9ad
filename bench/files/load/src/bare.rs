//! A file over tcp without a protocol: read, hashed and sent; received, hashed and written, each in one thread. Both
//! sides hash with BLAKE3, as file transfer does, so this is about what these steps cost on the machine.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};

use rustix::net::sockopt::set_tcp_congestion;

use crate::Outcome;

const CHUNK: usize = 512 << 10;

/// Fills the chunk, except at the end.
fn fill(from: &mut impl Read, chunk: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < chunk.len() {
        match from.read(&mut chunk[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

/// Passes all chunks on. Returns their digest.
fn pass(from: &mut impl Read, to: &mut impl Write) -> io::Result<blake3::Hash> {
    let (mut hasher, mut chunk) = (blake3::Hasher::new(), vec![0; CHUNK]);
    loop {
        let filled = fill(from, &mut chunk)?;
        hasher.update(&chunk[..filled]);
        to.write_all(&chunk[..filled])?;
        if filled < CHUNK {
            return Ok(hasher.finalize());
        }
    }
}

pub fn send(at: &str, path: &str) -> Outcome {
    let (mut to, _) = TcpListener::bind(at)?.accept()?;
    // As the engine does within a host.
    set_tcp_congestion(&to, "reno")?;
    println!("digest={}", pass(&mut File::open(path)?, &mut to)?);
    Ok(())
}

/// `path`: None, what arrives is discarded.
pub fn receive(from: &str, path: Option<&str>) -> Outcome {
    let mut from = TcpStream::connect(from)?;
    set_tcp_congestion(&from, "reno")?;
    let digest = match path {
        Some(path) => pass(&mut from, &mut File::create(path)?),
        None => pass(&mut from, &mut io::sink()),
    }?;
    println!("digest={digest}");
    Ok(())
}
