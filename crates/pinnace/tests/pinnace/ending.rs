//! Termination of a context within a time limit, through the public API.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use pinnace::{Context, Drops, Error, Leftover, Pull, Push, Reason, Req};

const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(100);

#[test]
fn received_and_left_are_all_that_was_sent() {
    const COUNT: usize = 100_000;
    let (near, far) = (Context::new().unwrap(), Context::new().unwrap());
    let pull = Pull::builder(&far).receive_high_water_mark(10).build().unwrap();
    let endpoint = pull.bind("tcp://127.0.0.1:*").unwrap();
    let push = Push::builder(&near).send_high_water_mark(0).connect(&endpoint).unwrap();
    push.wait_peers(1, LONG).unwrap();
    for _ in 0..COUNT {
        push.send(vec![b'x'; 998]).unwrap();
    }
    drop(push);
    let before = Instant::now();
    let left = near.terminate_within(SHORT).unwrap();
    assert!(before.elapsed() >= SHORT);
    assert_eq!(left.lost.of(Reason::Expired), left.messages);
    let mut received = 0;
    while received + left.messages < COUNT as u64 {
        pull.recv_timeout(LONG).unwrap();
        received += 1;
    }
    pull.wait_ended(1, LONG).unwrap();
    assert_eq!(pull.try_recv(), Err(Error::WouldBlock), "not one more");
    assert_eq!(left.bytes, left.messages * 1007);
    assert_eq!(near.terminate_within(LONG), Ok(left), "it says the same again");
    assert_eq!(near.terminate(), Ok(()));
}

#[test]
fn a_context_that_has_delivered_everything_leaves_nothing() {
    let context = Context::new().unwrap();
    let pull = Pull::builder(&context).bind("inproc://all").unwrap();
    let push = Push::builder(&context).connect("inproc://all").unwrap();
    push.send("one").unwrap();
    assert_eq!(pull.recv().unwrap(), "one");
    drop((push, pull));
    let nothing = Leftover { messages: 0, bytes: 0, lost: Drops::default(), open_sockets: 0 };
    assert_eq!(context.terminate_within(None), Ok(nothing));
}

#[test]
fn sockets_of_other_threads_are_closed_when_the_time_is_over() {
    let context = Context::new().unwrap();
    let pull = Pull::builder(&context).bind("inproc://kept").unwrap();
    let (kept, keeps) = mpsc::channel::<()>();
    let thread = thread::spawn(move || {
        let waited = pull.recv();
        let _ = keeps.recv();
        (waited.unwrap_err(), pull.recv().unwrap_err())
    });
    assert_eq!(context.terminate_within(Duration::ZERO).unwrap().open_sockets, 1);
    drop(kept);
    let (waited, after) = thread.join().unwrap();
    assert!(matches!(waited, Error::Terminated | Error::NotSocket), "{waited:?}");
    assert_eq!(after, Error::NotSocket);
    assert_eq!(Req::new(&context).unwrap_err(), Error::Terminated);
}

/// Every message is counted, even if a peer connected, sent and left before the receiver looked at its socket.
#[test]
fn what_came_over_inproc_and_was_not_looked_at_is_unread() {
    let context = Context::new().unwrap();
    let pull = Pull::builder(&context).bind("inproc://unseen").unwrap();
    Push::builder(&context).connect("inproc://unseen").unwrap().send("x").unwrap();
    drop(pull);
    let push = Push::builder(&context).bind("inproc://gone").unwrap();
    let pull = Pull::builder(&context).connect("inproc://gone").unwrap();
    push.send_timeout("y", LONG).unwrap();
    drop((pull, push));
    let left = context.terminate_within(LONG).unwrap();
    assert_eq!((left.messages, left.lost.of(Reason::Unread), left.lost.total()), (0, 2, 2));
}
