//! The system's libzmq as the peer of a real connection.
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use pinnace_zmtp::frame::{self, COMMAND};
use pinnace_zmtp::{AuthorizationRequest, Config, Decision, Error, Handshake, Peer, Traffic};

/// Timeout for every step.
const DEADLINE: Duration = Duration::from_secs(20);

/// A libzmq socket in its own process.
pub struct Libzmq {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Libzmq {
    /// `setup` is JSON: see `libzmq_peer.py`.
    pub fn start(setup: &str) -> Libzmq {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zmtp/libzmq_peer.py");
        let mut child = Command::new("/usr/bin/python3")
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 with zmq is needed");
        let output = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines() {
                if send.send(line.unwrap()).is_err() {
                    break;
                }
            }
        });
        let mut libzmq = Libzmq { input: child.stdin.take(), child, lines };
        libzmq.tell(setup);
        libzmq
    }

    /// A bound socket; `rest` is more of the setup. Also returns our connection to it.
    pub fn bound(socket_type: &str, rest: &str) -> (Libzmq, TcpStream) {
        let libzmq =
            Libzmq::start(&format!(r#"{{"type": "{socket_type}", "bind": "tcp://127.0.0.1:*", {rest}}}"#));
        let endpoint = libzmq.line("bound ");
        let stream = TcpStream::connect(endpoint.strip_prefix("tcp://").unwrap()).unwrap();
        (libzmq, patient(stream))
    }

    /// A socket that connects to us.
    pub fn connected(socket_type: &str, rest: &str) -> (Libzmq, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let libzmq = Libzmq::start(&format!(
            r#"{{"type": "{socket_type}", "connect": "tcp://127.0.0.1:{port}", {rest}}}"#
        ));
        (libzmq, patient(listener.accept().unwrap().0))
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    pub fn send(&mut self, frames: &[&[u8]]) {
        let words: Vec<String> = frames.iter().map(|frame| text(frame)).collect();
        self.tell(&format!("send {}", words.join(" ")));
    }

    /// The rest of the next line with this prefix.
    pub fn line(&self, start: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(DEADLINE).unwrap_or_else(|_| panic!("no \"{start}\""));
            if let Some(rest) = line.strip_prefix(start) {
                return rest.to_string();
            }
        }
    }

    /// The next event with one of these numbers: its number and its value.
    pub fn event(&self, numbers: &[u32]) -> (u32, u32) {
        loop {
            let line = self.line("event ");
            let (number, value) = line.split_once(' ').unwrap();
            let (number, value) = (number.parse().unwrap(), value.parse().unwrap());
            if numbers.contains(&number) {
                return (number, value);
            }
        }
    }
}

impl Drop for Libzmq {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// A frame in the script's notation.
pub fn text(frame: &[u8]) -> String {
    if frame.is_empty() { "-".to_string() } else { frame.iter().map(|byte| format!("{byte:02x}")).collect() }
}

/// Our end of a connection after its handshake.
pub struct Wire {
    stream: TcpStream,
    unread: Vec<u8>,
    pub traffic: Traffic,
}

pub fn accept(_: AuthorizationRequest<'_>) -> Decision {
    Decision::Accept
}

/// Performs the handshake; on an error sends the reply and closes the connection.
pub fn shake(
    mut stream: TcpStream,
    config: Config,
    mut decide: impl FnMut(AuthorizationRequest<'_>) -> Decision,
) -> Result<(Peer, Wire), Error> {
    let mut handshake = Handshake::new(config);
    let mut unread = Vec::new();
    let mut advance = || -> Result<(), Error> {
        loop {
            let used = handshake.input(&unread)?;
            unread.drain(..used);
            if let Some(request) = handshake.authorization() {
                let decision = decide(request);
                handshake.authorize(decision)?;
                continue;
            }
            stream.write_all(handshake.output()).unwrap();
            handshake.sent(handshake.output().len());
            if handshake.peer().is_some() {
                return Ok(());
            }
            let mut bytes = [0; 4096];
            match stream.read(&mut bytes).expect("the peer answers in time") {
                0 => panic!("the peer has closed the connection"),
                count => unread.extend_from_slice(&bytes[..count]),
            }
        }
    };
    if let Err(error) = advance() {
        let _ = stream.write_all(handshake.output());
        let _ = stream.write_all(&error.reply().unwrap_or_default());
        return Err(error);
    }
    let (peer, traffic) = handshake.into_parts().unwrap();
    Ok((peer, Wire { stream, unread, traffic }))
}

impl Wire {
    pub fn send(&mut self, flags: u8, body: &[u8]) {
        let mut out = Vec::new();
        match &mut self.traffic {
            Traffic::Clear => out = super::frame(flags, body),
            Traffic::Sealed(sealer, _) => sealer.seal(flags, body, &mut out).unwrap(),
        }
        self.stream.write_all(&out).unwrap();
    }

    /// The next frame: its flags and its body.
    pub fn recv(&mut self) -> (u8, Vec<u8>) {
        loop {
            if let Some(header) = frame::parse(&self.unread) {
                let end = header.header_len + header.body_len as usize;
                if self.unread.len() >= end {
                    let mut body: Vec<u8> = self.unread.drain(..end).skip(header.header_len).collect();
                    return match &mut self.traffic {
                        Traffic::Clear => (header.flags & !frame::LONG, body),
                        Traffic::Sealed(_, opener) => {
                            assert_eq!(
                                header.flags & !frame::LONG,
                                0,
                                "libzmq's MESSAGE is in a message frame"
                            );
                            let opened = opener.open(&mut body).unwrap();
                            (opened.flags, opened.payload.to_vec())
                        }
                    };
                }
            }
            let mut bytes = [0; 65536];
            match self.stream.read(&mut bytes).expect("the peer sends in time") {
                0 => panic!("the peer has closed the connection"),
                count => self.unread.extend_from_slice(&bytes[..count]),
            }
        }
    }

    /// The next frame that is not a command.
    pub fn message(&mut self) -> (u8, Vec<u8>) {
        loop {
            let (flags, body) = self.recv();
            if flags & COMMAND == 0 {
                return (flags, body);
            }
        }
    }
}
