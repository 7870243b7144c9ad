//! zmq_proxy: a queue, a forwarder, a streamer; what the capture sees; how it ends.

use support::api::*;
use support::filler::{body, number_of, numbered};
use support::*;

over_transports!(queues, forwards, streams);

/// Runs a proxy between the two while `body` works; ends it by shutting the context down.
fn proxied(ctx: &Context, front: Socket, back: Socket, capture: Option<Socket>, body: impl FnOnce()) {
    std::thread::scope(|scope| {
        let proxy = scope.spawn(move || {
            let tap = capture.as_ref().map_or(std::ptr::null_mut(), |socket| socket.raw());
            // SAFETY: handles that live until the proxy ends.
            errno::check(unsafe { zmq_proxy(front.raw(), back.raw(), tap) })
        });
        // A failed assertion must not leave the proxy running: the scope would wait for ever.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        ctx.shutdown().expect("shutdown");
        assert_eq!(proxy.join().expect("no panic"), Err(Errno(ETERM)));
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Clients and services around a ROUTER and a DEALER, with questions of several parts.
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
            // Each service gets one of these, as the DEALER takes turns.
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

/// The steerable proxy. Not in the first release of the library under test, where it has to say ENOTSUP or
/// EINVAL; where it works, TERMINATE ends it with 0.
#[test]
fn steers_or_says_no() {
    let ctx = Context::new();
    let (front, back) = (ctx.bare_socket(PULL), ctx.bare_socket(PUSH));
    let (control, pilot) = Transport::Inproc.pair(&ctx, PAIR, PAIR);
    Transport::Inproc.bind(&front);
    Transport::Inproc.bind(&back);
    pilot.put("TERMINATE");
    // SAFETY: live handles.
    let rc = unsafe { zmq_proxy_steerable(front.raw(), back.raw(), std::ptr::null_mut(), control.raw()) };
    let error = errno::last();
    assert!(rc == 0 || error == Errno(libc::ENOTSUP) || error == Errno(libc::EINVAL), "{rc} {error:?}");
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
