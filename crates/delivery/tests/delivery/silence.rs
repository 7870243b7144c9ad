//! Peers that should be there and do not answer.

use std::net::TcpListener;
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use pinnace_delivery::{Builder, Client, Error, KeyPair};

const LONG: Duration = Duration::from_secs(30);
/// How long a peer has to answer.
const PATIENCE: Duration = Duration::from_secs(5);

fn client(name: &str, dir: &Path) -> Builder {
    Client::builder(name, name).data_dir(dir.join(name)).registry("none").listen("tcp://127.0.0.1:*")
}

/// A builder, and the errors that its client reports.
fn telling(builder: Builder) -> (Builder, Receiver<Error>) {
    let (tell, told) = channel();
    let tell = Mutex::new(tell);
    (builder.on_error(move |error| tell.lock().unwrap().send(error.clone()).unwrap()), told)
}

fn takes_and_acknowledges(receiver: &Client, body: &[u8]) {
    let delivery = receiver.recv(Some(Instant::now() + LONG)).unwrap();
    assert_eq!(delivery.body(), body);
    delivery.ack();
}

#[test]
fn a_peer_where_nothing_listens_is_told_of_and_connected_to_later() {
    let dir = tempfile::tempdir().unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("tcp://{}", free.local_addr().unwrap());
    drop(free);
    let (builder, told) = telling(client("sender", dir.path()).peer("receiver", &endpoint, &["news"]));
    let (began, sender) = (Instant::now(), builder.start().unwrap());
    sender.send_to("news", b"waits").unwrap();
    let error = told.recv_timeout(LONG).unwrap();
    assert_eq!(error, Error::NoAnswer { peer: "receiver".to_owned(), endpoint: endpoint.clone() });
    assert!(began.elapsed() >= PATIENCE, "after {:?}", began.elapsed());
    let receiver = client("receiver", dir.path()).listen(&endpoint).start().unwrap();
    takes_and_acknowledges(&receiver, b"waits");
    sender.wait_pending(0, Some(Instant::now() + LONG)).unwrap();
    // It is told of again when it is lost again.
    drop(receiver);
    let error = told.recv_timeout(LONG).unwrap();
    assert_eq!(error, Error::NoAnswer { peer: "receiver".to_owned(), endpoint });
}

#[test]
fn a_peer_with_another_key_is_told_of() {
    let dir = tempfile::tempdir().unwrap();
    let [sender, receiver, other] = [(); 3].map(|()| KeyPair::generate().unwrap());
    let known =
        client("receiver", dir.path()).curve(&receiver).trust("sender", &sender.public).start().unwrap();
    let wrong = client("sender", dir.path()).curve(&sender).trust("receiver", &other.public);
    let (builder, told) = telling(wrong.peer("receiver", known.endpoint(), &["news"]));
    let wrong = builder.start().unwrap();
    wrong.send_to("news", b"secret").unwrap();
    let peer = "receiver".to_owned();
    let endpoint = known.endpoint().to_owned();
    assert_eq!(told.recv_timeout(LONG).unwrap(), Error::NoAnswer { peer, endpoint });
}
