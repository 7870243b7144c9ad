//! A bare tcp connection: what the proxy carries without file transfer.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use crate::Outcome;

const CHUNK: usize = 256 << 10;

pub fn send(at: &str, bytes: usize) -> Outcome {
    let (mut to, _) = TcpListener::bind(at)?.accept()?;
    let (chunk, mut left) = (vec![0; CHUNK], bytes);
    while left > 0 {
        let size = left.min(CHUNK);
        to.write_all(&chunk[..size])?;
        left -= size;
    }
    Ok(())
}

pub fn drain(from: &str) -> Outcome {
    let (mut from, mut chunk, mut bytes) = (TcpStream::connect(from)?, vec![0; CHUNK], 0);
    loop {
        match from.read(&mut chunk)? {
            0 => break,
            size => bytes += size,
        }
    }
    println!("bytes={bytes}");
    Ok(())
}
