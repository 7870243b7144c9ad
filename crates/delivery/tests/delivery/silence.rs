//! Peers that should be there and do not answer.

use std::net::TcpListener;
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use pinnace_delivery::{Builder, Client, Error, KeyPair, ReceiverState, Silence};

const LONG: Duration = Duration::from_secs(30);

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

/// Both sides report within this time.
const IN_TIME: Duration = Duration::from_secs(5);

fn no_answer(endpoint: &str, reason: Silence) -> Error {
    Error::NoAnswer { peer: "receiver".to_owned(), endpoint: endpoint.to_owned(), reason }
}

/// The next error, which must come in time.
fn told_in_time(told: &Receiver<Error>) -> Error {
    told.recv_timeout(IN_TIME).unwrap()
}

/// The state of the connection to the receiver, and the reason.
fn state_of(sender: &Client) -> (ReceiverState, String) {
    let statistics = sender.statistics();
    let of = statistics.outgoing.iter().find(|of| of.receiver.as_deref() == Some("receiver")).unwrap();
    (of.connection.unwrap(), of.reason.clone().unwrap_or_default())
}

fn free_endpoint() -> String {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("tcp://{}", free.local_addr().unwrap())
}

#[test]
fn a_peer_where_nothing_listens_is_told_of_and_connected_to_later() {
    let dir = tempfile::tempdir().unwrap();
    let endpoint = free_endpoint();
    let (builder, told) = telling(client("sender", dir.path()).peer("receiver", &endpoint, &["news"]));
    let (began, sender) = (Instant::now(), builder.start().unwrap());
    sender.send_to("news", b"waits").unwrap();
    assert_eq!(state_of(&sender).0, ReceiverState::Connecting);
    assert_eq!(told_in_time(&told), no_answer(&endpoint, Silence::Refused));
    assert!(began.elapsed() >= Duration::from_secs(2), "after {:?}", began.elapsed());
    let (state, reason) = state_of(&sender);
    assert!(state == ReceiverState::Refused && reason.contains(&endpoint), "{state:?} {reason}");
    let receiver = client("receiver", dir.path()).listen(&endpoint).start().unwrap();
    takes_and_acknowledges(&receiver, b"waits");
    sender.wait_pending(0, Some(Instant::now() + LONG)).unwrap();
    assert_eq!(state_of(&sender), (ReceiverState::Connected, String::new()));
    // It is told of again when it is lost again, and once.
    drop(receiver);
    assert_eq!(told_in_time(&told), no_answer(&endpoint, Silence::Refused));
    assert_eq!(told.recv_timeout(IN_TIME), Err(RecvTimeoutError::Timeout));
}

#[test]
fn a_peer_that_accepts_and_is_silent_is_told_of() {
    let dir = tempfile::tempdir().unwrap();
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("tcp://{}", mute.local_addr().unwrap());
    let (builder, told) = telling(client("sender", dir.path()).peer("receiver", &endpoint, &["news"]));
    let sender = builder.start().unwrap();
    sender.send_to("news", b"waits").unwrap();
    assert_eq!(told_in_time(&told), no_answer(&endpoint, Silence::Unanswered));
    assert_eq!(state_of(&sender).0, ReceiverState::Unanswered);
    // The reason becomes another one.
    drop(mute);
    assert_eq!(told.recv_timeout(LONG).unwrap(), no_answer(&endpoint, Silence::Refused));
}

#[test]
fn both_sides_are_told_of_a_wrong_key() {
    let dir = tempfile::tempdir().unwrap();
    let [sender, receiver, other] = [(); 3].map(|()| KeyPair::generate().unwrap());
    let known = client("receiver", dir.path()).curve(&receiver).trust("sender", &sender.public);
    let (known, told_here) = telling(known);
    let known = known.start().unwrap();
    let wrong = client("sender", dir.path()).curve(&sender).trust("receiver", &other.public);
    let (builder, told) = telling(wrong.peer("receiver", known.endpoint(), &["news"]));
    let wrong = builder.start().unwrap();
    wrong.send_to("news", b"secret").unwrap();
    let address = "tcp://127.0.0.1".to_owned();
    let reason = "it expects another CURVE key of this client".to_owned();
    assert_eq!(told_in_time(&told_here), Error::NotAdmitted { address, reason });
    assert_eq!(told_in_time(&told), no_answer(known.endpoint(), Silence::Handshake));
    let (state, reason) = state_of(&wrong);
    assert!(state == ReceiverState::Refused && reason.contains("CURVE key"), "{reason}");
    // Each is told once, and counted.
    assert_eq!(told_here.recv_timeout(Duration::from_secs(3)), Err(RecvTimeoutError::Timeout));
    assert_eq!(told.recv_timeout(Duration::from_secs(1)), Err(RecvTimeoutError::Timeout));
    let statistics = known.statistics();
    assert!(statistics.not_admitted_total > 1, "{statistics:?}");
    let stranger = &statistics.not_admitted[0];
    assert_eq!(
        (stranger.address.as_str(), stranger.attempts),
        ("tcp://127.0.0.1", statistics.not_admitted_total)
    );
}

#[test]
fn both_sides_are_told_of_a_key_that_is_not_known() {
    let dir = tempfile::tempdir().unwrap();
    let [sender, receiver, other] = [(); 3].map(|()| KeyPair::generate().unwrap());
    let known = client("receiver", dir.path()).curve(&receiver).trust("sender", &other.public);
    let (known, told_here) = telling(known);
    let known = known.start().unwrap();
    let strange = client("sender", dir.path()).curve(&sender).trust("receiver", &receiver.public);
    let (builder, told) = telling(strange.peer("receiver", known.endpoint(), &["news"]));
    let strange = builder.start().unwrap();
    strange.send_to("news", b"secret").unwrap();
    let (address, reason) = ("tcp://127.0.0.1".to_owned(), "its CURVE key is not known here".to_owned());
    assert_eq!(told_in_time(&told_here), Error::NotAdmitted { address, reason });
    assert_eq!(told_in_time(&told), no_answer(known.endpoint(), Silence::NotAdmitted));
    assert_eq!(state_of(&strange).0, ReceiverState::Refused);
}

#[test]
fn both_sides_are_told_of_a_client_without_a_key() {
    let dir = tempfile::tempdir().unwrap();
    let [sender, receiver] = [(); 2].map(|()| KeyPair::generate().unwrap());
    let known = client("receiver", dir.path()).curve(&receiver).trust("sender", &sender.public);
    let (known, told_here) = telling(known);
    let known = known.start().unwrap();
    let plain = client("sender", dir.path()).peer("receiver", known.endpoint(), &["news"]);
    let (builder, told) = telling(plain);
    let plain = builder.start().unwrap();
    plain.send_to("news", b"open").unwrap();
    let (address, reason) = ("tcp://127.0.0.1".to_owned(), "it does not use CURVE".to_owned());
    assert_eq!(told_in_time(&told_here), Error::NotAdmitted { address, reason });
    assert_eq!(told_in_time(&told), no_answer(known.endpoint(), Silence::Handshake));
}
