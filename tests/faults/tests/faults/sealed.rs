//! A man in the middle between a CURVE client and server: whatever is cut, changed, repeated, held back or inserted,
//! no message arrives that was not sent, none twice, none out of order; and the two sides connect again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use support::middle::{Man, Pass};
use support::peer::{RawListener, RawPeer};
use support::security::{Mechanism, Parties};
use support::wire::*;
use support::*;

/// A server and a client with a man in the middle that tampers once, with this frame of the client's (0 and 1 are
/// HELLO and INITIATE) or the server's (WELCOME and READY).
struct Scene {
    heard: Monitor,
    server: Socket,
    client: Socket,
    _man: Man,
    _ctx: Context,
}

impl Scene {
    fn new(
        of_client: bool,
        number: usize,
        mut tamper: impl FnMut(Vec<u8>) -> Pass + Send + 'static,
    ) -> Scene {
        let (ctx, parties) = (Context::new(), Parties::new());
        let (server, endpoint) = parties.bound(&ctx, DEALER, Mechanism::Curve, Transport::Tcp);
        let heard = Monitor::of(&ctx, &server, EVENT_ALL);
        let mut done = false;
        let man = Man::before(&endpoint, move |from_client, nth, frame| {
            if done || from_client != of_client || nth != number {
                return Pass::On(frame);
            }
            done = true;
            tamper(frame)
        });
        let client = parties.client(&ctx, DEALER, Mechanism::Curve);
        client.connect(&man.endpoint).expect("connect");
        Scene { heard, server, client, _man: man, _ctx: ctx }
    }

    /// Messages again pass both ways after the loss, in order and none twice.
    #[track_caller]
    fn goes_on(&self, sent: usize) {
        let mut last = None;
        for n in 0..sent {
            self.client.put(format!("{n}"));
        }
        // Bytes written to a connection that then broke are lost, so the message may have to be sent again.
        self.server.set(RCVTIMEO, 50).expect("RCVTIMEO");
        loop {
            let Ok(text) = self.server.recv(0) else {
                self.client.put("last");
                continue;
            };
            if text == b"last" {
                break;
            }
            let text = String::from_utf8(text).expect("text");
            let number: usize = text.parse().expect("what was sent");
            assert!(last.is_none_or(|last| last < number), "{number} after {last:?}");
            last = Some(number);
        }
        self.server.put("back");
        assert_eq!(self.client.take_text(), "back");
    }
}

fn flipped(mut frame: Vec<u8>, at: usize) -> Vec<u8> {
    let index = at.min(frame.len() - 1);
    frame[index] ^= 1;
    frame
}

/// Each handshake step, cut in the middle: the next attempt succeeds, and nothing is lost.
#[test]
fn a_handshake_that_is_cut_begins_anew() {
    within(60, || {
        for (of_client, number) in [(true, 0), (false, 0), (true, 1), (false, 1)] {
            for keep in [0, 1, 2, 20] {
                let scene = Scene::new(of_client, number, move |frame| Pass::Cut(frame[..keep].to_vec()));
                scene.goes_on(20);
            }
        }
    });
}

/// Each step with one bit changed after its name, in the middle, or at its end; repeated; followed by garbage.
#[test]
fn a_handshake_that_is_changed_is_refused() {
    within(60, || {
        let at_end = usize::MAX;
        for (of_client, number) in [(true, 0), (false, 0), (true, 1), (false, 1)] {
            for at in [12, 60, at_end] {
                let scene = Scene::new(of_client, number, move |frame| Pass::On(flipped(frame, at)));
                // HELLO's padding is not checked; any other change makes one side report an error.
                scene.goes_on(5);
            }
            let scene = Scene::new(of_client, number, |frame| Pass::On([frame.clone(), frame].concat()));
            scene.goes_on(5);
            let scene = Scene::new(of_client, number, |frame| Pass::On([frame, vec![0; 40]].concat()));
            scene.goes_on(5);
        }
    });
}

/// Any change to a sealed message ends the connection: the server reports it, and delivers nothing of the message.
#[test]
fn a_changed_message_ends_the_connection() {
    within(60, || {
        for at in [2, 9, 10, 17, 18, 40, usize::MAX] {
            let scene = Scene::new(true, 3, move |frame| Pass::On(flipped(frame, at)));
            scene.client.put("whole");
            assert_eq!(scene.server.take_text(), "whole");
            scene.client.put("changed on the way, and long enough for that");
            scene.heard.wait(EVENT_DISCONNECTED);
            scene.goes_on(10);
        }
    });
}

/// The same message again, or an older one: the connection ends, and no message arrives twice.
#[test]
fn a_repeated_message_ends_the_connection() {
    within(60, || {
        let scene = Scene::new(true, 2, |frame| Pass::On([frame.clone(), frame].concat()));
        scene.client.put("once");
        assert_eq!(scene.server.take_text(), "once");
        scene.heard.wait(EVENT_DISCONNECTED);
        scene.goes_on(10);
    });
}

/// Garbage, a frame of another mechanism, or a plaintext message after the handshake.
#[test]
fn nothing_in_the_clear_comes_through() {
    within(60, || {
        let clear: [Vec<u8>; 7] = [
            frame(0, b"in the clear"),
            frame(0, b"\x07MESSAGE"),
            frame(0, &[&b"\x07MESSAGE"[..], &[0; 30]].concat()),
            command("PING", b"\0\0"),
            command("SUBSCRIBE", b""),
            frame(0, b""),
            vec![0xFF; 100],
        ];
        for extra in clear {
            let scene = Scene::new(true, 2, move |frame| Pass::On([frame, extra.clone()].concat()));
            scene.client.put("sealed");
            assert_eq!(scene.server.take_text(), "sealed");
            scene.heard.wait(EVENT_DISCONNECTED);
            scene.goes_on(10);
        }
    });
}

/// Messages that are held back may be missing, as on any connection under attack, but nothing arrives in their place.
#[test]
fn a_frame_held_back_is_missing_and_no_more() {
    within(60, || {
        let scene = Scene::new(true, 4, |_| Pass::On(Vec::new()));
        scene.goes_on(10);
    });
}

/// Cut in the middle of a sealed message, many times: each connection's messages arrive in order, none arrives twice,
/// and only messages in flight at a cut are lost.
#[test]
fn reconnecting_repeats_nothing() {
    within(60, || {
        let (ctx, parties) = (Context::new(), Parties::new());
        let (server, endpoint) = parties.bound(&ctx, ROUTER, Mechanism::Curve, Transport::Tcp);
        let cuts = Arc::new(AtomicUsize::new(0));
        let count = cuts.clone();
        let man = Man::before(&endpoint, move |from_client, number, frame| {
            if from_client && number == 40 && count.load(Ordering::Relaxed) < 10 {
                count.fetch_add(1, Ordering::Relaxed);
                return Pass::Cut(frame[..frame.len() / 2].to_vec());
            }
            Pass::On(frame)
        });
        let client = parties.client(&ctx, DEALER, Mechanism::Curve).with(RECONNECT_IVL, 10);
        client.connect(&man.endpoint).expect("connect");
        let (mut sent, mut arrived) = (0, Arrived::default());
        let mut exchange = || {
            client.tx(&[format!("{sent}"), "x".repeat(sent % 3_000)]);
            sent += 1;
            while let Ok(parts) = server.recv_parts(DONTWAIT) {
                arrived.take(&parts);
            }
            (sent, arrived.numbers.last().copied())
        };
        let mut before = 0;
        until("ten cuts", || {
            before = exchange().0;
            cuts.load(Ordering::Relaxed) == 10
        });
        // Messages sent before the client notices the last cut may be lost.
        until("it goes on", || exchange().1.is_some_and(|last| last >= before));
    });
}

/// The numbers of all messages, and the last of each connection, identified by its ROUTER name: the rest of an old
/// connection may be read after the start of the next.
#[derive(Default)]
struct Arrived {
    numbers: BTreeSet<usize>,
    last: BTreeMap<Vec<u8>, usize>,
}

impl Arrived {
    #[track_caller]
    fn take(&mut self, parts: &[Vec<u8>]) {
        let [connection, text, filling] = parts else { panic!("{} parts", parts.len()) };
        let number = std::str::from_utf8(text).expect("text").parse().expect("a number");
        assert_eq!(filling.len(), number % 3_000, "whole messages alone");
        assert!(self.numbers.insert(number), "{number} twice");
        let last = self.last.insert(connection.clone(), number);
        assert!(last.is_none_or(|last| last < number), "{number} after {last:?}");
    }
}

/// MAXMSGSIZE counts the application's bytes, not the box around them.
#[test]
fn maxmsgsize_is_of_what_is_inside() {
    within(60, || {
        for mechanism in Mechanism::ALL {
            for limit in [1, 200, 222, 223, 255, 256, 5_000, 70_000] {
                let (ctx, parties) = (Context::new(), Parties::new());
                let server = ctx.socket(PULL);
                server.set_bytes(MAXMSGSIZE, &(limit as i64).to_ne_bytes()).expect("MAXMSGSIZE");
                // For PLAIN: its server requires a handler.
                let _handler = support::security::Handler::of(&ctx, "200");
                parties.serve(&server, mechanism);
                let heard = Monitor::of(&ctx, &server, EVENT_DISCONNECTED);
                let client = parties.client(&ctx, PUSH, mechanism);
                Transport::Tcp.join(&server, &client);
                client.put(vec![b'a'; limit]);
                assert_eq!(server.take().len(), limit, "{mechanism:?}");
                client.put(vec![b'b'; limit + 1]);
                heard.wait(EVENT_DISCONNECTED);
                // The client may not have noticed the end yet.
                server.set(RCVTIMEO, 20).expect("RCVTIMEO");
                until("the client is back", || {
                    client.put("c");
                    server.recv(0) == Ok(b"c".to_vec())
                });
            }
        }
    });
}

/// A server in the client's place, a client in the server's place, and a peer that echoes the client's bytes.
#[test]
fn roles_are_not_exchanged() {
    within(60, || {
        let (ctx, parties) = (Context::new(), Parties::new());
        // Our client meets an echo, which returns all its bytes.
        for mechanism in [Mechanism::Plain, Mechanism::Curve] {
            let listener = RawListener::bind(Transport::Tcp);
            let client = parties.client(&ctx, PUSH, mechanism);
            let seen = Monitor::of(&ctx, &client, EVENT_ALL);
            client.connect(&listener.endpoint()).expect("connect");
            let mut peer = listener.accept();
            peer.send(&greeting(1, mechanism.name(), true));
            peer.read(64);
            let hello = peer.read_frame();
            peer.send(&frame(hello.flags, &hello.body));
            peer.expect_end();
            seen.wait(EVENT_HANDSHAKE_FAILED_PROTOCOL);
        }
        // Our server meets a peer that also speaks as a server.
        for mechanism in [Mechanism::Plain, Mechanism::Curve] {
            let (_server, endpoint) = parties.bound(&ctx, PULL, mechanism, Transport::Tcp);
            for name in ["WELCOME", "READY", "MESSAGE", "ERROR"] {
                let mut peer = RawPeer::connect(&endpoint);
                peer.send(&greeting(1, mechanism.name(), false));
                peer.read(64);
                let _ = peer.try_send(&command(name, &[0; 160]));
                peer.expect_end();
            }
        }
    });
}
