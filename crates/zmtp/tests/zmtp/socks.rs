//! The SOCKS5 client: every kind of target, credentials, every refusal, every split.

use crate::common::cat;
use pinnace_zmtp::socks::{Client, Credentials, Error, Host, ProxyTarget, Reply};
use proptest::collection::vec;
use proptest::prelude::*;

const GREETING: &[u8] = b"\x05\x01\x00";
const BOTH: &[u8] = b"\x05\x02\x00\x02";

fn someone(user_name: &[u8], password: &[u8]) -> Option<Credentials> {
    Some(Credentials { user_name: user_name.into(), password: password.into() })
}

fn client(credentials: Option<Credentials>) -> Client {
    Client::new(ProxyTarget::new("192.0.2.1", 5555), credentials).unwrap()
}

/// Takes all output.
fn drain(client: &mut Client) -> Vec<u8> {
    let out = client.output().to_vec();
    client.sent(out.len());
    out
}

/// Feeds pieces; returns the number of consumed bytes, the output, and the result.
fn feed<'a>(
    mut client: Client,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (usize, Vec<u8>, Result<Option<ProxyTarget>, Error>) {
    let (mut consumed, mut output) = (0, drain(&mut client));
    for piece in pieces {
        let result = client.input(piece);
        output.extend(drain(&mut client));
        match result {
            Ok(used) => consumed += used,
            Err(error) => {
                assert_eq!(client.input(b"\x05"), Err(error.clone()), "an error is final");
                assert_eq!((client.bound(), error.to_string().is_empty()), (None, false));
                return (0, output, Err(error));
            }
        }
    }
    (consumed, output, Ok(client.bound().cloned()))
}

#[test]
fn every_kind_of_target_and_of_address_in_the_answer() {
    let name = "n".repeat(255);
    let targets: [(&str, Vec<u8>, Host); 5] = [
        ("192.0.2.1", b"\x01\xc0\0\x02\x01".to_vec(), Host::Ip([192, 0, 2, 1].into())),
        (
            "2001:db8::1",
            b"\x04\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01".to_vec(),
            Host::Ip("2001:db8::1".parse().unwrap()),
        ),
        ("[::1]", b"\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01".to_vec(), Host::Ip("::1".parse().unwrap())),
        ("example.org", b"\x03\x0bexample.org".to_vec(), Host::Name(b"example.org".to_vec())),
        (&name, cat(&[b"\x03\xff", name.as_bytes()]), Host::Name(name.clone().into())),
    ];
    for (host, address, expected) in targets {
        let target = ProxyTarget::new(host, 5555);
        assert_eq!(target, ProxyTarget { host: expected, port: 5555 });
        let mut client = Client::new(target.clone(), None).unwrap();
        assert_eq!(drain(&mut client), GREETING);
        assert_eq!(client.input(b"\x05\x00"), Ok(2));
        assert_eq!(drain(&mut client), cat(&[b"\x05\x01\x00", &address, b"\x15\xb3"]));
        let reply = cat(&[b"\x05\x00\x00", &address, b"\x15\xb3"]);
        for at in 0..reply.len() {
            let mut again = Client::new(target.clone(), None).unwrap();
            assert_eq!(again.input(&cat(&[b"\x05\x00", &reply[..at]])), Ok(2 + at));
            assert_eq!(again.bound(), None);
        }
        assert_eq!(
            client.input(&cat(&[&reply, b"\xff\x00"])),
            Ok(reply.len()),
            "what follows is the target's"
        );
        assert_eq!(client.bound(), Some(&target));
        assert_eq!((client.input(b"\xff"), client.output()), (Ok(0), &b""[..]));
    }
}

#[test]
fn credentials_are_sent_where_they_are_wanted() {
    let request = b"\x05\x01\x00\x01\xc0\x00\x02\x01\x15\xb3";
    let reply = b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00";
    let replies = cat(&[b"\x05\x02\x01\x00", reply]);
    let (consumed, output, result) = feed(client(someone(b"me", b"secret")), replies.chunks(1));
    assert_eq!(output, cat(&[BOTH, b"\x01\x02me\x06secret", request]));
    assert_eq!((consumed, result), (replies.len(), Ok(Some(ProxyTarget::new("0.0.0.0", 0)))));
    let output = feed(client(someone(&[b'u'; 255], b"")), [&replies[..]]).1;
    assert_eq!(output, cat(&[BOTH, b"\x01\xff", &[b'u'; 255], b"\x00", request]));
    let (_, output, result) = feed(client(someone(b"me", b"secret")), [&cat(&[b"\x05\x00", reply])[..]]);
    assert_eq!((output, result.is_ok()), (cat(&[BOTH, request]), true), "the proxy does not want them");

    let secret = client(someone(b"me", b"secret"));
    let shown = format!("{secret:?} {:?}", someone(b"me", b"secret"));
    assert!(shown.contains("me") && !shown.contains("secret"), "{shown}");
}

#[test]
fn refusals() {
    use Reply::*;
    let auth = || someone(b"me", b"");
    let refused: Vec<(Option<Credentials>, &[u8], Error)> = vec![
        (None, b"H", Error::NotSocks5(b'H')),
        (None, b"\x00\x5a", Error::NotSocks5(0)),
        (None, b"\x05\xff", Error::NoAcceptableMethod),
        (auth(), b"\x05\xff", Error::NoAcceptableMethod),
        (None, b"\x05\x02", Error::UnofferedMethod(2)),
        (auth(), b"\x05\x01", Error::UnofferedMethod(1)),
        (auth(), b"\x05\x02\x05", Error::AuthenticationVersion(5)),
        (auth(), b"\x05\x02\x01\x01", Error::AuthenticationFailed(1)),
        (auth(), b"\x05\x02\x01\xff", Error::AuthenticationFailed(255)),
        (None, b"\x05\x00\x04", Error::NotSocks5(4)),
        (None, b"\x05\x00\x05\x00\x00\x02", Error::AddressType(2)),
        (None, b"\x05\x00\x05\x00\x00\x00", Error::AddressType(0)),
    ];
    let codes = [
        GeneralFailure,
        NotAllowed,
        NetworkUnreachable,
        HostUnreachable,
        ConnectionRefused,
        TtlExpired,
        CommandNotSupported,
        AddressTypeNotSupported,
        Unassigned(9),
    ];
    for (credentials, bytes, error) in refused {
        assert_eq!(feed(client(credentials.clone()), [bytes]).2, Err(error.clone()));
        assert_eq!(feed(client(credentials), bytes.chunks(1)).2, Err(error));
    }
    for (code, reply) in (1..).zip(codes) {
        let result = feed(client(None), [&[5, 0, 5, code][..]]).2;
        assert_eq!(result, Err(Error::Refused(reply)));
    }
}

#[test]
fn what_cannot_be_sent_is_the_callers_fault() {
    let new = |target, credentials| Client::new(target, credentials).map(|_| ());
    let target = || ProxyTarget::new("::1", 1);
    assert_eq!(new(ProxyTarget::new("", 1), None), Err(Error::HostName));
    assert_eq!(new(ProxyTarget::new(&"n".repeat(256), 1), None), Err(Error::HostName));
    assert_eq!(new(ProxyTarget::new("a\0b", 1), None), Err(Error::HostName));
    assert_eq!(new(target(), someone(b"", b"x")), Err(Error::UserName));
    assert_eq!(new(target(), someone(&[1; 256], b"x")), Err(Error::UserName));
    assert_eq!(new(target(), someone(b"x", &[1; 256])), Err(Error::Password));
    assert_eq!(new(target(), someone(&[1; 255], &[1; 255])), Ok(()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_harmless_and_pieces_make_no_difference(
        start in 0..4usize,
        bytes in vec(any::<u8>(), 0..300),
        piece in 1..40usize,
        auth in any::<bool>(),
    ) {
        let starts = [&b""[..], b"\x05\x00", b"\x05\x00\x05\x00", b"\x05\x02\x01\x00\x05\x00\x00\x03"];
        let bytes = cat(&[starts[start], &bytes]);
        let start = || client(if auth { someone(b"me", b"it") } else { None });
        let whole = feed(start(), [&bytes[..]]);
        prop_assert_eq!(&whole, &feed(start(), bytes.chunks(piece)));
        prop_assert!(whole.0 <= 4 + 262 && whole.0 <= bytes.len());
    }
}
