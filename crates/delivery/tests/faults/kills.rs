//! `kill -9` of either or both sides at any moment: accepted messages are handled in order, and twice only if the
//! receiver was killed between handling and acknowledging. Messages in memory are lost with their sender only.
//!
//! Each side is a process with a journal: the sender records accepted messages, the receiver handled messages
//! before it acknowledges them. A written line survives its writer.

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use pinnace_delivery::{Client, Durability, Options};
use rustix::process::Signal;

use crate::checker::{Books, Handled, Journal, Message, Rules, STRICT, Twice};
use crate::common::{
    Running, bytes, client, durability, short_or_long, soon, spin, start, until, wait_for_more,
};

/// Messages that a sender sends before it waits for the disk.
const AT_ONCE: u32 = 42;
/// Messages that a receiver may have acknowledged but not logged when it is killed: the connection's credit.
const UNDER_WAY: usize = (8 << 20) / (64 + 12);

/// What a sender sends, and to which receivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// Small messages, on the disk.
    Plain,
    /// Small messages, two thirds of them on the disk and the rest in memory.
    Mixed,
    /// As `Mixed`, with large messages among them.
    Large,
    /// As `Mixed`, to one of several receivers that share a topic.
    Shared,
}

impl FromStr for Plan {
    type Err = String;

    fn from_str(text: &str) -> Result<Plan, String> {
        let all = [Plan::Plain, Plan::Mixed, Plan::Large, Plan::Shared];
        all.into_iter().find(|plan| format!("{plan:?}") == text).ok_or_else(|| text.to_owned())
    }
}

impl Plan {
    fn durability(self, number: u32) -> Durability {
        if self == Plan::Plain { Durability::Sync } else { durability(number) }
    }

    fn len(self, number: u32) -> usize {
        if self == Plan::Large && number % 64 == 5 { 5_000_000 } else { 12 }
    }
}

fn start_sender(dir: &Path, plan: Plan) -> Client {
    let sender = client("sender", dir).listen(&format!("ipc://{}/s.ipc", dir.display()));
    let sender = match plan {
        Plan::Shared => sender
            .registry(&format!("dir://{}", dir.join("registry").display()))
            .reassign_after(Some(Duration::from_millis(50))),
        _ => sender.peer("receiver", &endpoint(dir, 0), &["news"]),
    };
    sender.linger(Duration::from_secs(60)).start().unwrap()
}

fn endpoint(dir: &Path, number: u32) -> String {
    format!("ipc://{}/receiver{number}.ipc", dir.display())
}

/// Sends until it is killed, or stopped.
pub fn send(dir: &Path, run: u32, plan: Plan) {
    let (sender, mut accepted) = (start_sender(dir, plan), Journal::open(dir, "accepted"));
    let stop = dir.join("stop");
    for first in (0..).step_by(AT_ONCE as usize) {
        let (mut lines, mut last) = (Vec::new(), None);
        for number in first..first + AT_ONCE {
            let message = Message { flow: 0, run, number };
            let options = Options { durability: plan.durability(number), ..Options::default() };
            last = Some(sender.send_async("news", &message.body(plan.len(number)), &options).unwrap());
            lines.push(Handled { by: 0, run, message });
        }
        // The last one is `Sync`, and all before it are on the disk then.
        sender.wait(last.unwrap(), None).unwrap();
        accepted.write(&lines);
        if stop.exists() {
            sender.wait_pending(0, soon()).unwrap();
            return Journal::open(dir, "stopped").write(&lines);
        }
    }
}

/// Handles messages until it is killed. The upper 16 bits of `run` are the receiver's number.
pub fn receive(dir: &Path, run: u32, plan: Plan) {
    let number = run >> 16;
    let receiver = match plan {
        Plan::Shared => Client::builder(&format!("receiver{number}"), "news")
            .registry(&format!("dir://{}", dir.join("registry").display()))
            .data_dir(dir.join(format!("r{number}"))),
        _ => client("receiver", dir),
    };
    let receiver = receiver.listen(&endpoint(dir, number)).start().unwrap();
    let mut handled = Journal::open(dir, "handled");
    loop {
        let delivery = receiver.recv(None).unwrap();
        handled.write(&[Handled { by: number, run, message: Message::of(delivery.body()) }]);
        delivery.ack();
    }
}

/// A test scenario with kills.
struct Day {
    plan: Plan,
    rounds: u32,
    /// The number of receivers.
    receivers: u32,
}

fn day(plan: Plan, short: u32, long: u32) -> Day {
    Day { plan, rounds: short_or_long(short, long), receivers: 1 }
}

impl Day {
    fn start_sender(&self, dir: &Path, run: u32) -> Running {
        start(&format!("sender {:?}", self.plan), dir, run)
    }

    fn start_receiver(&self, dir: &Path, number: u32, run: u32) -> Running {
        start(&format!("receiver {:?}", self.plan), dir, number << 16 | run)
    }

    /// Kills the sender or a receiver in each round. `whom` returns the sender and the receiver to kill in that round.
    fn kill_in_turn(&self, what: &str, whom: impl Fn(u32) -> (bool, bool)) {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let mut sender = self.start_sender(dir, 0);
        let mut receivers: Vec<Running> =
            (0..self.receivers).map(|number| self.start_receiver(dir, number, 0)).collect();
        let (mut sender_died, mut deaths) = (false, 0);
        for round in 1..=self.rounds {
            // Both sides have made progress since the last kill.
            wait_for_more(dir, "accepted", bytes(dir, "accepted"));
            wait_for_more(dir, "handled", bytes(dir, "handled"));
            spin(round);
            let (kills_sender, kills_receiver) = whom(round);
            if kills_sender {
                sender.kill();
                sender = self.start_sender(dir, round);
                sender_died = true;
            }
            if kills_receiver {
                let number = round % self.receivers;
                receivers[number as usize].kill();
                receivers[number as usize] = self.start_receiver(dir, number, round);
                deaths += 1;
            }
        }
        let all = self.receivers as usize;
        until("each receiver to handle some", || Books::read(dir).shares().len() == all);
        let twice = Twice::BetweenRuns(deaths * UNDER_WAY);
        let mut rules = Rules { twice, ..STRICT };
        if sender_died && self.plan != Plan::Plain {
            rules.may_lose = |message| durability(message.number) == Durability::Memory;
        }
        if self.receivers > 1 {
            // Messages to a dead receiver went to others, after later ones, and perhaps a second time.
            (rules.may_skip, rules.may_reorder) = (true, true);
            rules.twice = Twice::Ever(deaths * UNDER_WAY);
        }
        if sender_died {
            sender.kill();
            start_sender(dir, self.plan).wait_pending(0, soon()).unwrap();
        } else {
            finish(dir, &mut sender);
        }
        receivers.iter_mut().for_each(Running::kill);
        let books = Books::read(dir);
        let what = format!("{what}, {} times", self.rounds);
        books.close(&what, &rules, "");
    }
}

/// Stops the sender, and waits until all accepted messages are delivered.
fn finish(dir: &Path, sender: &mut Running) {
    std::fs::write(dir.join("stop"), b"").unwrap();
    until("the sender to stop", || {
        // It ends after it has written the file, so its end is looked for first.
        let has_ended = sender.has_ended();
        let has_stopped = dir.join("stopped").exists();
        if has_ended && !has_stopped {
            sender.goes_on();
        }
        has_stopped
    });
}

#[test]
fn a_sender_that_is_killed_loses_nothing() {
    day(Plan::Plain, 25, 500).kill_in_turn("SIGKILL of the sender", |_| (true, false));
}

#[test]
fn a_receiver_that_is_killed_loses_nothing() {
    day(Plan::Plain, 25, 500).kill_in_turn("SIGKILL of the receiver", |_| (false, true));
}

#[test]
fn both_killed_lose_nothing() {
    day(Plan::Plain, 25, 500).kill_in_turn("SIGKILL of both", |_| (true, true));
}

#[test]
fn one_or_the_other_killed_loses_nothing() {
    let whom = |round| (round % 2 == 0, round % 3 == 0);
    day(Plan::Plain, 25, 500).kill_in_turn("SIGKILL of one or the other", whom);
}

#[test]
fn what_is_in_memory_is_not_lost_with_the_receiver() {
    let what = "SIGKILL of the receiver, a third in memory";
    day(Plan::Mixed, 15, 500).kill_in_turn(what, |_| (false, true));
}

#[test]
fn what_is_in_memory_is_lost_with_the_sender_alone() {
    let what = "SIGKILL of either, a third in memory";
    day(Plan::Mixed, 15, 500).kill_in_turn(what, |round| (round % 2 == 0, round % 2 == 1));
}

#[test]
fn large_bodies_among_small_ones() {
    let what = "SIGKILL of the receiver, 5 MB bodies among small ones";
    day(Plan::Large, 5, 200).kill_in_turn(what, |_| (false, true));
    let what = "SIGKILL of either, 5 MB bodies among small ones";
    day(Plan::Large, 6, 200).kill_in_turn(what, |round| (round % 2 == 0, round % 2 == 1));
}

#[test]
fn receivers_that_share_a_topic() {
    let what = "SIGKILL of one of three receivers in turn";
    Day { receivers: 3, ..day(Plan::Shared, 15, 500) }.kill_in_turn(what, |_| (false, true));
    let what = "SIGKILL of the sender, or of one of three receivers";
    Day { receivers: 3, ..day(Plan::Shared, 15, 500) }
        .kill_in_turn(what, |round| (round % 3 == 0, round % 3 != 0));
}

#[test]
fn who_is_stopped_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let day = day(Plan::Mixed, 25, 500);
    let (mut sender, mut receiver) = (day.start_sender(dir, 0), day.start_receiver(dir, 0, 0));
    for round in 0..day.rounds {
        let (stopped, other) = if round % 2 == 0 { (&receiver, "accepted") } else { (&sender, "handled") };
        wait_for_more(dir, "handled", bytes(dir, "handled"));
        spin(round);
        stopped.signal(Signal::STOP);
        if other == "accepted" {
            wait_for_more(dir, other, bytes(dir, other) + 20_000);
        }
        stopped.signal(Signal::CONT);
    }
    finish(dir, &mut sender);
    receiver.kill();
    Books::read(dir).close(&format!("SIGSTOP of either, {} times", day.rounds), &STRICT, "");
}

/// A receiver that is stopped is registered and connected, and still holds up nothing.
#[test]
fn what_a_stopped_receiver_has_goes_to_others() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let day = Day { receivers: 2, ..day(Plan::Shared, 3, 30) };
    let mut other = day.start_receiver(dir, 1, 0);
    let (mut sender, mut before) = (day.start_sender(dir, 0), 0);
    for round in 0..day.rounds {
        let mut stopped = day.start_receiver(dir, 0, round);
        until("the first receiver to handle some", || {
            sender.goes_on();
            let share = Books::read(dir).shares().get(&0).copied().unwrap_or_default();
            std::mem::replace(&mut before, share) < share
        });
        stopped.signal(Signal::STOP);
        wait_for_more(dir, "accepted", bytes(dir, "accepted") + 20_000);
        if round + 1 == day.rounds {
            finish(dir, &mut sender);
        }
        stopped.kill();
    }
    other.kill();
    let rules = Rules { twice: Twice::Ever(day.rounds as usize * UNDER_WAY), ..STRICT };
    let rules = Rules { may_skip: true, may_reorder: true, ..rules };
    Books::read(dir).close(&format!("SIGSTOP of one of two receivers, {} times", day.rounds), &rules, "");
}
