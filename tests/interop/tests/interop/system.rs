//! The library under test and the system's libzmq, each in a process of its own: every pattern, over tcp and ipc,
//! each library on each side, and each side binding.
//!
//! A pattern has two scripts, `a` and `b`. Four runs per transport: this process plays `a` or `b`, and binds or
//! connects; the child plays the other side with the system's library.

use std::cell::RefCell;

use support::child::{self, Child};
use support::filler::body;
use support::poll::{fd_readable, ready};
use support::*;

support::roles!(partner);

/// One side of a pattern; the second argument returns true once the other side has finished.
type Script = fn(&Socket, &dyn Fn() -> bool);

struct Pattern {
    name: &'static str,
    a: (i32, Script),
    b: (i32, Script),
}

const PATTERNS: &[Pattern] = &[
    Pattern { name: "stream", a: (PUSH, stream_out), b: (PULL, stream_in) },
    Pattern { name: "ask", a: (REQ, ask), b: (REP, answer) },
    Pattern { name: "ask a router", a: (REQ, ask), b: (ROUTER, return_to_sender) },
    Pattern { name: "dealer asks", a: (DEALER, ask_ahead), b: (REP, answer) },
    Pattern { name: "deal", a: (DEALER, deal), b: (ROUTER, return_to_sender) },
    Pattern { name: "publish", a: (PUB, publish), b: (SUB, subscribe) },
    Pattern { name: "publish with xpub", a: (XPUB, publish_knowing), b: (SUB, subscribe_and_change) },
    Pattern { name: "subscribe with xsub", a: (XPUB, publish_knowing), b: (XSUB, subscribe_by_message) },
    Pattern { name: "pair", a: (PAIR, converse_first), b: (PAIR, converse_second) },
];

fn content(n: usize) -> Vec<u8> {
    let sizes = [0, 1, 33, 34, 255, 256, 1_000, 8_192, 70_000, 5, 300_000, 12];
    body(n as u64, sizes[n % sizes.len()])
}

fn stream_out(socket: &Socket, _: &dyn Fn() -> bool) {
    for n in 0..3_000 {
        let parts: Vec<Vec<u8>> = (0..1 + n % 4).map(|part| content(n + part)).collect();
        socket.tx(&parts);
    }
}

fn stream_in(socket: &Socket, _: &dyn Fn() -> bool) {
    for n in 0..3_000 {
        let parts = socket.rx();
        assert!(
            parts.len() == 1 + n % 4 && parts.iter().enumerate().all(|(i, part)| *part == content(n + i))
        );
    }
}

fn ask(socket: &Socket, _: &dyn Fn() -> bool) {
    for n in 0..300 {
        socket.tx(&[content(n), content(n + 1)]);
        socket.expect(&[content(n), content(n + 1)]);
    }
    socket.put("end");
    socket.expect(&["end"]);
}

fn answer(socket: &Socket, _: &dyn Fn() -> bool) {
    loop {
        let parts = socket.rx();
        socket.tx(&parts);
        if parts.last().is_some_and(|part| part == b"end") {
            return;
        }
    }
}

use answer as return_to_sender;

fn ask_ahead(socket: &Socket, _: &dyn Fn() -> bool) {
    for n in 0..300 {
        socket.tx(&[b"address".to_vec(), vec![], content(n)]);
    }
    for n in 0..300 {
        socket.expect(&[b"address".to_vec(), vec![], content(n)]);
    }
    socket.tx(&["", "end"]);
    socket.expect(&["", "end"]);
}

fn deal(socket: &Socket, _: &dyn Fn() -> bool) {
    for n in 0..500 {
        socket.tx(&[content(n), vec![], content(n + 5)]);
    }
    socket.put("end");
    for n in 0..500 {
        socket.expect(&[content(n), vec![], content(n + 5)]);
    }
    socket.expect(&["end"]);
}

fn publish(socket: &Socket, other_is_done: &dyn Fn() -> bool) {
    let mut n = 0u64;
    until("the subscriber has enough", || {
        socket.put(format!("B {n}"));
        socket.tx(&[format!("A {n}"), "second".into()]);
        n += 1;
        deadline::pass(std::time::Duration::from_millis(1));
        other_is_done()
    });
}

fn subscribe(socket: &Socket, _: &dyn Fn() -> bool) {
    socket.set_bytes(SUBSCRIBE, b"A").expect("SUBSCRIBE");
    let mut last = None;
    for _ in 0..20 {
        let parts = socket.rx();
        assert_eq!((parts.len(), &parts[0][..2], &parts[1][..]), (2, &b"A "[..], &b"second"[..]));
        let number: u64 = std::str::from_utf8(&parts[0][2..]).expect("text").parse().expect("a number");
        assert!(last.is_none_or(|last| number == last + 1), "{number} after {last:?}");
        last = Some(number);
    }
}

fn publish_knowing(socket: &Socket, _: &dyn Fn() -> bool) {
    for wish in ["\x01A", "\x01B", "\0B", "\x01end"] {
        socket.expect(&[wish]);
    }
    for n in 0..500 {
        socket.put(format!("B {n}"));
        socket.put(format!("A {n}"));
    }
    socket.put("end");
}

fn hear_what_was_asked_for(socket: &Socket) {
    for n in 0..500 {
        assert_eq!(socket.take_text(), format!("A {n}"));
    }
    assert_eq!(socket.take_text(), "end");
}

fn subscribe_and_change(socket: &Socket, _: &dyn Fn() -> bool) {
    for (option, topic) in [(SUBSCRIBE, "A"), (SUBSCRIBE, "B"), (UNSUBSCRIBE, "B"), (SUBSCRIBE, "end")] {
        // Wait for the connection, which then carries all four; before that libzmq would send only their net result.
        if topic == "A" {
            wait_for_peer(socket);
        }
        socket.set_bytes(option, topic.as_bytes()).expect("a subscription");
    }
    hear_what_was_asked_for(socket);
}

fn subscribe_by_message(socket: &Socket, _: &dyn Fn() -> bool) {
    wait_for_peer(socket);
    for wish in ["\x01A", "\x01B", "\0B", "\x01end"] {
        socket.put(wish);
    }
    hear_what_was_asked_for(socket);
}

thread_local! {
    /// The monitor of this thread's socket, so that scripts can wait for the connection.
    static WATCH: RefCell<Option<Monitor>> = const { RefCell::new(None) };
}

fn wait_for_peer(socket: &Socket) {
    WATCH.with_borrow(|watch| watch.as_ref().expect("a monitor").wait(EVENT_HANDSHAKE_SUCCEEDED));
    // libzmq attaches the new pipe when its thread next enters the library.
    ready(socket, POLLIN, 0);
}

fn converse_first(socket: &Socket, _: &dyn Fn() -> bool) {
    for n in 0..500 {
        socket.tx(&[content(n), content(n + 3)]);
        socket.expect(&[content(n + 2)]);
    }
}

fn converse_second(socket: &Socket, _: &dyn Fn() -> bool) {
    for n in 0..500 {
        socket.put(content(n + 2));
        socket.expect(&[content(n), content(n + 3)]);
    }
}

/// The child: arguments are the pattern, its side, and the endpoint to connect to or, after `bind`, to bind.
fn partner(args: &[String]) {
    let pattern = PATTERNS.iter().find(|pattern| pattern.name == args[0]).expect("a pattern");
    let (kind, script) = if args[1] == "a" { pattern.a } else { pattern.b };
    let ctx = Context::new();
    let socket = ctx.socket(kind);
    let watch = Monitor::of(&ctx, &socket, EVENT_HANDSHAKE_SUCCEEDED);
    WATCH.set(Some(watch));
    match args[2].as_str() {
        "bind" => {
            socket.bind(&args[3]).expect("bind");
            child::say(socket.endpoint());
        }
        _ => socket.connect(&args[3]).expect("connect"),
    }
    script(&socket, &|| fd_readable(0, 0));
    child::say("done");
    child::hear();
    WATCH.set(None);
}

fn run(pattern: &Pattern, transport: Transport, we_are_a: bool, we_bind: bool) {
    let (theirs, ours) = if we_are_a { ("b", pattern.a) } else { ("a", pattern.b) };
    let ctx = Context::new();
    let socket = ctx.socket(ours.0);
    WATCH.set(Some(Monitor::of(&ctx, &socket, EVENT_HANDSHAKE_SUCCEEDED)));
    let mut partner = if we_bind {
        let endpoint = transport.bind(&socket);
        Child::with_system("partner", &[pattern.name, theirs, "connect", &endpoint])
    } else {
        let mut partner =
            Child::with_system("partner", &[pattern.name, theirs, "bind", &transport.wildcard()]);
        socket.connect(&partner.line()).expect("connect");
        partner
    };
    let partner = RefCell::new(&mut partner);
    (ours.1)(&socket, &|| partner.borrow_mut().has_line());
    let mut partner = partner.borrow_mut();
    partner.tell("done");
    assert_eq!(partner.line(), "done");
    partner.succeeds();
    WATCH.set(None);
}

fn run_all(name: &str, transport: Transport) {
    let pattern = PATTERNS.iter().find(|pattern| pattern.name == name).expect("a pattern");
    for (we_are_a, we_bind) in [(true, true), (true, false), (false, true), (false, false)] {
        run(pattern, transport, we_are_a, we_bind);
    }
}

macro_rules! patterns {
    ($($function:ident: $name:expr;)*) => {
        over_wires!($($function),*);
        $(fn $function(transport: Transport) { run_all($name, transport); })*
    };
}

patterns! {
    streams: "stream";
    asks: "ask";
    asks_a_router: "ask a router";
    dealer_asks: "dealer asks";
    deals: "deal";
    publishes: "publish";
    publishes_with_xpub: "publish with xpub";
    subscribes_with_xsub: "subscribe with xsub";
    pairs: "pair";
}
