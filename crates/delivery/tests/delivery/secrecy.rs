//! Authentication and encryption.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pinnace_cert::Certificate;
use pinnace_delivery::{Builder, Client, Error, KeyPair};

const LONG: Duration = Duration::from_secs(20);

fn soon() -> Option<Instant> {
    Some(Instant::now() + LONG)
}

fn client(name: &str, dir: &Path) -> Builder {
    let builder = Client::builder(name, &format!("{name}'s")).listen("tcp://127.0.0.1:*");
    builder.data_dir(dir.join(name)).registry("none")
}

/// A builder, and the errors that its client reports.
fn telling(builder: Builder) -> (Builder, Receiver<Error>) {
    let (tell, told) = channel();
    let tell = Mutex::new(tell);
    (builder.on_error(move |error| tell.lock().unwrap().send(error.clone()).unwrap()), told)
}

/// A proxy that forwards everything to `to`, and records it.
fn tap(to: &str) -> (String, Arc<Mutex<Vec<u8>>>) {
    let (to, listener) =
        (to.trim_start_matches("tcp://").to_owned(), TcpListener::bind("127.0.0.1:0").unwrap());
    let (endpoint, heard) = (format!("tcp://{}", listener.local_addr().unwrap()), Arc::default());
    let keep: Arc<Mutex<Vec<u8>>> = Arc::clone(&heard);
    std::thread::spawn(move || {
        let (from, to) = (listener.accept().unwrap().0, TcpStream::connect(to).unwrap());
        let pass = |mut from: TcpStream, mut to: TcpStream, keep: Arc<Mutex<Vec<u8>>>| {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                keep.lock().unwrap().extend_from_slice(&buffer[..count]);
                if to.write_all(&buffer[..count]).is_err() {
                    return;
                }
            }
        };
        let (back_from, back_to, kept) = (to.try_clone().unwrap(), from.try_clone().unwrap(), keep.clone());
        std::thread::spawn(move || pass(back_from, back_to, kept));
        pass(from, to, keep);
    });
    (endpoint, heard)
}

#[test]
fn nobody_between_can_read() {
    let dir = tempfile::tempdir().unwrap();
    for curve in [false, true] {
        let dir = dir.path().join(curve.to_string());
        let (here, there) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let secure = |builder: Builder, keys: &KeyPair| if curve { builder.curve(keys) } else { builder };
        let receiver =
            secure(client("receiver", &dir), &there).trust("sender", &here.public).start().unwrap();
        let (endpoint, heard) = tap(receiver.endpoint());
        let sender = secure(client("sender", &dir), &here).trust("receiver", &there.public);
        let sender = sender.peer("receiver", &endpoint, &["news"]).start().unwrap();
        let body = b"attack at dawn, and tell nobody";
        sender.send_to("news", body).unwrap();
        let delivery = receiver.recv(soon()).unwrap();
        assert_eq!((delivery.from(), delivery.body()), ("sender", &body[..]));
        delivery.ack();
        sender.wait_pending(0, soon()).unwrap();
        let heard = heard.lock().unwrap();
        assert_eq!(heard.windows(body.len()).any(|window| window == body), !curve);
    }
}

#[test]
fn a_name_is_its_key_s() {
    let dir = tempfile::tempdir().unwrap();
    let [sender, receiver, mallory] = [(); 3].map(|()| KeyPair::generate().unwrap());
    let known = client("receiver", dir.path()).curve(&receiver);
    let known = known.trust("sender", &sender.public).trust("mallory", &mallory.public);
    let (known, told_here) = telling(known);
    let known = known.start().unwrap();
    // An admitted client uses another client's name.
    let to = |builder: Builder| {
        builder.trust("receiver", &receiver.public).peer("receiver", known.endpoint(), &["news"])
    };
    let (builder, told) = telling(to(client("sender", &dir.path().join("false")).curve(&mallory)));
    let forger = builder.start().unwrap();
    forger.send_to("news", b"forged").unwrap();
    match told.recv_timeout(LONG).unwrap() {
        Error::Refused { peer, text } => {
            assert!(
                peer == "receiver" && text.contains("the CURVE key does not belong to the name"),
                "{text}"
            )
        }
        error => panic!("{error}"),
    }
    let reason = "it uses the name of sender, whose CURVE key is another one".to_owned();
    let address = "mallory".to_owned();
    assert_eq!(told_here.recv_timeout(LONG).unwrap(), Error::NotAdmitted { address, reason });
    let genuine = to(client("sender", dir.path()).curve(&sender)).start().unwrap();
    genuine.send_to("news", b"genuine").unwrap();
    let delivery = known.recv(soon()).unwrap();
    assert_eq!(delivery.body(), b"genuine");
    delivery.ack();
    genuine.wait_pending(0, soon()).unwrap();
    assert_eq!(forger.pending(), 1);
}

#[test]
fn who_is_not_known_gets_nothing_and_says_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let [sender, receiver, stranger] = [(); 3].map(|()| KeyPair::generate().unwrap());
    let known = client("receiver", dir.path()).curve(&receiver).trust("sender", &sender.public);
    let known = known.start().unwrap();
    let strange = client("stranger", dir.path()).curve(&stranger).trust("receiver", &receiver.public);
    let strange = strange.peer("receiver", known.endpoint(), &["news"]).start().unwrap();
    let plain = client("plain", dir.path()).peer("receiver", known.endpoint(), &["news"]).start().unwrap();
    strange.send_to("news", b"strange").unwrap();
    plain.send_to("news", b"plain").unwrap();

    let (builder, told) = telling(client("sender", dir.path()).curve(&sender));
    let wary = builder.peer("receiver", known.endpoint(), &["news"]).start().unwrap();
    wary.send_to("news", b"secret").unwrap();
    match told.recv_timeout(LONG).unwrap() {
        error @ Error::Unreachable { .. } => {
            assert!(error.to_string().starts_with("receiver is not trusted here"), "{error}");
        }
        error => panic!("{error}"),
    }
    drop(wary);
    let trusting = client("sender", dir.path()).curve(&sender).trust("receiver", &receiver.public);
    let trusting = trusting.peer("receiver", known.endpoint(), &["news"]).start().unwrap();
    let delivery = known.recv(soon()).unwrap();
    assert_eq!(delivery.body(), b"secret", "it waited, and nothing else came");
    delivery.ack();
    trusting.wait_pending(0, soon()).unwrap();
    assert_eq!((strange.pending(), plain.pending()), (1, 1));
}

/// Its topic was sent to earlier, and nothing is pending on it.
#[test]
fn who_is_not_trusted_is_told_of_when_a_message_goes_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let [sender, reader, other] = [(); 3].map(|()| KeyPair::generate().unwrap());
    let start = |name: &str, keys: &KeyPair| {
        client(name, dir.path()).curve(keys).trust("sender", &sender.public).start().unwrap()
    };
    let (reader_here, other_here) = (start("reader", &reader), start("other", &other));
    let peers = || {
        let builder = client("sender", dir.path()).curve(&sender).trust("reader", &reader.public);
        builder.peer("reader", reader_here.endpoint(), &["news"]).peer(
            "other",
            other_here.endpoint(),
            &["old"],
        )
    };
    let takes = |receiver: &Client, sender: &Client| {
        receiver.recv(soon()).unwrap().ack();
        sender.wait_pending(0, soon()).unwrap();
    };
    let trusting = peers().trust("other", &other.public).start().unwrap();
    trusting.send_to("old", b"handled").unwrap();
    takes(&other_here, &trusting);
    drop(trusting);
    let (builder, told) = telling(peers());
    let wary = builder.start().unwrap();
    wary.send_to("news", b"for the reader").unwrap();
    takes(&reader_here, &wary);
    assert_eq!(told.try_recv(), Err(TryRecvError::Empty));
    wary.send_to("old", b"waits").unwrap();
    match told.recv_timeout(LONG).unwrap() {
        Error::Unreachable { peer, .. } => assert_eq!(peer, "other"),
        error => panic!("{error}"),
    }
}

#[test]
fn keys_come_from_the_files_that_keygen_writes() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    for name in ["here", "there"] {
        Certificate::generate().unwrap().save(path(name)).unwrap();
    }
    let receiver = client("receiver", dir.path()).cert(path("here")).trust_file("sender", path("there"));
    let receiver = receiver.start().unwrap();
    let sender = client("sender", dir.path()).cert(path("there_secret")).trust_file("receiver", path("here"));
    let sender = sender.peer("receiver", receiver.endpoint(), &["news"]).start().unwrap();
    sender.send_to("news", b"sealed").unwrap();
    receiver.recv(soon()).unwrap().ack();
    sender.wait_pending(0, soon()).unwrap();
    std::fs::remove_file(path("there_secret")).unwrap();
    std::fs::write(path("nonsense"), "none").unwrap();
    let cert = |name: &str| client("third", dir.path()).cert(path(name));
    let trust = |name: &str| client("third", dir.path()).trust_file("sender", path(name));
    for (wrong, file) in [
        (cert("there"), "there"),
        (cert("none"), "none"),
        (trust("none"), "none"),
        (trust("nonsense"), "nonsense"),
    ] {
        match wrong.start().map(drop) {
            Err(Error::Certificate { file: found, text }) if !text.is_empty() => {
                assert_eq!(found, path(file))
            }
            other => panic!("{other:?}"),
        }
    }
}
