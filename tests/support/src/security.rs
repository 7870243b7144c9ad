//! Security as applications set it: mechanisms, keys, names, and a ZAP handler scripted by the test.

use std::ffi::c_char;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use libc::c_int;

use crate::api::zmq_curve_keypair;
use crate::consts::*;
use crate::deadline::PATIENCE_MS;
use crate::poll::{poll, socket_item};
use crate::{Context, Socket, Transport};

/// The address of a ZAP handler (RFC 27).
pub const ZAP: &str = "inproc://zeromq.zap.01";

/// A party's key pair, as text.
#[derive(Debug, Clone)]
pub struct Keys {
    pub public: String,
    pub secret: String,
}

impl Keys {
    pub fn new() -> Keys {
        let (mut public, mut secret) = ([0u8; 41], [0u8; 41]);
        // SAFETY: two buffers of 41 bytes, as the function requires.
        let rc = unsafe {
            zmq_curve_keypair(public.as_mut_ptr().cast::<c_char>(), secret.as_mut_ptr().cast::<c_char>())
        };
        assert_eq!(rc, 0, "zmq_curve_keypair");
        let text = |key: [u8; 41]| String::from_utf8(key[..40].to_vec()).expect("Z85");
        Keys { public: text(public), secret: text(secret) }
    }
}

impl Default for Keys {
    fn default() -> Keys {
        Keys::new()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    Null,
    Plain,
    Curve,
}

impl Mechanism {
    pub const ALL: [Mechanism; 3] = [Mechanism::Null, Mechanism::Plain, Mechanism::Curve];

    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Null => "NULL",
            Mechanism::Plain => "PLAIN",
            Mechanism::Curve => "CURVE",
        }
    }

    #[track_caller]
    pub fn named(name: &str) -> Mechanism {
        *Mechanism::ALL.iter().find(|mechanism| mechanism.name() == name).expect("a mechanism's name")
    }
}

/// The credentials of a test: a server's keys, a client's keys, and a client's name and password.
#[derive(Debug, Clone, Default)]
pub struct Parties {
    pub server: Keys,
    pub client: Keys,
}

impl Parties {
    pub const NAME: &str = "joe";
    pub const PASSWORD: &str = "sesame";

    pub fn new() -> Parties {
        Parties::default()
    }

    /// Makes the socket a server with the mechanism.
    #[track_caller]
    pub fn serve(&self, socket: &Socket, mechanism: Mechanism) {
        match mechanism {
            Mechanism::Null => {}
            Mechanism::Plain => socket.set(PLAIN_SERVER, 1).expect("PLAIN_SERVER"),
            Mechanism::Curve => {
                socket.set(CURVE_SERVER, 1).expect("CURVE_SERVER");
                socket.set_bytes(CURVE_SECRETKEY, self.server.secret.as_bytes()).expect("CURVE_SECRETKEY");
            }
        }
    }

    /// Makes the socket a client with the mechanism.
    #[track_caller]
    pub fn attend(&self, socket: &Socket, mechanism: Mechanism) {
        match mechanism {
            Mechanism::Null => {}
            Mechanism::Plain => {
                socket.set_bytes(PLAIN_USERNAME, Parties::NAME.as_bytes()).expect("PLAIN_USERNAME");
                socket.set_bytes(PLAIN_PASSWORD, Parties::PASSWORD.as_bytes()).expect("PLAIN_PASSWORD");
            }
            Mechanism::Curve => {
                for (option, key) in [
                    (CURVE_SERVERKEY, &self.server.public),
                    (CURVE_PUBLICKEY, &self.client.public),
                    (CURVE_SECRETKEY, &self.client.secret),
                ] {
                    socket.set_bytes(option, key.as_bytes()).expect("a key");
                }
            }
        }
    }

    /// A bound server with the mechanism and a ZAP domain; and its endpoint.
    #[track_caller]
    pub fn bound(
        &self,
        ctx: &Context,
        kind: c_int,
        mechanism: Mechanism,
        transport: Transport,
    ) -> (Socket, String) {
        let server = ctx.socket(kind);
        self.serve(&server, mechanism);
        server.set_bytes(ZAP_DOMAIN, b"global").expect("ZAP_DOMAIN");
        let endpoint = transport.bind(&server);
        (server, endpoint)
    }

    /// A client with the mechanism and a short reconnect interval, not connected yet.
    #[track_caller]
    pub fn client(&self, ctx: &Context, kind: c_int, mechanism: Mechanism) -> Socket {
        let client = ctx.socket(kind).with(RECONNECT_IVL, 30);
        self.attend(&client, mechanism);
        client
    }
}

/// A request as the handler received it: all frames from the empty one on.
pub type Question = Vec<Vec<u8>>;
/// The reply's frames from the empty one on; empty: the handler does not reply.
pub type Reply = Vec<Vec<u8>>;

/// A ZAP handler on its own thread. It ends when dropped.
pub struct Handler {
    stop: Socket,
    thread: Option<JoinHandle<()>>,
    questions: Receiver<Question>,
}

/// A well-formed reply with this status, user id and metadata.
pub fn verdict(question: &Question, status: &str, user: &[u8], metadata: &[u8]) -> Reply {
    let frames: [&[u8]; 7] = [b"", b"1.0", &question[2], status.as_bytes(), b"text", user, metadata];
    frames.map(|frame| frame.to_vec()).to_vec()
}

impl Handler {
    /// Binds a ROUTER at ZAP's address. `script` returns the replies to each request, sent in order.
    #[track_caller]
    pub fn start(ctx: &Context, script: impl FnMut(&Question) -> Vec<Reply> + Send + 'static) -> Handler {
        let router = ctx.socket(ROUTER).hwm(0);
        // A previous handler may take a while to release the address.
        crate::until("the address of ZAP is free", || router.bind(ZAP).is_ok());
        let (stop, stopped) = Transport::Inproc.pair(ctx, PAIR, PAIR);
        let (tell, questions) = channel();
        let thread = std::thread::spawn(move || serve(&router, &stopped, &tell, script));
        Handler { stop, thread: Some(thread), questions }
    }

    /// A handler that always replies with the same status, without a user id.
    #[track_caller]
    pub fn of(ctx: &Context, status: &'static str) -> Handler {
        Handler::start(ctx, move |question| vec![verdict(question, status, b"", b"")])
    }

    /// Waits for the next request that the handler has received.
    #[track_caller]
    pub fn asked(&self) -> Question {
        self.questions.recv_timeout(Duration::from_millis(PATIENCE_MS as u64)).expect("a question")
    }

    /// Returns true if the handler has received a request since; takes it.
    pub fn was_asked(&self) -> bool {
        self.questions.try_recv().is_ok()
    }
}

fn serve(
    router: &Socket,
    stopped: &Socket,
    tell: &Sender<Question>,
    mut script: impl FnMut(&Question) -> Vec<Reply>,
) {
    loop {
        let mut items = [socket_item(router, POLLIN), socket_item(stopped, POLLIN)];
        poll(&mut items, -1).expect("poll");
        if items[1].revents != 0 {
            return;
        }
        let mut question = router.rx();
        let asker = question.remove(0);
        for mut reply in script(&question) {
            reply.insert(0, asker.clone());
            // The requester may be gone.
            let _ = router.send_parts(&reply, 0);
        }
        let _ = tell.send(question);
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        let _ = self.stop.send("end", 0);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
