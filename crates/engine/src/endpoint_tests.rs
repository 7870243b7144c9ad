//! Valid and invalid endpoints.

use super::Role::*;
use super::*;

fn tcp(host: Host, port: u16) -> Endpoint {
    Endpoint::Tcp(TcpEndpoint { host, port, source: None })
}

fn ip(text: &str) -> Host {
    Host::Ip(text.parse().unwrap(), None)
}

fn called(name: &str) -> Host {
    Host::Name(name.to_owned())
}

#[test]
fn what_can_be_bound() {
    for (text, expected) in [
        ("tcp://*:5555", tcp(Host::Any, 5555)),
        ("tcp://*:*", tcp(Host::Any, 0)),
        ("tcp://*:0", tcp(Host::Any, 0)),
        ("tcp://127.0.0.1:*", tcp(ip("127.0.0.1"), 0)),
        ("tcp://lo:*", tcp(called("lo"), 0)),
        ("tcp://eth0.7:65535", tcp(called("eth0.7"), 65_535)),
        ("tcp://[::1]:80", tcp(ip("::1"), 80)),
        ("tcp://::1:80", tcp(ip("::1"), 80)),
        ("tcp://[::]:*", tcp(ip("::"), 0)),
        ("tcp://[127.0.0.1]:1", tcp(ip("127.0.0.1"), 1)),
        ("tcp://[fe80::1%lo]:1", tcp(Host::Ip("fe80::1".parse().unwrap(), Some("lo".into())), 1)),
        ("tcp://localhost:1", tcp(called("localhost"), 1)),
        ("ipc:///tmp/feed", Endpoint::Ipc(IpcEndpoint::Path("/tmp/feed".into()))),
        ("ipc://feed", Endpoint::Ipc(IpcEndpoint::Path("feed".into()))),
        ("ipc://@feed", Endpoint::Ipc(IpcEndpoint::Abstract("feed".into()))),
        ("ipc://*", Endpoint::Ipc(IpcEndpoint::Any)),
        ("inproc://a b://c", Endpoint::Inproc("a b://c".into())),
    ] {
        assert_eq!(Endpoint::parse(text, Bind), Ok(expected), "{text}");
    }
}

#[test]
fn what_can_be_connected_to() {
    let from = |source, host, port| Endpoint::Tcp(TcpEndpoint { host, port, source: Some(source) });
    for (text, expected) in [
        ("tcp://server.example:5555", tcp(called("server.example"), 5555)),
        ("tcp://10.0.0.1:1", tcp(ip("10.0.0.1"), 1)),
        ("tcp://[2001:db8::1]:1", tcp(ip("2001:db8::1"), 1)),
        ("tcp://eth1:0;server:5555", from((called("eth1"), 0), called("server"), 5555)),
        ("tcp://10.0.0.2:99;10.0.0.1:1", from((ip("10.0.0.2"), 99), ip("10.0.0.1"), 1)),
        ("tcp://*:*;[::1]:1", from((Host::Any, 0), ip("::1"), 1)),
        ("ipc://@feed", Endpoint::Ipc(IpcEndpoint::Abstract("feed".into()))),
        ("inproc://feed", Endpoint::Inproc("feed".into())),
    ] {
        assert_eq!(Endpoint::parse(text, Connect), Ok(expected), "{text}");
    }
}

#[test]
fn what_is_no_endpoint() {
    for text in [
        "",
        "tcp",
        "tcp:",
        "tcp:/",
        "tcp://",
        "://x",
        "tcp://*",
        "tcp://*:",
        "tcp://*:65536",
        "tcp://*:-1",
        "tcp://*:+1",
        "tcp://*:1x",
        "tcp://*: 1",
        "tcp://:1",
        "tcp://a:b:c",
        "tcp://[::1:1",
        "tcp://::1]:1",
        "tcp://[lo]:1",
        "tcp://%lo:1",
        "tcp://[::1%]:1",
        "tcp://[1.2.3.4%lo]:1",
        "tcp://a b:1",
        "tcp:// a:1",
        "tcp://a/b:1",
        "tcp://;a:1",
        "tcp://a:1;",
        "tcp://a:1;b:2;c:3",
        "tcp://a\0:1",
        "ipc://",
        "ipc://@",
        "inproc://",
    ] {
        assert!(matches!(Endpoint::parse(text, Bind), Err(Error::Invalid(_))), "bind {text}");
        assert!(matches!(Endpoint::parse(text, Connect), Err(Error::Invalid(_))), "connect {text}");
    }
    for text in ["tcp://*:1", "tcp://a:*", "ipc://*"] {
        assert!(matches!(Endpoint::parse(text, Connect), Err(Error::Invalid(_))), "connect {text}");
    }
    assert!(matches!(Endpoint::parse("tcp://lo:0;a:1", Bind), Err(Error::Invalid(_))));
}

/// A formatted endpoint parses to the same endpoint.
#[test]
fn endpoints_are_written_as_they_are_read() {
    for (text, written) in [
        ("ws://a:1/b?c", "ws://a:1/b?c"),
        ("wss://[::1]:2", "wss://[::1]:2/"),
        ("ws://eth0:0;a:1/b", "ws://eth0:0;a:1/b"),
        ("tls+tcp://a:3", "tls+tcp://a:3"),
        ("udp://239.0.0.1:4", "udp://239.0.0.1:4"),
        ("udp://eth0;[ff02::1]:5", "udp://eth0;[ff02::1]:5"),
        ("udp://[ff02::1%eth0]:6", "udp://[ff02::1%eth0]:6"),
        ("udp://10.0.0.1;239.0.0.1:7", "udp://10.0.0.1;239.0.0.1:7"),
    ] {
        let endpoint = Endpoint::parse(text, Connect).expect(text);
        assert_eq!(endpoint.to_string(), written);
        assert_eq!(Endpoint::parse(written, Connect), Ok(endpoint));
    }
    let Ok(Endpoint::Web(web)) = Endpoint::parse("wss://[fe80::1%lo]:9/x", Connect) else { panic!() };
    assert_eq!((web.authority().as_str(), web.path.as_str(), web.secure), ("[fe80::1]:9", "/x", true));
    for text in ["ws://a", "ws://a/b:1", "ws://a:1/ ", "udp://a", "udp://239.0.0.1;239.0.0.1:1", "udp://;a:1"]
    {
        assert!(matches!(Endpoint::parse(text, Connect), Err(Error::Invalid(_))), "{text}");
    }
    let long = format!("ws://a:1/{}", "x".repeat(PATH_MAX));
    assert!(matches!(Endpoint::parse(&long, Connect), Err(Error::Invalid(_))));
}

#[test]
fn transports_that_are_not_there() {
    let schemes = ["norm", "vmci", "tls", "foo", "TCP", "WS", " tcp"];
    let of_a_feature = ["pgm", "epgm"].into_iter().filter(|_| !BUILT_IN);
    for scheme in schemes.into_iter().chain(of_a_feature) {
        let text = format!("{scheme}://127.0.0.1:1");
        assert_eq!(Endpoint::parse(&text, Bind), Err(Error::Transport), "{text}");
        assert_eq!(Endpoint::parse(&text, Connect), Err(Error::Transport), "{text}");
    }
}

#[test]
fn multicasts() {
    for scheme in ["pgm", "epgm"] {
        let parse = |network: &str| Endpoint::parse(&format!("{scheme}://{network}"), Bind);
        if !BUILT_IN {
            continue;
        }
        let good =
            ["eth0;239.192.1.1:5555", "127.0.0.1;224.0.0.9,239.1.1.1:1", "lo;239.0.0.1;239.0.0.2:65535"];
        for text in good {
            let endpoint = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(endpoint.transport(), scheme);
            assert_eq!(Endpoint::parse(&endpoint.to_string(), Connect), Ok(endpoint), "{text}");
        }
        let many = format!("lo;{}239.1.1.1:1", "239.1.1.1,".repeat(10));
        let bad = [
            "lo:1",
            ";239.1.1.1:1",
            "*;239.1.1.1:1",
            "[::1];239.1.1.1:1",
            "lo;239.1.1.1",
            "lo;239.1.1.1:0",
            "lo;239.1.1.1:*",
            "lo;239.1.1.1:65536",
            "lo;239.1.1.1:",
            "lo;10.1.1.1:1",
            "lo;name:1",
            "lo;:1",
            "lo;239.1.1.1;:1",
            "lo;239.1.1.1;10.1.1.1:1",
            "lo;239.1.1.1;239.1.1.1;239.1.1.1:1",
            "lo;239.1.1.1,:1",
            "lo,eth0;239.1.1.1:1",
            many.as_str(),
        ];
        for text in bad {
            assert!(matches!(parse(text), Err(Error::Invalid(_))), "{text}");
        }
    }
}

#[test]
fn lengths_have_limits() {
    let too_long = Err(Error::System(Errno::NAMETOOLONG.raw_os_error()));
    let of = |prefix: &str, len| format!("{prefix}{}", "a".repeat(len));
    assert!(Endpoint::parse(&of("ipc:///", 106), Bind).is_ok());
    assert_eq!(Endpoint::parse(&of("ipc:///", 107), Bind), too_long);
    assert!(Endpoint::parse(&of("ipc://@", 106), Bind).is_ok());
    assert_eq!(Endpoint::parse(&of("ipc://@", 107), Connect), too_long);
    assert!(Endpoint::parse(&of("inproc://", 255), Bind).is_ok());
    assert!(matches!(Endpoint::parse(&of("inproc://", 256), Bind), Err(Error::Invalid(_))));
    assert!(matches!(Endpoint::parse(&(of("tcp://", 256) + ":1"), Connect), Err(Error::Invalid(_))));
}

#[test]
fn what_is_shown_reads_back() {
    for text in [
        "tcp://*:0",
        "tcp://[::1]:80",
        "tcp://[fe80::1%eth0]:1",
        "tcp://1.2.3.4:5",
        "tcp://lo:1",
        "ipc://*",
        "ipc://@x",
        "ipc://x",
        "inproc://x",
    ] {
        assert_eq!(Endpoint::parse(text, Bind).unwrap().to_string(), text);
    }
    let text = "tcp://eth1:0;server:5555";
    assert_eq!(Endpoint::parse(text, Connect).unwrap().to_string(), text);
}

/// Random strings from the pieces of endpoints: parsing never panics, and a parsed endpoint formats and parses back
/// to itself.
#[test]
fn no_string_is_too_strange() {
    const PIECES: &[&str] = &[
        "tcp",
        "ipc",
        "inproc",
        "udp",
        "://",
        ":",
        "/",
        ";",
        "*",
        "[",
        "]",
        "%",
        "@",
        "::1",
        "127.0.0.1",
        "lo",
        "0",
        "65535",
        "65536",
        "é",
        "\0",
        " ",
        "",
        "-",
        ".",
    ];
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for _ in 0..200_000 {
        let start = ["", "tcp://", "ipc://", "inproc://"][next(4)];
        let tail = (0..next(9)).map(|_| PIECES[next(PIECES.len())]);
        let text: String = std::iter::once(start).chain(tail).collect();
        for role in [Bind, Connect] {
            if let Ok(endpoint) = Endpoint::parse(&text, role) {
                assert_eq!(Endpoint::parse(&endpoint.to_string(), role), Ok(endpoint), "{text}");
            }
        }
    }
}

#[test]
fn an_error_names_the_part_that_is_wrong() {
    for (text, reason) in [
        ("localhost:5555", Invalid::Endpoint),
        ("tcp://localhost", Invalid::Port),
        ("tcp://localhost:99999", Invalid::Port),
        ("tcp://[::1:5555", Invalid::Host),
        ("tcp://*:5555", Invalid::Host),
        ("ipc://@", Invalid::Address),
        ("vsock://1", Invalid::Address),
    ] {
        let error = Endpoint::parse(text, Connect).unwrap_err();
        assert_eq!(error, Error::Invalid(reason), "{text}");
        assert!(error.to_string().ends_with(&reason.to_string()), "{error}");
    }
}
