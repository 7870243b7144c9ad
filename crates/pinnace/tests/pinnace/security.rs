//! Security through the public API: CURVE by keys and by certificates, PLAIN with a ZAP handler.

use std::thread;
use std::time::Duration;

use pinnace::certificate::Certificate;
use pinnace::{Context, Error, EventKind, KeyPair, Message, Pull, Push, Rep};

const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(200);

#[test]
fn curve_by_certificates_in_files() {
    let context = Context::new().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (server, client) = (directory.path().join("server"), directory.path().join("client"));
    Certificate::generate().unwrap().save(&server).unwrap();
    Certificate::generate().unwrap().save(&client).unwrap();
    let own = Certificate::load(&server).unwrap();
    let pull = Pull::builder(&context).certified_server(&own).build().unwrap();
    let endpoint = pull.bind("tcp://127.0.0.1:*").unwrap();
    let (mine, theirs) = (Certificate::load(&client).unwrap(), Certificate::load_public(&server).unwrap());
    let push = Push::builder(&context).certified_client(&mine, &theirs).connect(&endpoint).unwrap();
    push.send("secret").unwrap();
    assert_eq!(pull.recv_timeout(LONG).unwrap(), "secret");
    assert_eq!(pull.stats().unwrap().peers[0].mechanism, "CURVE");
    assert!(matches!(
        Pull::builder(&context).certified_server(&theirs).build().unwrap_err(),
        Error::Invalid(_)
    ));
}

#[test]
fn a_client_of_another_server_does_not_come_in() {
    let context = Context::new().unwrap();
    let [server, other, client] = [(); 3].map(|()| KeyPair::generate().unwrap());
    let pull = Pull::builder(&context).curve_server(&server).build().unwrap();
    let mut events = pull.monitor().unwrap();
    let endpoint = pull.bind("tcp://127.0.0.1:*").unwrap();
    let wrong = Push::builder(&context)
        .curve_client(&client, &other.public)
        .linger(Duration::ZERO)
        .connect(&endpoint)
        .unwrap();
    wrong.send("for another").unwrap();
    let failed = events.find(|event| event.kind == EventKind::HandshakeFailedProtocol);
    assert!(failed.is_some());
    drop(wrong);
    let right = Push::builder(&context).curve_client(&client, &server.public).connect(&endpoint).unwrap();
    right.send("for this one").unwrap();
    assert_eq!(pull.recv_timeout(LONG).unwrap(), "for this one");
    assert_eq!(pull.recv_timeout(SHORT), Err(Error::WouldBlock));
}

#[test]
fn plain_asks_a_handler_and_messages_know_the_user() {
    let context = Context::new().unwrap();
    let handler = Rep::builder(&context).bind("inproc://zeromq.zap.01").unwrap();
    let answering = thread::spawn(move || {
        for request in handler.iter() {
            let request = request.unwrap();
            let is_known = request[6] == "alice" && request[7] == "wonderland";
            let (status, user) = if is_known { ("200", "alice") } else { ("400", "") };
            let id = request[1].clone();
            let answer: [pinnace::Frame; 6] =
                ["1.0".into(), id, status.into(), "".into(), user.into(), "".into()];
            handler.send(Message::from(answer)).unwrap();
        }
    });
    let pull = Pull::builder(&context).plain_server().zap_domain("test").build().unwrap();
    let mut events = pull.monitor().unwrap();
    let endpoint = pull.bind("tcp://127.0.0.1:*").unwrap();
    let connect = |password: &str| {
        let builder = Push::builder(&context).plain_client("alice", password);
        builder.linger(Duration::ZERO).connect(&endpoint).unwrap()
    };
    let wrong = connect("looking glass");
    wrong.send("not let in").unwrap();
    let refused = events.find(|event| event.kind == EventKind::HandshakeFailedAuth).unwrap();
    assert_eq!(refused.value(), 400);
    drop(wrong);
    let right = connect("wonderland");
    right.send("let in").unwrap();
    let message = pull.recv_timeout(LONG).unwrap();
    assert_eq!((&message == "let in", message.user_id()), (true, Some("alice")));
    drop((pull, right, events));
    context.shutdown().unwrap();
    answering.join().unwrap();
}
