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
    let slot = EventLoop::start("reporter").unwrap().slot();
    slot.interest().add(PollTarget::Fd(watched.raw()), 7).unwrap();
    let doorbell = slot.doorbell();
    let handle = slot.run(task);
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
    let handle = EventLoop::start("reporter").unwrap().slot().run(task);
    let at = || worked.recv_timeout(DEADLINE).unwrap();
    let (_first, second, third) = (at(), at(), at());
    assert!(second >= begin && third >= due);
    drop(handle);
}

#[test]
fn tasks_of_one_loop_have_their_own_turns() {
    let due = Instant::now() + Duration::from_millis(20);
    let (first, first_called, first_worked, first_watched) = reporter(vec![Next::Wait(Some(due))]);
    let (second, second_called, second_worked, second_watched) = reporter(Vec::new());
    let events = EventLoop::start("reporters").unwrap();
    let slots = [events.slot(), events.slot()];
    slots[0].interest().add(PollTarget::Fd(first_watched.raw()), 1).unwrap();
    slots[1].interest().add(PollTarget::Fd(second_watched.raw()), 2).unwrap();
    let [one, two] = slots;
    let (one, two) = (one.run(first), two.run(second));
    drop(events);
    second_worked.recv_timeout(DEADLINE).unwrap();
    first_worked.recv_timeout(DEADLINE).unwrap();
    // The first has a turn at its deadline, the second none.
    assert!(first_worked.recv_timeout(DEADLINE).unwrap() >= due);
    assert!(second_worked.try_recv().is_err());
    second_watched.signal();
    assert_eq!(second_called.recv_timeout(DEADLINE).unwrap(), Call::Ready(2));
    one.send("one");
    assert_eq!(first_called.recv_timeout(DEADLINE).unwrap(), Call::Command("one"));
    drop(one);
    assert_eq!(first_called.recv_timeout(DEADLINE).unwrap(), Call::Dropped);
    two.send("two");
    assert_eq!(second_called.recv_timeout(DEADLINE).unwrap(), Call::Command("two"));
    drop(two);
    assert_eq!(second_called.recv_timeout(DEADLINE).unwrap(), Call::Dropped);
}

struct Panics;

impl Task for Panics {
    type Token = ();
    type Command = Option<Sender<()>>;
    fn on_ready(&mut self, (): ()) {}
    fn on_command(&mut self, command: Option<Sender<()>>) {
        command.expect("a test of panics").send(()).unwrap();
    }
    fn work(&mut self) -> Next {
        Next::Wait(None)
    }
}

#[test]
fn a_task_that_panics_ends_alone() {
    let events = EventLoop::start("panics").unwrap();
    let handles = [events.slot().run(Panics), events.slot().run(Panics)];
    handles[0].send(None);
    let (answer, answered) = channel();
    handles[1].send(Some(answer));
    answered.recv_timeout(DEADLINE).unwrap();
    // Waits for neither.
    drop(handles);
}
