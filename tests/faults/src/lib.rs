//! Shared code of the fault suites: a victim in a process of its own, which counts the messages of good peers and
//! reports its own resource use.
//!
//! The suites are in `tests/`. `FAULTS=long` in the environment selects the long forms.

use std::time::{Duration, Instant};

use support::child::{self, Child};
use support::filler::{number_of, numbered};
use support::poll::{fd_item, poll, socket_item};
use support::*;

/// A receiver in a child process, under attack.
pub struct Victim {
    child: Child,
    pub endpoint: String,
    good: Socket,
    sent: u64,
    _ctx: Context,
}

/// What the victim reports about itself.
#[derive(Debug, Clone, Copy)]
pub struct Status {
    pub received: u64,
    pub resident: u64,
    pub descriptors: usize,
}

/// Prefix of the good peer's messages. Others may send messages too: garbage can be a valid message.
const GOOD: &[u8] = b"from the good peer";

/// The role `victim`: binds a PULL, reads the messages of the good peer and checks their order. Arguments:
/// endpoint, handshake deadline in milliseconds, MAXMSGSIZE.
pub fn victim(args: &[String]) {
    let number = |n: usize| args[n].parse::<i64>().expect("a number");
    let ctx = Context::new();
    let pull = ctx.socket(PULL).with(HANDSHAKE_IVL, number(1) as i32).with(BACKLOG, 4_000);
    pull.set_bytes(MAXMSGSIZE, &number(2).to_ne_bytes()).expect("MAXMSGSIZE");
    pull.bind(&args[0]).expect("bind");
    child::say(pull.endpoint());
    let mut received = 0;
    loop {
        let mut items = [socket_item(&pull, POLLIN), fd_item(0, POLLIN)];
        poll(&mut items, -1).expect("poll");
        if items[0].revents != 0 {
            let message = pull.rx().swap_remove(0);
            if let Some(numbered) = message.strip_prefix(GOOD) {
                assert_eq!(number_of(numbered), received, "the good peer's messages stay in order");
                received += 1;
            }
        }
        if items[1].revents != 0 && !answer(received) {
            break;
        }
    }
}

/// Answers one request of the parent; false at the end.
fn answer(received: u64) -> bool {
    if child::hear() == "end" {
        return false;
    }
    let own = process::own();
    child::say(format!("{received} {} {}", process::resident_bytes(own), process::descriptors(own)));
    true
}

impl Victim {
    /// Starts a victim, and a good peer that has sent its first messages.
    #[track_caller]
    pub fn start(transport: Transport, handshake_ms: u32, max_message: i64) -> Victim {
        let args = [transport.wildcard(), handshake_ms.to_string(), max_message.to_string()];
        let mut child = Child::start("victim", &args.each_ref().map(|arg| arg.as_str()));
        let endpoint = child.line();
        let ctx = Context::new();
        let good = ctx.socket(PUSH);
        good.connect(&endpoint).expect("connect");
        let mut victim = Victim { child, endpoint, good, sent: 0, _ctx: ctx };
        victim.serves(1_000);
        // After some waits with connections the socket has opened all the descriptors that it will need.
        for _ in 0..5 {
            until("it waits", || process::all_sleep(victim.pid()));
            victim.serves(1);
        }
        victim
    }

    #[track_caller]
    pub fn status(&mut self) -> Status {
        self.child.tell("status");
        let line = self.child.line();
        let mut fields = line.split(' ').map(|field| field.parse::<u64>().expect("a number"));
        let mut next = || fields.next().expect("three numbers");
        Status { received: next(), resident: next(), descriptors: next() as usize }
    }

    /// Asserts that `count` more messages of the good peer arrive.
    #[track_caller]
    pub fn serves(&mut self, count: u64) {
        let start = Instant::now();
        for _ in 0..count {
            self.good.put([GOOD, &numbered(self.sent, 100)].concat());
            self.sent += 1;
        }
        while self.status().received < self.sent {
            assert!(start.elapsed() < Duration::from_secs(20), "the good peer's messages are stuck");
            std::thread::yield_now();
        }
    }

    /// Asserts that the victim's resident memory has not grown by more than this.
    #[track_caller]
    pub fn has_not_grown(&mut self, before: Status, limit: u64) {
        let now = self.status();
        let growth = now.resident.saturating_sub(before.resident);
        assert!(growth <= limit, "{growth} bytes more than before, {limit} are allowed");
    }

    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Ends the victim normally.
    #[track_caller]
    pub fn ends(mut self) {
        self.serves(100);
        self.child.tell("end");
        self.child.succeeds();
    }
}
