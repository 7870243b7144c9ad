//! zmq_proxy: a queue, a forwarder, a streamer; the capture's copies; how a proxy ends.

use support::api::*;
use support::filler::{body, number_of, numbered};
use support::*;

over_transports!(queues, forwards, streams);

/// Runs a proxy between the two while `body` runs; ends it by shutting the context down.
fn proxied(ctx: &Context, front: Socket, back: Socket, capture: Option<Socket>, body: impl FnOnce()) {
    std::thread::scope(|scope| {
        let proxy = scope.spawn(move || {
            let tap = capture.as_ref().map_or(std::ptr::null_mut(), |socket| socket.raw());
            // SAFETY: handles that live until the proxy ends.
            errno::check(unsafe { zmq_proxy(front.raw(), back.raw(), tap) })
        });
        // A failed assertion must not leave the proxy running: the scope would wait forever.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        ctx.shutdown().expect("shutdown");
        assert_eq!(proxy.join().expect("no panic"), Err(Errno(ETERM)));
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
}

/// The call fails at once, even if another socket has reused its slot, and takes nothing from the front.
#[test]
fn a_capture_that_was_closed_is_none() {
    let ctx = Context::new();
    let (front, back) = (ctx.bare_socket(PULL), ctx.bare_socket(PUSH));
    let tap = ctx.bare_socket(PUSH);
    let closed = tap.raw();
    tap.close().expect("close");
    let _next = ctx.bare_socket(PUSH);
    // SAFETY: handles; the last one is closed.
    let ended = errno::check(unsafe { zmq_proxy(front.raw(), back.raw(), closed) });
    assert_eq!(ended, Err(Errno(libc::ENOTSOCK)));
}

/// Clients and services around a ROUTER and a DEALER, with multipart requests.
fn queues(transport: Transport) {
    let ctx = Context::new();
    let (front, back) = (ctx.bare_socket(ROUTER), ctx.bare_socket(DEALER));
    let (asked, served) = (transport.bind(&front), transport.bind(&back));
    let services: Vec<Socket> = (0..2).map(|_| ctx.socket(REP)).collect();
    services.iter().for_each(|service| service.connect(&served).expect("connect"));
    let clients: Vec<Socket> = (0..3).map(|_| ctx.socket(REQ)).collect();
    clients.iter().for_each(|client| client.connect(&asked).expect("connect"));
    proxied(&ctx, front, back, None, || {
        std::thread::scope(|scope| {
            for service in &services {
                scope.spawn(move || {
                    while let Ok(parts) = service.recv_parts(0) {
                        if service.send_parts(&parts, 0).is_err() || parts[0] == b"end" {
                            break;
                        }
                    }
                });
            }
            for turn in 0..50 {
                for (id, client) in clients.iter().enumerate() {
                    client.tx(&[format!("{id}"), format!("{turn}"), String::new()]);
                }
                for (id, client) in clients.iter().enumerate() {
                    client.expect(&[format!("{id}"), format!("{turn}"), String::new()]);
                }
            }
            // Each service gets one of these, because the DEALER is round robin.
            for client in &clients[..2] {
                client.put("end");
            }
            for client in &clients[..2] {
                client.expect(&["end"]);
            }
        });
    });
}

/// XSUB to XPUB: subscriptions travel one way, messages the other, and the capture sees both.
fn forwards(transport: Transport) {
    let ctx = Context::new();
    let (front, back) = (ctx.bare_socket(XSUB), ctx.bare_socket(XPUB));
    let (upstream, downstream) = (transport.bind(&front), transport.bind(&back));
    let tap = ctx.bare_socket(PUSH);
    let captured = ctx.socket(PULL);
    Transport::Inproc.join(&captured, &tap);
    let (publisher, sub) = (ctx.socket(XPUB), ctx.socket(SUB));
    publisher.connect(&upstream).expect("connect");
    sub.connect(&downstream).expect("connect");
    proxied(&ctx, front, back, Some(tap), || {
        sub.set_bytes(SUBSCRIBE, b"A").expect("SUBSCRIBE");
        publisher.expect(&["\x01A"]);
        captured.expect(&["\x01A"]);
        publisher.put("B");
        publisher.tx(&["A", "second part"]);
        sub.expect(&["A", "second part"]);
        captured.expect(&["A", "second part"]);
        sub.set_bytes(UNSUBSCRIBE, b"A").expect("UNSUBSCRIBE");
        publisher.expect(&["\0A"]);
    });
}

/// PULL to PUSH: a stream in order, large messages among the small.
fn streams(transport: Transport) {
    let ctx = Context::new();
    let (front, back) = (ctx.bare_socket(PULL), ctx.bare_socket(PUSH));
    let (input, output) = (transport.bind(&front), transport.bind(&back));
    let (push, pull) = (ctx.socket(PUSH), ctx.socket(PULL));
    push.connect(&input).expect("connect");
    pull.connect(&output).expect("connect");
    proxied(&ctx, front, back, None, || {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (0..3_000).for_each(|n| push.put(numbered(n, if n % 50 == 0 { 90_000 } else { 20 })))
            });
            (0..3_000).for_each(|n| assert_eq!(number_of(&pull.take()), n));
        });
    });
}

/// Runs a proxy between a PULL and a PUSH, controlled by a socket of this type, while `body` runs.
fn steered(kind: i32, pilot: i32, body: impl FnOnce(&Socket, &Socket, &Socket)) {
    captured(kind, pilot, &Context::new(), None, body);
}

/// As `steered`, with a capture.
fn captured(
    kind: i32,
    pilot: i32,
    ctx: &Context,
    capture: Option<Socket>,
    body: impl FnOnce(&Socket, &Socket, &Socket),
) {
    let (front, back) = (ctx.bare_socket(PULL), ctx.bare_socket(PUSH));
    let (input, output) = (Transport::Inproc.bind(&front), Transport::Tcp.bind(&back));
    let (push, pull) = (ctx.socket(PUSH), ctx.socket(PULL));
    push.connect(&input).expect("connect");
    pull.connect(&output).expect("connect");
    let (control, pilot) = Transport::Inproc.pair(ctx, kind, pilot);
    std::thread::scope(|scope| {
        let proxy = scope.spawn(move || {
            let tap = capture.as_ref().map_or(std::ptr::null_mut(), |socket| socket.raw());
            // SAFETY: handles that live until the proxy ends.
            errno::check(unsafe { zmq_proxy_steerable(front.raw(), back.raw(), tap, control.raw()) })
        });
        let work = std::panic::AssertUnwindSafe(|| body(&push, &pull, &pilot));
        let result = std::panic::catch_unwind(work);
        if result.is_err() {
            ctx.shutdown().expect("shutdown");
        }
        let ended = proxy.join().expect("no panic");
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
        assert_eq!(ended, Ok(0));
    });
}

/// The eight numbers of a STATISTICS answer.
fn statistics(pilot: &Socket) -> Vec<u64> {
    pilot.put("STATISTICS");
    let number = |part: Vec<u8>| u64::from_ne_bytes(part.try_into().expect("8 bytes"));
    pilot.rx().into_iter().map(number).collect()
}

#[test]
fn steers() {
    within(60, || {
        steered(PAIR, PAIR, |push, pull, pilot| {
            assert_eq!(statistics(pilot), [0; 8]);
            push.tx(&["one", "and more"]);
            pull.expect(&["one", "and more"]);
            let after = [1, 11, 0, 0, 0, 0, 1, 11];
            until("the counts", || statistics(pilot) == after);
            pilot.put("PAUSE");
            assert_eq!(statistics(pilot), after);
            push.put("later");
            pull.expect_nothing();
            pilot.put("RESUME");
            assert_eq!(pull.take_text(), "later");
            pilot.put("TERMINATE");
        });
    });
}

/// A capture without a peer stops neither messages nor commands. libzmq 4.3.4 stops both.
#[test]
fn a_capture_without_a_peer_is_passed_over() {
    if !exports("zmq_poller_new") {
        return;
    }
    within(60, || {
        let ctx = Context::new();
        let tap = ctx.bare_socket(PAIR);
        let endpoint = Transport::Inproc.bind(&tap);
        let late = ctx.socket(PAIR);
        captured(PAIR, PAIR, &ctx, Some(tap), |push, pull, pilot| {
            for n in 0..3 {
                push.tx(&["message", &n.to_string()]);
                pull.expect(&["message", &n.to_string()]);
            }
            assert_eq!(statistics(pilot)[0], 3);
            late.connect(&endpoint).expect("connect");
            push.tx(&["one", "copied"]);
            pull.expect(&["one", "copied"]);
            late.expect(&["one", "copied"]);
            pilot.put("TERMINATE");
        });
    });
}

/// A capture with a peer that does not read blocks its direction, but no command; a message in progress is passed on
/// whole.
#[test]
fn commands_are_heard_while_a_copy_waits() {
    if !exports("zmq_poller_new") {
        return;
    }
    within(60, || {
        for leaves in [false, true] {
            let ctx = Context::new();
            let (tap, reader) = (ctx.bare_socket(PUSH).hwm(1), ctx.socket(PULL).hwm(1));
            Transport::Inproc.join(&reader, &tap);
            captured(PAIR, PAIR, &ctx, Some(tap), |push, pull, pilot| {
                (0..10).for_each(|n| push.tx(&["message", &n.to_string()]));
                // Two copies are in the pipe; the first frame of the third message has been forwarded.
                until("the capture is full", || statistics(pilot)[0] == 2);
                (0..2).for_each(|n| pull.expect(&["message", &n.to_string()]));
                pull.expect_nothing();
                if leaves {
                    drop(reader);
                    (2..10).for_each(|n| pull.expect(&["message", &n.to_string()]));
                    pilot.put("TERMINATE");
                } else {
                    pilot.put("TERMINATE");
                    pull.expect(&["message", "2"]);
                    (0..2).for_each(|n| reader.expect(&["message", &n.to_string()]));
                }
            });
        }
    });
}

/// A REP answers every command, with an empty message if there is nothing to report. libzmq 4.3.4 does not.
#[test]
fn steers_by_requests() {
    if !exports("zmq_poller_new") {
        return;
    }
    within(60, || {
        steered(REP, REQ, |push, pull, pilot| {
            for command in ["PAUSE", "RESUME"] {
                pilot.put(command);
                assert_eq!(pilot.take_text(), "");
            }
            push.put("x");
            assert_eq!(pull.take_text(), "x");
            assert_eq!(statistics(pilot).len(), 8);
            pilot.put("TERMINATE");
            assert_eq!(pilot.take_text(), "");
        });
    });
}

/// Unknown commands are ignored, in one frame or several. libzmq 4.3.4 ends the process here.
#[test]
fn strange_commands_are_passed_over() {
    if !exports("zmq_poller_new") {
        return;
    }
    within(60, || {
        steered(REP, REQ, |push, pull, pilot| {
            for command in ["", "pause", "KILL", "PAUSE and more"] {
                pilot.tx(&[command, "PAUSE", ""]);
                assert_eq!(pilot.take_text(), "");
            }
            push.put("x");
            assert_eq!(pull.take_text(), "x");
            pilot.put("TERMINATE");
            pilot.take();
        });
        steered(PULL, PUSH, |push, pull, pilot| {
            pilot.put("STATISTICS");
            push.put("it cannot answer, and goes on");
            pull.take();
            pilot.put("TERMINATE");
        });
    });
}

#[test]
fn steering_has_its_errors() {
    let ctx = Context::new();
    let (front, back) = (ctx.bare_socket(PULL), ctx.bare_socket(PUSH));
    let null = std::ptr::null_mut();
    // SAFETY: null pointers are under test.
    unsafe {
        assert_eq!(
            (zmq_proxy_steerable(null, back.raw(), null, null), errno::last()),
            (-1, Errno(libc::EFAULT))
        );
        assert_eq!(
            (zmq_proxy_steerable(front.raw(), null, null, null), errno::last()),
            (-1, Errno(libc::EFAULT))
        );
    }
}

#[test]
fn bodies_of_a_megabyte_pass() {
    within(60, || {
        let ctx = Context::new();
        let (front, back) = (ctx.bare_socket(ROUTER), ctx.bare_socket(DEALER));
        let (asked, served) = (Transport::Tcp.bind(&front), Transport::Ipc.bind(&back));
        let (client, service) = (ctx.socket(REQ), ctx.socket(REP));
        client.connect(&asked).expect("connect");
        service.connect(&served).expect("connect");
        proxied(&ctx, front, back, None, || {
            for n in 0..5 {
                let content = body(n, 1 << 20);
                client.put(&content);
                assert!(service.take() == content);
                service.put(&content);
                assert!(client.take() == content);
            }
        });
    });
}
