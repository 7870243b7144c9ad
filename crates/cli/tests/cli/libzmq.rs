//! The command against pyzmq with the system's libzmq.

use crate::common::{Folder, Running, python, run, start};

/// A bound Python program, which first prints its endpoint. It terminates its context, because libzmq drops unsent
/// messages at a plain exit.
fn bound(socket_type: &str, rest: &str, arguments: &[&str]) -> (Running, String) {
    let program = format!(
        "import sys, zmq\ncontext = zmq.Context()\nsocket = context.socket(zmq.{socket_type})\n\
         socket.rcvtimeo = socket.linger = 20000\n{rest}\n\
         socket.close()\ncontext.term()"
    );
    let mut peer = python(&program, arguments);
    let endpoint = peer.line();
    (peer, endpoint)
}

const BIND: &str = "socket.bind('tcp://127.0.0.1:*')\nprint(socket.last_endpoint.decode())\n";

#[test]
fn libzmq_receives() {
    let (peer, endpoint) =
        bound("PULL", &format!("{BIND}for _ in range(3): print(socket.recv_multipart())"), &[]);
    run(&["send", &endpoint, "--frames", "--timeout", "20000"], b"a\nb\tc\n\n").expect(0);
    assert_eq!(peer.end().expect(0).out, "[b'a']\n[b'b', b'c']\n[b'']\n");
}

#[test]
fn libzmq_sends() {
    let (peer, endpoint) =
        bound("PUSH", &format!("{BIND}socket.send_multipart([b'a', b'\\xff'])\nsocket.send(b'b')"), &[]);
    let got = run(&["recv", &endpoint, "-n", "2", "--hex", "--timeout", "20000"], b"").expect(0);
    assert_eq!(got.out, "61\tff\n62\n");
    peer.end().expect(0);
}

#[test]
fn libzmq_answers_and_asks() {
    let (peer, endpoint) = bound("REP", &format!("{BIND}socket.send(socket.recv().upper())"), &[]);
    assert_eq!(run(&["send", &endpoint, "-t", "req", "-m", "loud"], b"").expect(0).out, "LOUD\n");
    peer.end().expect(0);

    let mut replier = start(&["recv", "-v", "-b", "tcp://127.0.0.1:*", "-t", "rep", "--echo", "-n", "1"]);
    let endpoint = replier.said_after("bound to");
    let ask = "socket.connect(sys.argv[1])\nprint(sys.argv[1])\nsocket.send(b'ping')\nprint(socket.recv())";
    let (peer, _) = bound("REQ", ask, &[&endpoint]);
    assert_eq!(peer.end().expect(0).out, "b'ping'\n");
    assert_eq!(replier.end().expect(0).out, "ping\n");
}

#[test]
fn libzmq_publishes_and_subscribes() {
    // An XPUB, because it can wait for the subscription.
    let publish = format!("{BIND}socket.recv()\nsocket.send(b'other')\nsocket.send(b'topic 1')");
    let (peer, endpoint) = bound("XPUB", &publish, &[]);
    let got = run(&["recv", &endpoint, "-t", "sub", "-s", "topic", "-n", "1"], b"").expect(0);
    assert_eq!(got.out, "topic 1\n");
    peer.end().expect(0);

    let (peer, endpoint) = bound("SUB", &format!("socket.subscribe('t')\n{BIND}print(socket.recv())"), &[]);
    run(&["send", &endpoint, "-t", "pub", "-w", "1", "-m", "t1"], b"").expect(0);
    assert_eq!(peer.end().expect(0).out, "b't1'\n");
}

#[test]
fn libzmq_through_our_proxy() {
    let any = "tcp://127.0.0.1:*";
    let mut proxy = start(&["proxy", any, any]);
    let (front, back) = (proxy.said_after("bound to"), proxy.said_after("bound to"));
    let answer = "socket.connect(sys.argv[1])\nprint(sys.argv[1])\nsocket.send(socket.recv()[::-1])";
    let (worker, _) = bound("REP", answer, &[&back]);
    let ask = "socket.connect(sys.argv[1])\nprint(sys.argv[1])\nsocket.send(b'abc')\nprint(socket.recv())";
    let (asker, _) = bound("REQ", ask, &[&front]);
    assert_eq!(asker.end().expect(0).out, "b'cba'\n");
    worker.end().expect(0);
    proxy.signal(rustix::process::Signal::INT);
    proxy.end().expect(0);
}

#[test]
fn libzmq_behind_our_forwarder() {
    use std::io::{Read, Write};
    let echo = format!(
        "{BIND}for _ in range(2): socket.send_multipart([part[::-1] for part in socket.recv_multipart()])"
    );
    let (peer, endpoint) = bound("DEALER", &echo, &[]);
    let mut forwarder = start(&["forward", "127.0.0.1:0", &endpoint, "-t", "dealer"]);
    let address = forwarder.said_after("listening on");
    let mut client = std::net::TcpStream::connect(address).unwrap();
    client.write_all(b"abc\r\ndef\n").unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answers = String::new();
    client.read_to_string(&mut answers).unwrap();
    assert_eq!(answers, "cba\nfed\n");
    peer.end().expect(0);
    forwarder.signal(rustix::process::Signal::TERM);
    forwarder.end().expect(0);
}

#[test]
fn certificates_and_curve() {
    let folder = Folder::new();
    let (server, client) = (folder.text("server"), folder.text("client"));
    run(&["keygen", &server, "--meta", "name=server"], b"").expect(0);
    run(&["keygen", &client], b"").expect(0);
    let load = "from zmq.auth.certs import load_certificate\n\
                socket.curve_publickey, socket.curve_secretkey = load_certificate(sys.argv[1])\n";
    let serve = format!("{load}socket.curve_server = True\n{BIND}print(socket.recv())");
    let (peer, endpoint) = bound("PULL", &serve, &[&folder.text("server_secret")]);
    let cert = folder.text("client_secret");
    run(&["send", &endpoint, "-m", "sealed", "--curve-server-key", &server, "--cert", &cert], b"").expect(0);
    assert_eq!(peer.end().expect(0).out, "b'sealed'\n");

    let secret = folder.text("server_secret");
    let mut receiver =
        start(&["recv", "-v", "-b", "tcp://127.0.0.1:*", "-n", "1", "--curve-server", "--cert", &secret]);
    let endpoint = receiver.said_after("bound to");
    let send = format!(
        "{load}socket.curve_serverkey = load_certificate(sys.argv[2])[0]\n\
         socket.connect(sys.argv[3])\nprint(sys.argv[3])\nsocket.send(b'sealed')"
    );
    let (peer, _) = bound("PUSH", &send, &[&cert, &server, &endpoint]);
    assert_eq!(receiver.end().expect(0).out, "sealed\n");
    peer.end().expect(0);
}

#[test]
fn certificates_that_pyzmq_wrote() {
    let folder = Folder::new();
    let program = "import sys, zmq.auth\nzmq.auth.create_certificates(sys.argv[1], 'theirs')\nprint('done')";
    python(program, &[&folder.text("")]).end().expect(0);
    let (public, secret) = (folder.text("theirs.key"), folder.text("theirs.key_secret"));
    let mut receiver =
        start(&["recv", "-v", "-b", "tcp://127.0.0.1:*", "-n", "1", "--curve-server", "--cert", &secret]);
    let endpoint = receiver.said_after("bound to");
    run(&["send", &endpoint, "-m", "a", "--curve-server-key", &public], b"").expect(0);
    assert_eq!(receiver.end().expect(0).out, "a\n");
}
