//! Which clients a server admits, and what they may do.

use std::fs;
use std::path::Path;
use std::time::Duration;

use pinnace_crypto::KeyPair;
use pinnace_engine::{Context, Outgoing, SocketType};
use pinnace_files::access::{ANYBODY, Right};
use pinnace_files::client::{Client, ClientBuilder};
use pinnace_files::error::{Code, Error};
use pinnace_files::server::{Server, ServerBuilder};
use pinnace_files::wire::Message;

/// Long enough for every answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a client waits that gets none.
const SHORT: Duration = Duration::from_millis(500);

fn served() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in ["open", "secret"] {
        fs::create_dir(dir.path().join(name)).unwrap();
        fs::write(dir.path().join(name).join("file"), name).unwrap();
    }
    dir
}

fn serve(folder: &Path, with: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Server {
    let builder = Server::builder().writable_folder("/", folder).unwrap().bind("tcp://127.0.0.1:*");
    with(builder).start().unwrap()
}

fn client(server: &Server, with: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Client {
    with(Client::builder(&server.endpoints()[0]).patience(PATIENCE)).connect().unwrap()
}

/// The codes of the files that failed, of a fetch that is not refused as a whole.
fn fetch(client: &Client, path: &str) -> Result<Vec<Code>, Error> {
    let to = tempfile::tempdir().unwrap();
    let report = client.get(path, to.path()).wait()?;
    Ok(report.failed.into_iter().map(|(_, error)| error.code).collect())
}

fn upload(client: &Client, path: &str) -> Vec<Code> {
    let from = tempfile::tempdir().unwrap();
    fs::write(from.path().join("new"), "new").unwrap();
    let report = client.put(&from.path().join("new"), path).wait().unwrap();
    report.failed.into_iter().map(|(_, error)| error.code).collect()
}

#[test]
fn users_have_keys() {
    let (dir, own) = (served(), KeyPair::generate().unwrap());
    let [alice, mallory] = [(); 2].map(|()| KeyPair::generate().unwrap());
    let server = serve(dir.path(), |server| {
        let server = server.curve(&own).user_by_key("alice", &alice.public);
        server.grant("alice", "/open", Right::Read).grant("alice", "/open", Right::Write)
    });
    let admitted = client(&server, |client| client.curve(&alice, &own.public));
    assert_eq!(fetch(&admitted, "/open/file").unwrap(), []);
    assert_eq!(fetch(&admitted, "/secret/file").unwrap(), [Code::Denied]);
    assert_eq!(fetch(&admitted, "/").unwrap(), [Code::Denied]);
    assert_eq!(upload(&admitted, "/open/new"), []);
    assert_eq!(upload(&admitted, "/secret/new"), [Code::Denied]);
    assert!(!dir.path().join("secret/new").exists());
    // A key that is not known; the wrong key of the server; no key at all.
    let refused = |with: &dyn Fn(ClientBuilder) -> ClientBuilder| {
        let stranger = client(&server, |client| with(client).patience(SHORT));
        assert!(matches!(fetch(&stranger, "/open/file"), Err(Error::Refused(_))));
    };
    refused(&|client| client.curve(&mallory, &own.public));
    refused(&|client| client.curve(&alice, &mallory.public));
    refused(&|client| client);
}

#[test]
fn without_users_the_server_s_key_is_enough() {
    let (dir, own, other) = (served(), KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let server = serve(dir.path(), |server| server.curve(&own));
    assert_eq!(
        fetch(&client(&server, |client| client.curve(&other, &own.public)), "/open/file").unwrap(),
        []
    );
}

#[test]
fn users_have_passwords() {
    let dir = served();
    let server = serve(dir.path(), |server| {
        let server = server.user_by_password("alice", "one").user_by_password("bob", "two");
        server.grant("alice", "/", Right::Read).grant(ANYBODY, "/open", Right::Read)
    });
    let user = |name, password| client(&server, |client| client.password(name, password).patience(SHORT));
    assert_eq!(fetch(&user("alice", "one"), "/secret/file").unwrap(), []);
    assert_eq!(fetch(&user("bob", "two"), "/secret/file").unwrap(), [Code::Denied]);
    assert_eq!(fetch(&user("bob", "two"), "/open/file").unwrap(), []);
    for (name, password) in [("alice", "two"), ("alice", ""), ("carol", "one")] {
        assert!(matches!(fetch(&user(name, password), "/open/file"), Err(Error::Refused(_))), "{name}");
    }
}

/// A session belongs to a routing id, which the next connection may announce too: its user could get the rights of the
/// user before.
#[test]
fn a_user_cannot_choose_a_routing_id() {
    let dir = served();
    let server = serve(dir.path(), |server| server.user_by_password("alice", "one"));
    for (routing_id, is_served) in [("", true), ("mine", false)] {
        let context = Context::new().unwrap();
        let socket = context.socket(SocketType::Dealer).unwrap();
        socket
            .configure(|options| {
                (options.linger, options.rcvtimeo) = (Some(Duration::ZERO), Some(PATIENCE));
                options.security.be_plain_client("alice", "one");
                options.routing_id = routing_id.as_bytes().to_vec();
            })
            .unwrap();
        socket.connect(&server.endpoints()[0]).unwrap();
        socket.send(Outgoing::Bytes(&Message::GREETING.to_frame()), false, true).unwrap();
        let mut frame = Vec::new();
        socket.recv_frames(true, &mut |part| frame = part.data().to_vec()).unwrap();
        match Message::read(&frame).unwrap() {
            Message::OhaiOk => assert!(is_served),
            Message::Srsly { .. } => assert!(!is_served),
            other => panic!("{other:?}"),
        }
        socket.close().unwrap();
    }
}

#[test]
fn rights_count_without_users_too() {
    let dir = served();
    let server = serve(dir.path(), |server| server.grant(ANYBODY, "/open", Right::Read));
    let anybody = client(&server, |client| client);
    assert_eq!(fetch(&anybody, "/open/file").unwrap(), []);
    assert_eq!(fetch(&anybody, "/secret/").unwrap(), [Code::Denied]);
    assert_eq!(upload(&anybody, "/open/new"), [Code::Denied]);
    let listed = anybody.list("/secret").wait().unwrap();
    assert_eq!(listed.failed[0].1.code, Code::Denied);
    let transfer = anybody.follow("/", dir.path(), Default::default());
    assert_eq!(transfer.wait().unwrap().failed[0].1.code, Code::Denied);
}

#[test]
fn a_client_of_another_domain_is_refused() {
    let dir = served();
    for (of_server, of_client, is_served) in [
        ("", "", true),
        ("production", "production", true),
        ("production", "test", false),
        ("production", "", false),
        ("", "test", false),
    ] {
        let server = serve(dir.path(), |server| server.domain(of_server));
        let outcome = fetch(&client(&server, |client| client.domain(of_client)), "/open/file");
        match (is_served, outcome) {
            (true, Ok(failed)) => assert_eq!(failed, []),
            (false, Err(Error::Refused(reason))) => assert!(reason.contains("domain"), "{reason}"),
            (_, outcome) => panic!("{of_server:?} and {of_client:?}: {outcome:?}"),
        }
    }
}

#[test]
fn users_that_cannot_show_who_they_are() {
    let keys = KeyPair::generate().unwrap();
    let start = |with: &dyn Fn(ServerBuilder) -> ServerBuilder| with(Server::builder()).start().err();
    assert!(matches!(start(&|server| server.user_by_key("a", &keys.public)), Some(Error::Users)));
    assert!(matches!(start(&|server| server.curve(&keys).user_by_password("a", "b")), Some(Error::Users)));
}
