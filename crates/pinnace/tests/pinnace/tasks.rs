//! Tasks under several executors: wake-ups, dropped futures, shutdown.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::task::{Context as Task, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use futures::{FutureExt, StreamExt, select};
use pinnace::{Context, Dealer, Error, EventKind, Interest, Message, Pair, Pull, Push, Router};

const LONG: Duration = Duration::from_secs(30);
const ROUNDS: usize = 2_000;

/// Counts its wake-ups, and reports each on the channel.
struct Counter(AtomicUsize, mpsc::Sender<()>);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        let _ = self.1.send(());
    }
}

fn counter() -> (Arc<Counter>, Waker, mpsc::Receiver<()>) {
    let (sender, receiver) = mpsc::channel();
    let counter = Arc::new(Counter(AtomicUsize::new(0), sender));
    (counter.clone(), counter.into(), receiver)
}

fn over(context: &Context, endpoint: &str) -> (Push, Pull) {
    let pull = Pull::new(context).unwrap();
    let endpoint = pull.bind(endpoint).unwrap();
    (Push::builder(context).connect(&endpoint).unwrap(), pull)
}

#[test]
fn a_future_is_woken_once_there_is_news() {
    let context = Context::new().unwrap();
    for endpoint in ["inproc://woken", "tcp://127.0.0.1:*"] {
        let (push, pull) = over(&context, endpoint);
        pull.wait_peers(1, LONG).unwrap();
        let (counter, waker, woken) = counter();
        let mut task = Task::from_waker(&waker);
        let mut recv = pin!(pull.recv_async());
        while woken.try_recv().is_ok() {}
        assert!(recv.as_mut().poll(&mut task).is_pending());
        push.send("news").unwrap();
        let message = loop {
            woken.recv_timeout(LONG).expect("woken");
            if let Poll::Ready(message) = recv.as_mut().poll(&mut task) {
                break message.unwrap();
            }
        };
        assert_eq!(message, "news");
        assert!(counter.0.load(Ordering::SeqCst) > 0);
    }
}

/// Each dropped future was polled, and may have been woken. None may have taken a message.
#[test]
fn a_dropped_future_takes_no_message_along() {
    let context = Context::new().unwrap();
    for endpoint in ["inproc://dropped", "tcp://127.0.0.1:*"] {
        let (push, pull) = over(&context, endpoint);
        let sender = thread::spawn(move || {
            for number in 0..ROUNDS {
                push.send([number.to_string(), "tail".into()]).unwrap();
            }
            push
        });
        let (_, waker, woken) = counter();
        let mut task = Task::from_waker(&waker);
        let mut next = 0;
        while next < ROUNDS {
            let mut recv = pull.recv_async();
            match Pin::new(&mut recv).poll(&mut task) {
                Poll::Ready(message) => {
                    assert_eq!(message.unwrap(), [next.to_string(), "tail".into()]);
                    next += 1;
                }
                Poll::Pending if next % 2 == 0 => drop(recv),
                Poll::Pending => drop((woken.recv_timeout(LONG).expect("woken"), recv)),
            }
        }
        drop(sender.join().unwrap());
        assert_eq!(pull.try_recv(), Err(Error::WouldBlock));
    }
}

#[test]
fn a_dropped_send_has_sent_nothing_and_a_kept_one_sends_once() {
    let context = Context::new().unwrap();
    let pull = Pull::builder(&context).receive_high_water_mark(1).bind("inproc://room").unwrap();
    let push = Push::builder(&context).send_high_water_mark(1).connect("inproc://room").unwrap();
    while push.try_send("filler").is_ok() {}
    let (_, waker, woken) = counter();
    let mut task = Task::from_waker(&waker);
    let mut dropped = push.send_async(["never", "sent"]);
    assert!(Pin::new(&mut dropped).poll(&mut task).is_pending());
    let mut kept = push.send_async(["sent", "once"]);
    assert!(Pin::new(&mut kept).poll(&mut task).is_pending());
    drop(dropped);
    assert_eq!(pull.recv().unwrap(), "filler");
    woken.recv_timeout(LONG).expect("woken");
    let sent = loop {
        match Pin::new(&mut kept).poll(&mut task) {
            Poll::Ready(sent) => break sent,
            Poll::Pending => woken.recv_timeout(LONG).expect("woken"),
        }
    };
    sent.unwrap();
    assert_eq!(pull.recv().unwrap(), "filler");
    assert_eq!(pull.recv().unwrap(), ["sent", "once"]);
    assert_eq!(pull.try_recv(), Err(Error::WouldBlock));
}

/// Requests and replies between two threads, each with a small executor of its own; every one needs a wake-up.
#[test]
fn rounds_between_two_executors() {
    let context = Context::new().unwrap();
    for endpoint in ["inproc://rounds", "tcp://127.0.0.1:*"] {
        let router = Router::new(&context).unwrap();
        let endpoint = router.bind(endpoint).unwrap();
        let dealer = Dealer::builder(&context).connect(&endpoint).unwrap();
        let server = thread::spawn(move || {
            pollster::block_on(async {
                for _ in 0..ROUNDS {
                    let message = router.recv_async().await.unwrap();
                    router.send_async(message).await.unwrap();
                }
            });
        });
        futures::executor::block_on(async {
            for round in 0..ROUNDS {
                dealer.send_async(round.to_string()).await.unwrap();
                assert_eq!(dealer.recv_async().await.unwrap(), round.to_string());
            }
        });
        server.join().unwrap();
    }
}

/// Tasks that receive on one socket; some drop their future whenever another source is faster.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_tokio_share_a_socket() {
    const TASKS: usize = 8;
    let context = Context::new().unwrap();
    let (push, pull) = over(&context, "tcp://127.0.0.1:*");
    let (push, pull) = (Arc::new(push), Arc::new(pull));
    let received = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for _ in 0..TASKS {
        let (pull, received) = (pull.clone(), received.clone());
        tasks.push(tokio::spawn(async move {
            loop {
                // The timeout expires often, and drops a pending future.
                match tokio::time::timeout(Duration::from_micros(200), pull.recv_async()).await {
                    Ok(Ok(_)) => drop(received.fetch_add(1, Ordering::SeqCst)),
                    Ok(Err(error)) => return error,
                    Err(_) => {}
                }
            }
        }));
    }
    let senders = (0..TASKS).map(|_| {
        let push = push.clone();
        tokio::spawn(async move {
            for number in 0..ROUNDS {
                push.send_async([number.to_string(), "tail".to_string()]).await.unwrap();
            }
        })
    });
    for sender in senders.collect::<Vec<_>>() {
        sender.await.unwrap();
    }
    let all = async {
        while received.load(Ordering::SeqCst) < TASKS * ROUNDS {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, all).await.expect("all have come");
    context.shutdown().unwrap();
    for task in tasks {
        assert_eq!(task.await.unwrap(), Error::Terminated);
    }
    assert_eq!(received.load(Ordering::SeqCst), TASKS * ROUNDS);
}

/// tokio's other ways to watch a descriptor are unsafe, because not every type keeps its descriptor open. Ours does.
#[expect(deprecated)]
#[tokio::test(flavor = "current_thread")]
async fn a_descriptor_for_tokio() {
    let context = Context::new().unwrap();
    let (push, pull) = over(&context, "tcp://127.0.0.1:*");
    let descriptor = pull.ready_fd(Interest::READABLE).unwrap();
    let descriptor =
        tokio::io::unix::AsyncFd::with_interest(descriptor, tokio::io::Interest::READABLE).unwrap();
    push.send("hello").unwrap();
    let mut guard = tokio::time::timeout(LONG, descriptor.readable()).await.expect("readable").unwrap();
    assert_eq!(pull.try_recv().unwrap(), "hello");
    guard.clear_ready();
    assert!(descriptor.readable().now_or_never().is_none(), "there is nothing more");
    drop(pull);
    assert!(descriptor.readable().now_or_never().is_none(), "nothing comes any more, and it is still open");
}

#[test]
fn a_shutdown_wakes_and_streams_end() {
    let context = Context::new().unwrap();
    let (push, pull) = over(&context, "inproc://ends");
    let full = Push::new(&context).unwrap();
    push.send("one").unwrap();
    let ender = thread::spawn({
        let context = context.clone();
        move || context.shutdown().unwrap()
    });
    pollster::block_on(async {
        let unsent = full.send_async("nobody is there").await.unwrap_err();
        assert_eq!((unsent.error, unsent.message == "nobody is there"), (Error::Terminated, true));
        assert!(pull.stream().collect::<Vec<_>>().await.len() <= 1);
    });
    ender.join().unwrap();
}

/// A blocking call and a task on one socket: both are served.
#[test]
fn a_thread_and_a_task_on_one_socket() {
    let context = Context::new().unwrap();
    let (push, pull) = over(&context, "tcp://127.0.0.1:*");
    let receive_all = |pull: &Pull, by_task: bool| {
        let mut count = 0;
        loop {
            let message = if by_task { pollster::block_on(pull.recv_async()) } else { pull.recv() };
            match message.unwrap() {
                end if end == "end" => return count,
                _ => count += 1,
            }
        }
    };
    thread::scope(|scope| {
        let thread = scope.spawn(|| receive_all(&pull, false));
        let task = scope.spawn(|| receive_all(&pull, true));
        (0..ROUNDS).for_each(|number| push.send(number.to_string()).unwrap());
        ["end", "end"].into_iter().for_each(|end| push.send(end).unwrap());
        assert_eq!(thread.join().unwrap() + task.join().unwrap(), ROUNDS);
    });
}

#[test]
fn either_of_two_sockets() {
    let context = Context::new().unwrap();
    let (left, near) = over(&context, "inproc://left");
    let (right, far) = over(&context, "inproc://right");
    left.send("from the left").unwrap();
    let first = pollster::block_on(async {
        select! {
            message = near.recv_async().fuse() => message,
            message = far.recv_async().fuse() => message,
        }
    });
    assert_eq!(first.unwrap(), "from the left");
    right.send("from the right").unwrap();
    assert_eq!(far.recv_timeout(LONG).unwrap(), "from the right", "the other has lost nothing");
}

#[test]
fn a_monitor_as_a_stream_and_with_a_time_limit() {
    let context = Context::new().unwrap();
    let pair = Pair::new(&context).unwrap();
    let mut events = pair.monitor().unwrap();
    assert_eq!(events.recv_timeout(Duration::from_millis(20)), Err(Error::WouldBlock));
    let endpoint = pair.bind("tcp://127.0.0.1:*").unwrap();
    let peer = Pair::builder(&context).connect(&endpoint).unwrap();
    pollster::block_on(async {
        let event = StreamExt::next(&mut events).await.unwrap();
        assert_eq!((event.kind, &event.local), (EventKind::Listening, &endpoint));
        assert_eq!(StreamExt::next(&mut events).await.unwrap().kind, EventKind::Accepted);
        let done = StreamExt::next(&mut events).await.unwrap();
        assert_eq!((done.kind, done.local), (EventKind::HandshakeSucceeded, endpoint));
        drop(peer);
        assert_eq!(StreamExt::next(&mut events).await.unwrap().kind, EventKind::Disconnected);
        drop(pair);
        let rest: Vec<_> = StreamExt::map(events, |event| event.kind).collect().await;
        assert!(!rest.contains(&EventKind::Stopped), "{rest:?}");
    });
}

/// An executor may drop the last owner of everything in a wake-up, on the I/O thread.
#[test]
fn the_last_holder_may_go_in_a_wake_up() {
    struct Holder(std::sync::Mutex<Option<(Pull, Context)>>, mpsc::Sender<()>);
    impl Wake for Holder {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().unwrap().take());
            let _ = self.1.send(());
        }
    }
    let context = Context::new().unwrap();
    let pull = Pull::builder(&context).bind("inproc://holder").unwrap();
    let push = Push::builder(&context).connect("inproc://holder").unwrap();
    let (sender, gone) = mpsc::channel();
    let engine = pull.engine();
    let holder = Arc::new(Holder(std::sync::Mutex::new(None), sender));
    let mut place = None;
    assert_eq!(pull.try_recv(), Err(Error::WouldBlock));
    engine.wake_task(&mut place, &Waker::from(holder.clone())).unwrap();
    *holder.0.lock().unwrap() = Some((pull, context.clone()));
    push.send("go").unwrap();
    drop((push, context));
    gone.recv_timeout(LONG).expect("the wake-up has ended");
    drop(place);
}

#[test]
fn a_future_that_is_ready_needs_no_waker() {
    let context = Context::new().unwrap();
    let (push, pull) = over(&context, "inproc://ready");
    push.send_async("now").now_or_never().unwrap().unwrap();
    let message: Message = pull.recv_async().now_or_never().unwrap().unwrap();
    assert_eq!(message, "now");
    assert!(pull.recv_async().now_or_never().is_none());
}
