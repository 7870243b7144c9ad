//! NULL with a domain, PLAIN and CURVE between the library under test and the system's libzmq in another process:
//! either is the mechanism's server, over tcp and ipc; large multipart messages, subscriptions, heartbeats, and
//! refusals.

use std::time::Duration;

use support::child::{self, Child};
use support::filler::body;
use support::security::{Handler, Keys, Mechanism, Parties, verdict};
use support::*;

support::roles!(partner);

over_wires!(echoes, subscribes, beats, refuses);

/// What the partner does; this side plays the opposite role.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scene {
    Echo,
    Subscribe,
    Beat,
    Refuse,
}

const SCENES: [Scene; 4] = [Scene::Echo, Scene::Subscribe, Scene::Beat, Scene::Refuse];

/// The parameters that both sides share.
struct Plan {
    scene: Scene,
    mechanism: Mechanism,
    transport: Transport,
    parties: Parties,
}

impl Plan {
    /// Arguments of the child that plays `role`.
    fn args(&self, role: &str, endpoint: &str) -> Vec<String> {
        let (server, client) = (&self.parties.server, &self.parties.client);
        let number = SCENES.iter().position(|scene| *scene == self.scene).expect("a scene").to_string();
        [role, &number, self.mechanism.name(), self.transport.name(), endpoint]
            .into_iter()
            .chain([&server.public, &server.secret, &client.public, &client.secret].map(String::as_str))
            .map(String::from)
            .collect()
    }

    fn of(args: &[String]) -> Plan {
        let keys = |at: usize| Keys { public: args[at].clone(), secret: args[at + 1].clone() };
        Plan {
            scene: SCENES[args[1].parse::<usize>().expect("a number")],
            mechanism: Mechanism::named(&args[2]),
            transport: Transport::named(&args[3]),
            parties: Parties { server: keys(5), client: keys(7) },
        }
    }

    /// Plays the mechanism's server, which binds; reports its endpoint, and waits for the other side's end.
    fn serve(&self, tell: &mut dyn FnMut(String), other_is_done: &dyn Fn() -> bool) {
        let ctx = Context::new();
        let status = if self.scene == Scene::Refuse { "400" } else { "200" };
        let _handler = Handler::start(&ctx, move |question| vec![verdict(question, status, b"joe", b"")]);
        let kind = if self.scene == Scene::Subscribe { XPUB } else { DEALER };
        let server = ctx.socket(kind).hwm(0);
        self.parties.serve(&server, self.mechanism);
        server.set_bytes(ZAP_DOMAIN, b"global").expect("ZAP_DOMAIN");
        self.prepare(&server);
        let heard = Monitor::of(&ctx, &server, EVENT_ALL);
        tell(self.transport.bind(&server));
        match self.scene {
            Scene::Echo => echo(&server),
            Scene::Subscribe => publish(&server),
            Scene::Beat => stays(&server, &heard),
            Scene::Refuse => {
                assert_eq!(heard.wait(EVENT_HANDSHAKE_FAILED_AUTH).value, 400);
                server.expect_nothing();
            }
        }
        until("the other side is done", other_is_done);
    }

    /// Plays the client, which connects.
    fn attend(&self, endpoint: &str) {
        let ctx = Context::new();
        let kind = if self.scene == Scene::Subscribe { SUB } else { DEALER };
        let client = self.parties.client(&ctx, kind, self.mechanism).hwm(0);
        self.prepare(&client);
        let seen = Monitor::of(&ctx, &client, EVENT_ALL);
        client.connect(endpoint).expect("connect");
        match self.scene {
            Scene::Echo => converse(&client),
            Scene::Subscribe => subscribe(&client),
            Scene::Beat => stays(&client, &seen),
            Scene::Refuse => {
                assert_eq!(seen.wait(EVENT_HANDSHAKE_FAILED_AUTH).value, 400);
                client.send("never", DONTWAIT).ok();
            }
        }
    }

    fn prepare(&self, socket: &Socket) {
        if self.scene == Scene::Beat {
            socket.set(HEARTBEAT_IVL, 20).expect("HEARTBEAT_IVL");
            socket.set(HEARTBEAT_TIMEOUT, 2_000).expect("HEARTBEAT_TIMEOUT");
            socket.set(HEARTBEAT_TTL, 2_000).expect("HEARTBEAT_TTL");
        }
    }
}

/// The child: `server` or `client`, with the library it was started with.
fn partner(args: &[String]) {
    let plan = Plan::of(args);
    if args[0] == "server" {
        plan.serve(&mut |endpoint| child::say(endpoint), &|| {
            child::hear();
            true
        });
    } else {
        plan.attend(&args[4]);
        child::say("done");
        child::hear();
    }
}

fn play(scene: Scene, mechanisms: &[Mechanism], transport: Transport) {
    for &mechanism in mechanisms {
        let plan = Plan { scene, mechanism, transport, parties: Parties::new() };
        // The system's libzmq is the server, ours the client.
        let args = plan.args("server", "-");
        let mut theirs = Child::with_system("partner", &args.iter().map(String::as_str).collect::<Vec<_>>());
        plan.attend(&theirs.line());
        theirs.tell("done");
        theirs.succeeds();
        // Ours is the server, the system's libzmq the client.
        let theirs = std::cell::RefCell::new(None);
        plan.serve(
            &mut |endpoint| {
                let args = plan.args("client", &endpoint);
                let args: Vec<_> = args.iter().map(String::as_str).collect();
                theirs.replace(Some(Child::with_system("partner", &args)));
            },
            &|| theirs.borrow_mut().as_mut().is_some_and(Child::has_line),
        );
        let mut theirs = theirs.into_inner().expect("started");
        theirs.tell("end");
        theirs.succeeds();
    }
}

fn echoes(transport: Transport) {
    play(Scene::Echo, &Mechanism::ALL, transport);
}

fn subscribes(transport: Transport) {
    play(Scene::Subscribe, &Mechanism::ALL, transport);
}

fn beats(transport: Transport) {
    play(Scene::Beat, &[Mechanism::Null, Mechanism::Curve], transport);
}

fn refuses(transport: Transport) {
    play(Scene::Refuse, &Mechanism::ALL, transport);
}

fn content(n: usize) -> Vec<u8> {
    // Sizes around the limit at which a sealed frame needs a long header, and some large ones.
    let sizes = [0, 1, 33, 221, 222, 223, 224, 255, 256, 8_159, 8_192, 70_000, 300_000];
    body(n as u64, sizes[n % sizes.len()])
}

fn converse(client: &Socket) {
    for n in 0..130 {
        let parts: Vec<Vec<u8>> = (0..1 + n % 5).map(|part| content(n + part)).collect();
        client.tx(&parts);
        if n % 3 == 0 {
            assert!(client.rx() == content_of(n / 3), "answer {}", n / 3);
        }
    }
    client.put("end");
    for n in 44..130 {
        assert!(client.rx() == content_of(n), "answer {n}");
    }
    assert_eq!(client.take_text(), "end");
}

fn content_of(n: usize) -> Vec<Vec<u8>> {
    (0..1 + n % 5).map(|part| content(n + part)).collect()
}

fn echo(server: &Socket) {
    loop {
        let mut parts = Vec::new();
        loop {
            let mut message = Message::new();
            message.recv(server, 0).expect("a message");
            assert_eq!(message.property(c"User-Id").as_deref(), Some("joe"));
            assert_eq!(message.property(c"Socket-Type").as_deref(), Some("DEALER"));
            parts.push(message.bytes().to_vec());
            if !message.more() {
                break;
            }
        }
        server.tx(&parts);
        if parts == [b"end"] {
            return;
        }
    }
}

fn publish(server: &Socket) {
    assert_eq!(server.take(), b"\x01A");
    // In this order, because the subscriber continues as soon as it has the second.
    server.tx(&["B1", "not subscribed to"]);
    server.tx(&["A1", "first"]);
    let mut news = [server.take(), server.take()];
    news.sort();
    assert_eq!(news, [b"\x00A".to_vec(), b"\x01B".to_vec()]);
    server.tx(&["A2", "not any more"]);
    server.tx(&["B2", "second"]);
    // A topic long enough for the subscription to need a long frame.
    assert_eq!(server.take(), [&b"\x01"[..], &[b'C'; 300]].concat());
    server.put([b'C'; 301]);
}

fn subscribe(client: &Socket) {
    client.set_bytes(SUBSCRIBE, b"A").expect("SUBSCRIBE");
    client.expect(&["A1", "first"]);
    client.set_bytes(SUBSCRIBE, b"B").expect("SUBSCRIBE");
    client.set_bytes(UNSUBSCRIBE, b"A").expect("UNSUBSCRIBE");
    client.expect(&["B2", "second"]);
    client.set_bytes(SUBSCRIBE, &[b'C'; 300]).expect("SUBSCRIBE");
    assert_eq!(client.take(), [b'C'; 301]);
}

/// Many heartbeats each way keep the same connection; then a message passes both ways.
fn stays(socket: &Socket, monitor: &Monitor) {
    monitor.wait(EVENT_HANDSHAKE_SUCCEEDED);
    deadline::pass(Duration::from_millis(500));
    monitor.socket().set(RCVTIMEO, 1).expect("RCVTIMEO");
    assert_eq!(monitor.try_next(), Err(Errno(libc::EAGAIN)), "nothing happened to the connection");
    socket.put("alive");
    assert_eq!(socket.take_text(), "alive");
}
