//! Raw-byte peers for the draft socket types (RFCs 41, 48, 49, 51, 52): what the library sends is compared byte by
//! byte, and a message that breaks the pattern's rules must cost only that message. (Debian's libzmq lacks these
//! types, so it cannot serve as a reference.)

use support::peer::{RawPeer, each_way};
use support::wire::*;
use support::*;

over_wires!(
    introduces_every_type_exactly,
    turns_away_other_types,
    tells_which_groups_it_joins,
    tells_all_groups_to_who_comes_later,
    sends_a_group_and_a_body,
    takes_groups_of_either_version,
    takes_a_group_once,
    a_dish_answers_ping,
    a_dish_takes_what_is_a_group_and_a_body,
    messages_of_several_frames_are_passed_over,
    frames_what_it_sends,
);

/// A type, its name, and its peer's type.
const TYPES: [(i32, &str, &str); 8] = [
    (SERVER, "SERVER", "CLIENT"),
    (CLIENT, "CLIENT", "SERVER"),
    (RADIO, "RADIO", "DISH"),
    (DISH, "DISH", "RADIO"),
    (GATHER, "GATHER", "SCATTER"),
    (SCATTER, "SCATTER", "GATHER"),
    (PEER, "PEER", "PEER"),
    (CHANNEL, "CHANNEL", "CHANNEL"),
];

/// Socket-Type without an identity; over ipc also the offer of shared memory.
fn introduces_every_type_exactly(transport: Transport) {
    for (kind, name, peer_name) in TYPES {
        each_way(transport, kind, |socket, mut peer| {
            socket.set_bytes(ROUTING_ID, b"not announced").expect("ROUTING_ID");
            let got = peer.handshake(1, peer_name);
            let mut expected = ready(name)[2..].to_vec();
            if matches!(transport, Transport::Ipc) {
                expected.extend(metadata(&[("X-Pinnace-Memory", b"4")]));
            }
            assert_eq!((got.flags, got.body), (COMMAND, expected), "READY of {name}");
        });
    }
}

fn turns_away_other_types(transport: Transport) {
    for (kind, name, peer_name) in TYPES {
        for other in
            ["DEALER", "PAIR", "SERVER", "CLIENT", "RADIO", "DISH", "GATHER", "SCATTER", "PEER", "CHANNEL"]
        {
            if other != peer_name {
                let ctx = Context::new();
                let mut peer = RawPeer::connect(&transport.bind(&ctx.socket(kind)));
                let _ = peer.try_send(&greeting(1, "NULL", false));
                let _ = peer.try_send(&ready(other));
                peer.expect_end();
                assert_ne!(name, "", "{other} is no peer");
            }
        }
    }
}

/// The socket handles a new peer, and sends it its groups, at its next call.
fn await_groups(dish: &Socket, peer: &RawPeer) {
    until("the groups come", || poll::ready(dish, POLLIN, 1) == 0 && peer.stirs(0));
}

/// As commands, to a peer of either version.
fn tells_which_groups_it_joins(transport: Transport) {
    for minor in [0, 1] {
        each_way(transport, DISH, |dish, mut peer| {
            peer.handshake(minor, "RADIO");
            dish.join_group("TV").expect("join");
            await_groups(dish, &peer);
            peer.expect(b"\x04\x07\x04JOINTV");
            dish.leave_group("TV").expect("leave");
            peer.expect(b"\x04\x08\x05LEAVETV");
            dish.join_group("").expect("join");
            peer.expect(b"\x04\x05\x04JOIN");
            let longest = "x".repeat(255);
            dish.join_group(&longest).expect("join");
            peer.expect(&command("JOIN", longest.as_bytes()));
        });
    }
}

fn tells_all_groups_to_who_comes_later(transport: Transport) {
    let ctx = Context::new();
    let dish = ctx.socket(DISH);
    let endpoint = transport.bind(&dish);
    ["a", "b", "c"].iter().for_each(|group| dish.join_group(group).expect("join"));
    dish.leave_group("b").expect("leave");
    for _ in 0..2 {
        let mut peer = RawPeer::connect(&endpoint);
        peer.handshake(1, "RADIO");
        await_groups(&dish, &peer);
        let mut groups = [peer.read_frame().body, peer.read_frame().body];
        groups.sort();
        assert_eq!(groups, [b"\x04JOINa", b"\x04JOINc"]);
    }
}

fn sends_a_group_and_a_body(transport: Transport) {
    each_way(transport, RADIO, |radio, mut peer| {
        peer.handshake(1, "DISH");
        peer.send(&command("JOIN", b"TV"));
        peer.send(&command("JOIN", b""));
        until("the group is known", || {
            radio.send_group("TV", "first", 0).expect("send");
            peer.stirs(5)
        });
        peer.expect(b"\x01\x02TV\x00\x05first");
        let sent = "x".repeat(300);
        radio.send_group("Radio", "nobody", 0).expect("send");
        radio.send_group("TV", &sent, 0).expect("send");
        radio.put("in the empty group");
        radio.send_group("TV", "", 0).expect("send");
        let mut next = peer.read_frame();
        while (next.flags, &next.body[..]) == (MORE, b"TV") {
            let body = peer.read_frame();
            assert_eq!(body.flags, 0);
            if body.body == sent.as_bytes() {
                break;
            }
            assert_eq!(body.body, b"first");
            next = peer.read_frame();
        }
        peer.expect(b"\x01\x00\x00\x12in the empty group\x01\x02TV\x00\x00");
    });
}

fn takes_groups_of_either_version(transport: Transport) {
    for minor in [0, 1] {
        each_way(transport, RADIO, |radio, mut peer| {
            peer.handshake(minor, "DISH");
            peer.send(&command("JOIN", b"a"));
            peer.send(&command("JOIN", b"b"));
            peer.send(&command("LEAVE", b"a"));
            peer.send(&command("LEAVE", b"never joined"));
            peer.send(&command("SOMETHING", b"else"));
            until("the group is known", || {
                radio.send_group("a", "no", 0).expect("send");
                radio.send_group("b", "yes", 0).expect("send");
                peer.stirs(5)
            });
            // All commands may arrive after some of the messages to both groups.
            until("the last of them", || {
                let (group, body) = (peer.read_frame(), peer.read_frame());
                radio.send_group("b", "yes", 0).expect("send");
                (group.flags, &group.body[..], &body.body[..]) == (MORE, b"b", b"yes")
            });
        });
    }
}

/// A DISH joins a group once, however often JOIN is sent: libzmq's RADIO would require as many LEAVEs.
fn takes_a_group_once(transport: Transport) {
    each_way(transport, RADIO, |radio, mut peer| {
        peer.handshake(1, "DISH");
        (0..3).for_each(|_| peer.send(&command("JOIN", b"a")));
        peer.send(&command("LEAVE", b"a"));
        peer.send(&command("JOIN", b"end"));
        until("the last group is known", || {
            radio.send_group("end", "", 0).expect("send");
            peer.stirs(5)
        });
        peer.expect(b"\x01\x03end\x00\x00");
        radio.send_group("a", "not for you", 0).expect("send");
        radio.send_group("end", "!", 0).expect("send");
        loop {
            assert_eq!(peer.read_frame().body, b"end");
            if peer.read_frame().body == b"!" {
                return;
            }
        }
    });
}

/// libzmq's DISH mistakes a PING for a group, and hangs up (its issue 3551).
fn a_dish_answers_ping(transport: Transport) {
    each_way(transport, DISH, |dish, mut peer| {
        peer.handshake(1, "RADIO");
        peer.send(&command("PING", b"\x00\x00here"));
        peer.expect(&command("PONG", b"here"));
        dish.join_group("g").expect("join");
        await_groups(dish, &peer);
        peer.expect(b"\x04\x06\x04JOINg");
        peer.send(&message(&[b"g", b"one"]));
        peer.send(&command("PING", b"\x00\x00again"));
        peer.send(&message(&[b"g", b"two"]));
        assert_eq!(dish.take_text(), "one");
        assert_eq!(dish.take_text(), "two");
        peer.expect(&command("PONG", b"again"));
    });
}

fn a_dish_takes_what_is_a_group_and_a_body(transport: Transport) {
    each_way(transport, DISH, |dish, mut peer| {
        dish.join_group("g").expect("join");
        dish.join_group("").expect("join");
        peer.handshake(1, "RADIO");
        let long = [b'g'; 256];
        for wrong in [&[&b"g"[..]][..], &[b"g", b"a", b"b"], &[&long, b"x"], &[b"other", b"x"], &[b""]] {
            peer.send(&message(wrong));
        }
        peer.send(&message(&[b"g", b"right"]));
        peer.send(&message(&[b"", b"right too"]));
        assert_eq!(dish.take_group(), ("g".into(), b"right".to_vec()));
        assert_eq!(poll::ready(dish, POLLIN, deadline::PATIENCE_MS.into()), POLLIN);
        assert_eq!(dish.take_group(), (String::new(), b"right too".to_vec()));
        dish.expect_nothing();
    });
}

fn messages_of_several_frames_are_passed_over(transport: Transport) {
    for (kind, name, peer_name) in TYPES {
        if matches!(kind, RADIO | DISH | SCATTER) {
            continue;
        }
        each_way(transport, kind, |socket, mut peer| {
            peer.handshake(1, peer_name);
            peer.send(&message(&[b"a", b"b"]));
            peer.send(&message(&[b"one"]));
            peer.send(&message(&[b"", b"", b"c"]));
            peer.send(&message(&[b"d", &[b'e'; 100_000]]));
            assert_eq!(socket.take_text(), "one", "{name}");
            // A partial message makes the socket neither readable nor ready.
            peer.send(&command("PING", b"\x00\x00"));
            assert_eq!(peer.read_frame().flags, COMMAND);
            assert_eq!(poll::ready(socket, POLLIN, 50), 0, "{name}");
            peer.send(&message(&[b"two"]));
            assert_eq!(poll::ready(socket, POLLIN, deadline::PATIENCE_MS.into()), POLLIN, "{name}");
            assert_eq!(socket.take_text(), "two", "{name}");
            socket.expect_nothing();
        });
    }
}

fn frames_what_it_sends(transport: Transport) {
    for (kind, name, peer_name) in TYPES {
        if !matches!(kind, SERVER | PEER | CLIENT | SCATTER | CHANNEL) {
            continue;
        }
        each_way(transport, kind, |socket, mut peer| {
            peer.handshake(1, peer_name);
            let mut number = 0;
            if matches!(kind, SERVER | PEER) {
                peer.send(&message(&[b"hello"]));
                number = socket.take_from().0;
            }
            for size in [0, 1, 255, 256, 100_000] {
                let body = filler::body(size, size as usize);
                let sent = match number {
                    0 => socket.send(&body, 0),
                    number => socket.send_to(number, &body, 0),
                };
                assert_eq!(sent, Ok(body.len()), "{name}");
                peer.expect(&frame(0, &body));
            }
        });
    }
}
