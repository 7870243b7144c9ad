//! A proxy that passes on so many bytes, and then waits: so a test meets a transfer in its middle.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

/// How many bytes may pass, in both directions, over all connections.
#[derive(Default)]
struct Allowance {
    left: Mutex<u64>,
    changed: Condvar,
}

impl Allowance {
    /// Waits until some bytes may pass, and takes up to `most`.
    fn take(&self, most: u64) -> u64 {
        let mut left = self.changed.wait_while(self.left.lock().unwrap(), |left| *left == 0).unwrap();
        let taken = most.min(*left);
        *left -= taken;
        taken
    }
}

/// The proxy. Its threads end with the connections.
pub struct Gate {
    pub endpoint: String,
    allowance: Arc<Allowance>,
}

impl Gate {
    /// In front of a server at `tcp://127.0.0.1:PORT`. At first nothing passes.
    pub fn new(server: &str) -> Gate {
        let server = server.strip_prefix("tcp://").unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("tcp://{}", listener.local_addr().unwrap());
        let allowance = Arc::new(Allowance::default());
        let shared = allowance.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // The server may be away: then the client's connection ends, and it tries again.
                let Ok(server) = TcpStream::connect(&server) else { continue };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to, allowance) =
                        (from.try_clone().unwrap(), to.try_clone().unwrap(), shared.clone());
                    std::thread::spawn(move || pass_on(from, to, &allowance));
                }
            }
        });
        Gate { endpoint, allowance }
    }

    /// Lets so many more bytes pass.
    pub fn allow(&self, bytes: u64) {
        let mut left = self.allowance.left.lock().unwrap();
        *left = left.saturating_add(bytes);
        self.allowance.changed.notify_all();
    }

    /// Lets all bytes pass.
    #[allow(dead_code, reason = "not every test opens it")]
    pub fn open(&self) {
        self.allow(u64::MAX);
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, allowance: &Allowance) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        let mut rest = &buffer[..read];
        while !rest.is_empty() {
            let now = allowance.take(rest.len() as u64) as usize;
            if to.write_all(&rest[..now]).is_err() {
                let _ = from.shutdown(std::net::Shutdown::Both);
                return;
            }
            rest = &rest[now..];
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}
