//! Which clients a server admits, and what they may do.

use std::fs;
use std::path::Path;
use std::time::Duration;

use pinnace_crypto::KeyPair;
use pinnace_engine::{Context, Outgoing, SocketType};
use pinnace_files::access::{ANYBODY, Right};
use pinnace_files::client::{Client, ClientBuilder, Event};
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

/// Rights and users that would be without effect, or contradict each other.
#[test]
fn rights_are_of_known_users_to_served_paths() {
    let (dir, keys) = (served(), [(); 2].map(|()| KeyPair::generate().unwrap()));
    let start = |with: &dyn Fn(ServerBuilder) -> ServerBuilder| {
        let builder = Server::builder().folder("/data", dir.path()).unwrap().bind("tcp://127.0.0.1:*");
        match with(builder.user_by_password("alice", "one")).start() {
            Ok(_) => String::new(),
            Err(Error::Access(what)) => what,
            Err(error) => panic!("{error}"),
        }
    };
    for (user, path, expected) in [
        ("alice", "/data", ""),
        ("alice", "/", ""),
        (ANYBODY, "/data/later/", ""),
        ("carol", "/data", "a right of carol: there is no such user"),
        ("alice", "/date", "a right to /date: no folder is served there"),
        ("alice", "data", "a right to \"data\": a virtual path begins with a slash"),
        ("alice", "", "a right to \"\": a virtual path begins with a slash"),
    ] {
        assert_eq!(start(&|server| server.grant(user, path, Right::Read)), expected, "{user} {path}");
    }
    let twice = "the user alice is given twice, and not with the same password or key";
    assert_eq!(start(&|server| server.user_by_password("alice", "two")), twice);
    assert_eq!(start(&|server| server.user_by_password("alice", "one")), "");
    let by_keys = |one: (&str, usize), other: (&str, usize)| {
        let server = Server::builder().curve(&keys[0]).user_by_key(one.0, &keys[one.1].public);
        server.user_by_key(other.0, &keys[other.1].public).start().err().map(|error| error.to_string())
    };
    assert_eq!(by_keys(("a", 0), ("b", 0)), Some("the users a and b have the same key".to_owned()));
    assert!(by_keys(("a", 0), ("a", 1)).is_some_and(|text| text.contains("the user a is given twice")));
    assert_eq!(by_keys(("a", 0), ("b", 1)), None);
}

/// The names that a listing has, or the code of its failure.
fn listed(client: &Client, path: &str) -> Result<Vec<String>, Code> {
    let (mut names, mut failed) = (Vec::new(), None);
    for event in &client.list(path) {
        match event {
            Event::Listed(listed) => names.push(String::from_utf8(listed.name).unwrap()),
            Event::Failed { error, .. } => failed = Some(error.code),
            _ => {}
        }
    }
    names.sort();
    failed.map_or(Ok(names), Err)
}

#[test]
fn a_listing_above_the_folders_has_those_that_the_user_may_read() {
    let dir = served();
    let start = |aliases: &[&str], rights: &[(&str, &str)]| {
        let mut builder = Server::builder().bind("tcp://127.0.0.1:*");
        for alias in aliases {
            builder = builder.folder(alias, dir.path()).unwrap();
        }
        for name in ["alice", "bob"] {
            builder = builder.user_by_password(name, name);
        }
        let builder =
            rights.iter().fold(builder, |builder, (user, path)| builder.grant(user, path, Right::Read));
        builder.start().unwrap()
    };
    let ls = |server: &Server, user: &str, path| {
        listed(&client(server, |client| client.password(user, user)), path)
    };
    let server = start(&["/a", "/b/c"], &[]);
    assert_eq!(ls(&server, "bob", "/").unwrap(), ["a", "b/c"]);
    assert_eq!(ls(&server, "bob", "/b").unwrap(), ["c"]);
    assert_eq!(ls(&server, "bob", "/b/c").unwrap(), ["open", "open/file", "secret", "secret/file"]);
    assert_eq!(ls(&server, "bob", "/d"), Err(Code::NotFound));
    let server = start(&["/a", "/b/c"], &[("alice", "/b"), ("bob", "/a/open/file"), ("bob", "/a/later")]);
    assert_eq!(ls(&server, "alice", "/").unwrap(), ["b/c"]);
    assert_eq!(ls(&server, "bob", "/").unwrap(), ["a/open/file"]);
    assert_eq!(ls(&server, "bob", "/b"), Err(Code::Denied));
    let server = start(&["/"], &[("alice", "/open")]);
    assert_eq!(ls(&server, "alice", "/").unwrap(), ["open"]);
    assert_eq!(ls(&server, "bob", "/"), Err(Code::Denied));
}
