//! NULL with a domain, PLAIN and CURVE: which clients are admitted or refused, what both sides learn of it, and what
//! messages report of their sender.

use std::sync::atomic::{AtomicUsize, Ordering};

use support::peer::RawPeer;
use support::security::{Handler, Keys, Mechanism, Parties, verdict};
use support::*;

over!(
    tcp,
    Tcp,
    a_handler_decides,
    without_a_handler_the_mechanism_decides,
    an_enforced_domain_wants_a_handler,
    an_enforced_domain_that_is_none_asks_nobody,
    keys_must_go_together,
    the_handler_is_asked_as_rfc_27_says,
    messages_say_who_sent_them,
    properties_of_our_own_reach_the_peer,
    mechanisms_must_agree,
    two_servers_do_not_wait_for_each_other,
    many_clients_at_once,
);
over!(
    ipc,
    Ipc,
    a_handler_decides,
    without_a_handler_the_mechanism_decides,
    an_enforced_domain_wants_a_handler,
    an_enforced_domain_that_is_none_asks_nobody,
    keys_must_go_together,
    the_handler_is_asked_as_rfc_27_says,
    messages_say_who_sent_them,
    properties_of_our_own_reach_the_peer,
    mechanisms_must_agree,
    many_clients_at_once,
);
over!(
    ws,
    Ws,
    a_handler_decides,
    without_a_handler_the_mechanism_decides,
    an_enforced_domain_wants_a_handler,
    an_enforced_domain_that_is_none_asks_nobody,
    keys_must_go_together,
    the_handler_is_asked_as_rfc_27_says,
    messages_say_who_sent_them,
    many_clients_at_once,
);

/// All events that report the end of a handshake.
const ENDS: i32 = EVENT_HANDSHAKE_SUCCEEDED
    | EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | EVENT_HANDSHAKE_FAILED_PROTOCOL
    | EVENT_HANDSHAKE_FAILED_AUTH
    | EVENT_DISCONNECTED;
const MISMATCH: u32 = 0x1100_0002;

/// A build without drafts lacks WebSocket and the options that came with it.
fn has(transport: Transport) -> bool {
    // SAFETY: a C string.
    transport != Transport::Ws || unsafe { api::zmq_has(c"WS".as_ptr()) } == 1
}

fn has_drafts() -> bool {
    api::exports("zmq_poller_new")
}

type End = (i32, u32);

/// Connects a client to a server and returns the handshake's result, as each side's monitor reports it.
#[track_caller]
fn ends(ctx: &Context, server: &Socket, client: &Socket, transport: Transport) -> (End, End) {
    let (heard, seen) = (Monitor::of(ctx, server, ENDS), Monitor::of(ctx, client, ENDS));
    client.connect(&transport.bind(server)).expect("connect");
    let of = |event: support::monitor::Event| (event.number, event.value);
    (of(heard.next()), of(seen.next()))
}

const IN: End = (EVENT_HANDSHAKE_SUCCEEDED, 0);

fn refused(status: u32) -> End {
    (EVENT_HANDSHAKE_FAILED_AUTH, status)
}

/// Returns true if the connection ended for a reason that only the other side knows. libzmq reports only the end if
/// it learns of it from the descriptor before a read.
fn is_lost(end: End) -> bool {
    end.0 == EVENT_DISCONNECTED
        || end.0 == EVENT_HANDSHAKE_FAILED_NO_DETAIL
            && [libc::EPIPE, libc::ECONNRESET].contains(&(end.1 as i32))
}

/// Every mechanism, every status. 300 is temporary: the client does not learn of it and retries.
fn a_handler_decides(transport: Transport) {
    if !has(transport) {
        return;
    }
    for mechanism in Mechanism::ALL {
        for status in ["200", "300", "400", "500"] {
            let (ctx, parties) = (Context::new(), Parties::new());
            let _handler = Handler::of(&ctx, status);
            let server = ctx.socket(PULL);
            parties.serve(&server, mechanism);
            server.set_bytes(ZAP_DOMAIN, b"global").expect("ZAP_DOMAIN");
            let client = parties.client(&ctx, PUSH, mechanism);
            let (heard, seen) = ends(&ctx, &server, &client, transport);
            let told = format!("{mechanism:?} {status}: {heard:x?} {seen:x?}");
            match status {
                "200" => {
                    assert_eq!((heard, seen), (IN, IN), "{told}");
                    client.put("hello");
                    assert_eq!(server.take_text(), "hello");
                }
                "300" => {
                    assert_eq!(heard, refused(300), "{told}");
                    assert!(is_lost(seen), "{told}");
                }
                _ => {
                    let status = status.parse().expect("a number");
                    assert_eq!((heard, seen), (refused(status), refused(status)), "{told}");
                }
            }
            if status != "200" {
                client.send("never", DONTWAIT).ok();
                server.expect_nothing();
            }
        }
    }
}

/// Without a handler NULL and CURVE admit every client; PLAIN admits none, because no handler can check passwords.
fn without_a_handler_the_mechanism_decides(transport: Transport) {
    if !has(transport) {
        return;
    }
    for mechanism in Mechanism::ALL {
        let (ctx, parties) = (Context::new(), Parties::new());
        let server = ctx.socket(PULL);
        parties.serve(&server, mechanism);
        server.set_bytes(ZAP_DOMAIN, b"global").expect("ZAP_DOMAIN");
        let client = parties.client(&ctx, PUSH, mechanism);
        let (heard, seen) = ends(&ctx, &server, &client, transport);
        if mechanism == Mechanism::Plain {
            assert_eq!(heard, (EVENT_HANDSHAKE_FAILED_NO_DETAIL, libc::EFAULT as u32));
            assert!(is_lost(seen), "{seen:x?}");
        } else {
            assert_eq!((heard, seen), (IN, IN), "{mechanism:?}");
        }
    }
}

/// ZMQ_ZAP_ENFORCE_DOMAIN: with a domain every mechanism requires a handler.
fn an_enforced_domain_wants_a_handler(transport: Transport) {
    if !has(transport) || !has_drafts() {
        return;
    }
    for mechanism in Mechanism::ALL {
        let (ctx, parties) = (Context::new(), Parties::new());
        let server = ctx.socket(PULL).with(ZAP_ENFORCE_DOMAIN, 1);
        parties.serve(&server, mechanism);
        server.set_bytes(ZAP_DOMAIN, b"global").expect("ZAP_DOMAIN");
        let client = parties.client(&ctx, PUSH, mechanism);
        let (heard, seen) = ends(&ctx, &server, &client, transport);
        assert_eq!(heard, (EVENT_HANDSHAKE_FAILED_NO_DETAIL, libc::EFAULT as u32), "{mechanism:?}");
        assert!(is_lost(seen), "{mechanism:?} {seen:x?}");
    }
}

/// Without a domain the handler is not asked: CURVE encrypts for any client.
fn an_enforced_domain_that_is_none_asks_nobody(transport: Transport) {
    if !has(transport) || !has_drafts() {
        return;
    }
    let (ctx, parties) = (Context::new(), Parties::new());
    let handler = Handler::of(&ctx, "400");
    let server = ctx.socket(PULL).with(ZAP_ENFORCE_DOMAIN, 1);
    parties.serve(&server, Mechanism::Curve);
    let client = parties.client(&ctx, PUSH, Mechanism::Curve);
    client.connect(&transport.bind(&server)).expect("connect");
    client.put("a secret");
    server.expect(&["a secret"]);
    assert!(!handler.was_asked());
}

/// A public key that does not match the secret key belongs to another party.
fn keys_must_go_together(transport: Transport) {
    if !has(transport) {
        return;
    }
    let (ctx, parties) = (Context::new(), Parties::new());
    let server = ctx.socket(PULL);
    parties.serve(&server, Mechanism::Curve);
    let client = parties.client(&ctx, PUSH, Mechanism::Curve);
    client.set_bytes(CURVE_PUBLICKEY, Keys::new().public.as_bytes()).expect("CURVE_PUBLICKEY");
    let (heard, seen) = ends(&ctx, &server, &client, transport);
    assert_eq!(heard.0, EVENT_HANDSHAKE_FAILED_PROTOCOL, "{heard:x?}");
    assert!(is_lost(seen), "{seen:x?}");
}

/// A client's public key is derived from its secret key. libzmq 4.3.4 uses zeros, and the handshake fails.
#[test]
fn a_public_key_may_be_left_out() {
    if !has_drafts() {
        return;
    }
    let (ctx, parties) = (Context::new(), Parties::new());
    let server = ctx.socket(PULL);
    parties.serve(&server, Mechanism::Curve);
    let client = ctx.socket(PUSH);
    client.set_bytes(CURVE_SECRETKEY, parties.client.secret.as_bytes()).expect("CURVE_SECRETKEY");
    client.set_bytes(CURVE_SERVERKEY, parties.server.public.as_bytes()).expect("CURVE_SERVERKEY");
    assert_eq!(ends(&ctx, &server, &client, Transport::Tcp), (IN, IN));
}

fn the_handler_is_asked_as_rfc_27_says(transport: Transport) {
    if !has(transport) {
        return;
    }
    for mechanism in Mechanism::ALL {
        let (ctx, parties) = (Context::new(), Parties::new());
        let handler = Handler::of(&ctx, "200");
        let server = ctx.socket(ROUTER);
        server.set_bytes(ROUTING_ID, b"the server").expect("ROUTING_ID");
        parties.serve(&server, mechanism);
        server.set_bytes(ZAP_DOMAIN, b"a domain").expect("ZAP_DOMAIN");
        let client = parties.client(&ctx, DEALER, mechanism);
        client.connect(&transport.bind(&server)).expect("connect");
        let question = handler.asked();
        let text: Vec<_> = question.iter().map(|frame| String::from_utf8_lossy(frame)).collect();
        assert_eq!([&text[0], &text[1], &text[2], &text[3]], ["", "1.0", "1", "a domain"]);
        assert_eq!([&text[5], &text[6]], ["the server", mechanism.name()]);
        match transport {
            // The user, group and process of a local peer; libzmq does not document the format.
            Transport::Ipc => {}
            _ => assert_eq!(text[4], "127.0.0.1"),
        }
        match mechanism {
            Mechanism::Null => assert_eq!(text.len(), 7),
            Mechanism::Plain => assert_eq!(text[7..], [Parties::NAME, Parties::PASSWORD]),
            Mechanism::Curve => assert_eq!(question[7..], [key_bytes(&parties.client.public).to_vec()]),
        }
    }
}

fn key_bytes(text: &str) -> [u8; 32] {
    let (mut bytes, text) = ([0; 32], std::ffi::CString::new(text).expect("no NUL"));
    // SAFETY: a place of 32 bytes and a text of 40 letters.
    assert!(!unsafe { api::zmq_z85_decode(bytes.as_mut_ptr(), text.as_ptr()) }.is_null());
    bytes
}

/// Each message carries what the handler reported of its peer, and the properties of READY or INITIATE.
fn messages_say_who_sent_them(transport: Transport) {
    if !has(transport) {
        return;
    }
    for mechanism in Mechanism::ALL {
        let (ctx, parties) = (Context::new(), Parties::new());
        let _handler = Handler::start(&ctx, |question| {
            let extra = wire::metadata(&[("X-Rank", b"first"), ("Room", b"12")]);
            vec![verdict(question, "200", b"joe's id", &extra)]
        });
        let (server, endpoint) = parties.bound(&ctx, DEALER, mechanism, transport);
        let client = parties.client(&ctx, DEALER, mechanism);
        client.connect(&endpoint).expect("connect");
        for _ in 0..2 {
            client.tx(&["one", "two"]);
            for _ in 0..2 {
                let mut message = Message::new();
                message.recv(&server, 0).expect("a message");
                assert_eq!(message.property(c"User-Id").as_deref(), Some("joe's id"), "{mechanism:?}");
                assert_eq!(message.property(c"X-Rank").as_deref(), Some("first"));
                assert_eq!(message.property(c"Room").as_deref(), Some("12"));
                if transport != Transport::Ws {
                    assert_eq!(message.property(c"Socket-Type").as_deref(), Some("DEALER"));
                }
                let address = message.property(c"Peer-Address").expect("an address");
                assert!(transport == Transport::Ipc || address == "127.0.0.1", "{address}");
                assert_eq!(message.property(c"X-None"), None);
            }
        }
        server.put("back");
        let mut message = Message::new();
        message.recv(&client, 0).expect("a message");
        assert_eq!(message.property(c"User-Id"), None, "the server is nobody's user");
    }
}

/// ZMQ_METADATA: "X-name:value" is sent to the peer.
fn properties_of_our_own_reach_the_peer(transport: Transport) {
    if !has_drafts() {
        return;
    }
    for mechanism in Mechanism::ALL {
        let (ctx, parties) = (Context::new(), Parties::new());
        let _handler = Handler::of(&ctx, "200");
        let (server, client) = (ctx.socket(DEALER), parties.client(&ctx, DEALER, mechanism));
        parties.serve(&server, mechanism);
        server.set_bytes(METADATA, b"X-Side:server").expect("METADATA");
        client.set_bytes(METADATA, b"X-Side:client").expect("METADATA");
        transport.join(&server, &client);
        client.put("to");
        let mut message = Message::new();
        message.recv(&server, 0).expect("a message");
        assert_eq!(message.property(c"X-Side").as_deref(), Some("client"), "{mechanism:?}");
        server.put("back");
        message.recv(&client, 0).expect("a message");
        assert_eq!(message.property(c"X-Side").as_deref(), Some("server"), "{mechanism:?}");
    }
}

/// Six mismatched pairs: each side reports MECHANISM_MISMATCH, or the loss of the peer that did.
fn mechanisms_must_agree(transport: Transport) {
    for ours in Mechanism::ALL {
        for theirs in Mechanism::ALL.into_iter().filter(|theirs| *theirs != ours) {
            let (ctx, parties) = (Context::new(), Parties::new());
            let server = ctx.socket(PULL);
            parties.serve(&server, ours);
            let client = parties.client(&ctx, PUSH, theirs);
            let (heard, seen) = ends(&ctx, &server, &client, transport);
            let mismatch = (EVENT_HANDSHAKE_FAILED_PROTOCOL, MISMATCH);
            let told = format!("{ours:?} {theirs:?}: {heard:x?} {seen:x?}");
            assert!(heard == mismatch || seen == mismatch, "{told}");
            assert!([heard, seen].into_iter().all(|end| end == mismatch || is_lost(end)), "{told}");
        }
    }
}

/// A server of either mechanism sends nothing first: libzmq's servers would both wait for the whole HANDSHAKE_IVL.
fn two_servers_do_not_wait_for_each_other(transport: Transport) {
    for mechanism in [Mechanism::Plain, Mechanism::Curve] {
        let (ctx, parties) = (Context::new(), Parties::new());
        let (one, other) = (ctx.socket(DEALER), ctx.socket(DEALER));
        for socket in [&one, &other] {
            parties.serve(socket, mechanism);
            socket.set(HANDSHAKE_IVL, 300).expect("HANDSHAKE_IVL");
        }
        let (heard, seen) = ends(&ctx, &one, &other, transport);
        let failures = EVENT_HANDSHAKE_FAILED_NO_DETAIL | EVENT_HANDSHAKE_FAILED_PROTOCOL;
        assert!(heard.0 & failures != 0 && seen.0 & failures != 0, "{heard:x?} {seen:x?}");
    }
}

/// Fifty handshakes at a time, half of them refused: each client gets its own result.
fn many_clients_at_once(transport: Transport) {
    if !has(transport) {
        return;
    }
    for mechanism in [Mechanism::Plain, Mechanism::Curve] {
        let (ctx, parties) = (Context::new(), Parties::new());
        let welcome: Vec<Keys> = (0..25).map(|_| Keys::new()).collect();
        let known: Vec<_> = welcome.iter().map(|keys| key_bytes(&keys.public).to_vec()).collect();
        let _handler = Handler::start(&ctx, move |question| {
            let good = known.contains(&question[7]) || question[7].starts_with(b"good");
            vec![verdict(question, if good { "200" } else { "400" }, &question[7], b"")]
        });
        let (server, endpoint) = parties.bound(&ctx, PULL, mechanism, transport);
        let clients: Vec<_> =
            (0..50).map(|n| stranger_or_not(&ctx, &parties, mechanism, &welcome, n)).collect();
        for (n, client) in clients.iter().enumerate() {
            client.connect(&endpoint).expect("connect");
            client.send(format!("{n}"), 0).expect("a pipe is there at once");
        }
        let mut seen: Vec<usize> = (0..25).map(|_| server.take_text().parse().expect("a number")).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..50).step_by(2).collect::<Vec<_>>(), "{mechanism:?}");
        server.expect_nothing();
    }
}

/// Client number `n`; the even ones are admitted.
fn stranger_or_not(
    ctx: &Context,
    parties: &Parties,
    mechanism: Mechanism,
    welcome: &[Keys],
    n: usize,
) -> Socket {
    let mut parties = parties.clone();
    if n.is_multiple_of(2) {
        parties.client = welcome[n / 2].clone();
    }
    let client = parties.client(ctx, PUSH, mechanism);
    if mechanism == Mechanism::Plain {
        let name = if n.is_multiple_of(2) { format!("good {n}") } else { format!("bad {n}") };
        client.set_bytes(PLAIN_USERNAME, name.as_bytes()).expect("PLAIN_USERNAME");
    }
    client
}

/// A client refused with 300 (temporary) or another status retries, and is admitted once the handler accepts it.
#[test]
fn comes_back_after_a_refusal() {
    within(60, || {
        for mechanism in Mechanism::ALL {
            let (ctx, parties) = (Context::new(), Parties::new());
            let asked = std::sync::Arc::new(AtomicUsize::new(0));
            let count = asked.clone();
            let _handler = Handler::start(&ctx, move |question| {
                let nth = count.fetch_add(1, Ordering::Relaxed);
                vec![verdict(question, if nth < 2 { "300" } else { "200" }, b"", b"")]
            });
            let (server, endpoint) = parties.bound(&ctx, PULL, mechanism, Transport::Tcp);
            let client = parties.client(&ctx, PUSH, mechanism);
            client.connect(&endpoint).expect("connect");
            client.put("kept meanwhile");
            assert_eq!(server.take_text(), "kept meanwhile", "{mechanism:?}");
            assert_eq!(asked.load(Ordering::Relaxed), 3);
        }
    });
}

/// A client with the wrong server key detects it at the first box that does not open.
#[test]
fn a_wrong_server_key_lets_nobody_in() {
    within(60, || {
        let (ctx, parties) = (Context::new(), Parties::new());
        let server = ctx.socket(PULL).with(HANDSHAKE_IVL, 500);
        parties.serve(&server, Mechanism::Curve);
        let client = parties.client(&ctx, PUSH, Mechanism::Curve);
        client.set_bytes(CURVE_SERVERKEY, Keys::new().public.as_bytes()).expect("CURVE_SERVERKEY");
        let (heard, seen) = ends(&ctx, &server, &client, Transport::Tcp);
        assert_eq!(heard, (EVENT_HANDSHAKE_FAILED_PROTOCOL, 0x1100_0001));
        assert!(is_lost(seen), "{seen:x?}");
    });
}

/// A connect uses the keys set at that moment: a later connect of the same socket uses the new ones.
#[test]
fn a_client_may_change_its_key() {
    within(60, || {
        let (ctx, mut parties) = (Context::new(), Parties::new());
        let _handler =
            Handler::start(&ctx, |question| vec![verdict(question, "200", &hex(&question[7]), b"")]);
        let (server, endpoint) = parties.bound(&ctx, PULL, Mechanism::Curve, Transport::Tcp);
        let client = parties.client(&ctx, PUSH, Mechanism::Curve);
        for _ in 0..3 {
            client.connect(&endpoint).expect("connect");
            client.put("who am I?");
            let mut message = Message::new();
            message.recv(&server, 0).expect("a message");
            let wanted = String::from_utf8(hex(&key_bytes(&parties.client.public))).expect("text");
            assert_eq!(message.property(c"User-Id"), Some(wanted));
            client.disconnect(&endpoint).expect("disconnect");
            parties.client = Keys::new();
            parties.attend(&client, Mechanism::Curve);
        }
    });
}

fn hex(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect()
}

/// Only the ZAP handler provides a peer's user id, and only we provide its address: a peer's own properties of these
/// names are ignored.
#[test]
fn peers_do_not_say_who_they_are() {
    let ctx = Context::new();
    let pull = ctx.socket(PULL);
    let endpoint = Transport::Tcp.bind(&pull);
    let handlers = [None, Some(Handler::start(&ctx, |question| vec![verdict(question, "200", b"", b"")]))];
    for handler in &handlers {
        if handler.is_some() {
            pull.set_bytes(ZAP_DOMAIN, b"global").expect("ZAP_DOMAIN");
        }
        let mut peer = RawPeer::connect(&endpoint);
        peer.send(&wire::greeting(1, "NULL", false));
        let said: [(&str, &[u8]); 5] = [
            ("Socket-Type", b"PUSH"),
            ("User-Id", b"admin"),
            ("user-id", b"admin"),
            ("Peer-Address", b"10.0.0.1"),
            ("X-Own", b"this is heard"),
        ];
        peer.send(&wire::command("READY", &wire::metadata(&said)));
        peer.send(&wire::frame(0, b"a message"));
        let mut message = Message::new();
        message.recv(&pull, 0).expect("a message");
        assert_eq!(message.property(c"User-Id").unwrap_or_default(), "");
        assert_eq!(message.property(c"Peer-Address").as_deref(), Some("127.0.0.1"));
        assert_eq!(message.property(c"X-Own").as_deref(), Some("this is heard"));
    }
}
