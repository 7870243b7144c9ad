//! Clients and servers that ask for, grant or send without end: the other side's memory is bounded, and it serves
//! others or can be ended. Lies in single frames are in the tests of crates/files.

use std::fs::{self, File};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use pinnace::files::client::Client;
use pinnace::files::transfer::digest::{BLOCK, GROUP, group_value};
use pinnace::files::wire::{Cheezburger, Form, Hash, Headers, Kind, Message, Mode, Request};
use pinnace::{Context, Dealer, Router};
use rustix::process::Signal;

use crate::common::Folder;
use crate::process::{Process, Server};
use crate::support::{
    MIB, Random, blocks_name, mib, names, part_name, recorded, report, short_or_long, until,
};

const LONG: Duration = Duration::from_secs(60);

/// A client that sends what the test says.
struct Raw {
    socket: Dealer,
    _context: Context,
}

impl Raw {
    fn new(server: &Server) -> Raw {
        let context = Context::new().unwrap();
        let dealer = Dealer::builder(&context).linger(Duration::ZERO);
        let socket =
            dealer.send_high_water_mark(1000).receive_high_water_mark(1000).connect(&server.tcp).unwrap();
        let raw = Raw { socket, _context: context };
        raw.send(Message::GREETING.to_frame());
        raw
    }

    /// Waits until there is room.
    fn send(&self, frame: Vec<u8>) {
        self.socket.send_timeout(frame, LONG).unwrap();
    }

    /// False: the server takes no more.
    fn send_if_taken(&self, frame: Vec<u8>) -> bool {
        self.socket.send_timeout(frame, Duration::from_secs(1)).is_ok()
    }

    /// Receives until HUGZ is answered, after all that was asked before. Returns how many frames came before.
    fn until_answered(&self) -> u64 {
        self.send(Message::Hugz.to_frame());
        let frames = std::iter::from_fn(|| {
            let message = self.socket.recv_timeout(LONG).unwrap();
            let answer = Message::read(&message.frames()[0]).unwrap();
            (answer != Message::HugzOk).then_some(())
        });
        frames.count() as u64
    }
}

/// A served folder with `file`, of random content, and `hole`, of zeros.
fn served() -> (Folder, Server) {
    let folder = Folder::new();
    fs::create_dir(folder.path("data")).unwrap();
    fs::write(folder.path("data/file"), Random::new().octets(2 * MIB)).unwrap();
    File::create(folder.path("data/hole")).unwrap().set_len(256 * MIB).unwrap();
    let server = Server::start(&[&format!("{}=/data", folder.text("data"))]);
    (folder, server)
}

/// Runs `lie`, while an honest client fetches a file again and again. Returns how often, and how much more memory the
/// server had.
fn beside(server: &Server, lie: impl FnOnce(&AtomicU64)) -> (u64, u64) {
    let honest = Client::builder(&server.tcp).patience(LONG).connect().unwrap();
    let fetch = || {
        let report = honest.discard("/data/file").wait().unwrap();
        assert_eq!((report.files, report.bytes, report.failed), (1, 2 * MIB, vec![]));
    };
    fetch();
    let (before, is_over, fetched) = (server.peak(), AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let fetches = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                fetch();
                fetched.fetch_add(1, Ordering::Relaxed);
            }
        });
        lie(&fetched);
        is_over.store(true, Ordering::Relaxed);
        fetches.join().unwrap();
    });
    fetch();
    (fetched.into_inner(), server.peak() - before)
}

/// The request of this number: of each kind in turn, and none gets credit.
fn request(number: u32) -> Vec<u8> {
    let (mode, path) = match number % 4 {
        0 => (Mode::Fetch, "/data/file"),
        1 => (Mode::List, "/data"),
        2 => (Mode::Follow, "/data"),
        _ => (Mode::Values, "/data/hole"),
    };
    Request::new(number, mode, path.as_bytes()).to_frame()
}

#[test]
fn a_client_asks_without_end() {
    let (_folder, server) = served();
    let count = short_or_long(10_000, 1_000_000);
    let mut answers = 0;
    let (fetched, more) = beside(&server, |_| {
        let raw = Raw::new(&server);
        for number in 1..=count {
            raw.send(request(number));
            // More than 32 MiB of requests at once would end its session.
            if number % 1000 == 0 {
                answers += raw.until_answered();
            }
        }
    });
    // 64 requests wait for credit; each of the others is told so.
    assert!(answers >= 2 * u64::from(count - 64), "only {answers} answers");
    assert!(more < 64 * MIB, "the server had {} more", mib(more));
    report(&format!(
        "a client that asks {count} times: {} more at the server, another one got {fetched} files",
        mib(more)
    ));
}

#[test]
fn a_client_asks_without_end_and_does_not_read() {
    let (_folder, server) = served();
    let count = short_or_long(10_000, 1_000_000);
    let mut taken = 0;
    let (fetched, more) = beside(&server, |_| {
        let raw = Raw::new(&server);
        taken = (1..=count).take_while(|number| raw.send_if_taken(request(*number))).count();
    });
    // 32 MiB of requests may wait, and 128 MiB of answers.
    assert!(more < 256 * MIB, "the server had {} more", mib(more));
    report(&format!(
        "a client that asks {count} times and does not read: {taken} taken, {} more at the server, another one got \
         {fetched} files",
        mib(more)
    ));
}

/// Each session has the subscriptions that one may have.
#[test]
fn a_client_subscribes_without_end() {
    let (_folder, server) = served();
    let count = short_or_long(10_000, 1_000_000);
    let (fetched, more) = beside(&server, |_| {
        let raw = Raw::new(&server);
        for number in 1..=count {
            if number % 64 == 0 {
                raw.send(Message::GREETING.to_frame());
            }
            let path = format!("/data/{number}");
            let (options, cache) = (Hash::EMPTY, Hash::EMPTY);
            raw.send(Message::Icanhaz { path: path.as_bytes(), options, cache }.to_frame());
            if number % 1000 == 0 {
                raw.until_answered();
            }
        }
    });
    assert!(more < 64 * MIB, "the server had {} more", mib(more));
    report(&format!(
        "a client that subscribes {count} times: {} more at the server, another one got {fetched} files",
        mib(more)
    ));
}

/// It is sent what the server may hold for one client, and no more.
#[test]
fn a_client_grants_without_end() {
    let (_folder, server) = served();
    let (fetched, more) = beside(&server, |fetched| {
        let raw = Raw::new(&server);
        for _ in 0..3 {
            raw.send(Message::Nom { credit: u64::MAX, sequence: u64::MAX }.to_frame());
        }
        for number in 0..16 {
            raw.send(Request::new(number, Mode::Fetch, b"/data/hole").to_frame());
        }
        // It never reads, and others go on.
        let files = short_or_long(100, 2000);
        until("other files", || fetched.load(Ordering::Relaxed) >= files);
    });
    // 128 MiB may wait for a client that ignores its credit; it has asked for 4 GiB.
    assert!(more < 256 * MIB, "the server had {} more", mib(more));
    report(&format!(
        "a client that grants 2^64 bytes and does not read: {} more at the server, another one got {fetched} files",
        mib(more)
    ));
}

/// What a server that lies sends of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lie {
    /// Its first half, and then nothing.
    Half,
    /// The same block again and again.
    Again,
}

/// A server with a file of 2 MiB that never ends. `sent`: how much was sent.
fn lie(router: &Router, lie: Lie, sent: &AtomicU64, is_over: &AtomicBool) {
    let (size, block) = (2 * MIB, vec![7; BLOCK as usize]);
    let values = |at: u64| -> Vec<u8> {
        let groups = block.chunks(GROUP as usize).enumerate();
        groups.flat_map(|(index, group)| group_value(at / GROUP + index as u64, group, size)).collect()
    };
    let (mut id, mut credit, mut request, mut next) = (Vec::new(), 0_u64, None::<Request>, 0);
    let say = |id: &[u8], frame: Vec<u8>| drop(router.send_multipart([id.to_vec(), frame]));
    while !is_over.load(Ordering::Relaxed) {
        if let Some(asked) =
            request.as_ref().filter(|_| credit >= BLOCK && (lie == Lie::Again || next < size / 2))
        {
            let headers =
                Headers { request: Some(asked.number), groups: values(next), ..Headers::default() }.write();
            let burger = Cheezburger::new(0, &asked.path, headers.hash());
            let burger = Cheezburger { offset: next, chunk: &block, ..burger };
            say(&id, Message::Cheezburger(burger).to_frame());
            sent.fetch_add(BLOCK, Ordering::Relaxed);
            (credit, next) = (credit - BLOCK, if lie == Lie::Again { 0 } else { next + BLOCK });
        }
        let wait = Duration::from_millis(if request.is_some() && lie == Lie::Again { 0 } else { 10 });
        let Ok(message) = router.recv_timeout(wait) else { continue };
        id = message.frames()[0].to_vec();
        match Message::read(&message.frames()[1]).unwrap() {
            Message::Ohai { .. } => say(&id, Message::OhaiOk.to_frame()),
            Message::Hugz => say(&id, Message::HugzOk.to_frame()),
            Message::Nom { credit: more, .. } => credit += more,
            Message::Icanhaz { path, options, .. } => {
                let asked = Request::read(path, options).unwrap().unwrap();
                let mut headers =
                    Headers { request: Some(asked.number), form: Form::End, ..Headers::default() };
                if asked.mode == Mode::Fetch {
                    (headers.form, headers.kind, headers.size) = (Form::Begin, Some(Kind::File), Some(size));
                    (headers.mtime_ns, headers.mode, headers.tag) = (Some(0), Some(0o644), b"tag".to_vec());
                }
                let written = headers.write();
                say(&id, Message::Cheezburger(Cheezburger::new(0, path, written.hash())).to_frame());
                if asked.mode == Mode::Fetch {
                    request = Some(asked);
                }
            }
            _ => {}
        }
    }
}

#[test]
fn a_server_never_ends_a_file() {
    for (what, way) in [("sends half of a file", Lie::Half), ("sends a block again and again", Lie::Again)] {
        let (folder, context) = (Folder::new(), Context::new().unwrap());
        fs::create_dir(folder.path("target")).unwrap();
        let router = Router::builder(&context).linger(Duration::ZERO).build().unwrap();
        let endpoint = router.bind("tcp://127.0.0.1:*").unwrap();
        let (sent, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        let (done, peak) = thread::scope(|scope| {
            scope.spawn(|| lie(&router, way, &sent, &is_over));
            let client =
                Process::start(&["files", "get", "-s", &endpoint, "/file", &folder.text("target/file")]);
            until("what is sent", || {
                let least = if way == Lie::Half { MIB } else { short_or_long(256, 8192) * MIB };
                client.has_ended() || sent.load(Ordering::Relaxed) >= least
            });
            until("a record of it", || client.has_ended() || recorded(&folder.path("target"), "file") > 0);
            let peak = client.peak();
            client.signal(Signal::TERM);
            let done = client.end();
            is_over.store(true, Ordering::Relaxed);
            (done, peak)
        });
        done.expect(143);
        assert!(peak > 0 && peak < 64 * MIB, "the client had {}", mib(peak));
        assert_eq!(names(&folder.path("target")), [part_name("file"), blocks_name("file")]);
        let sent = sent.into_inner();
        report(&format!(
            "a server that {what} for ever: {} sent, {} at the client, ended by a signal",
            mib(sent),
            mib(peak)
        ));
    }
}
