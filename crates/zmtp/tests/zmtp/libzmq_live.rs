//! PLAIN, CURVE and ZAP with the system's libzmq, over a real connection, in both roles.

use crate::common::live::{Libzmq, Wire, accept, shake, text};
use crate::common::secure::*;
use pinnace_zmtp::SocketType::*;
use pinnace_zmtp::frame::{COMMAND, MORE};
use pinnace_zmtp::{AuthorizationRequest, Config, Decision, Error, Refusal};

const SUCCEEDED: u32 = 0x1000;
const FAILED_AUTH: u32 = 0x4000;
const DISCONNECTED: u32 = 0x0200;

fn libzmq_curve_server() -> String {
    format!(r#""CURVE_SERVER": 1, "CURVE_SECRETKEY": "{}""#, text(&*server_keys().secret))
}

fn libzmq_curve_client() -> String {
    format!(
        r#""CURVE_PUBLICKEY": "{}", "CURVE_SECRETKEY": "{}", "CURVE_SERVERKEY": "{}""#,
        text(&client_keys().public),
        text(&*client_keys().secret),
        text(&server_keys().public)
    )
}

const PLAIN_SERVER: &str = r#""PLAIN_SERVER": 1"#;
const PLAIN_CLIENT: &str = r#""PLAIN_USERNAME": "admin", "PLAIN_PASSWORD": "secret""#;

/// Lengths around boundaries: frame headers, cipher blocks, large bodies.
const LENGTHS: &[usize] = &[0, 1, 30, 31, 32, 33, 64, 221, 222, 223, 224, 255, 256, 1000, 8192, 100_000];

/// Sends messages of every length both ways, with libzmq's DEALER.
fn talk(libzmq: &mut Libzmq, wire: &mut Wire) {
    for &len in LENGTHS {
        let body: Vec<u8> = (0..len).map(|n| (n * 31) as u8).collect();
        wire.send(MORE, b"first");
        wire.send(MORE, b"");
        wire.send(0, &body);
        assert_eq!(libzmq.line("got "), format!("{} - {}", text(b"first"), text(&body)));
        libzmq.send(&[&body, b"last"]);
        assert_eq!(wire.message(), (MORE, body));
        assert_eq!(wire.message(), (0, b"last".to_vec()));
    }
}

#[test]
fn our_client_and_libzmqs_server() {
    let cases =
        [(curve_client as fn(_) -> Config, libzmq_curve_server()), (plain_client, PLAIN_SERVER.into())];
    for (config, options) in cases {
        let rest = format!(r#""zap": "200", "options": {{{options}, "ROUTING_ID": "you"}}"#);
        let (mut libzmq, stream) = Libzmq::bound("DEALER", &rest);
        let config = Config {
            routing_id: b"me".to_vec(),
            properties: vec![("X-extra".to_string(), b"value".to_vec())],
            ..config(Dealer)
        };
        let (peer, mut wire) = shake(stream, config, accept).unwrap();
        assert_eq!((peer.socket_type, &peer.routing_id[..]), (Some(Dealer), &b"you"[..]));
        let asked = match peer.mechanism {
            "CURVE" => format!("{} {}", text(b"CURVE"), text(&client_keys().public)),
            _ => [b"PLAIN", &b"admin"[..], b"secret"].map(text).join(" "),
        };
        assert_eq!(libzmq.line("asked "), asked);
        libzmq.event(&[SUCCEEDED]);
        talk(&mut libzmq, &mut wire);
    }
}

#[test]
fn our_server_and_libzmqs_client() {
    let cases =
        [(curve_server as fn(_) -> Config, libzmq_curve_client()), (plain_server, PLAIN_CLIENT.into())];
    for (config, options) in cases {
        for authorize in [false, true] {
            let rest = format!(r#""options": {{{options}, "ROUTING_ID": "you"}}"#);
            let (mut libzmq, stream) = Libzmq::connected("DEALER", &rest);
            let mut asked = Vec::new();
            let decide = |request: AuthorizationRequest<'_>| {
                asked.push((request.mechanism, request.credentials.concat()));
                Decision::Accept
            };
            let (peer, mut wire) = shake(stream, Config { authorize, ..config(Dealer) }, decide).unwrap();
            assert_eq!((peer.socket_type, &peer.routing_id[..]), (Some(Dealer), &b"you"[..]));
            let credentials = match peer.mechanism {
                "CURVE" => client_keys().public.to_vec(),
                _ => b"adminsecret".to_vec(),
            };
            let expected = if authorize { vec![(peer.mechanism, credentials)] } else { vec![] };
            assert_eq!(asked, expected);
            libzmq.event(&[SUCCEEDED]);
            talk(&mut libzmq, &mut wire);
        }
    }
}

/// Subscriptions and heartbeats are sealed commands.
#[test]
fn commands_in_boxes() {
    let rest = format!(
        r#""options": {{{}, "SUBSCRIBE": "topic", "HEARTBEAT_IVL": 50, "HEARTBEAT_TIMEOUT": 20000}}"#,
        libzmq_curve_client()
    );
    let (libzmq, stream) = Libzmq::connected("SUB", &rest);
    let (_, mut wire) = shake(stream, curve_server(Pub), accept).unwrap();
    let mut seen = Vec::new();
    let ping = loop {
        let (flags, body) = wire.recv();
        if body.starts_with(b"\x04PING") {
            break (flags, body);
        }
        seen.push((flags, body));
    };
    assert_eq!(seen, [(COMMAND, b"\x09SUBSCRIBEtopic".to_vec())]);
    assert_eq!(ping, (COMMAND, b"\x04PING\0\0".to_vec()));
    wire.send(COMMAND, b"\x04PING\0\0hello");
    let pong = std::iter::repeat_with(|| wire.recv()).find(|(_, body)| body.starts_with(b"\x04PONG"));
    assert_eq!(pong, Some((COMMAND, b"\x04PONGhello".to_vec())));
    wire.send(0, b"topic and more");
    assert_eq!(libzmq.line("got "), text(b"topic and more"));
}

#[test]
fn libzmq_refuses_us() {
    let cases = [
        (curve_client(Dealer), libzmq_curve_server()),
        (plain_client(Dealer), PLAIN_SERVER.to_string()),
        (Config::new(Dealer), r#""ZAP_DOMAIN": "global""#.to_string()),
    ];
    for ((config, options), status) in cases.into_iter().zip(["400", "500", "400"]) {
        let name = config.mechanism.name();
        let rest = format!(r#""zap": "{status}", "options": {{{options}}}"#);
        let (libzmq, stream) = Libzmq::bound("DEALER", &rest);
        let error = shake(stream, config, accept).err().expect("a refusal");
        assert_eq!(error, Error::PeerRefused { reason: status.into() }, "{name}");
        assert_eq!(error.zap_status(), status.parse().ok());
        assert_eq!(libzmq.event(&[FAILED_AUTH, SUCCEEDED]), (FAILED_AUTH, status.parse().unwrap()), "{name}");
    }
}

#[test]
fn we_refuse_libzmq() {
    let mechanisms = [
        (curve_server as fn(_) -> Config, libzmq_curve_client()),
        (plain_server, PLAIN_CLIENT.to_string()),
        (Config::new, r#""LINGER": 0"#.to_string()),
    ];
    for (config, options) in mechanisms {
        for refusal in [Refusal::Temporary, Refusal::Denied, Refusal::Failed] {
            let rest = format!(r#""options": {{{options}, "RECONNECT_IVL": -1}}"#);
            let (libzmq, stream) = Libzmq::connected("DEALER", &rest);
            let error = shake(stream, asking(config(Dealer)), |_| Decision::Refuse(refusal)).err().unwrap();
            let mechanism = config(Dealer).mechanism.name();
            assert_eq!(error, Error::PeerUnauthorized { refusal, mechanism });
            let seen = libzmq.event(&[FAILED_AUTH, SUCCEEDED, DISCONNECTED]);
            match refusal {
                Refusal::Temporary => assert_eq!(seen.0, DISCONNECTED, "{mechanism} hears nothing"),
                _ => assert_eq!(seen, (FAILED_AUTH, refusal as u32), "{mechanism}"),
            }
        }
    }
}
