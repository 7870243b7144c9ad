//! A client of the program: writes and reads packets, spelt out here once more.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

/// A deadline for what must happen.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// How long something is watched that must not happen.
pub const A_MOMENT: Duration = Duration::from_millis(100);

pub struct Client {
    pub process: Child,
    /// None: it is closed.
    pub input: Option<ChildStdin>,
    packets: Receiver<Vec<u8>>,
    /// Packets that were read while others were waited for.
    kept: VecDeque<Vec<u8>>,
    last: u32,
}

pub fn frame(content: &[u8], more: bool) -> Vec<u8> {
    let header = u32::try_from(content.len()).unwrap() | if more { 1 << 31 } else { 0 };
    [&header.to_be_bytes()[..], content].concat()
}

/// Octets with their length before them.
pub fn bytes(content: &[u8]) -> Vec<u8> {
    frame(content, false)
}

fn number(octets: &[u8]) -> u32 {
    u32::from_be_bytes(octets[..4].try_into().unwrap())
}

impl Client {
    /// A program that got a hello.
    pub fn start() -> Client {
        let mut client = Client::silent(&[]);
        client.write(&[1, 0, 1]);
        client
    }

    /// A program that has sent its hello.
    pub fn silent(arguments: &[&str]) -> Client {
        let mut process = Command::new(env!("CARGO_BIN_EXE_pinnace-port"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (input, mut output) = (process.stdin.take(), process.stdout.take().unwrap());
        // It reads as packets are taken, so that the program's pipe may be full.
        let (sender, packets) = sync_channel(1);
        std::thread::spawn(move || {
            let mut length = [0; 4];
            while output.read_exact(&mut length).is_ok() {
                let mut packet = vec![0; u32::from_be_bytes(length) as usize];
                if output.read_exact(&mut packet).is_err() || sender.send(packet).is_err() {
                    break;
                }
            }
        });
        let mut client = Client { process, input, packets, kept: VecDeque::new(), last: 0 };
        let hello = client.next();
        assert_eq!(&hello[..17], b"\x81pinnace-port\0\x01\0\x01");
        client
    }

    /// Writes octets as they are. Returns false if the program has closed its end.
    pub fn write_raw(&mut self, octets: &[u8]) -> bool {
        self.input.as_mut().is_some_and(|input| input.write_all(octets).is_ok())
    }

    pub fn write(&mut self, packet: &[u8]) {
        assert!(self.write_raw(&bytes(packet)));
    }

    /// The next packet. Fails after a deadline, and if the program has ended.
    pub fn next(&mut self) -> Vec<u8> {
        self.kept.pop_front().unwrap_or_else(|| self.packets.recv_timeout(PATIENCE).expect("a packet"))
    }

    /// The next packet of this kind; others are kept.
    pub fn next_of(&mut self, kind: u8) -> Vec<u8> {
        if let Some(at) = self.kept.iter().position(|packet| packet[0] == kind) {
            return self.kept.remove(at).unwrap();
        }
        loop {
            let packet = self.packets.recv_timeout(PATIENCE).expect("a packet");
            if packet[0] == kind {
                return packet;
            }
            self.kept.push_back(packet);
        }
    }

    /// What was written before is handled before the pong.
    pub fn ping(&mut self) {
        self.write(&[6, 0, 0, 0, 0, 0, 0, 0, 1]);
        self.next_of(135);
    }

    /// The packets of this kind that have come while others were waited for.
    pub fn kept(&self, kind: u8) -> Vec<&Vec<u8>> {
        self.kept.iter().filter(|packet| packet[0] == kind).collect()
    }

    /// Nothing of this kind comes.
    pub fn nothing_of(&mut self, kind: u8) {
        self.ping();
        loop {
            match self.packets.recv_timeout(A_MOMENT) {
                Ok(packet) => self.kept.push_back(packet),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => panic!("the program has ended"),
            }
        }
        assert!(self.kept.iter().all(|packet| packet[0] != kind), "{:?}", self.kept);
    }

    /// True if a packet of this kind has come and was not taken.
    pub fn has(&mut self, kind: u8) -> bool {
        self.kept.extend(self.packets.try_iter());
        self.kept.iter().any(|packet| packet[0] == kind)
    }

    /// Requests an operation, and returns its id.
    pub fn ask(&mut self, operation: u16, arguments: &[u8]) -> u32 {
        self.last += 1;
        let packet = [&[2], &self.last.to_be_bytes()[..], &operation.to_be_bytes(), arguments].concat();
        self.write(&packet);
        self.last
    }

    /// The answer to a request: its values, or an error number.
    pub fn answer(&mut self, id: u32) -> Result<Vec<u8>, u32> {
        let is_answer = |packet: &Vec<u8>| matches!(packet[0], 130 | 131) && number(&packet[1..]) == id;
        let packet = match self.kept.iter().position(is_answer) {
            Some(at) => self.kept.remove(at).unwrap(),
            None => loop {
                let packet = self.packets.recv_timeout(PATIENCE).expect("an answer");
                if is_answer(&packet) {
                    break packet;
                }
                self.kept.push_back(packet);
            },
        };
        if packet[0] == 130 { Ok(packet[5..].to_vec()) } else { Err(number(&packet[5..])) }
    }

    pub fn request(&mut self, operation: u16, arguments: &[u8]) -> Result<Vec<u8>, u32> {
        let id = self.ask(operation, arguments);
        self.answer(id)
    }

    pub fn context(&mut self) {
        assert_eq!(self.request(2, &1_u32.to_be_bytes()), Ok(vec![]));
    }

    /// A socket in context 1. Returns its window.
    pub fn socket(&mut self, channel: u32, socket_type: u8) -> u32 {
        let arguments = [&channel.to_be_bytes()[..], &1_u32.to_be_bytes(), &[socket_type]].concat();
        number(&self.request(10, &arguments).expect("a socket"))
    }

    pub fn with_text(&mut self, operation: u16, channel: u32, text: &str) -> Result<String, u32> {
        let arguments = [&channel.to_be_bytes()[..], &bytes(text.as_bytes())].concat();
        self.request(operation, &arguments).map(|values| String::from_utf8(values).unwrap())
    }

    pub fn bind(&mut self, channel: u32, endpoint: &str) -> String {
        self.with_text(12, channel, endpoint).expect("it is bound")
    }

    pub fn connect(&mut self, channel: u32, endpoint: &str) {
        self.with_text(14, channel, endpoint).expect("it connects");
    }

    /// Sends whole messages, as they are encoded.
    pub fn send(&mut self, channel: u32, messages: &[u8]) {
        self.write(&[&[3], &channel.to_be_bytes()[..], messages].concat());
    }

    /// Sends a part of a message. 0: of its middle, 1: the last, 2: it is given up.
    pub fn send_part(&mut self, channel: u32, kind: u8, content: &[u8]) {
        self.write(&[&[4], &channel.to_be_bytes()[..], &[kind], content].concat());
    }

    pub fn grant(&mut self, channel: u32, messages: u32, octets: u32) {
        let numbers = [channel, messages, octets].map(u32::to_be_bytes).concat();
        self.write(&[&[5], &numbers[..]].concat());
    }

    /// The next messages that are delivered through a channel, as they are encoded.
    pub fn delivered(&mut self, channel: u32) -> Vec<u8> {
        let packet = self.next_of(132);
        assert_eq!(number(&packet[1..]), channel);
        packet[5..].to_vec()
    }

    /// Delivered messages until there are as many octets.
    pub fn delivered_octets(&mut self, channel: u32, octets: usize) -> Vec<u8> {
        let mut found = Vec::new();
        while found.len() < octets {
            found.extend(self.delivered(channel));
        }
        found
    }

    /// The messages and octets that the program has taken, until there are as many octets.
    pub fn room(&mut self, channel: u32, wanted: u32) -> (u32, u32) {
        let (mut messages, mut octets) = (0, 0);
        while octets < wanted {
            let packet = self.next_of(134);
            assert_eq!(number(&packet[1..]), channel);
            messages += number(&packet[5..]);
            octets += number(&packet[9..]);
        }
        (messages, octets)
    }

    /// Closes the input, and waits until the program has ended.
    pub fn end(mut self) -> ExitStatus {
        self.input = None;
        self.ended()
    }

    pub fn ended(&mut self) -> ExitStatus {
        // The output is closed by the end of the process only.
        while self
            .packets
            .recv_timeout(PATIENCE)
            .map_err(|error| assert_eq!(error, RecvTimeoutError::Disconnected))
            .is_ok()
        {}
        self.process.wait().unwrap()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
