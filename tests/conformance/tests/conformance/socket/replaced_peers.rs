//! Sockets that connect to one endpoint, where one peer after another answers: what each has sent keeps its sender,
//! and what is meant for one goes to no other.

use support::pinnace::{DUPLICATE, PEER_LOST};
use support::*;

over_wires!(
    unread_messages_keep_the_name_of_their_sender,
    unread_messages_are_received_if_the_next_peer_is_refused_its_name,
    a_peer_that_returns_gets_the_replies,
    a_disconnect_ends_the_pipe_of_the_last_peer,
    a_request_of_the_peer_before_is_answered_to_nobody,
    a_request_of_a_peer_that_returns_is_answered,
);

/// What the socket that connects does while its peers come and go.
#[derive(Clone, Copy)]
enum Meanwhile {
    Nothing,
    Looks,
}

impl Meanwhile {
    fn pass(self, socket: &Socket) {
        if let Meanwhile::Looks = self {
            poll::ready(socket, POLLIN, 0);
        }
    }
}

fn named(ctx: &Context, kind: i32, name: &str) -> Socket {
    let socket = ctx.socket(kind).with(LINGER, -1);
    if !name.is_empty() {
        socket.set_bytes(ROUTING_ID, name.as_bytes()).expect("ROUTING_ID");
    }
    socket
}

/// A peer that binds the endpoint as soon as it is free.
fn peer_at(ctx: &Context, endpoint: &str, kind: i32, name: &str) -> Socket {
    let peer = named(ctx, kind, name);
    until("the endpoint is free", || peer.bind(endpoint).is_ok());
    peer
}

/// A ROUTER that has connected, the endpoint, and a monitor of the connections that it loses.
fn router(ctx: &Context, transport: Transport) -> (Socket, String, Monitor) {
    let router = ctx.socket(ROUTER).with(ROUTER_MANDATORY, 1).with(RECONNECT_IVL, 10);
    let lost = Monitor::of(ctx, &router, EVENT_DISCONNECTED);
    let endpoint = transport.fresh();
    router.connect(&endpoint).expect("connect");
    (router, endpoint, lost)
}

/// Three messages of a peer that is gone when this returns; the ROUTER has received none of them.
fn three_messages(ctx: &Context, endpoint: &str, name: &str, lost: &Monitor) {
    let peer = peer_at(ctx, endpoint, DEALER, name);
    (1..=3).for_each(|n| peer.put(format!("{n} of {name}")));
    peer.close().expect("close");
    lost.wait(EVENT_DISCONNECTED);
}

/// Receives the messages from `name`, each with its sender, in any order of the senders. Returns the names and texts of
/// the others.
fn expect_three_of(router: &Socket, name: &str, all: usize) -> Vec<Vec<Vec<u8>>> {
    let mut messages: Vec<_> = (0..all).map(|_| router.rx()).collect();
    let of_it: Vec<_> = messages.extract_if(.., |message| message[0] == name.as_bytes()).collect();
    let texts: Vec<_> = of_it.iter().map(|message| String::from_utf8_lossy(&message[1])).collect();
    assert_eq!(texts, [1, 2, 3].map(|n| format!("{n} of {name}")));
    messages
}

/// Fails with libzmq 4.3.4, which keeps the first one's name for the endpoint forever.
fn unread_messages_keep_the_name_of_their_sender(transport: Transport) {
    for (name, meanwhile) in [
        ("B2", Meanwhile::Nothing),
        ("", Meanwhile::Nothing),
        ("B2", Meanwhile::Looks),
        ("", Meanwhile::Looks),
    ] {
        let ctx = Context::new();
        let (router, endpoint, lost) = router(&ctx, transport);
        three_messages(&ctx, &endpoint, "B1", &lost);
        meanwhile.pass(&router);
        let second = peer_at(&ctx, &endpoint, DEALER, name);
        second.put("hello");
        until("all have come", || router.stats().received.queued == 4);
        let rest = expect_three_of(&router, "B1", 4);
        let [hello] = &rest[..] else { panic!("{rest:?}") };
        assert_eq!(hello[1], b"hello");
        if name.is_empty() {
            assert_eq!((hello[0].len(), hello[0][0]), (5, 0));
        } else {
            assert_eq!(hello[0], name.as_bytes());
        }
        assert_eq!(router.send("B1", SNDMORE), Err(Errno(libc::EHOSTUNREACH)));
        router.tx(&[&hello[0][..], b"welcome"]);
        assert_eq!(second.take_text(), "welcome");
        router.expect_nothing();
        assert_eq!((router.peers().len(), router.stats().ended_peers), (1, 1));
    }
}

/// The second peer at the endpoint has the name of another peer that is still there.
fn unread_messages_are_received_if_the_next_peer_is_refused_its_name(transport: Transport) {
    let ctx = Context::new();
    let (router, endpoint, lost) = router(&ctx, transport);
    let owner = named(&ctx, DEALER, "taken");
    owner.connect(&transport.bind(&router)).expect("connect");
    owner.put("first");
    router.expect(&["taken", "first"]);
    three_messages(&ctx, &endpoint, "B1", &lost);
    let second = peer_at(&ctx, &endpoint, DEALER, "taken");
    second.put("not heard");
    until("it is refused", || router.stats().dropped[DUPLICATE] == 1);
    assert_eq!(expect_three_of(&router, "B1", 3), [] as [Vec<Vec<u8>>; 0]);
    router.tx(&["taken", "for the owner"]);
    assert_eq!(owner.take_text(), "for the owner");
    router.expect_nothing();
}

/// The same name is the same peer.
fn a_peer_that_returns_gets_the_replies(transport: Transport) {
    let ctx = Context::new();
    let (router, endpoint, lost) = router(&ctx, transport);
    three_messages(&ctx, &endpoint, "B1", &lost);
    let again = peer_at(&ctx, &endpoint, DEALER, "B1");
    expect_three_of(&router, "B1", 3);
    until("it is known again", || router.send_parts(&["B1", "reply"], DONTWAIT).is_ok());
    assert_eq!(again.take_text(), "reply");
}

/// Also while it has no connection; the pipes of earlier peers have ended before.
fn a_disconnect_ends_the_pipe_of_the_last_peer(transport: Transport) {
    let ctx = Context::new();
    let (router, endpoint, lost) = router(&ctx, transport);
    for name in ["B1", "B2"] {
        three_messages(&ctx, &endpoint, name, &lost);
    }
    router.disconnect(&endpoint).expect("disconnect");
    for name in ["B1", "B2"] {
        assert_eq!(router.send(name, SNDMORE), Err(Errno(libc::EHOSTUNREACH)));
    }
    let rest = expect_three_of(&router, "B1", 6);
    assert!(rest.len() == 3 && rest.iter().all(|message| message[0] == b"B2"), "{rest:?}");
    router.expect_nothing();
    assert_eq!((router.peers().len(), router.stats().ended_peers), (0, 2));
}

/// A REP with an unanswered request of a peer that is gone, its endpoint, and whether it has received the request.
fn asked(ctx: &Context, transport: Transport, is_received: bool) -> (Socket, String) {
    let rep = ctx.socket(REP).with(RECONNECT_IVL, 10);
    let lost = Monitor::of(ctx, &rep, EVENT_DISCONNECTED);
    let endpoint = transport.fresh();
    rep.connect(&endpoint).expect("connect");
    let first = peer_at(ctx, &endpoint, REQ, "first");
    first.put("question");
    if is_received {
        assert_eq!(rep.take_text(), "question");
    }
    first.close().expect("close");
    lost.wait(EVENT_DISCONNECTED);
    (rep, endpoint)
}

/// Fails with libzmq 4.3.4, which sends the reply to the next peer, as that one's.
fn a_request_of_the_peer_before_is_answered_to_nobody(transport: Transport) {
    for is_received in [true, false] {
        let ctx = Context::new();
        let (rep, endpoint) = asked(&ctx, transport, is_received);
        let second = peer_at(&ctx, &endpoint, REQ, "second");
        second.put("another question");
        let unread = if is_received { 1 } else { 2 };
        until("it has come", || rep.stats().received.queued == unread);
        if is_received {
            rep.put("answer to question");
        }
        for _ in 0..unread {
            let question = rep.take_text();
            rep.put(format!("answer to {question}"));
        }
        assert_eq!(second.take_text(), "answer to another question");
        assert_eq!(rep.stats().dropped[PEER_LOST], 1);
    }
}

fn a_request_of_a_peer_that_returns_is_answered(transport: Transport) {
    let ctx = Context::new();
    let (rep, endpoint) = asked(&ctx, transport, true);
    let again = peer_at(&ctx, &endpoint, DEALER, "first");
    again.wait_peers(1).expect("the service");
    rep.put("answer");
    again.expect(&["", "answer"]);
}
