//! Event loops with real descriptors and threads.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use pinnace_engine::PollTarget;
use pinnace_sys::wake::WakeFd;

use super::{EventLoop, Next, Task};

const DEADLINE: Duration = Duration::from_secs(30);

#[derive(Debug, PartialEq, Eq)]
enum Call {
    Ready(u8),
    Command(&'static str),
    Dropped,
}

/// Reports its calls, and waits as it is told.
struct Reporter {
    calls: Sender<Call>,
    works: Sender<Instant>,
    next: Vec<Next>,
    watched: Arc<WakeFd>,
}

impl Task for Reporter {
    type Token = u8;
    type Command = &'static str;

    fn on_ready(&mut self, token: u8) {
        self.watched.clear();
        self.calls.send(Call::Ready(token)).unwrap();
    }

    fn on_command(&mut self, command: &'static str) {
        self.calls.send(Call::Command(command)).unwrap();
    }

    fn work(&mut self) -> Next {
        self.works.send(Instant::now()).unwrap();
        self.next.pop().unwrap_or(Next::Wait(None))
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        let _ = self.calls.send(Call::Dropped);
    }
}

fn reporter(next: Vec<Next>) -> (Reporter, Receiver<Call>, Receiver<Instant>, Arc<WakeFd>) {
    let ((calls, called), (works, worked)) = (channel(), channel());
    let watched = Arc::new(WakeFd::new().unwrap());
    (Reporter { calls, works, next, watched: watched.clone() }, called, worked, watched)
}

#[test]
fn it_passes_on_events_and_commands_and_ends_with_its_handle() {
    let (task, called, worked, watched) = reporter(Vec::new());
    let events = EventLoop::new().unwrap();
    events.interest().add(PollTarget::Fd(watched.raw()), 7).unwrap();
    let doorbell = events.doorbell();
    let handle = events.start("reporter", task).unwrap();
    let next = || called.recv_timeout(DEADLINE).unwrap();
    worked.recv_timeout(DEADLINE).unwrap();
    handle.send("one");
    assert_eq!(next(), Call::Command("one"));
    watched.signal();
    assert_eq!(next(), Call::Ready(7));
    handle.send("two");
    handle.send("three");
    assert_eq!([next(), next()], [Call::Command("two"), Call::Command("three")]);
    // The turns so far may be reported late: a ring is answered by a further one.
    let rung = Instant::now();
    doorbell.ring();
    while worked.recv_timeout(DEADLINE).unwrap() < rung {}
    drop(handle);
    assert_eq!(next(), Call::Dropped);
}

#[test]
fn it_works_again_at_once_or_at_the_deadline() {
    let begin = Instant::now();
    let due = begin + Duration::from_millis(20);
    let (task, _called, worked, _watched) = reporter(vec![Next::Wait(Some(due)), Next::Now]);
    let handle = EventLoop::new().unwrap().start("reporter", task).unwrap();
    let at = || worked.recv_timeout(DEADLINE).unwrap();
    let (_first, second, third) = (at(), at(), at());
    assert!(second >= begin && third >= due);
    drop(handle);
}
