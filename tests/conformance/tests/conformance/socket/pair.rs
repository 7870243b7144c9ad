//! PAIR: exactly two ends.

use support::poll::ready;
use support::*;

over_transports!(talks_both_ways, is_exclusive, waits_for_the_other_end, takes_another_after_the_first_left);

fn talks_both_ways(transport: Transport) {
    let ctx = Context::new();
    let (a, b) = transport.pair(&ctx, PAIR, PAIR);
    b.put("from b");
    assert_eq!(a.take_text(), "from b");
    for n in 0..500 {
        a.tx(&["a", &n.to_string()]);
        b.put(n.to_string());
    }
    for n in 0..500 {
        b.expect(&["a", &n.to_string()]);
        assert_eq!(a.take_text(), n.to_string());
    }
}

/// A third socket is not heard and receives nothing; the two continue undisturbed.
fn is_exclusive(transport: Transport) {
    let ctx = Context::new();
    let (a, b) = (ctx.socket(PAIR), ctx.socket(PAIR));
    let endpoint = transport.join(&a, &b);
    b.put("hello");
    assert_eq!(a.take_text(), "hello");
    let third = ctx.socket(PAIR);
    third.connect(&endpoint).expect("connect");
    let _ = third.send("intruder", DONTWAIT);
    a.expect_nothing();
    a.put("for b");
    assert_eq!(b.take_text(), "for b");
    assert_eq!(third.recv(DONTWAIT), Err(Errno(libc::EAGAIN)));
    b.put("still here");
    assert_eq!(a.take_text(), "still here");
}

fn waits_for_the_other_end(transport: Transport) {
    let ctx = Context::new();
    let a = ctx.socket(PAIR);
    let endpoint = transport.bind(&a);
    assert_eq!(a.send("nobody", DONTWAIT), Err(Errno(libc::EAGAIN)));
    assert_eq!(ready(&a, POLLIN | POLLOUT, 0), 0);
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| a.put("somebody"));
        let b = ctx.socket(PAIR);
        b.connect(&endpoint).expect("connect");
        assert_eq!(b.take_text(), "somebody");
        sender.join().expect("sent");
    });
}

fn takes_another_after_the_first_left(transport: Transport) {
    let ctx = Context::new();
    let a = ctx.socket(PAIR);
    let endpoint = transport.bind(&a);
    for turn in 0..3 {
        // Until the end of the previous peer is known, the next one may be refused: it retries.
        until("the next one is heard", || {
            let b = ctx.socket(PAIR);
            b.connect(&endpoint).expect("connect");
            let _ = b.send(format!("{turn}"), DONTWAIT);
            let heard = ready(&a, POLLIN, 50) != 0;
            if heard {
                assert_eq!(a.take_text(), format!("{turn}"));
            }
            heard
        });
        while a.recv(DONTWAIT).is_ok() {}
    }
}
