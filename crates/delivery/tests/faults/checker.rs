//! The checker of the fault tests: every message is numbered, and its fate is checked at the end.
//!
//! A message is identified by its flow (a sender and a topic), the run of its sender, and a number that increases in
//! each run. These are in its body, and the rest of the body is derived from them. Accepted messages, handled messages
//! and dead letters are recorded, in memory or in journals, and [`Books::close`] compares them: no accepted message is
//! lost, and none is handled out of order or twice, unless the rules of the test allow it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Message {
    pub flow: u32,
    pub run: u32,
    pub number: u32,
}

/// A message was handled: by which receiver, and in which of its runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handled {
    pub by: u32,
    pub run: u32,
    pub message: Message,
}

/// Bytes of the shortest body.
const SHORTEST: usize = 12;
/// Bytes of a journal line. It divides a page, because a killed write ends between two pages.
const LINE: usize = 32;

impl Message {
    /// Its body, of at least 12 bytes.
    pub fn body(self, len: usize) -> Vec<u8> {
        let mut body = Vec::with_capacity(len.max(SHORTEST));
        for number in [self.flow, self.run, self.number] {
            body.extend_from_slice(&number.to_le_bytes());
        }
        let mut random = u64::from(self.number) << 32 | u64::from(self.run) << 8 | 1;
        while body.len() < len {
            body.extend_from_slice(&next(&mut random).to_le_bytes());
        }
        body.truncate(len.max(SHORTEST));
        body
    }

    /// The message of a body, after checking that the body is unchanged.
    pub fn of(body: &[u8]) -> Message {
        let number = |at: usize| u32::from_le_bytes(body[at..at + 4].try_into().unwrap());
        let message = Message { flow: number(0), run: number(4), number: number(8) };
        assert!(
            body == message.body(body.len()),
            "{message:?} of {} bytes is not as it was sent",
            body.len()
        );
        message
    }
}

/// xorshift64.
pub fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Which messages may be handled twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Twice {
    Never,
    /// At most this many, by two runs of a receiver or by two receivers.
    BetweenRuns(usize),
    /// At most this many.
    Ever(usize),
}

/// What a test allows.
#[derive(Clone, Copy)]
pub struct Rules {
    pub may_lose: fn(Message) -> bool,
    pub twice: Twice,
    pub may_reorder: bool,
    /// Messages may be missing in a receiver's sequence: they were not accepted, or went to another receiver.
    pub may_skip: bool,
}

/// No message is lost, handled twice or out of order.
pub const STRICT: Rules =
    Rules { may_lose: |_| false, twice: Twice::Never, may_reorder: false, may_skip: false };

/// The records of a test.
#[derive(Debug, Default)]
pub struct Books {
    pub accepted: Vec<Message>,
    pub handled: Vec<Handled>,
    pub dead: Vec<Message>,
}

/// The result of a test.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Sums {
    pub sent: usize,
    pub lost: usize,
    pub duplicated: usize,
    pub reordered: usize,
}

impl Books {
    /// Compares the records, and panics if they break the rules.
    pub fn sums(&self, rules: &Rules) -> Sums {
        let mut sums = Sums { sent: self.accepted.len(), ..Sums::default() };
        let mut by: HashMap<Message, Handled> = HashMap::with_capacity(self.handled.len());
        let mut last: HashMap<(u32, u32), Message> = HashMap::new();
        let mut twice = BTreeSet::new();
        for handled in &self.handled {
            let message = handled.message;
            if let Some(before) = by.insert(message, *handled) {
                let same_run = (before.by, before.run) == (handled.by, handled.run);
                assert!(
                    rules.twice != Twice::Never
                        && !(same_run && matches!(rules.twice, Twice::BetweenRuns(_))),
                    "{handled:?} was handled before: {before:?}"
                );
                twice.insert(message);
                continue;
            }
            let before = last.entry((handled.by, message.flow)).or_insert(message);
            if message < *before {
                assert!(rules.may_reorder, "{handled:?} behind {before:?}");
                sums.reordered += 1;
                continue;
            }
            let from = if before.run == message.run { before.number + 1 } else { 0 };
            // The first message of a receiver that starts late has others before it.
            if !rules.may_skip && *before != message {
                let mut skipped = (from..message.number).map(|number| Message { number, ..message });
                let missing =
                    skipped.find(|skipped| !(rules.may_lose)(*skipped) && !by.contains_key(skipped));
                assert_eq!(missing, None, "missing before {handled:?}");
            }
            *before = message;
        }
        let dead: BTreeSet<Message> = self.dead.iter().copied().collect();
        let gone = |message: &&Message| !by.contains_key(message) && !dead.contains(message);
        for message in self.accepted.iter().filter(gone) {
            assert!((rules.may_lose)(*message), "{message:?} was accepted, and is lost");
            sums.lost += 1;
        }
        sums.duplicated = twice.len();
        if let Twice::BetweenRuns(most) | Twice::Ever(most) = rules.twice {
            assert!(twice.len() <= most, "{} messages were handled twice; {most} may be", twice.len());
        }
        sums
    }

    /// Compares the records, and reports the test in one line.
    pub fn close(&self, what: &str, rules: &Rules, more: &str) -> Sums {
        let sums = self.sums(rules);
        report(what, &sums, rules, more);
        sums
    }

    /// Reads the records from journals.
    pub fn read(dir: &Path) -> Books {
        let accepted = lines(&dir.join("accepted")).into_iter().map(|line| line.message).collect();
        let dead = lines(&dir.join("dead")).into_iter().map(|line| line.message).collect();
        Books { accepted, handled: lines(&dir.join("handled")), dead }
    }

    /// How many messages each receiver handled.
    pub fn shares(&self) -> BTreeMap<u32, usize> {
        let mut shares = BTreeMap::new();
        self.handled.iter().for_each(|handled| *shares.entry(handled.by).or_default() += 1);
        shares
    }
}

/// Reports a test in one line: on the standard output, and in the file that FAULTS_REPORT names.
pub fn report(what: &str, sums: &Sums, rules: &Rules, more: &str) {
    let Sums { sent, lost, duplicated, reordered } = sums;
    let allowed = |count: &usize| if *count > 0 { " (allowed)" } else { "" };
    let mut line = format!("{what}: {sent} sent, {lost} lost{}", allowed(lost));
    let _ = write!(line, ", {duplicated} duplicated");
    let may = if rules.twice == Twice::Never { "" } else { " (allowed)" };
    let _ = write!(line, "{may}, {reordered} reordered{}", allowed(reordered));
    if !more.is_empty() {
        let _ = write!(line, "; {more}");
    }
    println!("{line}");
    if let Some(path) = std::env::var_os("FAULTS_REPORT") {
        let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}

/// Records shared by several threads.
#[derive(Default)]
pub struct Shared(Mutex<Books>);

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn accept(&self, message: Message) {
        self.lock().accepted.push(message);
    }

    /// How many were accepted and not handled, if each is handled once.
    pub fn waiting(&self) -> usize {
        let books = self.lock();
        books.accepted.len() - books.handled.len().min(books.accepted.len())
    }

    pub fn handle(&self, by: u32, run: u32, body: &[u8]) -> Message {
        let message = Message::of(body);
        self.lock().handled.push(Handled { by, run, message });
        message
    }
}

/// A file that survives its writer, which may be killed at any time.
pub struct Journal(File);

impl Journal {
    pub fn open(dir: &Path, name: &str) -> Journal {
        Journal(OpenOptions::new().create(true).append(true).open(dir.join(name)).unwrap())
    }

    pub fn write(&mut self, lines: &[Handled]) {
        let mut bytes = Vec::with_capacity(lines.len() * LINE);
        for Handled { by, run, message } in lines {
            for number in [*by, *run, message.flow, message.run, message.number] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            bytes.resize(bytes.len().next_multiple_of(LINE), 0);
        }
        self.0.write_all(&bytes).unwrap();
    }
}

/// The lines of a journal; none if the file does not exist.
fn lines(path: &Path) -> Vec<Handled> {
    let bytes = std::fs::read(path).unwrap_or_default();
    let read = |line: &[u8]| {
        let number = |at: usize| u32::from_le_bytes(line[at * 4..at * 4 + 4].try_into().unwrap());
        let message = Message { flow: number(2), run: number(3), number: number(4) };
        Handled { by: number(0), run: number(1), message }
    };
    bytes.chunks_exact(LINE).map(read).collect()
}
