//! SERVER and CLIENT: routing ids; unknown, full and lost peers; many threads on one socket.

use std::collections::BTreeSet;

use support::filler::{drain, number_of, numbered};
use support::*;

over_transports!(
    answers_each_client,
    gives_each_client_a_number_of_its_own,
    refuses_a_number_that_nobody_has,
    does_not_answer_without_a_number,
    reports_a_full_client,
    waits_for_a_full_client,
    hears_a_client_that_has_gone,
    parts_with_one_client,
    parts_with_a_client_it_connected_to,
    clients_balance_and_queue,
    serves_from_the_connecting_side,
    many_threads_share_both_sockets,
; wires keeps_the_number_of_an_endpoint);

const UNREACHABLE: Outcome<usize> = Err(Errno(libc::EHOSTUNREACH));

fn answers_each_client(transport: Transport) {
    let ctx = Context::new();
    let server = ctx.socket(SERVER);
    let endpoint = transport.bind(&server);
    let clients: Vec<Socket> = (0..10).map(|_| ctx.socket(CLIENT)).collect();
    for (n, client) in clients.iter().enumerate() {
        client.connect(&endpoint).expect("connect");
        client.put(format!("from {n}"));
    }
    let mut asked: Vec<(u32, Vec<u8>)> = clients.iter().map(|_| server.take_from()).collect();
    asked.reverse();
    for (number, text) in &asked {
        assert_eq!(server.send_to(*number, text, 0), Ok(text.len()));
    }
    for (n, client) in clients.iter().enumerate() {
        let mut answer = Message::new();
        answer.recv(client, 0).expect("an answer");
        assert_eq!(answer.bytes(), format!("from {n}").as_bytes());
        assert_eq!(answer.routing_id(), 0, "a client knows no numbers");
    }
}

fn gives_each_client_a_number_of_its_own(transport: Transport) {
    let ctx = Context::new();
    let server = ctx.socket(SERVER);
    let endpoint = transport.bind(&server);
    let mut seen = BTreeSet::from([0]);
    for turn in 0..30 {
        let client = ctx.socket(CLIENT);
        client.connect(&endpoint).expect("connect");
        client.put("a");
        client.put(vec![b'b'; 100_000]);
        let (number, _) = server.take_from();
        assert!(seen.insert(number), "turn {turn}: {number} is new");
        assert_eq!(server.take_from(), (number, vec![b'b'; 100_000]));
    }
}

fn refuses_a_number_that_nobody_has(transport: Transport) {
    let ctx = Context::new();
    let server = ctx.socket(SERVER);
    assert_eq!(server.send_to(1, "x", 0), UNREACHABLE, "before any peer");
    let client = ctx.socket(CLIENT);
    transport.join(&server, &client);
    client.put("hello");
    let (number, _) = server.take_from();
    assert_eq!(server.send_to(number ^ 1, "x", 0), UNREACHABLE);
    assert_eq!(server.disconnect_peer(number ^ 1), Err(Errno(libc::EHOSTUNREACH)));
    assert_eq!(server.send_to(number, "y", 0), Ok(1));
    assert_eq!(client.take_text(), "y");
}

/// A message without a routing id has no destination, whichever peer the last message came from.
fn does_not_answer_without_a_number(transport: Transport) {
    let ctx = Context::new();
    let server = ctx.socket(SERVER);
    let client = ctx.socket(CLIENT);
    transport.join(&server, &client);
    client.put("hello");
    assert_eq!(server.recv_into(&mut [0; 8], 0), Ok(5));
    assert_eq!(server.send("x", 0), UNREACHABLE);
    assert_eq!(Message::of(b"x").set_routing_id(0), Err(Errno(libc::EINVAL)));
    assert_eq!(Message::of(b"x").send(&server, 0), UNREACHABLE);
}

/// Sends until the client accepts no more; returns how many it accepted.
fn stuff(server: &Socket, number: u32) -> u64 {
    let (mut count, mut refusals) = (0u64, 0);
    // Several refusals in a row, with a pause between them: the kernel's buffers are full too.
    while refusals < 4 {
        match server.send_to(number, numbered(count, 50_000), DONTWAIT) {
            Ok(_) => (count, refusals) = (count + 1, 0),
            Err(error) => {
                assert_eq!(error, Errno(libc::EAGAIN));
                deadline::pass(std::time::Duration::from_millis(50));
                refusals += 1;
            }
        }
        assert!(count < 100_000, "the mark is never reached");
    }
    count
}

fn full_pair(ctx: &Context, transport: Transport) -> (Socket, Socket, u32, u64) {
    let server = ctx.socket(SERVER).hwm(2);
    let client = ctx.socket(CLIENT).hwm(2);
    transport.join(&server, &client);
    client.put("hello");
    let (number, _) = server.take_from();
    let count = stuff(&server, number);
    (server, client, number, count)
}

/// Nothing is lost at the high-water mark, and other peers are served meanwhile.
fn reports_a_full_client(transport: Transport) {
    let ctx = Context::new();
    let (server, client, number, count) = full_pair(&ctx, transport);
    let other = ctx.socket(CLIENT);
    other.connect(&server.endpoint()).expect("connect");
    other.put("me too");
    let (second, _) = server.take_from();
    assert_eq!(server.send_to(second, "and you", 0), Ok(7));
    assert_eq!(other.take_text(), "and you");
    assert_eq!(server.send_to(number, "x", DONTWAIT), Err(Errno(libc::EAGAIN)));
    let server = server.with(SNDTIMEO, 50);
    assert_eq!(server.send_to(number, "x", 0), Err(Errno(libc::EAGAIN)));
    drain(&client, 0, count);
}

fn waits_for_a_full_client(transport: Transport) {
    let ctx = Context::new();
    let (server, client, number, count) = full_pair(&ctx, transport);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in count..count + 20 {
                assert_eq!(server.send_to(number, numbered(n, 50_000), 0), Ok(50_000));
            }
        });
        drain(&client, 0, count + 20);
    });
}

/// The messages that a client sent before it closed are received, with its routing id; then the id is unknown.
fn hears_a_client_that_has_gone(transport: Transport) {
    let ctx = Context::new();
    let server = ctx.socket(SERVER);
    let endpoint = transport.bind(&server);
    let client = ctx.socket(CLIENT).with(LINGER, -1);
    client.connect(&endpoint).expect("connect");
    (0..100).for_each(|n| client.put(numbered(n, 100)));
    client.close().expect("close");
    let (number, first) = server.take_from();
    assert_eq!(number_of(&first), 0);
    until("its number leads nowhere", || server.send_to(number, "x", DONTWAIT) == UNREACHABLE);
    for n in 1..100 {
        let (from, message) = server.take_from();
        assert_eq!((from, number_of(&message)), (number, n));
    }
    server.expect_nothing();
}

/// Only that one client is disconnected; it reconnects as another peer. (inproc does not reconnect.)
fn parts_with_one_client(transport: Transport) {
    let ctx = Context::new();
    let server = ctx.socket(SERVER);
    let endpoint = transport.bind(&server);
    let clients = [ctx.socket(CLIENT).with(RECONNECT_IVL, 10), ctx.socket(CLIENT)];
    let numbers = [0, 1].map(|n| {
        clients[n].connect(&endpoint).expect("connect");
        clients[n].put("hello");
        server.take_from().0
    });
    assert_eq!(server.send_to(numbers[0], "the last", 0), Ok(8));
    server.disconnect_peer(numbers[0]).expect("disconnect");
    assert_eq!(server.disconnect_peer(numbers[0]), Err(Errno(libc::EHOSTUNREACH)), "a second time");
    assert_eq!(server.send_to(numbers[0], "x", 0), UNREACHABLE);
    assert_eq!(clients[0].take_text(), "the last");
    assert_eq!(server.send_to(numbers[1], "still here", 0), Ok(10));
    assert_eq!(clients[1].take_text(), "still here");
    if transport == Transport::Inproc {
        until("nobody is there", || clients[0].send("again", DONTWAIT) == Err(Errno(libc::EAGAIN)));
        assert_eq!(clients[0].disconnect(&endpoint), Err(Errno(libc::ENOENT)));
    } else {
        // Messages sent before it notices are under the old id, or lost.
        let number = deadline::until_some("it comes again", || {
            clients[0].put("again");
            let is_there = poll::ready(&server, POLLIN, 10) != 0;
            is_there.then(|| server.take_from().0).filter(|number| *number != numbers[0])
        });
        assert_ne!(number, numbers[1]);
        assert_eq!(server.send_to(number, "welcome", 0), Ok(7));
        assert_eq!(clients[0].take_text(), "welcome");
    }
}

/// If we have connected, the endpoint ends with the peer: there is no reconnect.
fn parts_with_a_client_it_connected_to(transport: Transport) {
    let ctx = Context::new();
    let (client, server) = (ctx.socket(CLIENT), ctx.socket(SERVER).with(RECONNECT_IVL, 1));
    let endpoint = transport.join(&client, &server);
    client.put("hello");
    let (number, _) = server.take_from();
    server.disconnect_peer(number).expect("disconnect");
    assert_eq!(server.send_to(number, "x", 0), UNREACHABLE);
    assert_eq!(server.disconnect(&endpoint), Err(Errno(libc::ENOENT)));
    until("the client has nobody", || client.send("x", DONTWAIT) == Err(Errno(libc::EAGAIN)));
    deadline::pass(std::time::Duration::from_millis(50));
    assert_eq!(client.send("x", DONTWAIT), Err(Errno(libc::EAGAIN)));
    // After a new connect it is another peer.
    server.connect(&endpoint).expect("connect");
    client.put("hello again");
    let (anew, text) = deadline::until_some("what was sent before is passed over", || {
        Some(server.take_from()).filter(|(_, text)| text != b"x")
    });
    assert_eq!(text, b"hello again");
    assert_ne!(anew, number);
}

fn clients_balance_and_queue(transport: Transport) {
    let ctx = Context::new();
    let servers = [ctx.socket(SERVER), ctx.socket(SERVER), ctx.socket(SERVER)];
    let client = ctx.socket(CLIENT);
    for server in &servers {
        transport.join(server, &client);
    }
    (0..9).for_each(|n| client.put(format!("{n}")));
    for server in &servers {
        for _ in 0..3 {
            let (number, text) = server.take_from();
            assert_eq!(server.send_to(number, text, 0), Ok(1));
        }
        server.expect_nothing();
    }
    let answers: BTreeSet<String> = (0..9).map(|_| client.take_text()).collect();
    assert_eq!(answers, (0..9).map(|n| format!("{n}")).collect());
}

fn serves_from_the_connecting_side(transport: Transport) {
    let ctx = Context::new();
    let (client, server) = transport.pair(&ctx, CLIENT, SERVER);
    client.put("a");
    let (number, _) = server.take_from();
    assert_eq!(server.send_to(number, "b", 0), Ok(1));
    assert_eq!(client.take_text(), "b");
    let clients = ctx.socket(CLIENT);
    let endpoint = transport.bind(&clients);
    server.connect(&endpoint).expect("connect");
    clients.put("c");
    assert_ne!(server.take_from().0, number);
}

/// A SERVER's connected endpoint is the same peer after a reconnect.
fn keeps_the_number_of_an_endpoint(transport: Transport) {
    let ctx = Context::new();
    let server = ctx.socket(SERVER).with(RECONNECT_IVL, 10);
    let endpoint = transport.fresh();
    server.connect(&endpoint).expect("connect");
    let mut numbers = BTreeSet::new();
    for turn in 0..3 {
        let client = ctx.socket(CLIENT).with(LINGER, 0);
        until("the endpoint is free", || client.bind(&endpoint).is_ok());
        client.put(format!("{turn}"));
        let (number, text) = server.take_from();
        assert_eq!(text, format!("{turn}").as_bytes());
        numbers.insert(number);
        assert_eq!(server.send_to(number, "answer", 0), Ok(6));
        assert_eq!(client.take_text(), "answer");
        client.close().expect("close");
    }
    assert_eq!(numbers.len(), 1);
}

/// Each of eight threads sends requests and receives answers over the same CLIENT, from four threads on the same
/// SERVER: every message arrives once, and none is torn.
fn many_threads_share_both_sockets(transport: Transport) {
    const ASKERS: u64 = 8;
    const EACH: u64 = 2_000;
    let ctx = Context::new();
    let (server, client) = transport.pair(&ctx, SERVER, CLIENT);
    let seen = std::sync::Mutex::new(BTreeSet::new());
    std::thread::scope(|scope| {
        for asker in 0..ASKERS {
            let client = &client;
            scope.spawn(move || {
                for n in 0..EACH {
                    client.put(numbered(asker * EACH + n, 8 + (n as usize % 5) * 400));
                }
            });
        }
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..ASKERS * EACH / 4 {
                    let (number, message) = server.take_from();
                    assert_eq!(server.send_to(number, &message, 0), Ok(message.len()));
                }
            });
            scope.spawn(|| {
                for _ in 0..ASKERS * EACH / 4 {
                    let number = number_of(&client.take());
                    assert!(seen.lock().unwrap().insert(number), "{number} came twice");
                }
            });
        }
    });
    assert!(seen.into_inner().unwrap().into_iter().eq(0..ASKERS * EACH));
}
