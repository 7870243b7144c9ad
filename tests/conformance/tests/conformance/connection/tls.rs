//! TLS: wss:// and tls+tcp://, between our sockets and against OpenSSL.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use support::certificates::{self, NAME};
use support::filler::{drain, numbered};
use support::peer::RawPeer;
use support::*;

support::roles!(has_a_store_of_the_system);

const SCHEMES: [&str; 2] = ["tls+tcp", "wss"];

/// Binds the first and connects the second to it.
#[track_caller]
fn join(scheme: &str, binder: &Socket, connecter: &Socket) -> String {
    binder.bind(&format!("{scheme}://127.0.0.1:*")).expect("bind");
    let endpoint = binder.endpoint();
    assert!(endpoint.starts_with(&format!("{scheme}://127.0.0.1:")), "{endpoint}");
    connecter.connect(&endpoint).expect("connect");
    endpoint
}

#[track_caller]
fn pair(ctx: &Context, scheme: &str, binder: i32, connecter: i32) -> (Socket, Socket) {
    let pair = (ctx.socket(binder).secured(), ctx.socket(connecter).secured());
    join(scheme, &pair.0, &pair.1);
    pair
}

#[test]
fn asks_and_answers() {
    for scheme in SCHEMES {
        let ctx = Context::new();
        let (rep, req) = pair(&ctx, scheme, REP, REQ);
        for round in 0..200 {
            req.tx(&[numbered(round, 10), numbered(round, 1000)]);
            let parts = rep.rx();
            assert_eq!(parts, [numbered(round, 10), numbered(round, 1000)]);
            rep.tx(&parts);
            req.expect(&parts);
        }
    }
}

/// From one byte to some MiB, in order, both directions at once.
#[test]
fn carries_every_size_both_ways() {
    for scheme in SCHEMES {
        let ctx = Context::new();
        let (a, b) = pair(&ctx, scheme, DEALER, DEALER);
        let sizes = [0, 1, 255, 256, 4_000, 16_383, 16_384, 16_385, 65_536, 300_000, 5_000_000, 3];
        for _ in 0..3 {
            std::thread::scope(|scope| {
                for (from, to) in [(&a, &b), (&b, &a)] {
                    scope.spawn(move || sizes.iter().for_each(|&size| from.put(vec![size as u8; size])));
                    scope.spawn(move || {
                        sizes
                            .iter()
                            .for_each(|&size| assert!(to.take() == vec![size as u8; size], "{size} bytes"));
                    });
                }
            });
        }
    }
}

/// More than the kernel and TLS hold between them while the receiver does not receive; then all of it, in order.
#[test]
fn holds_back_and_goes_on() {
    for scheme in SCHEMES {
        let ctx = Context::new();
        let (pull, push) = (ctx.socket(PULL).hwm(10).secured(), ctx.socket(PUSH).hwm(10).secured());
        join(scheme, &pull, &push);
        push.set(SNDTIMEO, 300).expect("SNDTIMEO");
        let mut sent = 0;
        while push.send(numbered(sent, 100_000), 0).is_ok() {
            sent += 1;
            assert!(sent < 10_000, "nothing holds it back");
        }
        push.set(SNDTIMEO, deadline::PATIENCE_MS).expect("SNDTIMEO");
        std::thread::scope(|scope| {
            scope.spawn(|| (sent..sent + 500).for_each(|n| push.put(numbered(n, 20_000))));
            drain(&pull, 0, sent + 500);
        });
    }
}

#[test]
fn publishes() {
    for scheme in SCHEMES {
        let ctx = Context::new();
        let (publisher, subscriber) = pair(&ctx, scheme, XPUB, SUB);
        subscriber.set_bytes(SUBSCRIBE, b"a").expect("SUBSCRIBE");
        assert_eq!(publisher.take(), b"\x01a");
        publisher.put("b");
        publisher.put("a");
        assert_eq!(subscriber.take(), b"a");
    }
}

/// Messages sent before the close arrive, and both ends see an orderly end.
#[test]
fn closes_in_order() {
    for scheme in SCHEMES {
        let ctx = Context::new();
        for _ in 0..10 {
            let (pull, push) = pair(&ctx, scheme, PULL, PUSH);
            (0..1_000).for_each(|n| push.put(numbered(n, 500)));
            push.close().expect("close");
            drain(&pull, 0, 1_000);
        }
    }
}

#[test]
fn finds_a_server_that_comes_back() {
    for scheme in SCHEMES {
        let ctx = Context::new();
        let push = ctx.socket(PUSH).secured().with(RECONNECT_IVL, 10).with(IMMEDIATE, 1);
        let pull = ctx.socket(PULL).secured();
        let endpoint = join(scheme, &pull, &push);
        push.put("first");
        assert_eq!(pull.take(), b"first");
        drop(pull);
        let pull = ctx.socket(PULL).secured();
        until("the endpoint is free", || pull.bind(&endpoint).is_ok());
        let monitor = Monitor::of(&ctx, &pull, EVENT_HANDSHAKE_SUCCEEDED);
        monitor.wait(EVENT_HANDSHAKE_SUCCEEDED);
        push.put("second");
        assert_eq!(pull.take(), b"second");
    }
}

/// A certificate from another authority, or for another name: no connection, and both sides report why.
#[test]
fn trusts_nobody_else() {
    for scheme in SCHEMES {
        for (trust, name, refused) in [
            (&certificates::make().authority, "", true),
            (&certificates::ours().authority, "elsewhere.test", true),
            (&certificates::ours().authority, NAME, false),
            (&certificates::ours().authority, "", false),
            (&String::new(), "", true),
        ] {
            let ctx = Context::new();
            let (pull, push) = (ctx.socket(PULL).secured(), ctx.socket(PUSH));
            push.set_bytes(WSS_TRUST_PEM, trust.as_bytes()).expect("WSS_TRUST_PEM");
            push.set_bytes(WSS_HOSTNAME, name.as_bytes()).expect("WSS_HOSTNAME");
            let ends = EVENT_HANDSHAKE_FAILED_NO_DETAIL | EVENT_HANDSHAKE_SUCCEEDED;
            let monitors = [Monitor::of(&ctx, &pull, ends), Monitor::of(&ctx, &push, ends)];
            join(scheme, &pull, &push);
            for monitor in monitors {
                let event = monitor.next();
                if refused {
                    assert_eq!(
                        (event.number, event.value),
                        (EVENT_HANDSHAKE_FAILED_NO_DETAIL, libc::EACCES as u32),
                        "{scheme} {name} {trust}"
                    );
                } else {
                    assert_eq!(event.number, EVENT_HANDSHAKE_SUCCEEDED);
                }
            }
        }
    }
}

/// A certificate names its host as a subject alternative name (RFC 9525); the common name is ignored.
#[test]
fn a_common_name_is_no_name() {
    for scheme in SCHEMES {
        let ctx = Context::new();
        let (pull, push) = (ctx.socket(PULL), ctx.socket(PUSH));
        let made = certificates::make_for(Vec::new());
        pull.set_bytes(WSS_CERT_PEM, made.certificate.as_bytes()).expect("WSS_CERT_PEM");
        pull.set_bytes(WSS_KEY_PEM, made.key.as_bytes()).expect("WSS_KEY_PEM");
        push.set_bytes(WSS_TRUST_PEM, made.authority.as_bytes()).expect("WSS_TRUST_PEM");
        push.set_bytes(WSS_HOSTNAME, NAME.as_bytes()).expect("WSS_HOSTNAME");
        let ends = EVENT_HANDSHAKE_FAILED_NO_DETAIL | EVENT_HANDSHAKE_SUCCEEDED;
        let monitor = Monitor::of(&ctx, &push, ends);
        join(scheme, &pull, &push);
        let event = monitor.next();
        assert_eq!((event.number, event.value), (EVENT_HANDSHAKE_FAILED_NO_DETAIL, libc::EACCES as u32));
    }
}

/// Options that contain no valid certificate fail when they are used.
#[test]
fn refuses_what_is_no_certificate() {
    let ctx = Context::new();
    let ours = certificates::ours();
    let other = certificates::make();
    for scheme in SCHEMES {
        for (certificate, key) in [
            ("", ""),
            (ours.certificate.as_str(), ""),
            ("", ours.key.as_str()),
            ("nonsense", ours.key.as_str()),
            (ours.certificate.as_str(), "nonsense"),
            (ours.certificate.as_str(), ours.certificate.as_str()),
            (ours.key.as_str(), ours.key.as_str()),
            (ours.certificate.as_str(), other.key.as_str()),
            ("-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n", ours.key.as_str()),
        ] {
            let pull = ctx.socket(PULL);
            pull.set_bytes(WSS_CERT_PEM, certificate.as_bytes()).expect("WSS_CERT_PEM");
            pull.set_bytes(WSS_KEY_PEM, key.as_bytes()).expect("WSS_KEY_PEM");
            assert_eq!(
                pull.bind(&format!("{scheme}://127.0.0.1:*")),
                Err(Errno(libc::EINVAL)),
                "{certificate}"
            );
        }
        let push = ctx.socket(PUSH);
        push.set_bytes(WSS_TRUST_PEM, b"nonsense").expect("WSS_TRUST_PEM");
        assert_eq!(push.connect(&format!("{scheme}://127.0.0.1:1")), Err(Errno(libc::EINVAL)));
        let push = ctx.socket(PUSH);
        push.set_bytes(WSS_HOSTNAME, b"no name").expect("WSS_HOSTNAME");
        assert_eq!(push.connect(&format!("{scheme}://127.0.0.1:1")), Err(Errno(libc::EINVAL)));
        let push = ctx.socket(PUSH).with(WSS_TRUST_SYSTEM, 1);
        assert_eq!(push.connect(&format!("{scheme}://127.0.0.1:1")), Ok(()));
    }
}

/// SSL_CERT_FILE, if set, replaces the system's certificate store.
fn has_a_store_of_the_system(_: &[String]) {
    let file = std::env::temp_dir().join(format!("pinnace-authority-{}.pem", std::process::id()));
    std::fs::write(&file, &certificates::ours().authority).expect("written");
    // SAFETY: no other thread of this process looks at its environment now.
    unsafe { std::env::set_var("SSL_CERT_FILE", &file) };
    for scheme in SCHEMES {
        let ctx = Context::new();
        let (pull, push) = (ctx.socket(PULL).secured(), ctx.socket(PUSH).with(WSS_TRUST_SYSTEM, 1));
        push.set_bytes(WSS_HOSTNAME, NAME.as_bytes()).expect("WSS_HOSTNAME");
        join(scheme, &pull, &push);
        push.put("trusted");
        pull.expect(&["trusted"]);
    }
    std::fs::remove_file(&file).expect("removed");
}

#[test]
fn trusts_the_system_if_asked_to() {
    child::alone("has_a_store_of_the_system", &[]);
}

/// Peers without TLS, and silent peers, are cut off; the next peer is served.
#[test]
fn cuts_those_who_do_not_speak_it() {
    for scheme in SCHEMES {
        let ctx = Context::new();
        let pull = ctx.socket(PULL).secured().with(HANDSHAKE_IVL, 300);
        let push = ctx.socket(PUSH).secured();
        let endpoint = join(scheme, &pull, &push);
        let address = endpoint.trim_start_matches(scheme).trim_start_matches("://").trim_end_matches('/');
        let monitor = Monitor::of(&ctx, &pull, EVENT_HANDSHAKE_FAILED_NO_DETAIL);
        let words = [
            wire::greeting(1, "NULL", false),
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            Vec::new(),
            vec![22; 5_000],
        ];
        for words in words {
            let mut peer = RawPeer::connect(&format!("tcp://{address}"));
            let _ = peer.try_send(&words);
            peer.expect_end();
            monitor.wait(EVENT_HANDSHAKE_FAILED_NO_DETAIL);
        }
        push.put("served");
        assert_eq!(pull.take(), b"served");
    }
}

/// An OpenSSL process at one end; its stdin and stdout carry the plaintext.
struct OpenSsl(Child);

impl OpenSsl {
    fn start(arguments: &[&str]) -> OpenSsl {
        let mut command = Command::new("openssl");
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        OpenSsl(command.spawn().expect("openssl is there"))
    }

    #[track_caller]
    fn send(&mut self, bytes: &[u8]) {
        let input = self.0.stdin.as_mut().expect("a pipe");
        input.write_all(bytes).and_then(|()| input.flush()).expect("openssl reads");
    }

    #[track_caller]
    fn expect(&mut self, bytes: &[u8]) {
        let mut got = vec![0; bytes.len()];
        self.0.stdout.as_mut().expect("a pipe").read_exact(&mut got).expect("openssl writes");
        assert_eq!(got, bytes);
    }
}

impl Drop for OpenSsl {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Writes a file with this text; returns its path.
fn file(name: &str, text: &str) -> String {
    let path = transport::scratch().join(name);
    std::fs::write(&path, text).expect("written");
    path.to_string_lossy().into_owned()
}

/// The bytes inside TLS are plain ZMTP: OpenSSL's client verifies our certificate and carries the handshake and a
/// message.
#[test]
fn openssl_connects() {
    within(60, || {
        let ctx = Context::new();
        let pull = ctx.socket(PULL).secured();
        pull.bind("tls+tcp://127.0.0.1:*").expect("bind");
        let endpoint = pull.endpoint();
        let authority = file("client-trusts.pem", &certificates::ours().authority);
        for version in ["-tls1_2", "-tls1_3"] {
            let address = endpoint.trim_start_matches("tls+tcp://");
            let mut peer = OpenSsl::start(&[
                "s_client",
                "-quiet",
                "-verify_return_error",
                "-verify_hostname",
                NAME,
                "-CAfile",
                &authority,
                "-connect",
                address,
                version,
            ]);
            peer.send(&wire::greeting(1, "NULL", false));
            peer.expect(&wire::greeting(1, "NULL", false));
            peer.send(&wire::ready("PUSH"));
            peer.expect(&wire::ready("PULL"));
            peer.send(&wire::frame(0, version.as_bytes()));
            assert_eq!(pull.take_text(), version);
        }
    });
}

/// The other direction: our client verifies the certificate of OpenSSL's server.
#[test]
fn connects_to_openssl() {
    within(60, || {
        let ctx = Context::new();
        let free = TcpListener::bind("127.0.0.1:0").and_then(|probe| probe.local_addr()).expect("a port");
        let ours = certificates::ours();
        let (certificate, key) = (file("server.pem", &ours.certificate), file("server-key.pem", &ours.key));
        let mut server = OpenSsl::start(&[
            "s_server",
            "-quiet",
            "-cert",
            &certificate,
            "-key",
            &key,
            "-accept",
            &free.to_string(),
            "-naccept",
            "1",
        ]);
        let push = ctx.socket(PUSH).secured().with(RECONNECT_IVL, 10);
        push.connect(&format!("tls+tcp://{free}")).expect("connect");
        server.send(&wire::greeting(1, "NULL", false));
        server.expect(&wire::greeting(1, "NULL", false));
        server.send(&wire::ready("PULL"));
        server.expect(&wire::ready("PUSH"));
        push.put("to openssl");
        server.expect(&wire::frame(0, b"to openssl"));
    });
}
