//! tcp through a SOCKS5 proxy (ZMQ_SOCKS_PROXY): a small proxy in this test, after RFC 1928.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

use support::peer::RawListener;
use support::*;

/// A proxy, and the requests that it received.
struct Proxy {
    address: String,
    asked: Receiver<Asked>,
}

#[derive(Debug, PartialEq, Eq)]
struct Asked {
    /// The destination as in the request: the kind of address and its bytes.
    kind: u8,
    host: Vec<u8>,
    port: u16,
    user: Option<(Vec<u8>, Vec<u8>)>,
}

/// How the proxy treats its clients.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mood {
    Open,
    WantsPassword,
    /// The connection is not allowed by its rules.
    Refuses,
}

impl Proxy {
    /// The proxy maps every name to this port of 127.0.0.1.
    fn start(mood: Mood, leads_to: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let address = listener.local_addr().expect("bound").to_string();
        let (tell, asked) = channel();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let tell = tell.clone();
                std::thread::spawn(move || serve(client, mood, leads_to, &tell));
            }
        });
        Proxy { address, asked }
    }

    fn next(&self) -> Asked {
        let patience = std::time::Duration::from_millis(deadline::PATIENCE_MS as u64);
        self.asked.recv_timeout(patience).expect("somebody asks the proxy")
    }
}

fn serve(mut client: TcpStream, mood: Mood, leads_to: u16, tell: &Sender<Asked>) -> Option<()> {
    let methods = read_text(&mut client, Some(5))?;
    let user = if mood == Mood::WantsPassword {
        if !methods.contains(&2) {
            return client.write_all(&[5, 0xFF]).ok();
        }
        client.write_all(&[5, 2]).ok()?;
        let user = (read_text(&mut client, Some(1))?, read_text(&mut client, None)?);
        let status = u8::from(user != (b"somebody".to_vec(), b"secret".to_vec()));
        client.write_all(&[1, status]).ok()?;
        (status == 0).then_some(user)
    } else {
        client.write_all(&[5, 0]).ok()?;
        None
    };
    let mut head = [0; 4];
    client.read_exact(&mut head).ok()?;
    assert_eq!(head[..3], [5, 1, 0], "a CONNECT of SOCKS5");
    let host = match head[3] {
        1 => read(&mut client, 4)?,
        3 => read_text(&mut client, None)?,
        _ => read(&mut client, 16)?,
    };
    let port = u16::from_be_bytes(read(&mut client, 2)?.try_into().expect("two bytes"));
    tell.send(Asked { kind: head[3], host, port, user }).ok()?;
    if mood == Mood::Refuses {
        return client.write_all(&[5, 2, 0, 1, 0, 0, 0, 0, 0, 0]).ok();
    }
    let target = TcpStream::connect(("127.0.0.1", leads_to)).ok()?;
    client.write_all(&[5, 0, 0, 1, 127, 0, 0, 1, 0, 80]).ok()?;
    let (from, to) = (client.try_clone().ok()?, target.try_clone().ok()?);
    std::thread::spawn(move || pass_on(from, to));
    pass_on(target, client);
    Some(())
}

fn pass_on(mut from: TcpStream, mut to: TcpStream) {
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Both);
}

fn read(stream: &mut TcpStream, count: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

/// Reads bytes with a length prefix, and a version before it if there is one.
fn read_text(stream: &mut TcpStream, version: Option<u8>) -> Option<Vec<u8>> {
    if let Some(version) = version {
        assert_eq!(read(stream, 1)?, [version]);
    }
    let count = read(stream, 1)?[0];
    read(stream, count.into())
}

fn port_of(endpoint: &str) -> u16 {
    endpoint.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
}

fn through(ctx: &Context, proxy: &Proxy, kind: i32) -> Socket {
    let socket = ctx.socket(kind).with(RECONNECT_IVL, 20);
    socket.set_bytes(SOCKS_PROXY, proxy.address.as_bytes()).expect("SOCKS_PROXY");
    socket
}

/// Host names are passed to the proxy unresolved; this one could not be resolved here.
#[test]
fn carries_messages_and_leaves_names_to_the_proxy() {
    let ctx = Context::new();
    let rep = ctx.socket(REP);
    let port = port_of(&Transport::Tcp.bind(&rep));
    let proxy = Proxy::start(Mood::Open, port);
    let req = through(&ctx, &proxy, REQ);
    let monitor = Monitor::of(&ctx, &req, EVENT_ALL);
    req.connect("tcp://no-such-host.invalid:5555").expect("connect");
    for round in 0..100u32 {
        req.put(round.to_string());
        assert_eq!(rep.take_text(), round.to_string());
        rep.put("back");
        assert_eq!(req.take_text(), "back");
    }
    let asked = Asked { kind: 3, host: b"no-such-host.invalid".to_vec(), port: 5555, user: None };
    assert_eq!(proxy.next(), asked);
    monitor.wait(EVENT_CONNECTED);
    monitor.wait(EVENT_HANDSHAKE_SUCCEEDED);
}

#[test]
fn asks_for_addresses_as_addresses() {
    let ctx = Context::new();
    let pull = ctx.socket(PULL);
    let port = port_of(&Transport::Tcp.bind(&pull));
    let proxy = Proxy::start(Mood::Open, port);
    let push = through(&ctx, &proxy, PUSH).with(IPV6, 1);
    push.connect("tcp://192.0.2.1:7000").expect("connect");
    assert_eq!(proxy.next(), Asked { kind: 1, host: vec![192, 0, 2, 1], port: 7000, user: None });
    let second = through(&ctx, &proxy, PUSH).with(IPV6, 1);
    second.connect("tcp://[2001:db8::1]:7001").expect("connect");
    let ip: std::net::Ipv6Addr = "2001:db8::1".parse().expect("an address");
    assert_eq!(proxy.next(), Asked { kind: 4, host: ip.octets().to_vec(), port: 7001, user: None });
    push.put("one");
    assert_eq!(pull.take_text(), "one");
    second.put("two");
    assert_eq!(pull.take_text(), "two");
}

#[test]
fn gives_name_and_password() {
    let ctx = Context::new();
    let pull = ctx.socket(PULL);
    let port = port_of(&Transport::Tcp.bind(&pull));
    let proxy = Proxy::start(Mood::WantsPassword, port);
    let push = through(&ctx, &proxy, PUSH);
    push.set_bytes(SOCKS_USERNAME, b"somebody").expect("SOCKS_USERNAME");
    push.set_bytes(SOCKS_PASSWORD, b"secret").expect("SOCKS_PASSWORD");
    push.connect("tcp://there:1").expect("connect");
    push.put("in");
    assert_eq!(pull.take_text(), "in");
    assert_eq!(proxy.next().user, Some((b"somebody".to_vec(), b"secret".to_vec())));
}

/// A refused client has no connection, and retries.
#[test]
fn tries_again_when_refused() {
    for (mood, password) in
        [(Mood::Refuses, None), (Mood::WantsPassword, None), (Mood::WantsPassword, Some("wrong"))]
    {
        let ctx = Context::new();
        let proxy = Proxy::start(mood, 1);
        let push = through(&ctx, &proxy, PUSH);
        if let Some(password) = password {
            push.set_bytes(SOCKS_USERNAME, b"somebody").expect("SOCKS_USERNAME");
            push.set_bytes(SOCKS_PASSWORD, password.as_bytes()).expect("SOCKS_PASSWORD");
        }
        let monitor = Monitor::of(&ctx, &push, EVENT_ALL & !EVENT_CONNECT_DELAYED);
        push.connect("tcp://there:1").expect("connect");
        for _ in 0..2 {
            assert_eq!(monitor.next().number, EVENT_HANDSHAKE_FAILED_NO_DETAIL);
            assert_eq!(monitor.next().number, EVENT_CLOSED);
            assert_eq!(monitor.next().number, EVENT_CONNECT_RETRIED);
        }
    }
}

/// A proxy that stays silent, or sends nonsense, costs at most the handshake interval.
#[test]
fn gives_up_a_proxy_that_is_none() {
    let ctx = Context::new();
    for words in [&b""[..], b"HTTP/1.1 400 Bad Request\r\n\r\n", &[5], &[5, 9], &[5, 0, 5, 0, 0, 9]] {
        let listener = RawListener::bind(Transport::Tcp);
        let push = ctx.socket(PUSH).with(RECONNECT_IVL, 20).with(HANDSHAKE_IVL, 200);
        let address = listener.endpoint().trim_start_matches("tcp://").to_owned();
        push.set_bytes(SOCKS_PROXY, address.as_bytes()).expect("SOCKS_PROXY");
        push.connect("tcp://there:1").expect("connect");
        for _ in 0..2 {
            let mut peer = listener.accept();
            peer.expect(&[5, 1, 0]);
            peer.send(words);
            peer.expect_end();
        }
    }
}

#[test]
fn refuses_a_proxy_without_a_port() {
    let ctx = Context::new();
    for address in ["nowhere", "host:", ":1", "host:99999", "*:1", "host:port"] {
        let push = ctx.socket(PUSH);
        push.set_bytes(SOCKS_PROXY, address.as_bytes()).expect("SOCKS_PROXY");
        assert_eq!(push.connect("tcp://there:1"), Err(Errno(libc::EINVAL)), "{address}");
    }
}
