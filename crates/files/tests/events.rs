//! The events of a transfer: as an iterator, as a stream, and for tasks that are woken.

use std::fs;
use std::path::Path;
use std::pin::Pin;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use futures_core::Stream;
use pinnace_files::client::{Client, Event, Transfer};
use pinnace_files::error::Error;
use pinnace_files::rules::Rules;
use pinnace_files::server::Server;

const SOON: Duration = Duration::from_secs(20);

fn serve(folder: &Path) -> Server {
    fs::write(folder.join("a"), "content").unwrap();
    Server::builder().folder("/data", folder).unwrap().bind("tcp://127.0.0.1:*").start().unwrap()
}

fn connect(server: &Server) -> Client {
    Client::connect(&server.endpoints()[0]).unwrap()
}

/// The value of a future, which must be there soon.
fn soon<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> T {
    let (sender, value) = channel();
    std::thread::spawn(move || sender.send(pollster::block_on(future)));
    value.recv_timeout(SOON).expect("a task that waits is woken")
}

#[test]
fn events_are_an_iterator_and_a_stream() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = serve(from.path());
    let client = connect(&server);
    let transfer = client.get("/data/", &to.path().join("one"));
    let last = transfer.into_iter().last();
    assert!(matches!(last, Some(Event::Ended(report)) if report.files == 1));
    let mut transfer = client.get("/data/", &to.path().join("two"));
    let kinds = soon(async move {
        let mut kinds = Vec::new();
        while let Some(event) = std::future::poll_fn(|task| Pin::new(&mut transfer).poll_next(task)).await {
            kinds.push(std::mem::discriminant(&event));
        }
        kinds
    });
    assert!(kinds.len() >= 2, "a file, and the end: {kinds:?}");
    let report = soon(client.list("/data/").wait_async()).unwrap();
    assert_eq!(report.files, 1);
}

#[test]
fn a_future_ends_when_its_transfer_is_cancelled() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = serve(from.path());
    let client = connect(&server);
    let transfer = client.follow("/data/", &to.path().join("copy"), Rules::default());
    while !matches!(transfer.next_event_within(SOON).unwrap(), Event::Current) {}
    std::thread::spawn(transfer.canceller());
    let outcome = soon(transfer.wait_async());
    assert!(matches!(outcome, Err(Error::Cancelled)));
}

/// Drops what it holds, on the thread that wakes it.
struct Last(Mutex<Option<(Transfer, Client)>>, Sender<()>);

impl Wake for Last {
    fn wake(self: Arc<Last>) {
        drop(self.0.lock().unwrap().take());
        self.1.send(()).unwrap();
    }
}

#[test]
fn the_last_handle_may_be_dropped_by_a_waker() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = serve(from.path());
    let client = connect(&server);
    let transfer = client.follow("/data/", &to.path().join("copy"), Rules::default());
    let (done, is_done) = channel();
    let last = Arc::new(Last(Mutex::new(None), done));
    let waker = Waker::from(last.clone());
    let mut held = last.0.lock().unwrap();
    while transfer.poll_event(&mut Context::from_waker(&waker)).is_ready() {}
    *held = Some((transfer, client));
    drop(held);
    fs::write(from.path().join("b"), "changed").unwrap();
    is_done.recv_timeout(SOON).expect("the waker returns");
    // The server has lost nothing by it.
    assert!(connect(&server).list("/data/").wait().is_ok());
}
