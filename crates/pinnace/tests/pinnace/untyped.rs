//! Sockets with a type known only at run time, one-time waits for several sources, and frames read in place.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use pinnace::{
    AnySocket, Context, Error, EventKind, Interest, Message, Pair, PollItem, Poller, Ready, SocketType,
    find_option, poll,
};

const LONG: Duration = Duration::from_secs(30);

#[test]
fn every_type_can_be_made_and_says_what_it_does_not_do() {
    use SocketType::*;
    let all = [
        Pair, Pub, Sub, Req, Rep, Dealer, Router, Pull, Push, XPub, XSub, Stream, Server, Client, Radio,
        Dish, Gather, Scatter, Dgram, Peer, Channel,
    ];
    let context = Context::new().unwrap();
    for socket_type in all {
        let socket = AnySocket::of_type(&context, socket_type).unwrap();
        assert_eq!(socket.socket_type(), socket_type);
        let sends = !matches!(socket_type, Sub | Pull | Dish | Gather);
        let receives = !matches!(socket_type, Push | Pub | Radio | Scatter);
        let unsent = socket.try_send("x").err().map(|unsent| unsent.error);
        assert_eq!(unsent == Some(Error::NotSupported), !sends, "{socket_type:?}: {unsent:?}");
        let unread = socket.try_recv().err();
        assert_eq!(unread == Some(Error::NotSupported), !receives, "{socket_type:?}: {unread:?}");
        if socket_type != Dish {
            assert_eq!(socket.join("group"), Err(Error::NotSupported), "{socket_type:?}");
        }
        if !matches!(socket_type, Server | Peer) {
            assert_eq!(socket.disconnect_peer(1), Err(Error::NotSupported), "{socket_type:?}");
        }
    }
}

#[test]
fn an_untyped_socket_does_what_its_type_does() {
    let context = Context::new().unwrap();
    let any = |socket_type| AnySocket::of_type(&context, socket_type).unwrap();
    for (publishes, subscribes) in [(SocketType::Pub, SocketType::Sub), (SocketType::XPub, SocketType::XSub)]
    {
        let (publisher, subscriber) = (any(publishes), any(subscribes));
        let endpoint = publisher.bind("tcp://127.0.0.1:*").unwrap();
        subscriber.connect(&endpoint).unwrap();
        subscriber.subscribe("a").unwrap();
        publisher.wait_subscribers("a", 1, LONG).unwrap();
        publisher.send("b").unwrap();
        publisher.send("a").unwrap();
        assert_eq!(subscriber.recv_timeout(LONG).unwrap(), "a");
    }
    let (radio, dish) = (any(SocketType::Radio), any(SocketType::Dish));
    radio.bind("inproc://radio").unwrap();
    dish.join("group").unwrap();
    dish.connect("inproc://radio").unwrap();
    dish.wait_joined(LONG).unwrap();
    radio.send(Message::from("heard").to_group("group")).unwrap();
    assert_eq!(dish.recv_timeout(LONG).unwrap().group(), b"group");
}

#[test]
fn sockets_descriptors_and_monitors_are_waited_for_together() {
    let context = Context::new().unwrap();
    let here = Pair::builder(&context).build().unwrap();
    let mut events = here.monitor().unwrap();
    let (mut near, far) = UnixStream::pair().unwrap();
    let wait = |events: &pinnace::Monitor| {
        let items = [here.poll_item(Interest::READABLE), PollItem::fd(far.as_fd(), Interest::READABLE)];
        let mut items = items.into_iter().chain([events.poll_item()]).collect::<Vec<_>>();
        let found = poll(&mut items, Duration::ZERO).unwrap();
        let ready: Vec<bool> = items.iter().map(|item| item.ready().readable).collect();
        assert_eq!(ready.iter().filter(|ready| **ready).count(), found);
        ready
    };
    assert_eq!(wait(&events), [false, false, false]);
    assert_eq!(events.try_recv(), Err(Error::WouldBlock));
    near.write_all(b"x").unwrap();
    let endpoint = here.bind("tcp://127.0.0.1:*").unwrap();
    assert_eq!(wait(&events), [false, true, true]);
    let event = events.try_recv().unwrap().unwrap();
    assert_eq!((event.kind, event.kind.name(), event.local), (EventKind::Listening, "listening", endpoint));
    let there = Pair::new(&context).unwrap();
    here.bind("inproc://here").unwrap();
    there.connect("inproc://here").unwrap();
    there.send("y").unwrap();
    assert_eq!(poll(&mut [here.poll_item(Interest::READABLE)], LONG), Ok(1));
    drop(near);
    let mut end = [PollItem::fd(far.as_fd(), Interest::default())];
    assert_eq!(poll(&mut end, LONG), Ok(1));
    assert!(end[0].is_over() && !end[0].ready().readable);
}

#[test]
fn frames_are_read_where_they_lie() {
    let context = Context::new().unwrap();
    let here = Pair::builder(&context).bind("inproc://lie").unwrap();
    let there = Pair::builder(&context).receive_timeout(LONG).connect("inproc://lie").unwrap();
    for size in [0, 5, 300, 40_000] {
        here.send_bytes(&vec![7; size]).unwrap();
        here.send(["several", "frames"]).unwrap();
        let mut frames = Vec::new();
        there.recv_with(|frame| frames.push(frame.to_vec())).unwrap();
        assert_eq!(frames, [vec![7; size]]);
        frames.clear();
        there.recv_with(|frame| frames.push(frame.to_vec())).unwrap();
        assert_eq!(frames, [&b"several"[..], b"frames"]);
    }
    here.send_bytes(b"once more").unwrap();
    there.recv_with(|_| assert_eq!(there.try_recv(), Err(Error::Reentered))).unwrap();
    there.set_option("RCVTIMEO", 0).unwrap();
    assert_eq!(there.recv_with(|_| panic!("there is nothing")), Err(Error::WouldBlock));
}

#[test]
fn options_are_found_by_any_spelling_of_their_names() {
    for name in ["SNDHWM", "sndhwm", "ZMQ_SNDHWM", "zmq_sndhwm"] {
        assert_eq!(find_option(name).unwrap().number, 23);
    }
    assert!(matches!(find_option("no_such"), Err(Error::Invalid(_))));
}

/// Both kinds of wait would block forever if the hang-up of a descriptor were not reported.
#[test]
fn a_descriptor_that_is_over_is_told_as_what_was_asked() {
    for interest in [Interest::READABLE, Interest::WRITABLE, Interest::BOTH] {
        // The writer of one pipe and the reader of the other are closed.
        let ((mut reader, writer), (unread, kept)) = (std::io::pipe().unwrap(), std::io::pipe().unwrap());
        drop((writer, unread));
        let fd = if interest == Interest::READABLE { reader.as_fd() } else { kept.as_fd() };
        let poller = Poller::new().unwrap();
        poller.add_fd(&fd, interest, "pipe").unwrap();
        assert_eq!(poller.wait(LONG).unwrap(), [Ready { key: "pipe", ready: interest, is_over: true }]);
        poller.remove_fd(&fd).unwrap();
        let mut items = [PollItem::fd(fd, interest)];
        assert_eq!(poll(&mut items, LONG), Ok(1));
        assert_eq!((items[0].ready(), items[0].is_over()), (interest, true));
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    }
    let (near, _far) = UnixStream::pair().unwrap();
    let poller = Poller::new().unwrap();
    poller.add_fd(&near, Interest::BOTH, ()).unwrap();
    assert_eq!(poller.wait(LONG).unwrap(), [Ready { key: (), ready: Interest::WRITABLE, is_over: false }]);
}

/// The socket closes while its monitor is not read: the events that fit are kept, and the final event follows them.
#[test]
fn the_events_of_a_socket_end_though_nobody_read_them() {
    const ROOM: usize = 2000;
    let context = Context::new().unwrap();
    let socket = Pair::new(&context).unwrap();
    let mut events = socket.monitor().unwrap();
    while socket.stats().unwrap().events_dropped == 0 {
        let endpoint = socket.bind("tcp://127.0.0.1:*").unwrap();
        socket.unbind(&endpoint).unwrap();
    }
    drop(socket);
    let mut count = 0;
    while events.recv_timeout(LONG).unwrap().is_some() {
        count += 1;
    }
    // Events still in transit when the reader starts find room again, so the count may exceed ROOM.
    assert!(count >= ROOM, "{count}");
}
