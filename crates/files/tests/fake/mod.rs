//! A server that a test scripts, frame by frame.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use pinnace_engine::{Context, Outgoing, Socket, SocketType};
use pinnace_files::client::Client;
use pinnace_files::transfer::digest::{GROUP, group_value};
use pinnace_files::wire::{Cheezburger, Form, Headers, Kind, Message, Mode, Request};

pub const DEADLINE: Duration = Duration::from_secs(20);

/// The server.
pub struct Fake {
    socket: Socket,
    client: Vec<u8>,
    /// The client has said goodbye.
    has_left: bool,
    _context: Context,
}

impl Fake {
    pub fn new() -> (Fake, String) {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let context = Context::new().unwrap();
        let socket = context.socket(SocketType::Router).unwrap();
        let name = format!("ipc://@files-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        socket.configure(|options| options.rcvtimeo = Some(DEADLINE)).unwrap();
        socket.bind(&name).unwrap();
        (Fake { socket, client: Vec::new(), has_left: false, _context: context }, name)
    }

    pub fn send(&self, frame: &[u8]) {
        self.socket.send_message(&mut [Outgoing::Bytes(&self.client), Outgoing::Bytes(frame)], true).unwrap();
    }

    /// Answers greetings until a request for files comes. None: the client says goodbye.
    pub fn next_request(&mut self) -> Option<Request> {
        self.next_of(&[Mode::Fetch, Mode::List, Mode::Values])
    }

    /// As `next_request`, until an upload begins.
    #[allow(dead_code, reason = "not every test calls it")]
    pub fn next_upload(&mut self) -> Option<Request> {
        self.next_of(&[Mode::Upload])
    }

    fn next_of(&mut self, modes: &[Mode]) -> Option<Request> {
        while !self.has_left {
            let mut frames: Vec<Vec<u8>> = Vec::new();
            self.socket.recv_frames(true, &mut |frame| frames.push(frame.data().to_vec())).ok()?;
            self.client = frames.remove(0);
            match Message::read(&frames[0]).unwrap() {
                Message::Ohai { .. } => self.send(&Message::OhaiOk.to_frame()),
                Message::Hugz => self.send(&Message::HugzOk.to_frame()),
                Message::Icanhaz { path, options, .. } => {
                    let request = Request::read(path, options).unwrap().unwrap();
                    if request.mode == Mode::Greet {
                        self.end(&request);
                    } else if modes.contains(&request.mode) {
                        return Some(request);
                    }
                }
                Message::Kthxbai => self.has_left = true,
                _ => {}
            }
        }
        None
    }

    /// The next chunk of an upload, copied: its offset, header and octets. Other messages are left out.
    #[allow(dead_code, reason = "not every test calls it")]
    pub fn next_chunk(&mut self) -> (u64, Headers, Vec<u8>) {
        loop {
            let mut frames: Vec<Vec<u8>> = Vec::new();
            self.socket.recv_frames(true, &mut |frame| frames.push(frame.data().to_vec())).unwrap();
            if let Ok(Message::Cheezburger(burger)) = Message::read(&frames[1]) {
                return (burger.offset, Headers::read(burger.headers).unwrap(), burger.chunk.to_vec());
            }
        }
    }

    pub fn reply(&self, request: &Request, headers: Headers, offset: u64, eof: bool, chunk: &[u8]) {
        let headers = Headers { request: Some(request.number), ..headers }.write();
        let burger = Cheezburger { offset, eof, chunk, ..Cheezburger::new(0, &request.path, headers.hash()) };
        self.send(&Message::Cheezburger(burger).to_frame());
    }

    /// A reply without content, of a path of the request.
    #[allow(dead_code, reason = "not every test calls it")]
    pub fn reply_of(&self, request: &Request, path: &[u8], headers: Headers) {
        self.reply(&Request { path: path.to_vec(), ..request.clone() }, headers, 0, false, b"");
    }

    pub fn begin(&self, request: &Request, kind: Kind, size: u64) {
        let headers = Headers {
            form: Form::Begin,
            kind: Some(kind),
            size: Some(size),
            mtime_ns: Some(0),
            mode: Some(0o644),
            tag: b"tag".to_vec(),
            ..Headers::default()
        };
        self.reply(request, headers, 0, false, b"");
    }

    pub fn end(&self, request: &Request) {
        self.reply(request, Headers { form: Form::End, ..Headers::default() }, 0, false, b"");
    }
}

impl Drop for Fake {
    /// Also when the script has failed: the client does not wait for it.
    fn drop(&mut self) {
        let _ = self.socket.close();
    }
}

/// Runs a scripted server, which then waits for the client's goodbye, and a client of it.
pub fn with_client<T>(script: impl FnOnce(&mut Fake) + Send + 'static, run: impl FnOnce(&Client) -> T) -> T {
    let (mut fake, endpoint) = Fake::new();
    let server: JoinHandle<()> = std::thread::spawn(move || {
        script(&mut fake);
        while fake.next_request().is_some() {}
    });
    let client = Client::builder(&endpoint).patience(DEADLINE).connect().unwrap();
    let outcome = run(&client);
    drop(client);
    server.join().unwrap();
    outcome
}

/// The values of all groups of a file.
#[allow(dead_code, reason = "not every test calls it")]
pub fn values(content: &[u8]) -> Vec<u8> {
    let groups = content.chunks(GROUP as usize).enumerate();
    groups.flat_map(|(index, group)| group_value(index as u64, group, content.len() as u64)).collect()
}

pub fn content(groups: usize) -> Vec<u8> {
    (0..groups * GROUP as usize).map(|at| (at / 7) as u8).collect()
}

#[allow(dead_code, reason = "not every test calls it")]
pub fn data(content: &[u8]) -> Headers {
    let digest = Some(*blake3::hash(content).as_bytes());
    Headers { groups: values(content), digest, ..Headers::default() }
}
