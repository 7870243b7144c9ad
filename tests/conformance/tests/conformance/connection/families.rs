//! vsock:// and tipc://, if the kernel supports them; otherwise their calls report that.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use support::filler::{drain, numbered};
use support::*;

/// Returns true if the kernel has sockets of this family.
fn has(family: i32) -> bool {
    // SAFETY: three numbers; what comes of them is ours.
    let fd = unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    // SAFETY: the descriptor is open and owned only here.
    fd >= 0 && drop_now(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn drop_now(fd: OwnedFd) -> bool {
    drop(fd);
    true
}

/// Returns true if vsock connections to this machine work: without a listener the connection is reset at once.
fn has_vsock_loopback() -> bool {
    if !has(libc::AF_VSOCK) {
        return false;
    }
    // SAFETY: numbers, and a structure of ours with its size.
    let error = unsafe {
        let fd = libc::socket(libc::AF_VSOCK, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        let mut at: libc::sockaddr_vm = std::mem::zeroed();
        at.svm_family = libc::AF_VSOCK as u16;
        (at.svm_cid, at.svm_port) = (libc::VMADDR_CID_LOCAL, 1);
        let rc = libc::connect(fd, (&raw const at).cast(), size_of_val(&at) as u32);
        let error = io::Error::last_os_error();
        libc::close(fd);
        if rc == 0 { return true } else { error }
    };
    error.raw_os_error() == Some(libc::ECONNRESET)
}

/// Some rounds of REQ and REP, then a stream of messages.
fn passes(bind: &str, connect: impl Fn(&str) -> String) {
    let ctx = Context::new();
    let (rep, req) = (ctx.socket(REP), ctx.socket(REQ));
    rep.bind(bind).expect("bind");
    req.connect(&connect(&rep.endpoint())).expect("connect");
    for round in 0..100 {
        req.put(numbered(round, 1_000));
        assert_eq!(rep.take(), numbered(round, 1_000));
        rep.put("back");
        assert_eq!(req.take(), b"back");
    }
    rep.unbind(&rep.endpoint()).expect("unbind");
    let (pull, push) = (ctx.socket(PULL), ctx.socket(PUSH));
    until("the address is free", || pull.bind(bind).is_ok());
    push.connect(&connect(&pull.endpoint())).expect("connect");
    std::thread::scope(|scope| {
        scope.spawn(|| (0..5_000).for_each(|n| push.put(numbered(n, 2_000))));
        drain(&pull, 0, 5_000);
    });
}

fn port(endpoint: &str) -> &str {
    endpoint.rsplit(':').next().expect("a port")
}

#[test]
fn vsock_carries_messages() {
    if !has_vsock_loopback() {
        return println!("skipped: this kernel has no vsock_loopback");
    }
    within(60, || {
        passes("vsock://*:*", |endpoint| format!("vsock://1:{}", port(endpoint)));
        passes("vsock://1:*", |endpoint| endpoint.to_owned());
    });
}

#[test]
fn vsock_listens_and_dials() {
    let ctx = Context::new();
    if !has(libc::AF_VSOCK) {
        assert_eq!(ctx.socket(PULL).bind("vsock://*:*"), Err(Errno(libc::EPROTONOSUPPORT)));
        assert_eq!(ctx.socket(PUSH).connect("vsock://1:1"), Err(Errno(libc::EPROTONOSUPPORT)));
        return println!("skipped: this kernel has no vsock");
    }
    let pull = ctx.socket(PULL);
    pull.bind("vsock://*:*").expect("bind");
    let endpoint = pull.endpoint();
    let port: u32 = port(&endpoint).parse().expect("a port");
    assert_eq!(endpoint, format!("vsock://*:{port}"));
    assert_eq!(ctx.socket(PULL).bind(&endpoint), Err(Errno(libc::EADDRINUSE)));
    pull.unbind(&endpoint).expect("unbind");
    let again = ctx.socket(PULL);
    until("the address is free", || again.bind(&endpoint).is_ok());
    // No machine has this number: the attempt fails, and another one follows.
    let push = ctx.socket(PUSH).with(RECONNECT_IVL, 20).with(CONNECT_TIMEOUT, 200);
    let monitor = Monitor::of(&ctx, &push, EVENT_CLOSED | EVENT_CONNECT_RETRIED);
    push.connect("vsock://77777:1").expect("connect");
    for _ in 0..2 {
        assert_eq!(monitor.next().number, EVENT_CLOSED);
        assert_eq!(monitor.next().number, EVENT_CONNECT_RETRIED);
    }
}

#[test]
fn tipc_carries_messages() {
    let ctx = Context::new();
    let wrong = ctx.socket(PULL).bind("tipc://{3,2,1}");
    assert_eq!(wrong, Err(Errno(libc::EINVAL)), "its addresses are known, whatever the kernel has");
    if !has(libc::AF_TIPC) {
        for endpoint in ["tipc://{5560,0,0}", "tipc://<*>"] {
            assert_eq!(ctx.socket(PULL).bind(endpoint), Err(Errno(libc::EPROTONOSUPPORT)), "{endpoint}");
        }
        for endpoint in
            ["tipc://{5560,0}", "tipc://{5560,0}@1.1.1", "tipc://{5560,0@1.1.1}", "tipc://<1.1.1:5>"]
        {
            assert_eq!(ctx.socket(PUSH).connect(endpoint), Err(Errno(libc::EPROTONOSUPPORT)), "{endpoint}");
        }
        return println!("skipped: this kernel has no TIPC");
    }
    within(60, || {
        passes("tipc://{5560,0,0}", |_| "tipc://{5560,0}@0.0.0".to_owned());
        passes("tipc://<*>", |endpoint| endpoint.to_owned());
    });
}

#[test]
fn what_is_no_address_is_refused() {
    let ctx = Context::new();
    for endpoint in
        ["vsock://", "vsock://1", "vsock://x:1", "vsock://1:-1", "tipc://{1,2}", "tipc://{3,2,1}", "tipc://x"]
    {
        assert_eq!(ctx.socket(PULL).bind(endpoint), Err(Errno(libc::EINVAL)), "{endpoint}");
    }
    for endpoint in
        ["vsock://*:1", "vsock://1:*", "tipc://{1,2,3}", "tipc://<*>", "tipc://{1}", "tipc://<1.2:3>"]
    {
        assert_eq!(ctx.socket(PUSH).connect(endpoint), Err(Errno(libc::EINVAL)), "{endpoint}");
    }
}
