//! Shared memory in which a hostile peer writes anything between any two of our steps. It can lose its connection,
//! but nothing is read or written outside the memory, a body that the application has looked at does not change, and
//! no received body exceeds the maximum size.

use std::fs::File;
use std::io::IoSlice;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, PermissionsExt};

use pinnace_ring::{
    Body, Consumer, Frame, HEAD, Half, INLINE_MAX, Incoming, Intake, Lender, Limits, MORE, Outgoing,
    Producer, RING_MIN, Taking, Verdict, queue, shared,
};
use pinnace_sys::memory::Memory;

const MAX_BODY: u64 = 64 * 1024;
/// Offsets of the numbers in a half.
const NUMBERS: [usize; 8] = [0, 8, 128, 256, 384, 512, 640, 768];
/// Maximum number of bodies that the application keeps.
const KEPT: usize = 8;

/// The steps, chosen by the fuzzer's bytes; zeros after their end.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> u8 {
        self.0.split_off_first().copied().unwrap_or_default()
    }

    fn short(&mut self) -> usize {
        usize::from(u16::from_le_bytes([self.byte(), self.byte()]))
    }

    /// A number near `right`, or any number.
    fn number(&mut self, right: u64) -> u64 {
        match self.byte() % 4 {
            0 => right.wrapping_add(self.short() as u64),
            1 => right.wrapping_sub(u64::from(self.byte())),
            2 => self.short() as u64,
            _ => u64::from_le_bytes(std::array::from_fn(|_| self.byte())),
        }
    }
}

/// The peer, which writes to its memory through the descriptor.
struct Peer {
    memory: File,
    /// Bytes that it has written to the ring.
    at: usize,
}

impl Peer {
    /// Writes bytes at `offset`; writes beyond the end fail, because the size is sealed.
    fn put(&self, offset: usize, bytes: &[u8]) {
        let _ = self.memory.write_at(bytes, offset as u64);
    }

    /// Writes bytes to the ring and publishes the new position.
    fn send(&mut self, bytes: &[u8]) {
        let place = self.at % RING_MIN;
        let (first, second) = bytes.split_at(bytes.len().min(RING_MIN - place));
        self.put(HEAD + place, first);
        self.put(HEAD, second);
        self.at += bytes.len();
        self.put(NUMBERS[0], &(self.at as u64).to_ne_bytes());
    }

    fn step(&mut self, script: &mut Script<'_>) {
        match script.byte() % 6 {
            0 => {
                let number = script.number(self.at as u64);
                self.put(NUMBERS[usize::from(script.byte()) % NUMBERS.len()], &number.to_ne_bytes());
            }
            1 => self.put(HEAD + script.short(), &[script.byte(); 40]),
            2 => self.put(HEAD + RING_MIN + 4 * script.short(), &[script.byte(); 40]),
            3 => {
                let len = script.byte() % 100;
                self.send(&[script.byte() & 5, len]);
                self.send(&vec![len; len.into()]);
            }
            4 => {
                let (position, len) = (script.number(4096), script.number(4096));
                self.send(&[0x40 | script.byte() & MORE]);
                self.send(&position.to_be_bytes());
                self.send(&len.to_be_bytes());
            }
            _ => {
                self.send(&[2]);
                self.send(&script.number(5000).to_be_bytes());
            }
        }
    }
}

/// Our side: everything that a link and its pipe own.
struct Ours {
    out: Outgoing,
    way_in: Incoming,
    lender: Lender,
    sends: Producer,
    sent: Consumer,
    intake: Intake,
    receives: Consumer,
    kept: Vec<Body>,
}

impl Ours {
    fn new(ours: Half, theirs: Half, taking: Taking) -> Ours {
        let limits = Limits { messages: 100, ahead_bytes: 0 };
        let ((sends, mut sent), (comes, receives)) = (queue(limits), queue(limits));
        let (out, way_in) = shared(ours, theirs);
        sent.lend_from(out.arena().clone());
        let mut intake = Intake::new(comes, MAX_BODY);
        intake.borrow_by(way_in.halves().borrower(taking, Box::new(|| {})));
        let (lender, kept) = (Lender::new(out.arena().clone()), Vec::new());
        Ours { out, way_in, lender, sends, sent, intake, receives, kept }
    }

    /// Reads once. `None`: the connection has ended.
    fn read(&mut self) -> Option<()> {
        if !self.intake.queue().has_room() {
            return Some(());
        }
        let (first, second) = self.intake.space().ok()?;
        let taken = self.way_in.read(first, second, || {}).ok()?;
        self.intake.filled(taken);
        self.intake.parse(|_| Ok::<_, ()>(Verdict::Drop)).ok().map(|_| ())
    }

    fn receive(&mut self, room: usize) {
        let mut room = vec![0; room];
        self.receives
            .pop(|frame| assert!(frame.copy_to(&mut room) as u64 <= MAX_BODY.max(4 * RING_MIN as u64)));
    }

    fn keep(&mut self) {
        let body = self.receives.pop(|frame| match frame {
            Frame::Body { body, .. } => body.take(),
            Frame::Bytes { .. } => None,
        });
        self.kept.extend(body.flatten());
        if self.kept.len() > KEPT {
            self.kept.remove(0);
        }
    }

    fn send(&mut self, len: usize) {
        let data = vec![7; len];
        if !self.sends.has_room() {
            return;
        }
        let (message, limit) = (self.sends.messages(), self.sends.limit_elsewhere(len));
        let pushed = match self.lender.put(&data, message, limit) {
            Some(body) => self.sends.push_body(0, body),
            None if len <= INLINE_MAX => self.sends.push(0, &data),
            None => Body::copy_of(&data).and_then(|body| self.sends.push_body(0, body)),
        };
        pushed.expect("memory");
        self.sends.commit();
    }

    /// Writes a batch. `None`: the connection has ended.
    fn write(&mut self) -> Option<()> {
        let (out, mut done) = (&mut self.out, Vec::new());
        let written = self.sent.write_with(&mut done, |slices: &[IoSlice<'_>], _| {
            let written = out.write(slices, 0, || {});
            (written.unwrap_or_default(), written.is_ok())
        });
        written.unwrap_or(true).then_some(())
    }

    fn step(&mut self, script: &mut Script<'_>) -> Option<()> {
        match script.byte() % 9 {
            0 | 1 => self.read()?,
            2 => self.receive(script.short()),
            3 => self.keep(),
            4 => drop(self.kept.pop()),
            5 => self.send(script.short()),
            6 => self.write()?,
            7 => _ = (self.way_in.arm().ok()?, self.out.want_room().ok()?, self.lender.take_short()),
            _ => {
                self.way_in.disarm();
                self.out.has_room().ok()?;
                _ = (self.out.arena().lacks_room(), self.out.shrink());
            }
        }
        Some(())
    }
}

pub fn run(bytes: &[u8]) {
    let mut script = Script(bytes);
    let make = || Memory::create(Half::size(RING_MIN)).expect("memory");
    let ((ours, _), (_memory, passed)) = (make(), make());
    let path = format!("/proc/self/fd/{}", passed.as_raw_fd());
    // Only the owner of the memory can do this; a peer of another user cannot.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("our own");
    let memory = File::options().write(true).open(path).expect("a descriptor for writing");
    let theirs = Memory::open(&passed, Half::is_size).expect("what was made is fit");
    let halves = (Half::new(ours).expect("a half"), Half::new(theirs).expect("a half"));
    let mut peer = Peer { memory, at: 0 };
    let taking = [Taking::AtOnce, Taking::WhenWanted, Taking::InPlace][script.byte() as usize % 3];
    let mut ours = Ours::new(halves.0, halves.1, taking);
    while !script.0.is_empty() {
        let seen = ours.kept.first().map(|body| body.to_vec());
        peer.step(&mut script);
        if let (Some(seen), Some(body)) = (seen, ours.kept.first()) {
            let is_its_own = taking != Taking::InPlace;
            assert!(!is_its_own || **body == *seen, "a body has changed that was looked at");
        }
        if ours.step(&mut script).is_none() {
            return;
        }
    }
}
