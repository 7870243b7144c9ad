//! Malicious peers beside an honest pair: forged names and acknowledgements, numbers far ahead, messages without an
//! end, more than the credit, thousands of streams, decompression bombs, random bytes. The honest pair's traffic goes
//! on unaffected, and memory stays within limits.

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use pinnace_delivery::{Client, Durability, Error};
use pinnace_engine::{Context, Label, Outgoing, Socket, SocketType};

use crate::checker::{Message, STRICT, Shared, next};
use crate::common::{Closing, client, durability, kept, resident, short_or_long, soon, until};

/// libzmq's numbers.
const CLIENT: SocketType = SocketType::Client;
const SERVER: SocketType = SocketType::Server;
const LINGER: i32 = 17;
const RCVTIMEO: i32 = 27;
const LAST_ENDPOINT: i32 = 32;

/// Flags of an entry.
pub const BEGINS: u8 = 1;
pub const ENDS: u8 = 2;
pub const DEAD: u8 = 4;
const PACKED: u8 = 8;

/// The largest body that the receiver accepts.
const LARGEST: usize = 32 << 20;

/// A builder of frames (docs/delivery-formats.md).
pub struct Frame(pub Vec<u8>);

impl Frame {
    pub fn of(kind: u8) -> Frame {
        Frame(vec![kind])
    }

    pub fn byte(mut self, byte: u8) -> Frame {
        self.0.push(byte);
        self
    }

    pub fn number(mut self, mut number: u64) -> Frame {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
        self
    }

    pub fn bytes(mut self, bytes: &[u8]) -> Frame {
        self.0.extend_from_slice(bytes);
        self
    }

    pub fn counted(self, bytes: &[u8]) -> Frame {
        self.number(bytes.len() as u64).bytes(bytes)
    }

    pub fn hello(name: &str, id: u128, epoch: u64, receiver: &str) -> Frame {
        let hello = Frame::of(1).number(1).counted(name.as_bytes()).bytes(&id.to_le_bytes());
        hello.number(epoch).number(7).counted(receiver.as_bytes())
    }

    pub fn open(stream: u64, topic: &str) -> Frame {
        Frame::of(2).number(stream).counted(topic.as_bytes()).number(0).number(0)
    }

    pub fn data(stream: u64, prev: u64) -> Frame {
        Frame::of(3).number(stream).number(prev).number(0)
    }

    pub fn entry(self, step: u64, flags: u8, body: &[u8]) -> Frame {
        self.number(step).byte(flags).number(0).counted(body)
    }
}

/// A socket that is closed when dropped.
pub struct Mouth(pub Socket);

impl Mouth {
    fn new(context: &Context, kind: SocketType) -> Mouth {
        let socket = context.socket(kind).unwrap();
        socket.set_option(LINGER, &0_i32.to_ne_bytes()).unwrap();
        socket.set_option(RCVTIMEO, &20_000_i32.to_ne_bytes()).unwrap();
        Mouth(socket)
    }

    pub fn connect(context: &Context, to: &Client) -> Mouth {
        let mouth = Mouth::new(context, CLIENT);
        mouth.0.connect(to.endpoint()).unwrap();
        mouth
    }

    /// Connects and introduces itself under a new name and id.
    fn mallory(context: &Context, to: &Client) -> Mouth {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let (mouth, number) = (Mouth::connect(context, to), NUMBER.fetch_add(1, Relaxed));
        mouth.say(Frame::hello(&format!("mallory{number}"), 100 + number as u128, 1, to.name()));
        mouth.wait_for(0x10);
        mouth
    }

    pub fn say(&self, frame: Frame) {
        self.0.send(Outgoing::Bytes(&frame.0), false, true).unwrap();
    }

    /// Waits for a frame of a kind, and returns it.
    pub fn wait_for(&self, kind: u8) -> Vec<u8> {
        loop {
            let mut frame = Vec::new();
            self.0.recv(true, &mut |from| frame.extend_from_slice(from.data())).unwrap();
            if frame[0] == kind {
                return frame;
            }
            assert_ne!(frame[0], 0x16, "{kind:#x} was waited for, and this came: {frame:?}");
        }
    }

    /// Waits for a refusal with this code.
    pub fn is_refused(&self, code: u8) {
        assert_eq!(self.wait_for(0x16)[1], code);
    }
}

impl Drop for Mouth {
    fn drop(&mut self) {
        let _ = self.0.close();
    }
}

/// Codes of a refusal.
const NAME_TAKEN: u8 = 1;
const NOT_ME: u8 = 3;
const PROTOCOL: u8 = 4;

/// Tries each attack once.
fn lie(context: &Context, receiver: &Client, lazy: &Client, random: &mut u64) {
    lie_about_oneself(context, receiver);
    lie_about_numbers(context, receiver);
    send_too_much(context, receiver, lazy);
    send_nonsense(context, receiver, random);
}

fn lie_about_oneself(context: &Context, receiver: &Client) {
    // Under another client's name, and to another receiver.
    let mouth = Mouth::connect(context, receiver);
    mouth.say(Frame::hello("sender", 9, 1 << 20, "receiver"));
    mouth.is_refused(NAME_TAKEN);
    mouth.say(Frame::hello("mallory", 9, 1, "another"));
    mouth.is_refused(NOT_ME);
    // Without an introduction.
    mouth.say(Frame::open(1, "news"));
    mouth.say(Frame::data(1, 0).entry(1, BEGINS | ENDS, b"nobody's"));
}

fn lie_about_numbers(context: &Context, receiver: &Client) {
    // Numbers far ahead, and beyond the limit.
    let mouth = Mouth::mallory(context, receiver);
    mouth.say(Frame::open(1, "news"));
    mouth.say(Frame::data(1, 1 << 62).entry(1, BEGINS | ENDS, b"ahead"));
    mouth.wait_for(0x14);
    mouth.say(Frame::data(1, 0).entry((1 << 63) - 1, BEGINS | ENDS, b"the last there is"));
    mouth.say(Frame::of(4).number(1).number((1 << 63) - 1).number(0));
    mouth.say(Frame::data(1, 0).entry(1 << 63, BEGINS | ENDS, b"behind the last"));
    mouth.is_refused(PROTOCOL);

    // More ranges than the limit, and invalid ranges.
    for (count, step) in [(1025, 2), (3, u64::MAX)] {
        let mouth = Mouth::mallory(context, receiver);
        let mut gone = Frame::of(4).number(1).number(0).number(count);
        for _ in 0..count {
            gone = gone.number(step).number(0);
        }
        mouth.say(gone);
        mouth.is_refused(PROTOCOL);
    }
}

fn send_too_much(context: &Context, receiver: &Client, lazy: &Client) {
    // A message that never ends, and one that begins with its middle.
    let mouth = Mouth::mallory(context, receiver);
    mouth.say(Frame::open(1, "endless"));
    mouth.say(Frame::open(2, "headless"));
    mouth.say(Frame::data(2, 0).entry(1, 0, b"middle").entry(1, ENDS, b"end"));
    let part = vec![7; 1 << 20];
    mouth.say(Frame::data(1, 0).entry(1, BEGINS, &part));
    for number in 1..short_or_long(64, 200) {
        mouth.say(Frame::data(1, number).entry(1, 0, &part));
    }

    // More than the credit, to a client that handles nothing.
    let mouth = Mouth::mallory(context, lazy);
    mouth.say(Frame::open(1, "much"));
    for number in 0..16 {
        mouth.say(Frame::data(1, number).entry(1, BEGINS | ENDS, &part));
    }
    mouth.is_refused(PROTOCOL);
}

fn send_nonsense(context: &Context, receiver: &Client, random: &mut u64) {
    // Bodies that decompress to too much, or not at all; a dead letter with an invalid envelope.
    let mouth = Mouth::mallory(context, receiver);
    let swelling = zstd::bulk::compress(&vec![0; LARGEST * 3], 1).unwrap();
    for (stream, body) in [(1, &swelling[..]), (2, &b"no such thing"[..])] {
        mouth.say(Frame::open(stream, "packed"));
        mouth.say(Frame::data(stream, 0).entry(1, BEGINS | ENDS | PACKED, body));
        mouth.wait_for(0x15);
    }
    mouth.say(Frame::open(3, "dead"));
    mouth.say(Frame::data(3, 0).entry(1, BEGINS | ENDS | DEAD, b"\xff"));

    // Random bytes.
    for _ in 0..50 {
        let mouth = Mouth::mallory(context, receiver);
        mouth.say(Frame::open(1, "noise"));
        let len = next(random) % 200;
        let noise: Vec<u8> = (0..len).map(|_| next(random) as u8).collect();
        mouth.say(Frame(noise));
        mouth.say(Frame::data(1, 0).bytes(&[next(random) as u8; 9]));
    }
    let address = receiver.endpoint().trim_start_matches("tcp://");
    let greeting = b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\0NULL";
    for len in 0..60 {
        let mut stream = TcpStream::connect(address).unwrap();
        let noise: Vec<u8> = (0..len * 3).map(|_| next(random) as u8).collect();
        stream.write_all(&greeting[..greeting.len().min(len)]).unwrap();
        // The receiver may have closed the connection.
        let _ = stream.write_all(&noise);
    }
}

/// Opens thousands of streams in one session. Returns how much memory that takes.
fn open_many(context: &Context, receiver: &Client) -> u64 {
    let (before, count) = (resident(), short_or_long(5_000, 20_000));
    let mouth = Mouth::mallory(context, receiver);
    for stream in 1..=count {
        mouth.say(Frame::open(stream, "many"));
        mouth.say(Frame::data(stream, 0).entry(1, BEGINS | ENDS, b"one"));
    }
    for _ in 0..count {
        mouth.wait_for(0x11);
    }
    resident().saturating_sub(before)
}

/// A receiver that acknowledges everything, including messages that were never sent. Returns the number of its frames.
fn be_a_false_receiver(mouth: &Mouth, stop: &AtomicBool) -> usize {
    let (mut said, mut round) = (0, 0_u64);
    while !stop.load(Relaxed) {
        let received = mouth.0.recv_labelled(true, &mut |_| {});
        let Ok(received) = received else { continue };
        let label = Label { routing_id: received.label.routing_id, ..Label::default() };
        let mut say = |frame: Frame| {
            said += 1;
            let _ = mouth.0.send_labelled(Outgoing::Bytes(&frame.0), &label, false, false);
        };
        say(Frame::of(0x10).number(1).counted(b"liar").bytes(&[5; 16]).number(round / 4).number(0));
        say(Frame::of(0x13).number(u64::MAX));
        for stream in 0..20 {
            for upto in [1, 1 << 40, (1 << 40) + 1 + round, 1 << 62, (1 << 63) - 1] {
                say(Frame::of(0x12).number(stream).number(upto).number(0));
                say(Frame::of(0x11).number(stream).number(upto).number(upto).number(0));
                say(Frame::of(0x11).number(stream).number(u64::MAX).number(0).number(0));
                say(Frame::of(0x14).number(stream).number(upto));
                say(Frame::of(0x15).number(stream).number(1).number(upto).byte(0).number(1));
                say(Frame::of(0x15).number(stream).number(u64::MAX).number(upto).byte(3).number(u64::MAX));
            }
        }
        if round % 3 == 2 {
            say(Frame::of(0x16).byte((round % 7) as u8).counted(b"no"));
            say(Frame::of(0x99));
        }
        round += 1;
    }
    said
}

/// A socket for a malicious receiver, and its endpoint.
pub fn false_receiver(context: &Context) -> (Mouth, String) {
    let mouth = Mouth::new(context, SERVER);
    mouth.0.set_option(RCVTIMEO, &100_i32.to_ne_bytes()).unwrap();
    mouth.0.bind("tcp://127.0.0.1:*").unwrap();
    let mut text = [0; 256];
    let len = mouth.0.get_option(LAST_ENDPOINT, &mut text).unwrap();
    let endpoint = String::from_utf8_lossy(&text[..len]).trim_end_matches('\0').to_owned();
    (mouth, endpoint)
}

/// Sends to the honest receiver, and sometimes to a malicious one.
fn send(sender: &Client, books: &Shared, stop: &AtomicBool) {
    for number in 0.. {
        let message = Message { flow: 0, run: 0, number };
        let len = if number % 300 == 299 { 1_500_000 } else { 12 + number as usize % 500 };
        sender.send("news", &message.body(len), &kept(durability(number))).unwrap();
        books.accept(message);
        if number % 20 == 0 {
            let durability = if number % 40 == 0 { Durability::Memory } else { Durability::Interval };
            sender.send("lies", b"to a liar", &kept(durability)).unwrap();
            until("what is under way", || books.waiting() < 500);
        }
        if stop.load(Relaxed) {
            return;
        }
    }
}

/// Handles all messages. Returns how many came from malicious senders.
fn receive(receiver: &Client, books: &Shared) -> usize {
    let mut others = 0;
    loop {
        match receiver.recv(None) {
            Ok(delivery) => {
                match delivery.from() {
                    "sender" => drop(books.handle(0, 0, delivery.body())),
                    _ => others += 1,
                }
                delivery.ack();
            }
            Err(error) => {
                assert_eq!(error, Error::Closed);
                return others;
            }
        }
    }
}

/// Sets a flag when dropped, also after a panic.
struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn the_honest_go_on_beside_liars() {
    let dir = tempfile::tempdir().unwrap();
    let context = Context::new().unwrap();
    let (mouth, liar) = false_receiver(&context);
    let receiver =
        client("receiver", dir.path()).listen("tcp://127.0.0.1:*").max_body(LARGEST).start().unwrap();
    let lazy = client("lazy", dir.path()).listen("tcp://127.0.0.1:*").start().unwrap();
    let sender = client("sender", dir.path()).peer("receiver", receiver.endpoint(), &["news"]);
    let sender = sender.peer("liar", &liar, &["lies"]).start().unwrap();
    let (books, stop, before) = (Shared::default(), AtomicBool::new(false), resident());
    let rounds = short_or_long(2, 40);
    let (said, others, for_streams) = std::thread::scope(|scope| {
        let (_stopping, _closing) = (Stopping(&stop), Closing(&receiver));
        let falsehoods = scope.spawn(|| be_a_false_receiver(&mouth, &stop));
        let receives = scope.spawn(|| receive(&receiver, &books));
        let sends = scope.spawn(|| send(&sender, &books, &stop));
        until("the honest", || books.lock().handled.len() > 100);
        let mut random = 0x11e5;
        for _ in 0..rounds {
            lie(&context, &receiver, &lazy, &mut random);
        }
        let for_streams = open_many(&context, &receiver);
        stop.store(true, Relaxed);
        sends.join().unwrap();
        until("all that is honest", || books.waiting() == 0);
        until("its acknowledgements", || {
            let pending = sender.pending_by_peer();
            pending.iter().filter(|of| of.topic == "news").all(|of| of.messages == 0)
        });
        let _ = receiver.close(soon());
        (falsehoods.join().unwrap(), receives.join().unwrap(), for_streams)
    });
    assert!(lazy.recv(soon()).is_ok(), "what was granted is there");
    let more = resident().saturating_sub(before) >> 20;
    let text = format!(
        "{said} false words of a receiver, {others} messages of liars; {more} MiB more, {} for streams",
        for_streams >> 20
    );
    // The lazy client holds what it granted to each malicious peer, plus 4 MiB of overdraft; the other holds, for each
    // peer, what may become one message.
    assert!(more < 512 + rounds * (13 + (LARGEST as u64 >> 20)), "{text}");
    books.lock().close("an honest pair beside liars", &STRICT, &text);
}

/// Waits for a frame of a kind. Returns its sender's routing id, and the frame.
pub fn heard(mouth: &Mouth, kind: u8) -> (u32, Vec<u8>) {
    let deadline = soon().unwrap();
    while std::time::Instant::now() < deadline {
        let mut frame = Vec::new();
        if let Ok(received) = mouth.0.recv_labelled(true, &mut |from| frame.extend_from_slice(from.data()))
            && frame[0] == kind
        {
            return (received.label.routing_id, frame);
        }
    }
    panic!("{kind:#x} never came");
}

/// A receiver that claims to have what was never sent knows a copy of the sender, so the sender takes a new id: once. A
/// receiver that claims it again is refused.
#[test]
fn numbers_that_were_never_given() {
    let dir = tempfile::tempdir().unwrap();
    let context = Context::new().unwrap();
    let (mouth, endpoint) = false_receiver(&context);
    let (tell, told) = std::sync::mpsc::channel();
    let sender = client("sender", dir.path()).peer("liar", &endpoint, &["lies"]);
    let sender = sender.on_error(move |error| tell.send(error.clone()).unwrap()).start().unwrap();
    sender.send("lies", b"the first", &kept(Durability::Sync)).unwrap();
    let say = |to: u32, frame: Frame| {
        let label = Label { routing_id: to, ..Label::default() };
        mouth.0.send_labelled(Outgoing::Bytes(&frame.0), &label, false, true).unwrap();
    };
    let welcome = || Frame::of(0x10).number(1).counted(b"liar").bytes(&[5; 16]).number(0).number(0);
    let name = b"\x06sender";
    let id_of = |hello: &[u8]| {
        let at = hello.windows(name.len()).position(|part| part == name).unwrap() + name.len();
        hello[at..at + 16].to_vec()
    };
    let mut ids = Vec::new();
    for upto in [(1 << 40) + 2, (1 << 40) + 2, 0] {
        let (from, hello) = heard(&mouth, 1);
        ids.push(id_of(&hello));
        say(from, welcome());
        say(from, Frame::of(0x13).number(1 << 20));
        let (_, open) = heard(&mouth, 2);
        let cursor = Frame::of(0x11).number(u64::from(open[1])).number(upto).number(0).number(0);
        say(from, cursor);
        if upto == 0 {
            let (_, data) = heard(&mouth, 3);
            assert!(data.ends_with(b"the first"));
        } else {
            let error = told.recv_timeout(std::time::Duration::from_secs(60)).unwrap();
            match ids.len() {
                1 => assert_eq!(error, Error::Copied { peer: "liar".to_owned() }),
                _ => assert!(matches!(error, Error::Refused { .. }), "{error:?}"),
            }
        }
    }
    assert!(ids[0] != ids[1] && ids[1] == ids[2], "{ids:?}");
}
