//! Subscriptions on the wire: commands to a ZMTP 3.1 peer, messages to older ones; both forms are accepted from any
//! peer.

use std::collections::BTreeSet;

use support::peer::{MEETINGS, RawListener, RawPeer};
use support::wire::*;
use support::*;

over_wires!(
    says_commands_to_3_1,
    says_messages_to_3_0,
    takes_both_forms,
    cancels_once,
    keeps_sets_per_peer,
    wants_what_it_wants_after_a_reconnect,
    finds_what_is_new_behind_much_that_is_not,
);

/// libzmq sends its subscriptions to a new peer only when the subscriber's thread enters the library: call it.
fn let_it_speak(sub: &Socket, peer: &RawPeer) {
    until("the subscriber says something", || {
        poll::ready(sub, POLLIN, 2);
        peer.stirs(2)
    });
}

fn says_commands_to_3_1(transport: Transport) {
    for meeting in MEETINGS {
        let ctx = Context::new();
        let sub = ctx.socket(SUB);
        sub.set_bytes(SUBSCRIBE, b"early").expect("SUBSCRIBE");
        let mut peer = meeting.arrange(transport, &sub);
        peer.handshake(1, "PUB");
        let_it_speak(&sub, &peer);
        peer.expect(&command("SUBSCRIBE", b"early"));
        sub.set_bytes(SUBSCRIBE, b"").expect("SUBSCRIBE");
        peer.expect(&command("SUBSCRIBE", b""));
        sub.set_bytes(UNSUBSCRIBE, b"early").expect("UNSUBSCRIBE");
        peer.expect(&command("CANCEL", b"early"));
        let long = vec![b't'; 300];
        sub.set_bytes(SUBSCRIBE, &long).expect("SUBSCRIBE");
        peer.expect(&command("SUBSCRIBE", &long));
        peer.send(&frame(0, b"news"));
        assert_eq!(sub.take_text(), "news");
    }
}

fn says_messages_to_3_0(transport: Transport) {
    for meeting in MEETINGS {
        let ctx = Context::new();
        let sub = ctx.socket(SUB);
        sub.set_bytes(SUBSCRIBE, b"early").expect("SUBSCRIBE");
        let mut peer = meeting.arrange(transport, &sub);
        peer.handshake(0, "PUB");
        let_it_speak(&sub, &peer);
        peer.expect(b"\x00\x06\x01early");
        sub.set_bytes(UNSUBSCRIBE, b"early").expect("UNSUBSCRIBE");
        peer.expect(b"\x00\x06\x00early");
        sub.set_bytes(SUBSCRIBE, b"").expect("SUBSCRIBE");
        peer.expect(b"\x00\x01\x01");
        peer.send(&frame(0, b"news"));
        assert_eq!(sub.take_text(), "news");
    }
}

/// A publisher accepts commands and messages from peers of either version, and presents both alike.
fn takes_both_forms(transport: Transport) {
    for (meeting, minor) in MEETINGS.into_iter().flat_map(|meeting| [(meeting, 0), (meeting, 1)]) {
        let ctx = Context::new();
        let xpub = ctx.socket(XPUB);
        let mut peer = meeting.arrange(transport, &xpub);
        peer.handshake(minor, "SUB");
        peer.send(&command("SUBSCRIBE", b"command"));
        peer.send(&frame(0, b"\x01message"));
        xpub.expect(&["\x01command"]);
        xpub.expect(&["\x01message"]);
        xpub.put("nothing");
        xpub.put("command 1");
        xpub.put("message 1");
        peer.expect(b"\x00\x09command 1\x00\x09message 1");
        peer.send(&command("CANCEL", b"command"));
        peer.send(&frame(0, b"\x00message"));
        xpub.expect(&["\0command"]);
        xpub.expect(&["\0message"]);
        peer.send(&command("SUBSCRIBE", b"end"));
        xpub.expect(&["\x01end"]);
        xpub.put("command 2");
        xpub.put("end");
        peer.expect(b"\x00\x03end");
    }
}

/// However often a socket subscribed to a topic, it cancels the topic on the wire once, at the last unsubscribe.
fn cancels_once(transport: Transport) {
    for meeting in MEETINGS {
        let ctx = Context::new();
        let sub = ctx.socket(SUB);
        let mut peer = meeting.arrange(transport, &sub);
        peer.handshake(1, "PUB");
        // The first subscription shows that the connection is up; later subscriptions are sent one by one.
        sub.set_bytes(SUBSCRIBE, b"A").expect("SUBSCRIBE");
        let_it_speak(&sub, &peer);
        peer.expect(&command("SUBSCRIBE", b"A"));
        sub.set_bytes(SUBSCRIBE, b"A").expect("SUBSCRIBE");
        sub.set_bytes(UNSUBSCRIBE, b"A").expect("UNSUBSCRIBE");
        sub.set_bytes(SUBSCRIBE, b"B").expect("SUBSCRIBE");
        let mut next = peer.read_frame();
        if next.body == command("SUBSCRIBE", b"A")[2..] {
            next = peer.read_frame();
        }
        assert_eq!(next.body, command("SUBSCRIBE", b"B")[2..], "no CANCEL yet");
        sub.set_bytes(UNSUBSCRIBE, b"A").expect("UNSUBSCRIBE");
        peer.expect(&command("CANCEL", b"A"));
    }
}

/// A publisher keeps a set for each peer: after two equal subscriptions one CANCEL ends the topic.
fn keeps_sets_per_peer(transport: Transport) {
    for meeting in MEETINGS {
        let ctx = Context::new();
        let xpub = ctx.socket(XPUB);
        let mut peer = meeting.arrange(transport, &xpub);
        peer.handshake(1, "SUB");
        peer.send(&command("SUBSCRIBE", b"A"));
        peer.send(&command("SUBSCRIBE", b"A"));
        peer.send(&command("CANCEL", b"A"));
        peer.send(&command("SUBSCRIBE", b"end"));
        xpub.expect(&["\x01A"]);
        xpub.expect(&["\0A"]);
        xpub.expect(&["\x01end"]);
        xpub.put("A");
        xpub.put("end");
        peer.expect(b"\x00\x03end");
    }
}

/// Reads a subscription or its end, in either version's form.
fn read_wish(peer: &mut RawPeer) -> (bool, Vec<u8>) {
    let body = peer.read_frame().body;
    let forms: [(&[u8], bool); 4] =
        [(b"\x09SUBSCRIBE", true), (b"\x06CANCEL", false), (b"\x01", true), (b"\x00", false)];
    let (form, on) = forms.into_iter().find(|(form, _)| body.starts_with(form)).expect("a subscription");
    (on, body[form.len()..].to_vec())
}

/// Subscriptions that a lost connection did not take are not sent over the next one if they were cancelled meanwhile:
/// the new connection gets the current set, each topic once. They are too many for the kernel's buffers.
fn wants_what_it_wants_after_a_reconnect(transport: Transport) {
    for (kind, minor) in [(SUB, 0), (SUB, 1), (XSUB, 1)] {
        let ctx = Context::new();
        let listener = RawListener::bind(transport);
        let sub = ctx.socket(kind).with(RECONNECT_IVL, 10);
        let wish = |on: bool, topic: &[u8]| match kind {
            SUB => sub.set_bytes(if on { SUBSCRIBE } else { UNSUBSCRIBE }, topic).expect("a wish"),
            _ => sub.put([&[u8::from(on)], topic].concat()),
        };
        sub.connect(&listener.endpoint()).expect("connect");
        wish(true, b"kept");
        let mut first = listener.accept();
        first.handshake(minor, "PUB");
        let_it_speak(&sub, &first);
        assert_eq!(read_wish(&mut first), (true, b"kept".to_vec()));
        let topics: Vec<Vec<u8>> = (0..600).map(|n| filler::numbered(n, 60_000)).collect();
        topics.iter().for_each(|topic| wish(true, topic));
        drop(first);
        // The second connection shows that the library has noticed the loss.
        let mut second = listener.accept();
        topics[1..].iter().for_each(|topic| wish(false, topic));
        wish(true, b"new");
        second.handshake(minor, "PUB");
        let_it_speak(&sub, &second);
        wish(true, b"last");
        let mut wanted = BTreeSet::new();
        while !wanted.contains(&b"last"[..]) {
            let (on, topic) = read_wish(&mut second);
            assert!(on, "the end of a wish that this publisher never heard of");
            assert!(wanted.insert(topic), "twice the same");
        }
        let expected = [b"kept".to_vec(), b"last".to_vec(), b"new".to_vec(), topics[0].clone()];
        assert!(wanted == expected.into(), "{} wishes", wanted.len());
    }
}

/// A waiting XPUB reports a new topic, however many duplicate subscriptions are queued before it.
fn finds_what_is_new_behind_much_that_is_not(transport: Transport) {
    let ctx = Context::new();
    let xpub = ctx.socket(XPUB).with(RCVHWM, 0);
    let endpoint = transport.bind(&xpub);
    let mut peers = [RawPeer::connect(&endpoint), RawPeer::connect(&endpoint)];
    for peer in &mut peers {
        peer.handshake(1, "SUB");
    }
    peers[0].send(&command("SUBSCRIBE", b"known"));
    xpub.expect(&["\x01known"]);
    peers[1].send(&command("SUBSCRIBE", b"known").repeat(60_000));
    peers[1].send(&command("SUBSCRIBE", b"new"));
    // The PONG shows that the library has read everything before the PING, though the application has received none
    // of it.
    peers[1].send(&command("PING", b"\0\0"));
    peers[1].expect(&command("PONG", b""));
    xpub.expect(&["\x01new"]);
}
