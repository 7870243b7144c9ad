//! The loads of the benchmark on liner_broker with Redis, like its own benchmark: both clients in one process,
//! at_least_once_delivery set, and messages counted in the callback.
//!
//! liner-load cycles redis=URL size=N count=N cycles=N pause_ms=N
//! liner-load run redis=URL size=N count=N limit_s=N
//!
//! Prints one line of key=value pairs. Times are by CLOCK_MONOTONIC, in nanoseconds.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use liner_broker::Liner;

/// A cycle that takes longer is stalled: it does not end by itself.
const PATIENCE: Duration = Duration::from_secs(3);

/// Number of messages that the callback has received.
static HAD: AtomicU64 = AtomicU64::new(0);

fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec to where this points.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn word(name: &str) -> Option<String> {
    std::env::args().find_map(|word| Some(word.strip_prefix(name)?.strip_prefix('=')?.to_owned()))
}

fn number(name: &str) -> u64 {
    word(name).and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{name}=N is missing"))
}

/// A client that listens on a free port. Boxed, because `Liner::run` keeps a pointer to the client.
fn client(name: &str) -> Box<Liner> {
    let port = TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a free port")
        .port();
    let redis = word("redis").expect("redis=URL is missing");
    Box::new(Liner::new(name, &format!("topic_{name}"), &format!("localhost:{port}"), &redis))
}

/// Both clients, and a channel that gets the number of received messages and the time after each `every` messages.
fn pair(every: u64) -> (Box<Liner>, Box<Liner>, Receiver<(u64, u64)>) {
    let (mut sender, mut receiver) = (client("client1"), client("client2"));
    let (reached, times) = channel();
    sender.run(Box::new(|_to: &str, _from: &str, _body: &[u8]| {}));
    let mut had = 0;
    receiver.run(Box::new(move |_to: &str, _from: &str, body: &[u8]| {
        had += 1;
        let number = body.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        assert_eq!(number, had, "none is missing, and they come in order");
        HAD.store(had, Ordering::Relaxed);
        if had % every == 0 {
            // Fails once the benchmark has ended and dropped the receiver: ignored.
            let _ = reached.send((had, now_ns()));
        }
    }));
    (sender, receiver, times)
}

fn send(sender: &mut Liner, body: &mut [u8], number: u64) {
    body[..8].copy_from_slice(&number.to_le_bytes());
    assert!(sender.send_to("topic_client2", body, true), "liner refuses message {number}");
}

fn join(numbers: &[u64]) -> String {
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}

/// `cycles_ns`: from before the first send of a cycle until the callback has received its last message; `stalled`: the
/// number of cycles that did not end before the next one was sent.
fn cycles() {
    let (size, count, pause) = (number("size"), number("count"), Duration::from_millis(number("pause_ms")));
    let (mut sender, _receiver, times) = pair(count);
    let (mut body, mut sent, mut took, mut stalled) = (vec![b'.'; size as usize], 0, Vec::new(), 0);
    for _ in 0..number("cycles") {
        let begin = now_ns();
        for _ in 0..count {
            sent += 1;
            send(&mut sender, &mut body, sent);
        }
        loop {
            match times.recv_timeout(PATIENCE) {
                Ok((had, end)) if had == sent => took.push(end - begin),
                Ok(_) => continue,
                Err(_) => stalled += 1,
            }
            break;
        }
        std::thread::sleep(pause);
    }
    println!("cycles_ns={} stalled={stalled}", join(&took));
}

/// `tenths_ns`: from before the first send until each tenth is received; `seconds`: messages received in each second.
/// Ends when all have arrived, or at the time limit.
fn run() {
    let (size, count) = (number("size"), number("count"));
    let (mut sender, _receiver, times) = pair(count / 10);
    let (limit, mut body) = (number("limit_s"), vec![b'.'; size as usize]);
    let (start, begin) = (Instant::now(), now_ns());
    let watch = std::thread::spawn(move || {
        watch(&times, start, begin, limit);
        std::process::exit(0);
    });
    for number in 1..=count {
        send(&mut sender, &mut body, number);
    }
    watch.join().expect("the watch ends the process");
}

fn watch(times: &Receiver<(u64, u64)>, start: Instant, begin: u64, limit_s: u64) {
    let (mut tenths, mut seconds, mut had) = (Vec::new(), Vec::new(), 0);
    for second in 1..=limit_s {
        let end = start + Duration::from_secs(second);
        while tenths.len() < 10 {
            match times.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok((_, time)) => tenths.push(time - begin),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => panic!("the receiver has ended"),
            }
        }
        let now = HAD.load(Ordering::Relaxed);
        seconds.push(now - had);
        had = now;
        if tenths.len() == 10 {
            break;
        }
    }
    println!("got={had} tenths_ns={} seconds={}", join(&tenths), join(&seconds));
}

fn main() {
    // The harness reads the last line of stderr: make it the panic's message.
    std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
    match std::env::args().nth(1).as_deref() {
        Some("cycles") => cycles(),
        Some("run") => run(),
        _ => panic!("liner-load cycles|run key=value..."),
    }
}
