//! Endpoints: which can be bound and connected, what LAST_ENDPOINT reports, and the errors of the rest.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use support::child::Child;
use support::transport::{free_tcp, socket_path};
use support::*;

support::roles!(mover);

#[track_caller]
fn fails(call: Outcome<()>, errno: i32) {
    assert_eq!(call, Err(Errno(errno)));
}

/// Passes a message over this endpoint (in the form of the binder's LAST_ENDPOINT).
#[track_caller]
fn passes(ctx: &Context, pull: &Socket, endpoint: &str) {
    let push = ctx.socket(PUSH);
    push.connect(endpoint).unwrap_or_else(|e| panic!("connect {endpoint}: {e:?}"));
    push.put(endpoint);
    assert_eq!(pull.take_text(), endpoint);
}

#[track_caller]
fn bound(ctx: &Context, endpoint: &str) -> (Socket, String) {
    let pull = ctx.socket(PULL);
    pull.bind(endpoint).unwrap_or_else(|e| panic!("bind {endpoint}: {e:?}"));
    let last = pull.endpoint();
    (pull, last)
}

/// The port at the end of a resolved endpoint.
fn port(endpoint: &str) -> u16 {
    endpoint.rsplit(':').next().and_then(|text| text.parse().ok()).expect("a port")
}

#[test]
fn tcp_wildcards_are_resolved() {
    let ctx = Context::new();
    for (asked, prefix) in [
        ("tcp://127.0.0.1:*", "tcp://127.0.0.1:"),
        ("tcp://127.0.0.1:0", "tcp://127.0.0.1:"),
        ("tcp://*:*", "tcp://0.0.0.0:"),
        ("tcp://*:0", "tcp://0.0.0.0:"),
        ("tcp://lo:*", "tcp://127.0.0.1:"),
    ] {
        let (pull, last) = bound(&ctx, asked);
        assert!(last.starts_with(prefix), "{asked} became {last}");
        assert_ne!(port(&last), 0);
        passes(&ctx, &pull, &format!("tcp://127.0.0.1:{}", port(&last)));
        passes(&ctx, &pull, &format!("tcp://localhost:{}", port(&last)));
    }
}

#[test]
fn ws_has_hosts_and_paths() {
    let ctx = Context::new();
    ctx.set(CTX_IPV6, 1).expect("IPV6 for all sockets");
    for (asked, prefix, path) in [
        ("ws://127.0.0.1:*", "ws://127.0.0.1:", "/"),
        ("ws://127.0.0.1:*/", "ws://127.0.0.1:", "/"),
        ("ws://lo:*/some/path?query", "ws://127.0.0.1:", "/some/path?query"),
        ("ws://[::1]:*/x", "ws://[::1]:", "/x"),
        ("ws://*:*/x", "ws://[::]:", "/x"),
    ] {
        let (pull, last) = bound(&ctx, asked);
        assert!(last.starts_with(prefix) && last.ends_with(path), "{asked} became {last}");
        passes(&ctx, &pull, &last.replace("[::]", "[::1]"));
        let other = format!("{}/another/path", last.strip_suffix(path).expect("checked"));
        passes(&ctx, &pull, &other.replace("[::]", "[::1]"));
    }
    let socket = ctx.socket(PULL);
    for nonsense in
        ["ws://", "ws://127.0.0.1", "ws://127.0.0.1/x", "ws://127.0.0.1:1/ b", "ws:///x", "ws://h:1/\u{e9}"]
    {
        fails(socket.bind(nonsense), libc::EINVAL);
        fails(socket.connect(nonsense), libc::EINVAL);
    }
}

#[test]
fn tcp_speaks_ipv6() {
    let ctx = Context::new();
    ctx.set(CTX_IPV6, 1).expect("IPV6 for all sockets");
    let (pull, last) = bound(&ctx, "tcp://[::1]:*");
    assert!(last.starts_with("tcp://[::1]:"), "{last}");
    passes(&ctx, &pull, &last);
    let (pull, last) = bound(&ctx, "tcp://*:*");
    assert!(last.starts_with("tcp://[::]:"), "{last}");
    passes(&ctx, &pull, &format!("tcp://[::1]:{}", port(&last)));
    passes(&ctx, &pull, &format!("tcp://127.0.0.1:{}", port(&last)));
}

/// `tcp://source;destination` connects from that address.
#[test]
fn tcp_connects_from_a_source() {
    let ctx = Context::new();
    let (pull, last) = bound(&ctx, "tcp://127.0.0.1:*");
    for source in ["127.0.0.2:0", "lo:0", "localhost:0"] {
        passes(&ctx, &pull, &format!("tcp://{source};127.0.0.1:{}", port(&last)));
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
    let port = listener.local_addr().expect("an address").port();
    let push = ctx.socket(PUSH).with(LINGER, 0);
    push.connect(&format!("tcp://127.0.0.3:0;127.0.0.1:{port}")).expect("connect");
    let (_, from) = listener.accept().expect("accept");
    assert_eq!(from.ip().to_string(), "127.0.0.3");
}

#[test]
fn ipc_takes_paths_names_and_wildcards() {
    let ctx = Context::new();
    let path = socket_path();
    let (pull, last) = bound(&ctx, &format!("ipc://{path}"));
    assert_eq!(last, format!("ipc://{path}"));
    passes(&ctx, &pull, &last);
    let name = format!("ipc://@pinnace-test-{}", std::process::id());
    let (pull, last) = bound(&ctx, &name);
    assert_eq!(last, name);
    passes(&ctx, &pull, &last);
    let (pull, last) = bound(&ctx, "ipc://*");
    let made = last.strip_prefix("ipc://").expect("ipc").to_string();
    assert!(std::path::Path::new(&made).exists(), "{made}");
    passes(&ctx, &pull, &last);
    drop(pull);
    until("the wildcard's file goes with its socket", || !std::path::Path::new(&made).exists());
}

/// A socket file left by a dead process is replaced. (The test does not require unbind to remove a file with a given
/// name: libzmq does not.)
#[test]
fn ipc_takes_over() {
    let ctx = Context::new();
    let path = socket_path();
    let endpoint = format!("ipc://{path}");
    let (pull, _) = bound(&ctx, &endpoint);
    assert!(std::path::Path::new(&path).exists());
    pull.unbind(&endpoint).expect("unbind");
    let _ = std::fs::remove_file(&path);
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a file that nobody listens at"));
    let (pull, _) = bound(&ctx, &endpoint);
    passes(&ctx, &pull, &endpoint);
}

/// The path may be a symbolic link, even a dangling one: the socket replaces it.
#[test]
fn ipc_takes_over_links() {
    let ctx = Context::new();
    let (path, target) = (socket_path(), socket_path());
    let (live, _) = bound(&ctx, &format!("ipc://{target}"));
    for target in [target, socket_path()] {
        let _ = fs::remove_file(&path);
        symlink(&target, &path).expect("a link");
        let (pull, last) = bound(&ctx, &format!("ipc://{path}"));
        passes(&ctx, &pull, &last);
        assert!(!fs::symlink_metadata(&path).expect("a socket").is_symlink());
    }
    passes(&ctx, &live, &live.endpoint());
}

/// Binds a path in a context of its own, runs `change`, and then unbinds or closes.
fn ends_after(unbinds: bool, endpoint: &str, change: impl FnOnce()) {
    let ctx = Context::new();
    let (pull, last) = bound(&ctx, endpoint);
    change();
    if unbinds {
        pull.unbind(&last).expect("unbind");
    }
}

#[test]
fn ipc_leaves_the_socket_that_has_taken_over() {
    for unbinds in [true, false] {
        let ctx = Context::new();
        let endpoint = format!("ipc://{}", socket_path());
        let mut next = None;
        ends_after(unbinds, &endpoint, || next = Some(bound(&ctx, &endpoint).0));
        passes(&ctx, &next.expect("bound"), &endpoint);
    }
}

#[test]
fn ipc_leaves_a_file_that_has_its_path() {
    for unbinds in [true, false] {
        let path = socket_path();
        ends_after(unbinds, &format!("ipc://{path}"), || {
            fs::remove_file(&path).expect("the socket's");
            fs::write(&path, "precious").expect("another file");
        });
        assert_eq!(fs::read_to_string(&path).expect("it is still there"), "precious");
    }
}

/// The directory is a symbolic link that changes, as in a deployment.
#[test]
fn ipc_leaves_a_file_in_another_directory_of_the_name() {
    for unbinds in [true, false] {
        let (current, old, new) = (socket_path(), socket_path(), socket_path());
        [&old, &new].iter().for_each(|directory| fs::create_dir(directory).expect("a directory"));
        symlink(&old, &current).expect("a link");
        let file = Path::new(&new).join("s");
        ends_after(unbinds, &format!("ipc://{current}/s"), || {
            fs::write(&file, "precious").expect("another file");
            fs::remove_file(&current).and_then(|()| symlink(&new, &current)).expect("another link");
        });
        assert_eq!(fs::read_to_string(&file).expect("it is still there"), "precious");
    }
}

/// Binds a relative path in the first directory, and unbinds or closes in the second.
fn mover(args: &[String]) {
    let enter = |directory: &String| std::env::set_current_dir(directory).expect("a directory");
    enter(&args[0]);
    let ctx = Context::new();
    let (pull, last) = bound(&ctx, "ipc://ctl");
    assert_eq!(last, "ipc://ctl");
    passes(&ctx, &pull, &last);
    enter(&args[1]);
}

#[test]
fn ipc_leaves_a_file_of_the_directory_that_the_process_has_gone_to() {
    let (from, to) = (socket_path(), socket_path());
    [&from, &to].iter().for_each(|directory| fs::create_dir(directory).expect("a directory"));
    let file = Path::new(&to).join("ctl");
    fs::write(&file, "precious").expect("a file");
    Child::start("mover", &[&from, &to]).succeeds();
    assert_eq!(fs::read_to_string(&file).expect("it is still there"), "precious");
}

#[test]
fn addresses_in_use_are_refused() {
    let ctx = Context::new();
    let second = ctx.socket(PULL);
    let (_tcp, last) = bound(&ctx, "tcp://127.0.0.1:*");
    fails(second.bind(&last), libc::EADDRINUSE);
    let (_inproc, last) = bound(&ctx, "inproc://taken");
    fails(second.bind(&last), libc::EADDRINUSE);
    // The refused socket still works.
    let free = Transport::Tcp.bind(&second);
    passes(&ctx, &second, &free);
}

#[test]
fn nonsense_is_refused() {
    let ctx = Context::new();
    let socket = ctx.socket(PULL);
    for nonsense in ["", "tcp", "tcp:", "tcp:/x", "://x", "tcp://", "tcp://127.0.0.1", "tcp://127.0.0.1:x"] {
        fails(socket.bind(nonsense), libc::EINVAL);
        fails(socket.connect(nonsense), libc::EINVAL);
    }
    fails(socket.bind("tcp://127.0.0.1:65536"), libc::EINVAL);
    for unknown in ["foo://bar", "TCP://127.0.0.1:*", "http://127.0.0.1:80"] {
        fails(socket.bind(unknown), libc::EPROTONOSUPPORT);
        fails(socket.connect(unknown), libc::EPROTONOSUPPORT);
    }
    fails(socket.bind("tcp://no-such-interface0:*"), libc::ENODEV);
    let long = format!("ipc:///{}", "x".repeat(200));
    fails(socket.bind(&long), libc::ENAMETOOLONG);
    fails(socket.connect(&long), libc::ENAMETOOLONG);
    fails(socket.bind("ipc:///no-such-directory/at/all"), libc::ENOENT);
    // An address of another machine.
    fails(socket.bind("tcp://192.0.2.1:*"), libc::EADDRNOTAVAIL);
    // A transport that this socket type does not support.
    fails(socket.bind("udp://127.0.0.1:5555"), ENOCOMPATPROTO);
    fails(socket.connect("udp://127.0.0.1:5555"), ENOCOMPATPROTO);
    let endpoint = Transport::Tcp.bind(&socket);
    passes(&ctx, &socket, &endpoint);
}

/// An unresolvable host name is no error of connect: the socket keeps trying.
#[test]
fn names_are_resolved_later() {
    let ctx = Context::new();
    let push = ctx.socket(PUSH);
    push.connect("tcp://no-such-host.invalid:5555").expect("connect does not resolve");
    assert_eq!(push.endpoint(), "tcp://no-such-host.invalid:5555");
    let pull = ctx.socket(PULL);
    let endpoint = Transport::Ipc.bind(&pull);
    passes(&ctx, &pull, &endpoint);
}

#[test]
fn last_endpoint_starts_empty_and_follows() {
    let ctx = Context::new();
    let socket = ctx.socket(DEALER);
    assert_eq!(socket.endpoint(), "");
    let first = Transport::Ipc.bind(&socket);
    let second = Transport::Tcp.bind(&socket);
    assert_ne!(first, second);
    assert_eq!(socket.get_bytes(LAST_ENDPOINT, 5), Err(Errno(libc::EINVAL)), "no room");
    assert_eq!(
        socket.get_bytes(LAST_ENDPOINT, second.len() + 1).map(|text| text.len()),
        Ok(second.len() + 1)
    );
}

/// One socket with many endpoints of every kind, bound and connected.
#[test]
fn one_socket_has_many_endpoints() {
    let ctx = Context::new();
    let pull = ctx.socket(PULL);
    let endpoints: Vec<String> =
        Transport::ALL.iter().cycle().take(12).map(|transport| transport.bind(&pull)).collect();
    endpoints.iter().for_each(|endpoint| passes(&ctx, &pull, endpoint));
    let push = ctx.socket(PUSH);
    endpoints.iter().for_each(|endpoint| push.connect(endpoint).expect("connect"));
    (0..90).for_each(|n| push.put(format!("{n:02}")));
    let mut all: Vec<String> = (0..90).map(|_| pull.take_text()).collect();
    all.sort();
    assert!(all.iter().enumerate().all(|(n, text)| *text == format!("{n:02}")));
}

/// A port on an address used only by this process can be bound again at once.
#[test]
fn an_endpoint_can_be_bound_again() {
    let ctx = Context::new();
    for endpoint in [format!("tcp://{}", free_tcp()), Transport::Ipc.fresh(), Transport::Inproc.fresh()] {
        for _ in 0..3 {
            let pull = ctx.socket(PULL);
            until("the endpoint is free again", || pull.bind(&endpoint).is_ok());
            passes(&ctx, &pull, &endpoint);
            pull.unbind(&endpoint).expect("unbind");
            fails(pull.unbind(&endpoint), libc::ENOENT);
        }
    }
}

/// An inproc name is free after unbind, also if it looks like another transport's endpoint.
#[test]
fn an_inproc_name_may_look_like_an_endpoint() {
    let ctx = Context::new();
    for endpoint in ["inproc://inproc://a", "inproc://inproc://inproc://a", "inproc://tcp://127.0.0.1:1"] {
        let (first, second) = (ctx.socket(PULL), ctx.socket(PULL));
        first.bind(endpoint).expect("bind");
        assert_eq!(second.bind(endpoint), Err(Errno(libc::EADDRINUSE)));
        first.unbind(endpoint).expect("unbind");
        assert_eq!(first.unbind(endpoint), Err(Errno(libc::ENOENT)));
        second.bind(endpoint).expect("bind anew");
        let push = ctx.socket(PUSH);
        push.connect(endpoint).expect("connect");
        push.put("here");
        assert_eq!(second.take_text(), "here");
        push.disconnect(endpoint).expect("disconnect");
    }
}
