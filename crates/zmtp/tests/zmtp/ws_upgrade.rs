//! The HTTP upgrade: RFC 6455's example, browsers' requests, every violation, every split.

use crate::common::ws::NULL;
use pinnace_zmtp::ws::{Error, MAX_HEAD, MAX_HEADERS, MAX_LINE, Offer, Subprotocol, Target, Upgrade};
use pinnace_zmtp::{Config, Limits, SocketType, Version};

const PLAIN: Offer = Offer { mechanism: "PLAIN", bare: false };
const CURVE: Offer = Offer { mechanism: "CURVE", bare: false };
/// The key of RFC 6455, section 1.3, and the random bytes that it encodes.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const RANDOM: &[u8; 16] = b"the sample nonce";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

const FIREFOX: &str = "GET /chat?room=1 HTTP/1.1\r\nHost: localhost:5555\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\nAccept: */*\r\n\
    Accept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br, zstd\r\nSec-WebSocket-Version: 13\r\n\
    Origin: null\r\nSec-WebSocket-Protocol: ZWS2.0\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nDNT: 1\r\nConnection: keep-alive, Upgrade\r\nCookie: a=b; c=d\r\n\
    Pragma: no-cache\r\nCache-Control: no-cache\r\nUpgrade: websocket\r\n\r\n";
const CHROME: &str = "GET / HTTP/1.1\r\nHost: [::1]:5555\r\nConnection: Upgrade\r\nPragma: no-cache\r\n\
    Cache-Control: no-cache\r\nUser-Agent: Mozilla/5.0\r\nUpgrade: websocket\r\nOrigin: https://example.org\r\n\
    Sec-WebSocket-Version: 13\r\nAccept-Encoding: gzip, deflate, br\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
    Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\nSec-WebSocket-Protocol: ZWS2.0\r\n\r\n";
/// The request of libzmq's client.
const LIBZMQ: &str = "GET /zeromq HTTP/1.1\r\nHost: example.org:5555\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: ZWS2.0/NULL,ZWS2.0\r\n\
    Sec-WebSocket-Version: 13\r\n\r\n";

/// The request with one line changed; with an empty replacement the line is removed.
fn changed(line: &str, with: &str) -> String {
    let start = LIBZMQ.find(line).unwrap_or_else(|| panic!("{line} is no line"));
    let end = start + LIBZMQ[start..].find("\r\n").unwrap() + 2;
    [&LIBZMQ[..start], with, if with.is_empty() { "" } else { "\r\n" }, &LIBZMQ[end..]].concat()
}

fn answer(subprotocol: &str) -> String {
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {ACCEPT}\r\nSec-WebSocket-Protocol: {subprotocol}\r\n\r\n"
    )
}

fn client() -> Upgrade {
    Upgrade::client(&Target { host: "example.org:5555", path: "/zeromq" }, NULL, RANDOM).unwrap()
}

/// Feeds pieces; returns the number of consumed bytes, the output, and the result.
fn feed<'a>(
    mut upgrade: Upgrade,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (usize, String, Result<Option<Subprotocol>, Error>) {
    let mut consumed = 0;
    for piece in pieces {
        match upgrade.input(piece) {
            Ok(used) => consumed += used,
            Err(error) => {
                assert_eq!(upgrade.input(b"more"), Err(error.clone()), "an error is final");
                assert!(!error.to_string().is_empty());
                assert_eq!((error.protocol_code(), upgrade.subprotocol()), (0x3000_0000, None));
                return (0, String::from_utf8(upgrade.output().to_vec()).unwrap(), Err(error));
            }
        }
    }
    let output = String::from_utf8(upgrade.output().to_vec()).unwrap();
    upgrade.sent(usize::MAX);
    assert_eq!(upgrade.output(), b"");
    (consumed, output, Ok(upgrade.subprotocol()))
}

fn serve(request: &str) -> (String, Result<Option<Subprotocol>, Error>) {
    let (consumed, output, result) = feed(Upgrade::server(NULL), [request.as_bytes()]);
    assert!(result.is_err() || consumed == request.len());
    (output, result)
}

#[test]
fn a_client_asks_as_libzmq_does() {
    assert_eq!(client().output(), LIBZMQ.as_bytes());
    let line = "Sec-WebSocket-Protocol: ZWS2.0/CURVE\r\n";
    let target = Target { host: "h", path: "" };
    let curve = Upgrade::client(&target, CURVE, RANDOM).unwrap();
    let request = std::str::from_utf8(curve.output()).unwrap();
    assert!(request.contains(line) && request.starts_with("GET / HTTP/1.1\r\nHost: h\r\n"), "{request}");
    for (host, path) in
        [("", "/"), ("a b", "/"), ("a\r\nX: y", "/"), ("a", "x"), ("a", "/ x"), ("a", "/\n"), ("é", "/")]
    {
        let error = Upgrade::client(&Target { host, path }, NULL, RANDOM).unwrap_err();
        assert_eq!(error, Error::BadTarget, "{host:?} {path:?}");
    }
}

#[test]
fn the_offer_follows_from_the_configuration() {
    let mut config = Config::new(SocketType::Push);
    assert_eq!(Offer::from(&config), NULL);
    config.limits = Limits { oldest_version: Version::V3_0, ..Limits::default() };
    assert_eq!(Offer::from(&config), Offer { bare: false, ..NULL });
}

#[test]
fn browsers_and_libzmq_are_served() {
    for (request, chosen) in [(FIREFOX, "ZWS2.0"), (CHROME, "ZWS2.0"), (LIBZMQ, "ZWS2.0/NULL")] {
        let expected = if chosen == "ZWS2.0" { Subprotocol::Bare } else { Subprotocol::Mechanism };
        assert_eq!(serve(request), (answer(chosen), Ok(Some(expected))));
    }
    let mut server = Upgrade::server(NULL);
    let bytes = [FIREFOX.as_bytes(), b"\x82"].concat();
    assert_eq!(server.input(&bytes), Ok(FIREFOX.len()), "what follows is left");
    let request = server.request().unwrap();
    assert_eq!((request.path.as_str(), request.host.as_slice()), ("/chat?room=1", &b"localhost:5555"[..]));
    assert_eq!(request.origin.as_deref(), Some(&b"null"[..]));
}

#[test]
fn our_mechanism_is_chosen_wherever_it_stands() {
    let chosen = |offer, protocols: &str| {
        let request = changed("Sec-WebSocket-Protocol", protocols);
        feed(Upgrade::server(offer), [request.as_bytes()]).2.ok().flatten()
    };
    let (mechanism, bare) = (Some(Subprotocol::Mechanism), Some(Subprotocol::Bare));
    assert_eq!(chosen(NULL, "Sec-WebSocket-Protocol: ZWS2.0,ZWS2.0/NULL"), mechanism);
    assert_eq!(
        chosen(NULL, "sec-websocket-protocol: mqtt , ,ZWS2.0\r\nSEC-WEBSOCKET-PROTOCOL:\tZWS2.0/NULL "),
        mechanism
    );
    assert_eq!(chosen(NULL, "Sec-WebSocket-Protocol: ZWS2.0/PLAIN, ZWS2.0"), bare);
    assert_eq!(chosen(NULL, "Sec-WebSocket-Protocol: zws2.0"), None);
    assert_eq!(chosen(PLAIN, "Sec-WebSocket-Protocol: ZWS2.0/PLAIN"), mechanism);
    // Never without the mechanism that the socket requires.
    assert_eq!(chosen(PLAIN, "Sec-WebSocket-Protocol: ZWS2.0,ZWS2.0/NULL,ZWS2.0/CURVE"), None);
    assert_eq!(chosen(Offer { bare: false, ..NULL }, "Sec-WebSocket-Protocol: ZWS2.0"), None);
}

#[test]
fn what_a_server_refuses() {
    let body = |len| changed("Upgrade", &format!("Upgrade: websocket\r\nContent-Length: {len}"));
    let refused: Vec<(u16, String)> = vec![
        (400, "\x16\x03\x01\x02\0".into()),
        (400, "\r\n".into()),
        (400, "1".into()),
        (400, "GET / HTTP/1.1\r\nHost: a\0b\r\n".into()),
        (400, "\u{ff}\0\0\0\0\0\0\0\u{1}\u{7f}".into()),
        (400, changed("GET", "GET / HTTP/1.0")),
        (400, changed("GET", "GET / HTTP/2.0")),
        (400, changed("GET", "GET /")),
        (400, changed("GET", "GET  / HTTP/1.1 x")),
        (405, changed("GET", "POST / HTTP/1.1")),
        (405, changed("GET", "get / HTTP/1.1")),
        (400, changed("Host", "")),
        (400, changed("Host", "Host: a\r\nHost: b")),
        (400, changed("Host", "Host : a")),
        (400, changed("Host", "Host: a\r\n folded")),
        (426, changed("Upgrade", "")),
        (426, changed("Upgrade", "Upgrade: h2c")),
        (426, changed("Connection", "")),
        (426, changed("Connection", "Connection: keep-alive")),
        (426, changed("Sec-WebSocket-Version", "")),
        (426, changed("Sec-WebSocket-Version", "Sec-WebSocket-Version: 8")),
        (426, changed("Sec-WebSocket-Version", "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Version: 13")),
        (400, changed("Sec-WebSocket-Key", "")),
        (400, changed("Sec-WebSocket-Key", "Sec-WebSocket-Key: ")),
        (400, changed("Sec-WebSocket-Key", "Sec-WebSocket-Key: AAAA")),
        (400, changed("Sec-WebSocket-Key", "Sec-WebSocket-Key: !!!!!!!!!!!!!!!!!!!!!!==")),
        (400, changed("Sec-WebSocket-Key", &format!("Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Key: {KEY}"))),
        (400, changed("Sec-WebSocket-Protocol", "")),
        (400, changed("Sec-WebSocket-Protocol", "Sec-WebSocket-Protocol: mqtt")),
        (400, body(5)),
        (400, changed("Upgrade", "Upgrade: websocket\r\nTransfer-Encoding: chunked")),
        (414, format!("GET /{} HTTP/1.1", "x".repeat(MAX_LINE))),
        (431, changed("Host", &format!("Host: {}", "x".repeat(MAX_HEAD)))),
        (431, changed("Host", &format!("Host: a{}", "\r\nX: y".repeat(MAX_HEADERS)))),
    ];
    for (status, request) in refused {
        let (output, result) = serve(&request);
        assert!(
            matches!(result, Err(Error::BadRequest { status: found, .. }) if found == status),
            "{request} {result:?}"
        );
        assert!(output.starts_with(&format!("HTTP/1.1 {status} ")), "{output}");
        assert_eq!(output.contains("\r\nSec-WebSocket-Version: 13\r\n"), status == 426);
        assert_eq!(output.contains("\r\nAllow: GET\r\n"), status == 405);
        let (head, body) = output.split_once("\r\n\r\n").unwrap();
        assert!(
            head.contains(&format!("Content-Length: {}", body.len())) && head.contains("close"),
            "{output}"
        );
    }
    assert_eq!(serve(&body(0)).1, Ok(Some(Subprotocol::Mechanism)));
}

#[test]
fn limits_are_exact() {
    let line = |len: usize| format!("GET /{} HTTP/1.1", "x".repeat(len - "GET / HTTP/1.1".len()));
    let headers = |count: usize| changed("Host", &format!("Host: a{}", "\r\nX: y".repeat(count - 6)));
    let head =
        |len: usize| changed("Host", &format!("Host: {}", "x".repeat(len - changed("Host", "Host: ").len())));
    for (fits, over, status) in [
        (changed("GET", &line(MAX_LINE)), changed("GET", &line(MAX_LINE + 1)), 414),
        (headers(MAX_HEADERS), headers(MAX_HEADERS + 1), 431),
        (head(MAX_HEAD), head(MAX_HEAD + 1), 431),
    ] {
        assert_eq!(serve(&fits).1, Ok(Some(Subprotocol::Mechanism)));
        assert!(matches!(serve(&over).1, Err(Error::BadRequest { status: found, .. }) if found == status));
    }
}

#[test]
fn answers_that_are_a_yes() {
    let good = answer("ZWS2.0/NULL");
    let variants = [
        good.clone(),
        answer("ZWS2.0"),
        good.replace("Switching Protocols", "Web Socket Protocol Handshake"),
        good.replace(" Switching Protocols", ""),
        good.replace("Connection: Upgrade", "connection: keep-alive, upgrade"),
        good.replace("Upgrade: websocket", "Server: x\r\nUPGRADE: WebSocket"),
    ];
    for response in variants {
        let (consumed, _, result) = feed(client(), [response.as_bytes(), b"\x82"]);
        assert!(matches!(result, Ok(Some(_))), "{response} {result:?}");
        assert_eq!(consumed, response.len(), "frames that follow are left");
    }
}

#[test]
fn answers_that_are_none() {
    let good = answer("ZWS2.0/NULL");
    let refused = |status: u16, reason: &str| Error::Refused { status, reason: reason.into() };
    let response = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(feed(client(), [response.as_bytes()]).2, Err(refused(404, "Not Found")));
    let response = format!("HTTP/1.0 503 {}\r\n\r\n", "x".repeat(100));
    assert_eq!(feed(client(), [response.as_bytes()]).2, Err(refused(503, &"x".repeat(64))));
    let bad = [
        good.replace(ACCEPT, "s3pPLMBiTxaQ9kYGzzhZRbK+xOO="),
        good.replace(ACCEPT, &format!("{ACCEPT}\r\nSec-WebSocket-Accept: {ACCEPT}")),
        good.replace("Sec-WebSocket-Accept", "X"),
        good.replace("Upgrade: websocket\r\n", ""),
        good.replace("Connection: Upgrade\r\n", ""),
        good.replace("HTTP/1.1", "HTTP/1.0"),
        good.replace("Sec-WebSocket-Protocol: ZWS2.0/NULL\r\n", ""),
        good.replace("ZWS2.0/NULL", "ZWS2.0/PLAIN"),
        good.replace("ZWS2.0/NULL", "ZWS2.0,ZWS2.0/NULL"),
        good.replace("\r\n\r\n", "\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n"),
        good.replace("Upgrade: websocket", "Upgrade: websocket\r\n folded"),
        good.replace("101 Switching", &"x".repeat(MAX_LINE)),
        good.replace("Upgrade: websocket", &format!("Upgrade: websocket\r\nX: {}", "y".repeat(MAX_HEAD))),
        good.replace("Upgrade: websocket", &format!("Upgrade: websocket{}", "\r\nX: y".repeat(MAX_HEADERS))),
        "HTTP/2".into(),
        "SSH-2.0-OpenSSH\r\n".into(),
        "HTTP/1.1 101 \0".into(),
    ];
    for response in bad {
        let result = feed(client(), [response.as_bytes()]).2;
        assert!(matches!(result, Err(Error::BadResponse { .. })), "{response} {result:?}");
    }
}

#[test]
fn every_split_is_the_same_and_every_truncation_waits() {
    let failing = changed("Sec-WebSocket-Version", "Sec-WebSocket-Version: 7");
    let requests = [FIREFOX, LIBZMQ, &failing].map(|request| (true, request.to_owned()));
    let answers = [answer("ZWS2.0"), answer("other")].map(|response| (false, response));
    for (is_request, text) in requests.into_iter().chain(answers) {
        let start = || if is_request { Upgrade::server(NULL) } else { client() };
        let bytes = text.as_bytes();
        let whole = feed(start(), [bytes]);
        assert_eq!(feed(start(), bytes.chunks(1)), whole);
        for at in 0..bytes.len() {
            let (first, second) = bytes.split_at(at);
            assert_eq!(feed(start(), [first, second]), whole, "{text} at {at}");
            assert_eq!(feed(start(), [first]).2, Ok(None), "{text} until {at}");
        }
    }
}
