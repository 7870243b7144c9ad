//! ZAP handlers that answer wrongly, late, never or twice, or are missing: the peer is refused, the monitor reports
//! why, the server continues, and a good handler's reply counts as before.

use support::peer::RawPeer;
use support::security::{Handler, Keys, Mechanism, Parties, Question, Reply, ZAP, verdict};
use support::wire::{greeting, message, ready};
use support::*;

const FAILURES: i32 =
    EVENT_HANDSHAKE_FAILED_NO_DETAIL | EVENT_HANDSHAKE_FAILED_PROTOCOL | EVENT_HANDSHAKE_FAILED_AUTH;

const UNSPECIFIED: u32 = 0x2000_0000;
const MALFORMED_REPLY: u32 = 0x2000_0001;
const BAD_REQUEST_ID: u32 = 0x2000_0002;
const BAD_VERSION: u32 = 0x2000_0003;
const INVALID_STATUS_CODE: u32 = 0x2000_0004;
const INVALID_METADATA: u32 = 0x2000_0005;

const TIMED_OUT: (i32, u32) = (EVENT_HANDSHAKE_FAILED_NO_DETAIL, libc::ETIMEDOUT as u32);
const NO_HANDLER: (i32, u32) = (EVENT_HANDSHAKE_FAILED_NO_DETAIL, libc::EFAULT as u32);

/// These tests need a library that survives its handler's errors: libzmq aborts, or hangs in zmq_ctx_term.
fn is_libzmq() -> bool {
    !api::exports("zmq_poller_new")
}

/// A server with a handshake interval of `handshake_ms`, and a client of it.
struct Scene {
    heard: Monitor,
    server: Socket,
    client: Socket,
    endpoint: String,
    /// The server's keys.
    keys: Keys,
    /// The last field: dropped after its sockets.
    ctx: Context,
}

impl Scene {
    #[track_caller]
    fn new(mechanism: Mechanism, handshake_ms: i32) -> Scene {
        let (ctx, parties) = (Context::new(), Parties::new());
        let server = ctx.socket(PULL).with(HANDSHAKE_IVL, handshake_ms);
        parties.serve(&server, mechanism);
        server.set_bytes(ZAP_DOMAIN, b"global").expect("ZAP_DOMAIN");
        let heard = Monitor::of(&ctx, &server, FAILURES);
        let endpoint = Transport::Tcp.bind(&server);
        let client = parties.client(&ctx, PUSH, mechanism);
        Scene { heard, server, client, endpoint, keys: parties.server, ctx }
    }

    /// Connects the client, which has a message to send.
    #[track_caller]
    fn knock(&self) {
        self.client.connect(&self.endpoint).expect("connect");
        self.client.put("at last");
    }

    /// The failure of the server's next handshake.
    #[track_caller]
    fn failure(&self) -> (i32, u32) {
        let event = self.heard.next();
        // libzmq reports a stale errno.
        let timed_out = is_libzmq() && event.number == TIMED_OUT.0;
        (event.number, if timed_out { TIMED_OUT.1 } else { event.value })
    }

    /// The client, which still retries, is admitted once a handler accepts it; then everything ends in order.
    #[track_caller]
    fn ends_well(self) {
        let good = Handler::of(&self.ctx, "200");
        assert_eq!(self.server.take_text(), "at last");
        let Scene { ctx, heard, server, client, .. } = self;
        drop((good, server, client, heard));
        assert_eq!(ctx.term(), Ok(()));
    }
}

/// A valid reply with one frame changed.
fn with(frame: usize, value: &'static [u8]) -> impl Fn(&Question) -> Vec<Reply> + Send + 'static {
    move |question| {
        let mut reply = verdict(question, "200", b"joe", b"");
        reply[frame] = value.to_vec();
        vec![reply]
    }
}

fn fails_with(mechanism: Mechanism, script: impl Fn(&Question) -> Vec<Reply> + Send + 'static, code: u32) {
    let scene = Scene::new(mechanism, 5_000);
    let bad = Handler::start(&scene.ctx, script);
    scene.knock();
    assert_eq!(scene.failure(), (EVENT_HANDSHAKE_FAILED_PROTOCOL, code), "{mechanism:?}");
    drop(bad);
    scene.ends_well();
}

/// Each frame in turn; the codes are those of zmq_socket_monitor(3).
#[test]
fn every_frame_is_checked() {
    within(60, || {
        for mechanism in Mechanism::ALL {
            fails_with(mechanism, with(0, b"x"), UNSPECIFIED);
            fails_with(mechanism, with(1, b"1.1"), BAD_VERSION);
            fails_with(mechanism, with(1, b""), BAD_VERSION);
            fails_with(mechanism, with(2, b"2"), BAD_REQUEST_ID);
            fails_with(mechanism, with(2, b""), BAD_REQUEST_ID);
            fails_with(mechanism, with(3, b""), INVALID_STATUS_CODE);
            fails_with(mechanism, with(3, b"20"), INVALID_STATUS_CODE);
            fails_with(mechanism, with(3, b"2000"), INVALID_STATUS_CODE);
            fails_with(mechanism, with(3, b"600"), INVALID_STATUS_CODE);
            fails_with(mechanism, with(6, b"\xffX"), INVALID_METADATA);
            fails_with(mechanism, with(6, b"\x01X\x7f\xff\xff\xffvalue"), INVALID_METADATA);
        }
    });
}

/// The status must be one of RFC 27's four; libzmq checks only its first and last two characters.
#[test]
fn a_status_is_one_of_four() {
    within(60, || {
        for status in [&b"201"[..], b"000", b"2OO", b"100"] {
            if is_libzmq() && status == b"201" {
                continue;
            }
            fails_with(Mechanism::Null, with(3, status), INVALID_STATUS_CODE);
        }
    });
}

#[test]
fn an_answer_has_seven_frames() {
    within(60, || {
        for mechanism in Mechanism::ALL {
            for count in [1, 2, 3, 6, 8, 40] {
                let script = move |question: &Question| {
                    let mut reply = verdict(question, "200", b"joe", b"");
                    reply.resize(count, b"too much".to_vec());
                    vec![reply]
                };
                fails_with(mechanism, script, MALFORMED_REPLY);
            }
        }
    });
}

/// A user id of 16 MiB: whatever the library does with it, the next client must not get in, and nothing else breaks.
#[test]
fn giant_frames_are_refused() {
    if is_libzmq() {
        return;
    }
    within(60, || {
        for frame in 0..7 {
            let script = move |question: &Question| {
                let mut reply = verdict(question, "200", b"joe", b"");
                reply[frame] = vec![b'2'; 16 << 20];
                vec![reply]
            };
            fails_with(Mechanism::Plain, script, MALFORMED_REPLY);
        }
    });
}

#[test]
fn a_silent_handler_costs_the_time_of_a_handshake() {
    within(60, || {
        for mechanism in Mechanism::ALL {
            let scene = Scene::new(mechanism, 200);
            let silent = Handler::start(&scene.ctx, |_| Vec::new());
            scene.knock();
            assert_eq!(scene.failure(), TIMED_OUT, "{mechanism:?}");
            silent.asked();
            drop(silent);
            scene.ends_well();
        }
    });
}

/// The reply to a handshake that has ended admits no client, also not the next one.
#[test]
fn a_late_answer_is_nobodys() {
    within(60, || {
        let scene = Scene::new(Mechanism::Plain, 200);
        let router = scene.ctx.socket(ROUTER);
        router.bind(ZAP).expect("bind");
        scene.knock();
        let first = router.rx();
        assert_eq!(scene.failure(), TIMED_OUT);
        let mut late = verdict(&first[1..].to_vec(), "200", b"joe", b"");
        late.insert(0, first[0].clone());
        router.send_parts(&late, 0).expect("a ROUTER drops what it cannot send");
        let second = router.rx();
        assert_ne!(first[0], second[0]);
        let mut refusal = verdict(&second[1..].to_vec(), "400", b"", b"");
        refusal.insert(0, second[0].clone());
        router.tx(&refusal);
        while scene.failure() != (EVENT_HANDSHAKE_FAILED_AUTH, 400) {}
        scene.server.expect_nothing();
        drop(router);
        scene.ends_well();
    });
}

/// Only the first of two replies counts.
#[test]
fn a_second_answer_changes_nothing() {
    within(60, || {
        for mechanism in Mechanism::ALL {
            let scene = Scene::new(mechanism, 5_000);
            let twice = Handler::start(&scene.ctx, |question| {
                vec![verdict(question, "400", b"", b""), verdict(question, "200", b"joe", b"")]
            });
            scene.knock();
            for _ in 0..3 {
                assert_eq!(scene.failure(), (EVENT_HANDSHAKE_FAILED_AUTH, 400), "{mechanism:?}");
            }
            drop(twice);
            scene.ends_well();
        }
    });
}

/// A handler that closes with a request unanswered: the handshake fails, at once if the library notices.
#[test]
fn a_handler_may_go_in_the_middle() {
    if is_libzmq() {
        return;
    }
    within(60, || {
        for mechanism in Mechanism::ALL {
            let scene = Scene::new(mechanism, 20_000);
            let router = scene.ctx.socket(ROUTER);
            router.bind(ZAP).expect("bind");
            scene.knock();
            router.rx();
            router.close().expect("close");
            assert_eq!(
                scene.failure(),
                NO_HANDLER,
                "{mechanism:?}: told before the time of the handshake is over"
            );
            scene.ends_well();
        }
    });
}

/// A handler that unbinds its address still answers the requests that it has received.
#[test]
fn a_handler_may_unbind_in_the_middle() {
    within(60, || {
        let scene = Scene::new(Mechanism::Curve, 20_000);
        let router = scene.ctx.socket(ROUTER);
        router.bind(ZAP).expect("bind");
        scene.knock();
        let question = router.rx();
        router.unbind(ZAP).expect("unbind");
        let mut reply = verdict(&question[1..].to_vec(), "200", b"joe", b"");
        reply.insert(0, question[0].clone());
        router.tx(&reply);
        assert_eq!(scene.server.take_text(), "at last");
    });
}

/// Only REP and ROUTER can answer. libzmq 4.3.4 aborts for any other type.
#[test]
fn other_sockets_are_no_handlers() {
    if is_libzmq() {
        return;
    }
    within(60, || {
        for kind in [PULL, PUSH, PUB, SUB, XPUB, XSUB, DEALER, REQ, PAIR] {
            for mechanism in Mechanism::ALL {
                let scene = Scene::new(mechanism, 20_000);
                let wrong = scene.ctx.socket(kind);
                wrong.bind(ZAP).expect("bind");
                scene.knock();
                assert_eq!(scene.failure(), NO_HANDLER, "{kind} {mechanism:?}");
                drop(wrong);
                scene.ends_well();
            }
        }
    });
}

#[test]
fn a_rep_is_a_handler() {
    within(60, || {
        let scene = Scene::new(Mechanism::Plain, 20_000);
        let rep = scene.ctx.socket(REP);
        rep.bind(ZAP).expect("bind");
        scene.knock();
        let mut question = rep.rx();
        question.insert(0, Vec::new());
        rep.tx(&verdict(&question, "200", b"joe", b"")[1..]);
        assert_eq!(scene.server.take_text(), "at last");
    });
}

/// A context may terminate while handshakes wait for a reply: it does not wait for them.
#[test]
fn a_context_ends_with_questions_open() {
    within(60, || {
        for mechanism in Mechanism::ALL {
            let scene = Scene::new(mechanism, 0);
            let silent = Handler::start(&scene.ctx, |_| Vec::new());
            scene.knock();
            silent.asked();
            let Scene { ctx, heard, server, client, .. } = scene;
            drop((heard, server, client, silent));
            assert_eq!(ctx.term(), Ok(()), "{mechanism:?}");
        }
    });
}

/// A peer that leaves while the handler decides is noticed at once, also if it had sent more than the handshake needs
/// so far, or if the server had connected to it.
#[test]
fn a_peer_that_leaves_is_noticed_while_the_handler_thinks() {
    within(60, || {
        for mechanism in Mechanism::ALL {
            let scene = Scene::new(mechanism, 0);
            let silent = Handler::start(&scene.ctx, |_| Vec::new());
            let gone = |what: &str| {
                let (number, errno) = scene.failure();
                assert_eq!(number, EVENT_HANDSHAKE_FAILED_NO_DETAIL, "{mechanism:?}, {what}");
                // libzmq reports a stale errno.
                assert!(is_libzmq() || errno as i32 == libc::ECONNRESET, "{what}: {errno}");
            };
            for _ in 0..20 {
                let client = Parties::new().client(&scene.ctx, PUSH, Mechanism::Null);
                Parties { server: scene.keys.clone(), ..Parties::new() }.attend(&client, mechanism);
                client.connect(&scene.endpoint).expect("connect");
                silent.asked();
                client.close().expect("close");
                gone("closed");
            }
            if mechanism == Mechanism::Null && !is_libzmq() {
                let mut peer = RawPeer::connect(&scene.endpoint);
                peer.send(&[greeting(1, "NULL", false), ready("PUSH"), message(&[b"early"])].concat());
                silent.asked();
                drop(peer);
                gone("said more");
            }
            let client = scene.ctx.socket(PUSH);
            Parties { server: scene.keys.clone(), ..Parties::new() }.attend(&client, mechanism);
            scene.server.connect(&Transport::Tcp.bind(&client)).expect("connect");
            silent.asked();
            client.close().expect("close");
            gone("was connected to");
        }
    });
}

/// Requests do not count against the context's socket limit: otherwise unknown clients and a busy handler could keep
/// the application from creating sockets.
#[test]
fn questions_are_not_the_applications_sockets() {
    if is_libzmq() {
        return;
    }
    within(60, || {
        let (ctx, parties) = (Context::new(), Parties::new());
        ctx.set(MAX_SOCKETS, 12).expect("MAX_SOCKETS");
        let silent = Handler::start(&ctx, |_| Vec::new());
        let (_server, endpoint) = parties.bound(&ctx, PULL, Mechanism::Plain, Transport::Tcp);
        let outside = Context::new();
        let clients: Vec<_> = (0..30).map(|_| parties.client(&outside, PUSH, Mechanism::Plain)).collect();
        clients.iter().for_each(|client| client.connect(&endpoint).expect("connect"));
        clients.iter().for_each(|_| drop(silent.asked()));
        // The handler, its control pair and the server use four.
        let more: Vec<_> =
            (0..8).map(|n| ctx.try_socket(PULL).unwrap_or_else(|e| panic!("socket {n}: {e:?}"))).collect();
        assert_eq!(ctx.try_socket(PULL).err(), Some(Errno(libc::EMFILE)));
        drop(more);
    });
}

/// Handlers stop and start while clients connect: the handler of the moment decides each client, and in the end all
/// are admitted.
#[test]
fn a_handler_may_be_started_anew() {
    within(60, || {
        let (ctx, parties) = (Context::new(), Parties::new());
        let (server, endpoint) = parties.bound(&ctx, PULL, Mechanism::Plain, Transport::Tcp);
        let mut clients = Vec::new();
        for n in 0..20 {
            let client = parties.client(&ctx, PUSH, Mechanism::Plain);
            client.connect(&endpoint).expect("connect");
            client.put(format!("{n}"));
            clients.push(client);
            let handler = Handler::of(&ctx, if n % 3 == 0 { "200" } else { "300" });
            if n % 2 == 0 {
                handler.asked();
            }
        }
        let _last = Handler::of(&ctx, "200");
        let mut numbers: Vec<u32> = (0..20).map(|_| server.take_text().parse().expect("a number")).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..20).collect::<Vec<_>>());
    });
}
