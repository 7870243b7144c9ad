//! A man in the middle between two libraries: each ZMTP 3 frame goes through a script, which may change it, hold it
//! back, repeat it, or cut the connection.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use crate::wire;

/// What replaces a frame: these bytes, or these bytes and then the end of both connections.
pub enum Pass {
    On(Vec<u8>),
    Cut(Vec<u8>),
}

/// Arguments: true if the frame came from the client; its number in its direction, from 0 for each connection; its
/// bytes.
pub type Script = dyn FnMut(bool, usize, Vec<u8>) -> Pass + Send;

/// A listener that forwards each connection to a server over tcp.
pub struct Man {
    pub endpoint: String,
}

impl Man {
    /// Listens in front of `server`. The 64-byte greetings pass unchanged.
    #[track_caller]
    pub fn before(server: &str, script: impl FnMut(bool, usize, Vec<u8>) -> Pass + Send + 'static) -> Man {
        let address = server.strip_prefix("tcp://").expect("a tcp endpoint").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let endpoint = format!("tcp://{}", listener.local_addr().expect("bound"));
        let script: Arc<Mutex<Script>> = Arc::new(Mutex::new(script));
        // The threads end with their connections or with the process.
        std::thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                let Ok(server) = TcpStream::connect(&address) else { return };
                let both = |stream: &TcpStream| stream.try_clone().expect("a descriptor");
                let (from_client, to_server) = (both(&client), both(&server));
                let (one, other) = (script.clone(), script.clone());
                std::thread::spawn(move || pass(true, from_client, to_server, &one));
                std::thread::spawn(move || pass(false, server, client, &other));
            }
        });
        Man { endpoint }
    }
}

fn pass(from_client: bool, mut from: TcpStream, mut to: TcpStream, script: &Mutex<Script>) {
    let mut greeting = [0; 64];
    // Forwarded in the steps of the greeting, because each side waits for the other's part.
    for piece in [0..10, 10..11, 11..64] {
        if from.read_exact(&mut greeting[piece.clone()]).is_err() || to.write_all(&greeting[piece]).is_err() {
            return end(&from, &to);
        }
    }
    let mut number = 0;
    while let Some(frame) = next_frame(&mut from) {
        let passed =
            script.lock().unwrap_or_else(std::sync::PoisonError::into_inner)(from_client, number, frame);
        number += 1;
        match passed {
            Pass::On(bytes) if to.write_all(&bytes).is_ok() => {}
            Pass::On(_) => break,
            Pass::Cut(bytes) => {
                let _ = to.write_all(&bytes);
                break;
            }
        }
    }
    end(&from, &to);
}

fn end(from: &TcpStream, to: &TcpStream) {
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

fn next_frame(from: &mut TcpStream) -> Option<Vec<u8>> {
    let mut frame = vec![0; 2];
    from.read_exact(&mut frame).ok()?;
    let mut len = usize::from(frame[1]);
    if frame[0] & wire::LONG != 0 {
        frame.resize(9, 0);
        from.read_exact(&mut frame[2..]).ok()?;
        len = u64::from_be_bytes(frame[1..9].try_into().expect("8 bytes")) as usize;
    }
    let head = frame.len();
    frame.resize(head + len, 0);
    from.read_exact(&mut frame[head..]).ok()?;
    Some(frame)
}
