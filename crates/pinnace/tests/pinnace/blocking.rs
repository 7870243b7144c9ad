//! Blocking calls: timeouts, whole messages among many threads, shutdown.

use std::collections::HashSet;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use pinnace::{
    Context, Error, Frame, Interest, Message, Pair, Poller, Pub, Pull, Push, Rep, Req, Router, Sub, XPub,
};

const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(50);

fn pair_over(context: &Context, endpoint: &str) -> (Push, Pull) {
    let pull = Pull::new(context).unwrap();
    let endpoint = pull.bind(endpoint).unwrap();
    (Push::builder(context).connect(&endpoint).unwrap(), pull)
}

#[test]
fn frames_of_every_size_arrive_whole() {
    let context = Context::new().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let ipc = format!("ipc://{}/sizes", directory.path().display());
    for endpoint in ["inproc://sizes", "tcp://127.0.0.1:*", &ipc] {
        let (push, pull) = pair_over(&context, endpoint);
        for size in [0, 1, 29, 30, 31, 255, 256, 1023, 1024, 32 * 1024, 32 * 1024 + 1, 3_000_000] {
            let body: Vec<u8> = (0..size).map(|index| (index % 251) as u8).collect();
            push.send([Frame::from(body.clone()), Frame::new(), Frame::from(&body)]).unwrap();
            let message = pull.recv_timeout(LONG).unwrap();
            assert_eq!(message.len(), 3, "{size} over {endpoint}");
            assert!(
                message[0] == body && message[1].is_empty() && message[2] == body,
                "{size} over {endpoint}"
            );
        }
    }
}

#[test]
fn times_are_kept_and_nothing_is_lost() {
    let context = Context::new().unwrap();
    let (push, pull) = pair_over(&context, "inproc://times");
    let before = Instant::now();
    assert_eq!(pull.recv_timeout(SHORT), Err(Error::WouldBlock));
    assert!(before.elapsed() >= SHORT);
    assert_eq!(pull.try_recv(), Err(Error::WouldBlock));
    pull.set_option("RCVTIMEO", SHORT).unwrap();
    assert_eq!(pull.recv(), Err(Error::WouldBlock));

    let lonely = Push::builder(&context).send_timeout(SHORT).build().unwrap();
    let unsent = lonely.send(["a", "b"]).unwrap_err();
    assert_eq!((unsent.error, unsent.message == ["a", "b"]), (Error::WouldBlock, true));
    let large = vec![7; 100_000];
    let unsent = lonely.send_timeout(large.clone(), SHORT).unwrap_err();
    assert_eq!(unsent.message, large, "a large frame comes back too");
    push.send(unsent.message).unwrap();
    assert_eq!(pull.recv().unwrap(), large);
}

#[test]
fn a_full_socket_takes_a_message_when_there_is_room() {
    let context = Context::new().unwrap();
    let pull = Pull::builder(&context).receive_high_water_mark(1).bind("inproc://full").unwrap();
    let push = Push::builder(&context).send_high_water_mark(1).connect("inproc://full").unwrap();
    let mut sent = 0;
    while push.try_send(format!("{sent}")).is_ok() {
        sent += 1;
    }
    assert_eq!(sent, 2, "both marks");
    thread::scope(|scope| {
        let sender = scope.spawn(|| push.send_timeout("last", LONG));
        assert_eq!(pull.recv_timeout(LONG).unwrap(), "0");
        sender.join().unwrap().unwrap();
    });
    assert_eq!(pull.recv_timeout(LONG).unwrap(), "1");
    assert_eq!(pull.recv_timeout(LONG).unwrap(), "last");
}

#[test]
fn threads_share_a_socket_and_no_message_is_torn() {
    const THREADS: usize = 4;
    const EACH: usize = 5_000;
    let context = Context::new().unwrap();
    for endpoint in ["inproc://shared", "tcp://127.0.0.1:*"] {
        let (push, pull) = pair_over(&context, endpoint);
        let start = Barrier::new(2 * THREADS);
        let mut all = HashSet::new();
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (push, start) = (&push, &start);
                scope.spawn(move || {
                    start.wait();
                    for number in 0..EACH {
                        let name = format!("{thread}/{number}");
                        push.send([name.clone(), name.clone(), name]).unwrap();
                    }
                });
            }
            let receive = || {
                start.wait();
                let mut received = Vec::new();
                for message in pull.iter().take(EACH) {
                    let message = message.unwrap();
                    assert_eq!(message.len(), 3);
                    assert!(message[0] == message[1] && message[1] == message[2], "{message:?}");
                    received.push(message[0].to_vec());
                }
                received
            };
            let receivers: Vec<_> = (0..THREADS).map(|_| scope.spawn(receive)).collect();
            for receiver in receivers {
                all.extend(receiver.join().unwrap());
            }
        });
        assert_eq!(all.len(), THREADS * EACH, "each once over {endpoint}");
        assert_eq!(pull.try_recv(), Err(Error::WouldBlock));
    }
}

/// A sender that waits for room must learn that another thread connected its socket.
#[test]
fn a_sender_that_waits_hears_of_a_connect() {
    let context = Context::new().unwrap();
    let pull = Pull::builder(&context).bind("inproc://late").unwrap();
    let push = Push::new(&context).unwrap();
    thread::scope(|scope| {
        let sender = scope.spawn(|| push.send_timeout("late", LONG));
        assert_eq!(pull.recv_timeout(SHORT), Err(Error::WouldBlock));
        push.connect("inproc://late").unwrap();
        assert_eq!(pull.recv_timeout(LONG).unwrap(), "late");
        sender.join().unwrap().unwrap();
    });
}

#[test]
fn a_shutdown_ends_what_waits_and_a_drop_ends_the_context() {
    let context = Context::new().unwrap();
    let pull = Arc::new(Pull::new(&context).unwrap());
    let waiting = pull.clone();
    let receiver = thread::spawn(move || waiting.recv());
    context.shutdown().unwrap();
    assert_eq!(receiver.join().unwrap(), Err(Error::Terminated));
    assert!(pull.iter().next().is_none());
    drop(pull);
    context.terminate().unwrap();
    assert_eq!(Pull::new(&context).unwrap_err(), Error::Terminated);
}

/// Accepted messages are sent although socket and context are dropped at once.
#[test]
fn dropping_the_last_holder_loses_nothing() {
    let receiving = Context::new().unwrap();
    let pull = Pull::new(&receiving).unwrap();
    let endpoint = pull.bind("tcp://127.0.0.1:*").unwrap();
    let sender = thread::spawn(move || {
        let push = Push::builder(&Context::new().unwrap()).connect(&endpoint).unwrap();
        (0..900).for_each(|number| push.send(format!("{number}")).unwrap());
    });
    sender.join().unwrap();
    for number in 0..900 {
        assert_eq!(pull.recv_timeout(LONG).unwrap(), format!("{number}"));
    }
}

#[test]
fn a_dropped_socket_frees_its_name() {
    let context = Context::new().unwrap();
    let pull = Pull::builder(&context).bind("inproc://name").unwrap();
    assert!(matches!(Pull::builder(&context).bind("inproc://name"), Err(Error::System(_))));
    drop(pull);
    Pull::builder(&context).bind("inproc://name").unwrap();
}

#[test]
fn patterns_keep_their_rules() {
    let context = Context::new().unwrap();
    let rep = Rep::builder(&context).bind("inproc://rules").unwrap();
    let req = Req::builder(&context).connect("inproc://rules").unwrap();
    assert_eq!(req.try_recv(), Err(Error::State));
    assert_eq!(rep.try_send("early").unwrap_err().error, Error::State);
    req.send("question").unwrap();
    assert_eq!(req.try_send("another").unwrap_err().error, Error::State);
    assert_eq!(rep.recv_timeout(LONG).unwrap(), "question");
    rep.send(["an", "answer"]).unwrap();
    assert_eq!(req.recv_timeout(LONG).unwrap(), ["an", "answer"]);

    assert!(matches!(req.try_send(Message::new()).unwrap_err().error, Error::Invalid(_)), "no frames");
    let router = Router::builder(&context).mandatory(true).build().unwrap();
    assert_eq!(router.send(["nobody", "x"]).unwrap_err().error, Error::Unreachable);
}

#[test]
fn subscriptions_are_waited_for() {
    let context = Context::new().unwrap();
    let publisher = Pub::new(&context).unwrap();
    let endpoint = publisher.bind("tcp://127.0.0.1:*").unwrap();
    assert_eq!(publisher.wait_subscribers("a", 1, SHORT), Err(Error::WouldBlock));
    let subscriber = Sub::builder(&context).subscribe("a").connect(&endpoint).unwrap();
    subscriber.wait_subscribed(LONG).unwrap();
    publisher.wait_subscribers("a", 1, LONG).unwrap();
    publisher.send("b1").unwrap();
    publisher.send("a1").unwrap();
    assert_eq!(subscriber.recv_timeout(LONG).unwrap(), "a1");
    subscriber.unsubscribe("a").unwrap();
    subscriber.wait_subscribed(LONG).unwrap();
    publisher.send("a2").unwrap();
    assert_eq!(subscriber.recv_timeout(SHORT), Err(Error::WouldBlock));

    let verbose = XPub::builder(&context).verbose(true).bind("inproc://verbose").unwrap();
    let subscriber = Sub::builder(&context).subscribe("").connect("inproc://verbose").unwrap();
    subscriber.subscribe("").unwrap();
    assert_eq!(verbose.recv_timeout(LONG).unwrap(), b"\x01");
}

#[test]
fn messages_know_their_peer() {
    let context = Context::new().unwrap();
    let router = Router::new(&context).unwrap();
    let endpoint = router.bind("tcp://127.0.0.1:*").unwrap();
    let req =
        Req::builder(&context).routing_id("me").metadata("X-Colour", "blue").connect(&endpoint).unwrap();
    req.send("hello").unwrap();
    let message = router.recv_timeout(LONG).unwrap();
    assert_eq!(message, ["me", "", "hello"]);
    assert_eq!(message.peer_address(), Some("127.0.0.1"));
    assert_eq!(message.property("Socket-Type"), Some(&b"REQ"[..]));
    assert_eq!(message.property("X-Colour"), Some(&b"blue"[..]));
    assert_eq!(message.user_id(), None);
    assert!(message.properties().count() >= 3);

    let stats = router.stats().unwrap();
    assert_eq!((stats.peers.len(), &*stats.peers[0].routing_id), (1, &b"me"[..]));
    router.kick(stats.peers[0].number).unwrap();
    router.wait_ended(1, LONG).unwrap();
    assert_eq!(router.kick(stats.peers[0].number), Err(Error::Unreachable));
    router.wait_peers(1, LONG).unwrap();
}

#[test]
fn a_poller_tells_who_is_ready() {
    let context = Context::new().unwrap();
    let (push, pull) = pair_over(&context, "tcp://127.0.0.1:*");
    let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
    let idle = Pair::new(&context).unwrap();
    let poller = Poller::new().unwrap();
    poller.add(&pull, Interest::READABLE, "pull").unwrap();
    poller.add(&idle, Interest::BOTH, "idle").unwrap();
    poller.add_fd(&near, Interest::READABLE, "stream").unwrap();
    assert!(matches!(poller.add(&pull, Interest::READABLE, "again"), Err(Error::Invalid(_))));
    assert_eq!(poller.wait(Duration::ZERO).unwrap(), []);
    push.send("hello").unwrap();
    let keys = |timeout| poller.wait(timeout).unwrap().iter().map(|ready| ready.key).collect::<Vec<_>>();
    assert_eq!(keys(LONG), ["pull"]);
    assert_eq!(pull.recv().unwrap(), "hello");
    std::io::Write::write_all(&mut &far, b"x").unwrap();
    assert_eq!(keys(LONG), ["stream"]);
    poller.remove_fd(&near).unwrap();
    poller.modify(&pull, Interest::default()).unwrap();
    push.send("unasked").unwrap();
    assert_eq!(keys(SHORT), [""; 0]);
    poller.remove(&pull).unwrap();
    assert!(matches!(poller.remove(&pull), Err(Error::Invalid(_))));
}
