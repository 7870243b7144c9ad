//! The checklist of "Transferring Files" in the ZeroMQ Guide, row by row, against a client of the test's own that
//! speaks the protocol frame by frame. The table is in docs/files.md, with the rows that other tests show.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use pinnace_engine::{Context, Outgoing, Socket, SocketType};
use pinnace_files::client::{Client, Event};
use pinnace_files::error::{Code, Error};
use pinnace_files::server::{Server, ServerBuilder};
use pinnace_files::wire::{Form, Headers, Message, Mode, Request};
use tempfile::TempDir;

const MIB: usize = 1 << 20;

/// A client that does what the test says.
struct Raw {
    socket: Socket,
    _context: Context,
}

/// A CHEEZBURGER that has arrived.
#[derive(Debug)]
struct Burger {
    offset: u64,
    eof: bool,
    headers: Headers,
    chunk: Vec<u8>,
}

impl Raw {
    fn new(server: &Server) -> Raw {
        let context = Context::new().unwrap();
        let socket = context.socket(SocketType::Dealer).unwrap();
        socket
            .configure(|options| {
                (options.sndhwm, options.rcvhwm) = (0, 0);
                options.linger = Some(Duration::ZERO);
                options.rcvtimeo = Some(Duration::from_secs(20));
            })
            .unwrap();
        socket.connect(&server.endpoints()[0]).unwrap();
        let raw = Raw { socket, _context: context };
        raw.send(&Message::GREETING.to_frame());
        raw
    }

    fn send(&self, frame: &[u8]) {
        self.socket.send(Outgoing::Bytes(frame), false, true).unwrap();
    }

    fn nom(&self, credit: u64) {
        self.send(&Message::Nom { credit, sequence: 1 }.to_frame());
    }

    fn ask(&self, request: Request) {
        self.send(&Request { number: 1, ..request }.to_frame());
    }

    /// The next CHEEZBURGER. None: HUGZ-OK came before.
    fn next(&self) -> Option<Burger> {
        loop {
            let mut frame = Vec::new();
            self.socket.recv_frames(true, &mut |part| frame = part.data().to_vec()).unwrap();
            match Message::read(&frame).unwrap() {
                Message::Cheezburger(burger) => {
                    let (offset, eof) = (burger.offset, burger.eof);
                    let (headers, chunk) = (Headers::read(burger.headers).unwrap(), burger.chunk.to_vec());
                    return Some(Burger { offset, eof, headers, chunk });
                }
                Message::HugzOk => return None,
                Message::OhaiOk | Message::IcanhazOk => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// The CHEEZBURGERs with content, up to the request's end.
    fn content(&self) -> Vec<Burger> {
        let all = std::iter::from_fn(|| self.next().filter(|burger| burger.headers.form != Form::End));
        all.filter(|burger| burger.headers.form == Form::Data).collect()
    }

    /// What arrives until there are `least` octets of content, and a little longer: what exceeds the credit would come
    /// then.
    fn receive(&self, least: u64) -> Vec<Burger> {
        let mut all = Vec::new();
        while len_of(&all) < least {
            all.extend(self.next());
        }
        for _ in 0..3 {
            self.send(&Message::Hugz.to_frame());
            all.extend(std::iter::from_fn(|| self.next()));
        }
        all
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = self.socket.close();
    }
}

fn octets(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

fn content_of(burgers: &[Burger]) -> Vec<u8> {
    burgers.iter().flat_map(|burger| burger.chunk.clone()).collect()
}

fn len_of(burgers: &[Burger]) -> u64 {
    burgers.iter().map(|burger| burger.chunk.len() as u64).sum()
}

fn builder(folder: &Path) -> ServerBuilder {
    Server::builder().writable_folder("/data", folder).unwrap().bind("tcp://127.0.0.1:*")
}

/// A served folder with one file.
fn served(len: usize) -> (TempDir, Server) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), octets(len)).unwrap();
    let server = builder(dir.path()).start().unwrap();
    (dir, server)
}

fn fetch() -> Request {
    Request::new(1, Mode::Fetch, b"/data/file")
}

fn connect(server: &Server) -> Client {
    Client::connect(&server.endpoints()[0]).unwrap()
}

#[test]
fn row_01_a_file_is_sent_in_chunks() {
    let (_dir, server) = served(5 * MIB);
    let raw = Raw::new(&server);
    raw.nom(u64::MAX);
    raw.ask(fetch());
    let chunks = raw.content();
    assert!(chunks.iter().all(|chunk| chunk.chunk.len() <= 512 << 10));
    assert!(content_of(&chunks) == octets(5 * MIB));
}

#[test]
fn row_02_what_was_not_received_is_sent_from_any_offset_on() {
    let (_dir, server) = served(5 * MIB);
    let raw = Raw::new(&server);
    raw.nom(u64::MAX);
    let first = 3 * MIB as u64 + 12_345;
    raw.ask(Request { ranges: vec![(first, 5 * MIB as u64)], ..fetch() });
    let chunks = raw.content();
    // It begins with the group of 16 KiB that has the offset.
    let begin = first / 16_384 * 16_384;
    assert_eq!(chunks[0].offset, begin);
    assert!(content_of(&chunks) == octets(5 * MIB)[begin as usize..]);
}

#[test]
fn row_03_clients_that_do_not_read_cost_their_credit() {
    let (_dir, server) = served(64 * MIB);
    let (window, count) = (2 * MIB as u64, 10);
    let clients: Vec<Raw> = (0..count).map(|_| Raw::new(&server)).collect();
    for client in &clients {
        client.nom(window);
        client.ask(fetch());
        assert_eq!(len_of(&client.receive(window)), window);
    }
    assert_eq!(server.sent_bytes(), window * count);
}

#[test]
fn row_04_many_small_chunks_are_not_lost_at_a_high_water_mark() {
    let (dir, server) = served(2_000_000);
    let server = (builder(dir.path()).high_water_mark(1000).start().unwrap(), server).0;
    let client = Client::builder(&server.endpoints()[0]).chunk(200).high_water_mark(1000).connect().unwrap();
    let to = dir.path().join("copy");
    assert_eq!(client.get("/data/file", &to).wait().unwrap().failed, []);
    assert!(fs::read(to).unwrap() == octets(2_000_000));
}

#[test]
fn row_05_a_high_water_mark_of_one_is_enough() {
    let (dir, _) = served(2 * MIB);
    let server = builder(dir.path()).high_water_mark(1).start().unwrap();
    let client = Client::builder(&server.endpoints()[0]).high_water_mark(1).connect().unwrap();
    let (copy, back) = (dir.path().join("copy"), dir.path().join("back"));
    assert_eq!(client.get("/data/file", &copy).wait().unwrap().failed, []);
    assert_eq!(client.put(&copy, "/data/back").wait().unwrap().failed, []);
    assert!(fs::read(back).unwrap() == octets(2 * MIB));
}

#[test]
fn row_06_only_what_was_granted_is_sent() {
    let (_dir, server) = served(5 * MIB);
    let raw = Raw::new(&server);
    raw.ask(fetch());
    assert_eq!(len_of(&raw.receive(0)), 0);
    for (credit, total) in [(1, 1), (99_999, 100_000), (1_000_000, 1_100_000)] {
        let before = server.sent_bytes();
        raw.nom(credit);
        assert_eq!(len_of(&raw.receive(credit)), credit);
        assert_eq!((server.sent_bytes() - before, server.sent_bytes()), (credit, total));
    }
}

#[test]
fn row_07_the_client_chooses_the_size_of_chunks() {
    let (_dir, server) = served(MIB);
    for chunk in [1000, 50_000, 1 << 20] {
        let raw = Raw::new(&server);
        raw.nom(u64::MAX);
        raw.ask(Request { chunk, ..fetch() });
        let chunks = raw.content();
        assert!(chunks.iter().all(|burger| burger.chunk.len() <= chunk as usize));
        assert!(chunks.iter().any(|burger| burger.chunk.len() > chunk as usize * 9 / 10));
        assert!(content_of(&chunks) == octets(MIB));
    }
}

#[test]
fn row_08_a_transfer_can_begin_anew_at_any_time() {
    let (dir, server) = served(8 * MIB);
    let to = dir.path().join("copy");
    for _ in 0..5 {
        let client = connect(&server);
        let transfer = client.get("/data/file", &to);
        while !matches!(transfer.next_event(), Some(Event::Progress { .. } | Event::Ended(_))) {}
    }
    assert_eq!(connect(&server).get("/data/file", &to).wait().unwrap().failed, []);
    assert!(fs::read(to).unwrap() == octets(8 * MIB));
}

#[test]
fn row_09_a_client_may_cancel_at_any_time() {
    let (dir, server) = served(64 * MIB);
    let client = connect(&server);
    let transfer = client.get("/data/file", &dir.path().join("copy"));
    transfer.cancel();
    assert!(matches!(transfer.wait(), Err(Error::Cancelled)));
    // The same connection serves the next transfer.
    assert_eq!(client.discard("/data/file").wait().unwrap().bytes, 64 * MIB as u64);
}

#[test]
fn row_10_credit_for_many_chunks_needs_no_round_trip_for_each() {
    let (_dir, server) = served(5 * MIB);
    let raw = Raw::new(&server);
    raw.nom(10 * 65_536);
    raw.ask(Request { chunk: 65_536, ..fetch() });
    let all = raw.receive(10 * 65_536);
    assert_eq!(all.iter().filter(|burger| burger.headers.form == Form::Data).count(), 10);
}

#[test]
fn row_14_a_client_that_does_not_read_holds_up_no_other() {
    let (dir, server) = served(8 * MIB);
    let slow: Vec<Raw> = (0..8).map(|_| Raw::new(&server)).collect();
    for client in &slow {
        client.nom(u64::MAX);
        client.ask(fetch());
    }
    let to = dir.path().join("copy");
    assert_eq!(connect(&server).get("/data/file", &to).wait().unwrap().failed, []);
    assert!(fs::read(to).unwrap() == octets(8 * MIB));
    // They have lost nothing.
    assert!(content_of(&slow[7].content()) == octets(8 * MIB));
}

#[test]
fn row_15_the_end_of_a_file_is_told_with_its_digest() {
    for len in [0, 1, 16_384, 262_144, 262_145] {
        let (dir, server) = served(len);
        let raw = Raw::new(&server);
        raw.nom(u64::MAX);
        raw.ask(fetch());
        let chunks = raw.content();
        let (last, others) = chunks.split_last().unwrap();
        assert!(last.eof && others.iter().all(|chunk| !chunk.eof), "{len}");
        assert_eq!(last.headers.digest, Some(*blake3::hash(&octets(len)).as_bytes()), "{len}");
        let report = connect(&server).get("/data/file", &dir.path().join("copy")).wait().unwrap();
        assert_eq!((report.files, report.bytes), (1, len as u64));
    }
}

/// For the last part of a file the server reads all of it, for the digest; and for a listing with digests.
#[test]
fn row_14_a_large_file_that_is_read_holds_up_no_other() {
    let (dir, server) = served(MIB);
    let len = 64_u64 << 30;
    File::create(dir.path().join("large")).unwrap().set_len(len).unwrap();
    // More than the server has workers.
    let raws: Vec<Raw> = (0..8).map(|_| Raw::new(&server)).collect();
    for (number, raw) in raws.iter().enumerate() {
        raw.nom(16_384);
        let (mode, ranges) = match number % 2 {
            0 => (Mode::Fetch, vec![(len - 1, len)]),
            _ => (Mode::List, Vec::new()),
        };
        raw.ask(Request { ranges, digests: true, ..Request::new(0, mode, b"/data/large") });
        if mode == Mode::Fetch {
            assert_eq!(raw.next().unwrap().headers.form, Form::Begin);
        }
    }
    let report = connect(&server).get("/data/file", &dir.path().join("copy")).wait().unwrap();
    assert_eq!((report.files, report.failed), (1, vec![]));
    assert!(raws[0].socket.recv(false, &mut |_| {}).is_err(), "it was read to its end before");
}

#[test]
fn row_16_offsets_have_64_bits() {
    let (dir, server) = served(0);
    let (len, at) = (6_u64 << 30, (5_u64 << 30) + 7);
    let file = File::options().write(true).open(dir.path().join("file")).unwrap();
    file.set_len(len).unwrap();
    file.write_all_at(b"beyond 4 GiB", at).unwrap();
    let raw = Raw::new(&server);
    // Credit for the first group alone: for the last one the server would read the whole file.
    raw.nom(16_384);
    raw.ask(Request { ranges: vec![(at, at + 12), (len - 1, len)], ..fetch() });
    let first = std::iter::from_fn(|| raw.next()).find(|burger| burger.headers.form == Form::Data).unwrap();
    assert_eq!(first.offset, at / 16_384 * 16_384);
    let begin = (at - first.offset) as usize;
    assert_eq!(&first.chunk[begin..begin + 12], b"beyond 4 GiB");
}

#[test]
fn row_18_a_file_that_the_client_has_is_not_sent() {
    let (dir, server) = served(MIB);
    let to = dir.path().join("copy");
    assert_eq!(connect(&server).get("/data/file", &to).wait().unwrap().files, 1);
    let sent = server.sent_bytes();
    assert_eq!(connect(&server).get("/data/file", &to).wait().unwrap().files, 0);
    assert_eq!(server.sent_bytes(), sent);
}

/// A file that no disk has room for.
#[test]
fn row_19_size_and_attributes_come_first() {
    let (dir, server) = served(0);
    File::options().write(true).open(dir.path().join("file")).unwrap().set_len(8 << 40).unwrap();
    let raw = Raw::new(&server);
    raw.ask(fetch());
    let begin = raw.next().unwrap();
    assert_eq!((begin.headers.form, begin.headers.size), (Form::Begin, Some(8 << 40)));
    assert!(begin.headers.mtime_ns.is_some() && begin.headers.mode.is_some());
    let to = dir.path().join("copy");
    let report = connect(&server).get("/data/file", &to).wait().unwrap();
    assert_eq!(report.failed[0].1.code, Code::NoRoom);
    assert!(!to.exists());
}

#[test]
fn row_20_many_files_come_by_one_request() {
    let (dir, server) = served(0);
    let names: Vec<Vec<u8>> = (0..500).map(|number| format!("many/{number}").into_bytes()).collect();
    fs::create_dir(dir.path().join("many")).unwrap();
    for name in &names {
        fs::write(dir.path().join(std::str::from_utf8(name).unwrap()), name).unwrap();
    }
    let raw = Raw::new(&server);
    raw.nom(u64::MAX);
    raw.ask(Request { names, ..Request::new(1, Mode::Fetch, b"/data") });
    let all: Vec<Burger> =
        std::iter::from_fn(|| raw.next().filter(|of| of.headers.form != Form::End)).collect();
    assert!(all.len() < 5, "{} frames", all.len());
    assert!(all.iter().all(|burger| burger.headers.form == Form::Pack));
}

#[test]
fn row_26_credit_is_in_bytes_whatever_the_files() {
    let (dir, server) = served(250_000);
    fs::create_dir(dir.path().join("many")).unwrap();
    for number in 0..200 {
        fs::write(dir.path().join(format!("many/{number}")), vec![7; 2500]).unwrap();
    }
    let names: Vec<Vec<u8>> = (0..200).map(|number| format!("many/{number}").into_bytes()).collect();
    let raw = Raw::new(&server);
    raw.nom(250_000);
    raw.ask(Request { names, ..Request::new(1, Mode::Fetch, b"/data") });
    let got = len_of(&raw.receive(240_000));
    assert!((240_000..=250_000).contains(&got), "{got}");
}
