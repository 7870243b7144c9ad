//! jszmq, the implementation for browsers, as our client: run by node, without a mechanism.
//!
//! npm installs it the first time. Without node these tests print that they are skipped.

use crate::common::ws::{NULL, Ours};
use pinnace_zmtp::frame::MORE;
use pinnace_zmtp::ws::{Role, Subprotocol, Upgrade};
use pinnace_zmtp::{Config, SocketType, Version, subscription};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::Duration;

const PACKAGE: &str = "jszmq@0.1.2";
const DEADLINE: Duration = Duration::from_secs(60);

/// The directory where jszmq is installed. `None` if there is no node.
fn modules() -> Option<&'static Path> {
    static MODULES: OnceLock<Option<PathBuf>> = OnceLock::new();
    let install = || {
        let runs =
            |program| Command::new(program).arg("--version").output().is_ok_and(|done| done.status.success());
        if !runs("node") || !runs("npm") {
            eprintln!("skipped: jszmq needs node and npm, which are not installed");
            return None;
        }
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("jszmq");
        if !folder.join("node_modules/jszmq/package.json").exists() {
            let install = ["install", "--no-audit", "--no-fund", "--ignore-scripts", PACKAGE, "--prefix"];
            let done = Command::new("npm").args(install).arg(&folder).output().expect("npm runs");
            assert!(done.status.success(), "npm: {}", String::from_utf8_lossy(&done.stderr));
        }
        Some(folder.join("node_modules"))
    };
    MODULES.get_or_init(install).as_deref()
}

/// Starts a jszmq socket that connects to a socket of ours.
fn meet(kind: &str, ours: SocketType) -> Option<(Child, Ours<TcpStream>)> {
    let modules = modules()?;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("ws://{}/zeromq", listener.local_addr().unwrap());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/zmtp/jszmq.js");
    let mut node = Command::new("node");
    node.arg(script).args([kind, &address]).env("NODE_PATH", modules).stdout(Stdio::piped());
    let child = node.spawn().expect("node runs");
    let (sender, accepted) = mpsc::channel();
    thread::spawn(move || sender.send(listener.accept().unwrap().0));
    let stream = accepted.recv_timeout(DEADLINE).expect("jszmq connects");
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let config = Config { routing_id: b"us".to_vec(), ..Config::new(ours) };
    let ours = Ours::start(stream, Upgrade::server(NULL), &Role::Server, config);
    assert_eq!((ours.subprotocol, ours.peer.version), (Subprotocol::Bare, Version::V2_0));
    assert_eq!((ours.peer.socket_type, &ours.peer.routing_id[..]), (None, &b""[..]));
    Some((child, ours))
}

/// The output of jszmq, after it has closed the connection and exited.
fn end(child: Child, mut ours: Ours<TcpStream>) -> String {
    assert_eq!(ours.receive(), None, "it closes");
    drop(ours);
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success());
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn a_dealer_of_jszmq_gets_its_answers() {
    let Some((child, mut ours)) = meet("dealer", SocketType::Router) else { return };
    assert_eq!(ours.receive(), Some((MORE, b"hello".to_vec())));
    assert_eq!(ours.receive(), Some((0, b"world".to_vec())));
    let mut ping = Vec::new();
    ours.encoder.ping(b"", &mut ping);
    std::io::Write::write_all(&mut ours.stream, &ping).unwrap();
    ours.send(MORE, b"");
    ours.send(0, &[7; 70_000]);
    for expected in [(MORE, b"echo".to_vec()), (MORE, vec![]), (0, vec![7; 70_000])] {
        assert_eq!(ours.receive(), Some(expected));
    }
    ours.send(0, b"end");
    end(child, ours);
}

#[test]
fn a_sub_of_jszmq_subscribes_by_a_message() {
    let Some((child, mut ours)) = meet("sub", SocketType::XPub) else { return };
    let (flags, body) = ours.receive().unwrap();
    assert_eq!((flags, subscription::from_message(&body)), (0, Some((true, &b"a"[..]))));
    let mut frames = Vec::new();
    subscription::encode(ours.peer.version, true, b"a", &mut frames);
    assert_eq!(frames, crate::common::frame(0, &body), "we would send the same");
    ours.send(MORE, b"apple");
    ours.send(0, b"red");
    ours.send(0, b"a end");
    assert_eq!(end(child, ours), "apple|red\n");
}
