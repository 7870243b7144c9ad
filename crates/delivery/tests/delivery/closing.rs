//! Draining and closing, with handlers that hang.

use std::convert::Infallible;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pinnace_delivery::{Builder, Client, Durability, Error, Options};

const SOON: Duration = Duration::from_secs(20);

fn soon() -> Option<Instant> {
    Some(Instant::now() + SOON)
}

/// A deadline that is over.
fn over() -> Option<Instant> {
    Some(Instant::now())
}

fn client(name: &str, dir: &Path) -> Builder {
    let registry = format!("dir://{}", dir.join("registry").display());
    Client::builder(name, name).data_dir(dir.join(name)).registry(&registry)
}

fn start(name: &str, dir: &Path) -> Arc<Client> {
    Arc::new(client(name, dir).start().unwrap())
}

/// Handlers that hang: each says that it has begun, and waits for a permission to return.
fn hang(client: &Client) -> (Receiver<()>, Sender<()>) {
    let ((begun, begins), (release, released)) = (channel(), channel());
    client
        .listen(move |_| {
            begun.send(()).unwrap();
            released.recv().unwrap();
            Ok::<(), Infallible>(())
        })
        .unwrap();
    (begins, release)
}

#[test]
fn a_handler_that_hangs_does_not_hang_a_close() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, receiver) = (start("sender", dir.path()), start("receiver", dir.path()));
    let (begins, release) = hang(&receiver);
    sender.send_to("receiver", b"one").unwrap();
    begins.recv_timeout(SOON).unwrap();
    assert_eq!(receiver.in_hand(), 1);
    assert_eq!(receiver.close(Some(Instant::now() + Duration::from_millis(10))), Err(Error::TimedOut));
    assert_eq!(receiver.send_to("sender", b"late"), Err(Error::Closed));
    assert_eq!(receiver.subscribe("late"), Err(Error::Closed));
    assert_eq!(receiver.recv(None).err(), Some(Error::Closed));
    // A late acknowledgement counts.
    release.send(()).unwrap();
    assert_eq!(receiver.close(soon()), Ok(()));
    sender.wait_pending(0, soon()).unwrap();
    assert_eq!(start("receiver", dir.path()).recv(over()).err(), Some(Error::TimedOut));
}

/// The name is free for another process, too, while a handler hangs.
#[test]
fn a_close_gives_the_name_back_while_a_handler_hangs() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, receiver) = (start("sender", dir.path()), start("receiver", dir.path()));
    let (begins, release) = hang(&receiver);
    sender.send_to("receiver", b"one").unwrap();
    begins.recv_timeout(SOON).unwrap();
    assert_eq!(receiver.close(over()), Err(Error::TimedOut));
    let other = client("receiver", dir.path()).data_dir(dir.path().join("elsewhere")).start().unwrap();
    assert_eq!(other.close(soon()), Ok(()));
    // Here, the next client gets the message again.
    let next = start("receiver", dir.path());
    let delivery = next.recv(soon()).unwrap();
    release.send(()).unwrap();
    delivery.ack();
    sender.wait_pending(0, soon()).unwrap();
}

#[test]
fn a_handler_that_hangs_does_not_hang_a_drop() {
    let dir = tempfile::tempdir().unwrap();
    let sender = start("sender", dir.path());
    let linger = Duration::from_millis(10);
    let receiver = client("receiver", dir.path()).handler_linger(linger).start().unwrap();
    let (begins, release) = hang(&receiver);
    sender.send_to("receiver", b"one").unwrap();
    begins.recv_timeout(SOON).unwrap();
    let (dropped, is_dropped) = channel();
    std::thread::spawn(move || {
        drop(receiver);
        dropped.send(()).unwrap();
    });
    is_dropped.recv_timeout(SOON).expect("the drop returns");
    release.send(()).unwrap();
    sender.wait_pending(0, soon()).unwrap();
}

#[test]
fn a_drop_waits_for_a_handler_that_returns() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, receiver) = (start("sender", dir.path()), client("receiver", dir.path()).start().unwrap());
    let (begins, release) = hang(&receiver);
    sender.send_to("receiver", b"one").unwrap();
    begins.recv_timeout(SOON).unwrap();
    let (dropped, is_dropped) = channel();
    std::thread::spawn(move || {
        drop(receiver);
        dropped.send(()).unwrap();
    });
    assert_eq!(is_dropped.recv_timeout(Duration::from_millis(100)), Err(RecvTimeoutError::Timeout));
    release.send(()).unwrap();
    is_dropped.recv_timeout(SOON).unwrap();
    sender.wait_pending(0, soon()).unwrap();
}

#[test]
fn draining_waits_for_what_is_in_hand() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, receiver) = (start("sender", dir.path()), start("receiver", dir.path()));
    for body in ["one", "two", "three"] {
        sender.send_to("receiver", body.as_bytes()).unwrap();
    }
    let (one, two) = (receiver.recv(soon()).unwrap(), receiver.recv(soon()).unwrap());
    assert_eq!((one.body(), receiver.in_hand()), (&b"one"[..], 2));
    assert_eq!(receiver.drain(over()), Err(Error::TimedOut));
    assert_eq!(receiver.recv(None).err(), Some(Error::Closed), "nothing new is delivered");
    assert_eq!(receiver.send_to("sender", b"a result"), Ok(()));
    one.ack();
    assert_eq!(receiver.drain(Some(Instant::now() + Duration::from_millis(10))), Err(Error::TimedOut));
    assert_eq!(receiver.in_hand(), 1);
    std::thread::scope(|scope| {
        let drains = scope.spawn(|| receiver.drain(soon()));
        two.ack();
        assert_eq!(drains.join().unwrap(), Ok(()));
    });
    assert_eq!((receiver.in_hand(), receiver.drain(soon())), (0, Ok(())));
    let result = sender.recv(soon()).unwrap();
    assert_eq!(result.body(), b"a result");
    // Copied as the disk is now, the store does not have what was acknowledged delivered again.
    let copy = dir.path().join("copy");
    std::fs::create_dir(&copy).unwrap();
    for file in std::fs::read_dir(dir.path().join("receiver")).unwrap().map(Result::unwrap) {
        std::fs::copy(file.path(), copy.join(file.file_name())).unwrap();
    }
    assert_eq!(receiver.close(over()), Ok(()));
    let again = client("receiver", dir.path()).data_dir(copy).start().unwrap();
    assert_eq!(again.recv(soon()).unwrap().body(), b"three");
}

#[test]
fn draining_waits_for_messages_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let sender = start("sender", dir.path());
    let memory = Options { durability: Durability::Memory, ..Options::default() };
    sender.send("receiver", b"one", &memory).unwrap();
    assert_eq!(sender.drain(over()), Err(Error::TimedOut));
    let receiver = start("receiver", dir.path());
    std::thread::scope(|scope| {
        let drains = scope.spawn(|| sender.drain(soon()));
        receiver.recv(soon()).unwrap().ack();
        assert_eq!(drains.join().unwrap(), Ok(()));
    });
    drop(receiver);
    sender.send("receiver", b"lost", &memory).unwrap();
    assert_eq!(sender.close(over()), Err(Error::TimedOut));
}

#[test]
fn a_handler_may_send_drain_and_close() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, receiver) = (start("sender", dir.path()), start("receiver", dir.path()));
    let (said, says) = channel();
    let own = receiver.clone();
    receiver
        .listen(move |delivery| {
            let drained = own.drain(None);
            let sent = own.send_to("sender", delivery.body());
            said.send((drained, sent, own.close(None), own.close(None), own.recv(None).err())).unwrap();
            Ok::<(), Infallible>(())
        })
        .unwrap();
    sender.send_to("receiver", b"one").unwrap();
    let all = (Ok(()), Ok(()), Ok(()), Ok(()), Some(Error::Closed));
    assert_eq!(says.recv_timeout(SOON).unwrap(), all);
    sender.wait_pending(0, soon()).unwrap();
    assert_eq!(receiver.close(soon()), Ok(()));
    // What it sent is delivered, by the next client of this name at the latest.
    let _next = start("receiver", dir.path());
    assert_eq!(sender.recv(soon()).unwrap().body(), b"one");
}

/// Two handlers of one client, and another thread, which all close it without a deadline.
#[test]
fn several_threads_may_close() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, receiver) = (start("sender", dir.path()), start("receiver", dir.path()));
    let (both, (said, says)) = (Arc::new(std::sync::Barrier::new(3)), channel());
    for _ in 0..2 {
        let (own, both, said) = (receiver.clone(), both.clone(), said.clone());
        receiver
            .listen(move |_| {
                both.wait();
                said.send(own.close(None)).unwrap();
                Ok::<(), Infallible>(())
            })
            .unwrap();
    }
    // A stream each, so that both are delivered at once.
    sender.send_to("receiver", b"one").unwrap();
    sender.send_to("receiver", b"two").unwrap();
    let (closing, closer) = (receiver.clone(), both.clone());
    std::thread::spawn(move || {
        closer.wait();
        said.send(closing.close(None)).unwrap();
    });
    for _ in 0..3 {
        assert_eq!(says.recv_timeout(SOON), Ok(Ok(())));
    }
    assert_eq!(receiver.close(soon()), Ok(()));
    assert_eq!(receiver.in_hand(), 0);
    sender.wait_pending(0, soon()).unwrap();
}

#[test]
fn an_ended_client_leaves_the_next_one_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, first) = (start("sender", dir.path()), start("receiver", dir.path()));
    assert_eq!(first.close(soon()), Ok(()));
    let second = start("receiver", dir.path());
    second.subscribe("news").unwrap();
    sender.wait_listeners("news", 1, soon()).unwrap();
    drop(first);
    sender.send_to("news", b"one").unwrap();
    second.recv(soon()).unwrap().ack();
    assert_eq!(second.topics(), ["news", "receiver"]);
}

/// Each start may meet the end of the last client that had the store open.
#[test]
fn a_store_can_be_opened_while_its_last_client_ends() {
    const ROUNDS: usize = 1_000;
    let dir = tempfile::tempdir().unwrap();
    let restart = |name: &str| {
        for round in 0..ROUNDS {
            let started = client(name, dir.path()).data_dir(dir.path().join("shared")).start();
            assert!(started.is_ok(), "{name}, round {round}: {:?}", started.err());
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| restart("one"));
        scope.spawn(|| restart("two"));
    });
}

/// A sender that has one message to drop, and its error function.
fn sender_with_error(dir: &Path, on_error: impl Fn(&Error) + Send + Sync + 'static) -> Arc<Client> {
    drop(client("away", dir).topics(&["news"]).start().unwrap());
    let sender = Arc::new(client("sender", dir).on_error(on_error).start().unwrap());
    assert_eq!(sender.send_all("news", b"to drop"), Ok(1));
    sender
}

#[test]
fn an_error_function_that_takes_long_delays_nothing_but_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let ((called, calls), (go_on, goes_on)) = (channel(), channel::<()>());
    let (called, goes_on) = (Mutex::new(called), Mutex::new(goes_on));
    let sender = sender_with_error(dir.path(), move |error| {
        called.lock().unwrap().send(error.clone()).unwrap();
        let _ = goes_on.lock().unwrap().recv();
        called.lock().unwrap().send(Error::Closed).unwrap();
    });
    sender.forget("away").unwrap();
    assert!(matches!(calls.recv_timeout(SOON), Ok(Error::Dropped { .. })));
    let receiver = start("receiver", dir.path());
    sender.send_to("receiver", b"while it runs").unwrap();
    receiver.recv(soon()).unwrap().ack();
    sender.wait_pending(0, soon()).unwrap();
    std::thread::scope(|scope| {
        let ends = scope.spawn(|| sender.close(soon()));
        assert!(!ends.is_finished());
        drop(go_on);
        assert_eq!(ends.join().unwrap(), Ok(()));
    });
    assert_eq!(calls.try_recv(), Ok(Error::Closed), "the end has waited for the call");
}

#[test]
fn an_error_function_may_close_its_client() {
    let dir = tempfile::tempdir().unwrap();
    let own: Arc<Mutex<Option<Arc<Client>>>> = Arc::default();
    let (closed, told) = channel();
    let (of_function, closed) = (own.clone(), Mutex::new(closed));
    let sender = sender_with_error(dir.path(), move |_| {
        let client = of_function.lock().unwrap().take();
        let outcome = client.map(|client| client.close(soon()));
        closed.lock().unwrap().send(outcome).unwrap();
    });
    *own.lock().unwrap() = Some(sender.clone());
    sender.forget("away").unwrap();
    assert_eq!(told.recv_timeout(SOON), Ok(Some(Ok(()))));
    assert_eq!(sender.send_to("nobody", b"late"), Err(Error::Closed));
}
