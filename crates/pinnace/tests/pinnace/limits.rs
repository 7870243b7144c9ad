//! Features beyond libzmq: limits in bytes, statistics as text, disconnecting and awaiting peers, lost messages.

use std::time::Duration;

use pinnace::{Context, Error, EventKind, Interest, Monitor, Pair, Pull, Push, Reason, prometheus};

const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(100);

#[test]
fn a_peers_bytes_are_limited() {
    let context = Context::new().unwrap();
    let pull = Pull::builder(&context).receive_byte_limit(1000).bind("inproc://bytes").unwrap();
    let push = Push::builder(&context)
        .send_byte_limit(1000)
        .send_high_water_mark(0)
        .receive_high_water_mark(0)
        .connect("inproc://bytes")
        .unwrap();
    assert_eq!(push.option("PINNACE_SNDBYTES").unwrap().int(), Some(1000));
    let taken = (0..1000).take_while(|_| push.try_send(vec![b'x'; 98]).is_ok()).count();
    // Each message has a header of two bytes, so 20 fill both sides' 2000 bytes; one more may go beyond.
    assert!((20..=21).contains(&taken), "{taken}");
    for _ in 0..taken {
        pull.recv_timeout(LONG).unwrap();
    }
    push.send_timeout(vec![b'x'; 98], LONG).unwrap();
}

#[test]
fn a_contexts_bytes_are_limited() {
    let context = Context::builder().max_bytes(10_000).build().unwrap();
    let pull = Pull::builder(&context).bind("inproc://budget").unwrap();
    let push = Push::builder(&context).connect("inproc://budget").unwrap();
    while push.try_send(vec![0; 500]).is_ok() {}
    let held = context.held_bytes();
    assert!((10_000..11_000).contains(&held), "{held}");
    context.set_max_bytes(20_000);
    push.send_timeout(vec![0; 500], LONG).unwrap();
    while pull.try_recv().is_ok() {}
    assert_eq!(context.held_bytes(), 0);
}

fn wait_for(events: &mut Monitor, kind: EventKind) {
    while events.recv_timeout(LONG).unwrap().expect("there are more").kind != kind {}
}

#[test]
fn a_peer_is_cut_off_and_its_end_waited_for() {
    let context = Context::new().unwrap();
    let pull = Pull::new(&context).unwrap();
    let endpoint = pull.bind("tcp://127.0.0.1:*").unwrap();
    let push = Push::new(&context).unwrap();
    let mut events = push.monitor().unwrap();
    push.connect(&endpoint).unwrap();
    push.send("before").unwrap();
    pull.wait_peers(1, LONG).unwrap();
    assert_eq!(pull.wait_peers(2, SHORT), Err(Error::WouldBlock));
    let peers = pull.stats().unwrap().peers;
    assert_eq!((peers.len(), peers[0].connected, peers[0].mechanism), (1, true, "NULL"));
    assert_eq!(pull.recv_timeout(LONG).unwrap(), "before");
    pull.kick(peers[0].number).unwrap();
    pull.wait_ended(1, LONG).unwrap();
    assert_eq!(pull.kick(peers[0].number), Err(Error::Unreachable));
    // A message sent before the sender has noticed the disconnect goes into the dead connection.
    wait_for(&mut events, EventKind::Disconnected);
    push.send("after").unwrap();
    assert_eq!(pull.recv_timeout(LONG).unwrap(), "after", "it came back");
}

#[test]
fn the_end_of_what_producers_sent_is_waited_for() {
    let context = Context::new().unwrap();
    let pull = Pull::new(&context).unwrap();
    let endpoint = pull.bind("tcp://127.0.0.1:*").unwrap();
    let push = Push::builder(&context).connect(&endpoint).unwrap();
    push.send("the last").unwrap();
    drop(push);
    assert_eq!(pull.wait_ended(1, SHORT), Err(Error::WouldBlock), "it was not received yet");
    assert_eq!(pull.recv_timeout(LONG).unwrap(), "the last");
    pull.wait_ended(1, LONG).unwrap();
}

#[test]
fn statistics_as_text() {
    let context = Context::new().unwrap();
    let here = Pair::builder(&context).bind("inproc://texts").unwrap();
    let there = Pair::builder(&context).connect("inproc://texts").unwrap();
    here.send("hello").unwrap();
    there.recv_timeout(LONG).unwrap();
    let (here, there) = (here.stats().unwrap(), there.stats().unwrap());
    assert!(
        there
            .to_json()
            .starts_with(r#"{"socket_type":"PAIR","received":{"messages":1,"bytes":7,"queued":0}"#)
    );
    let text = prometheus([("a", &here), ("b", &there)]);
    assert!(
        text.contains("pinnace_messages_total{socket=\"a\",type=\"PAIR\",direction=\"out\"} 1\n"),
        "{text}"
    );
    assert!(
        text.contains("pinnace_messages_total{socket=\"b\",type=\"PAIR\",direction=\"in\"} 1\n"),
        "{text}"
    );
}

#[test]
fn a_level_descriptor_is_readable_exactly_while_it_is_so() {
    use std::os::fd::{AsFd, AsRawFd};
    let context = Context::new().unwrap();
    let pull = Pull::builder(&context).bind("inproc://level").unwrap();
    let push = Push::builder(&context).connect("inproc://level").unwrap();
    let level = pull.ready_fd(Interest::READABLE).unwrap();
    assert!(level.as_fd().as_raw_fd() >= 0);
    let poller = pinnace::Poller::new().unwrap();
    poller.add_fd(&level, Interest::READABLE, ()).unwrap();
    assert!(poller.wait(Duration::ZERO).unwrap().is_empty());
    push.send("x").unwrap();
    for _ in 0..2 {
        assert_eq!(poller.wait(LONG).unwrap().len(), 1, "it stays so");
    }
    pull.recv_timeout(LONG).unwrap();
    assert!(poller.wait(Duration::ZERO).unwrap().is_empty());
}

#[test]
fn what_closed_sockets_have_lost_is_kept() {
    let context = Context::new().unwrap();
    let push = Push::builder(&context).linger(Duration::ZERO).connect("inproc://nobody").unwrap();
    push.send("lost").unwrap();
    push.disconnect("inproc://nobody").unwrap();
    drop(push);
    assert_eq!(context.lost().of(Reason::Expired), 1);
    assert_eq!(context.lost().total(), 1);
}
