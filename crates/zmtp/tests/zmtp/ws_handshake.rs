//! The handshake over WebSocket: with a mechanism, and without.

use crate::common::{cat, config, drain, frame, property, ready, ready_with};
use pinnace_zmtp::SocketType::{self, *};
use pinnace_zmtp::ws::Subprotocol::{self, Bare, Mechanism};
use pinnace_zmtp::{Config, Error, Handshake, Incompatibility, Limits, Misbehaviour, Misuse, Peer, Version};

fn over_ws(socket_type: SocketType, subprotocol: Subprotocol) -> Handshake {
    Handshake::over_ws(config(socket_type, b"me"), subprotocol)
}

fn refused(subprotocol: Subprotocol, frames: &[u8]) -> Error {
    let error = over_ws(Pull, subprotocol).input(frames).unwrap_err();
    let mut pieces = over_ws(Pull, subprotocol);
    assert_eq!(frames.chunks(1).find_map(|byte| pieces.input(byte).err()), Some(error.clone()));
    error
}

#[test]
fn with_a_mechanism_its_commands_come_at_once() {
    let mut dealer = over_ws(Dealer, Mechanism);
    let properties = cat(&[&property("Socket-Type", b"DEALER"), &property("Identity", b"me")]);
    assert_eq!(drain(&mut dealer), ready_with(&properties));
    let theirs = ready_with(&cat(&[&property("Socket-Type", b"ROUTER"), &property("Identity", b"you")]));
    let bytes = cat(&[&theirs, &frame(0, b"message")]);
    for piece in [1, 7, bytes.len()] {
        let mut dealer = over_ws(Dealer, Mechanism);
        let used: usize = bytes.chunks(piece).map(|bytes| dealer.input(bytes).unwrap()).sum();
        assert_eq!(used, theirs.len(), "the message is left");
        let peer = dealer.into_parts().unwrap().0;
        assert_eq!((peer.version, peer.mechanism), (Version::V3_0, "NULL"));
        assert_eq!((peer.socket_type, &peer.routing_id[..]), (Some(Router), &b"you"[..]));
        assert!(!peer.as_server);
    }
}

#[test]
fn without_one_each_side_tells_its_routing_id() {
    for id in [&b""[..], b"you", &[7; 255]] {
        let mut pull = over_ws(Pull, Bare);
        assert_eq!(drain(&mut pull), frame(0, b"me"));
        let bytes = cat(&[&frame(0, id), &frame(1, b"message")]);
        assert_eq!(pull.input(&bytes), Ok(frame(0, id).len()));
        let expected = Peer {
            version: Version::V2_0,
            mechanism: "NULL",
            socket_type: None,
            routing_id: id.to_vec(),
            properties: vec![],
            as_server: false,
        };
        assert_eq!(pull.into_parts().map(|(peer, _)| peer), Some(expected));
    }
}

#[test]
fn refusals() {
    assert_eq!(refused(Mechanism, &frame(0, b"\0")), Misbehaviour::UnexpectedMessage.into());
    assert_eq!(refused(Mechanism, &frame(5, b"\x05READY")), Misbehaviour::CommandWithMore.into());
    assert_eq!(refused(Bare, &ready("PUSH")), Misbehaviour::IdentityFrameFlags.into());
    assert_eq!(refused(Bare, &frame(1, b"")), Misbehaviour::IdentityFrameFlags.into());
    assert_eq!(refused(Bare, &frame(0, &[1; 256])), Misbehaviour::RoutingIdTooLong { len: 256 }.into());
    let error = refused(Mechanism, &ready("SUB"));
    let version = Version::V3_0;
    assert_eq!(error, Incompatibility::SocketType { ours: Pull, theirs: Sub, version }.into());
    assert_eq!(error.reply(), Some(frame(4, b"\x05ERROR\x13invalid socket type")));
    let long = Handshake::over_ws(config(Pull, &[1; 256]), Bare).input(b"");
    assert_eq!(long, Err(Misuse::RoutingIdTooLong { len: 256 }.into()));
}

#[test]
fn where_peers_must_be_authenticated_none_comes_without_a_mechanism() {
    let limits = Limits { oldest_version: Version::V3_0, ..Limits::default() };
    let config = || Config { limits, ..Config::new(Pull) };
    let mut bare = Handshake::over_ws(config(), Bare);
    assert_eq!(bare.output(), b"");
    let error = Incompatibility::Version { theirs: Version::V2_0, oldest: Version::V3_0 };
    assert_eq!(bare.input(&frame(0, b"")), Err(error.into()));
    let mut null = Handshake::over_ws(config(), Mechanism);
    assert!(null.input(&ready("PUSH")).is_ok() && null.peer().is_some());
}

/// A server may agree to a mechanism and use none: a client that accepts both goes by the first frame.
#[test]
fn a_client_lets_the_server_begin() {
    let client = || Handshake::over_ws_to_server(config(Dealer, b"me"), Mechanism);
    assert_eq!(client().output(), b"");
    let commands = ready_with(&cat(&[&property("Socket-Type", b"ROUTER"), &property("Identity", b"you")]));
    for (first, version, ours) in [
        (commands, Version::V3_0, drain(&mut over_ws(Dealer, Mechanism))),
        (frame(0, b"you"), Version::V2_0, frame(0, b"me")),
    ] {
        for piece in [1, 2, 7, first.len()] {
            let mut dealer = client();
            let used: usize = first.chunks(piece).map(|bytes| dealer.input(bytes).unwrap()).sum();
            assert_eq!((used, drain(&mut dealer)), (first.len(), ours.clone()));
            let peer = dealer.into_parts().unwrap().0;
            assert_eq!((peer.version, &peer.routing_id[..]), (version, &b"you"[..]));
        }
    }
    let limits = Limits { oldest_version: Version::V3_0, ..Limits::default() };
    let strict = Handshake::over_ws_to_server(Config { limits, ..config(Dealer, b"me") }, Mechanism);
    assert_ne!(strict.output(), b"", "nothing else will do, so that there is nothing to wait for");
}
