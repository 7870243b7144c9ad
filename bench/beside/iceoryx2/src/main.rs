//! The workload of `../ring.c` over iceoryx2: two processes, one publisher and one subscriber in each direction, a copy
//! into the loaned sample and a copy out of it.
//!
//!     iceoryx2-load stream|round size=BYTES count=N wait=spin|block
//!
//! Nothing is lost: a publisher retries if the subscriber's buffer is full. A side with nothing to receive polls again
//! (spin), or waits for an event (block). With `block` the publisher sends one event per sample, as in iceoryx2's own
//! examples.

use std::error::Error;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use iceoryx2::port::listener::Listener;
use iceoryx2::port::notifier::Notifier;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;
use iceoryx2::service::port_factory::{event, publish_subscribe};
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

type Outcome<T> = Result<T, Box<dyn Error>>;
type Samples = publish_subscribe::PortFactory<ipc::Service, [u8], ()>;
type Events = event::PortFactory<ipc::Service>;

/// A wait for a sample fails after this time.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of samples that a subscriber buffers before its publisher waits: the size of the ring of `ring.c`. At most
/// `BUFFER_MAX` samples.
const BUFFER_BYTES: usize = 1 << 20;
const BUFFER_MAX: usize = 1024;

#[derive(Clone)]
struct Plan {
    streams: bool,
    size: usize,
    count: u64,
    blocks: bool,
}

impl Plan {
    fn read(words: &[String]) -> Option<Plan> {
        let streams = match words.first()?.as_str() {
            "stream" => true,
            "round" => false,
            _ => return None,
        };
        let value = |name: &str| words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let (size, count) = (value("size")?.parse().ok()?, value("count")?.parse().ok()?);
        let blocks = match value("wait")? {
            "block" => true,
            "spin" => false,
            _ => return None,
        };
        (size >= 16 || size == 8).then_some(Plan { streams, size, count, blocks })
    }
}

/// The sending end of one direction.
struct Out {
    publisher: Publisher<ipc::Service, [u8], ()>,
    notifier: Option<Notifier<ipc::Service>>,
}

struct In {
    subscriber: Subscriber<ipc::Service, [u8], ()>,
    listener: Option<Listener<ipc::Service>>,
}

fn samples(plan: &Plan) -> usize {
    (BUFFER_BYTES / plan.size).clamp(2, BUFFER_MAX)
}

/// The services of one direction: for its samples, and for its events.
fn services(node: &Node<ipc::Service>, name: &str, plan: &Plan) -> Outcome<(Samples, Events)> {
    let of_samples = node
        .service_builder(&format!("{name}/samples").as_str().try_into()?)
        .publish_subscribe::<[u8]>()
        .enable_safe_overflow(false)
        .subscriber_max_buffer_size(samples(plan))
        .open_or_create()?;
    let of_events = node.service_builder(&format!("{name}/events").as_str().try_into()?);
    Ok((of_samples, of_events.event().open_or_create()?))
}

fn out(node: &Node<ipc::Service>, name: &str, plan: &Plan) -> Outcome<Out> {
    let (of_samples, of_events) = services(node, name, plan)?;
    let publisher = of_samples
        .publisher_builder()
        .initial_max_slice_len(plan.size)
        .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
        .create()?;
    let notifier = plan.blocks.then(|| of_events.notifier_builder().create()).transpose()?;
    Ok(Out { publisher, notifier })
}

fn way_in(node: &Node<ipc::Service>, name: &str, plan: &Plan) -> Outcome<In> {
    let (of_samples, of_events) = services(node, name, plan)?;
    let subscriber = of_samples.subscriber_builder().buffer_size(samples(plan)).create()?;
    let listener = plan.blocks.then(|| of_events.listener_builder().create()).transpose()?;
    Ok(In { subscriber, listener })
}

impl Out {
    /// Sends a copy of the body. False: no subscriber received it.
    fn send(&self, body: &[u8]) -> Outcome<bool> {
        let sample = self.publisher.loan_slice_uninit(body.len())?;
        let reached = sample.write_from_slice(body).send()?;
        if let Some(notifier) = &self.notifier {
            notifier.notify()?;
        }
        Ok(reached > 0)
    }

    /// Sends until the subscriber has it. Not only without a subscriber, but also at the first full buffer a sample may
    /// be undelivered, although the publisher's strategy is to retry until it is delivered.
    fn deliver(&self, body: &[u8]) -> Outcome<()> {
        while !self.send(body)? {
            std::thread::yield_now();
        }
        Ok(())
    }
}

impl In {
    /// Receives a copy of the next body.
    fn receive(&self, body: &mut [u8]) -> Outcome<()> {
        let mut waited = None;
        loop {
            if let Some(sample) = self.subscriber.receive()? {
                body.copy_from_slice(sample.payload());
                return Ok(());
            }
            let Some(listener) = &self.listener else {
                std::hint::spin_loop();
                continue;
            };
            if waited.get_or_insert_with(Instant::now).elapsed() >= PATIENCE {
                return Err("no sample in ten seconds".into());
            }
            listener.timed_wait(|_| {}, PATIENCE)?;
        }
    }
}

fn stamp(body: &mut [u8], number: u64) {
    let bytes = number.to_ne_bytes();
    body[..8].copy_from_slice(&bytes);
    let end = body.len();
    body[end - 8..].copy_from_slice(&bytes);
}

fn check(body: &[u8], number: u64) -> Outcome<()> {
    let at = |from: usize| u64::from_ne_bytes(body[from..from + 8].try_into().expect("eight bytes"));
    match (at(0), at(body.len() - 8)) {
        both if both == (number, number) => Ok(()),
        (one, other) => Err(format!("{one:#x} and {other:#x} where {number:#x} was due").into()),
    }
}

/// Pins a side to a processor of its own, if there are several.
fn pin(side: usize) -> Outcome<()> {
    let allowed = sched_getaffinity(None)?;
    let mut chosen = CpuSet::new();
    if let Some(cpu) = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).nth(side) {
        chosen.set(cpu);
        sched_setaffinity(None, &chosen)?;
    }
    Ok(())
}

/// The number of the messages that are sent until the other side is connected; not counted.
const HELLO: u64 = u64::MAX;

/// The other process: sends the stream, or answers.
fn other_side(name: &str, plan: &Plan) -> Outcome<()> {
    // Otherwise this process would run on if its parent failed.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    pin(1)?;
    let node = NodeBuilder::new().create::<ipc::Service>()?;
    let (there, back) =
        (out(&node, &format!("{name}/there"), plan)?, way_in(&node, &format!("{name}/back"), plan)?);
    let mut body = vec![0; plan.size];
    stamp(&mut body, HELLO);
    there.deliver(&body)?;
    for number in 0..plan.count {
        if plan.streams {
            stamp(&mut body, number);
        } else {
            back.receive(&mut body)?;
        }
        there.deliver(&body)?;
    }
    // Wait for the end: unread samples are lost when their publisher is dropped.
    back.receive(&mut body)
}

/// Returns messages per second, or the median round trip in microseconds.
fn measure(there: &In, back: &Out, plan: &Plan) -> Outcome<f64> {
    let mut body = vec![0; plan.size];
    there.receive(&mut body)?;
    check(&body, HELLO)?;
    let (mut began, mut took) = (Instant::now(), Vec::new());
    for number in 0..plan.count {
        let sent = Instant::now();
        if !plan.streams {
            stamp(&mut body, number);
            back.deliver(&body)?;
        }
        there.receive(&mut body)?;
        while body[..8] == HELLO.to_ne_bytes() {
            there.receive(&mut body)?; // A hello that was reported as undelivered may have arrived.
        }
        check(&body, number)?;
        if number == 0 {
            began = Instant::now();
        }
        if !plan.streams {
            took.push(sent.elapsed());
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    back.deliver(&body)?;
    took.sort_unstable();
    Ok(match took.get(took.len() / 2) {
        Some(median) => median.as_secs_f64() * 1e6,
        None => (plan.count - 1) as f64 / seconds,
    })
}

/// User and system time of this process and of the children that it has waited for.
fn cpu_seconds() -> Outcome<f64> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let after = text.rsplit_once(") ").ok_or("no statistics")?.1;
    // utime, stime, cutime and cstime (proc(5)).
    let ticks = after.split(' ').skip(11).take(4).map(|word| word.parse().unwrap_or(0.0));
    Ok(ticks.sum::<f64>() / rustix::param::clock_ticks_per_second() as f64)
}

fn main() -> Outcome<()> {
    set_log_level(LogLevel::Error);
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some(plan) = Plan::read(&words) else {
        eprintln!("usage: iceoryx2-load stream|round size=BYTES count=N wait=spin|block");
        std::process::exit(2);
    };
    if let Some(name) = words.iter().find_map(|word| word.strip_prefix("other=")) {
        return other_side(name, &plan);
    }
    let name = format!("pinnace-bench-{}", std::process::id());
    let node = NodeBuilder::new().create::<ipc::Service>()?;
    let there = way_in(&node, &format!("{name}/there"), &plan)?;
    let back = out(&node, &format!("{name}/back"), &plan)?;
    let mut other: Child =
        Command::new(std::env::current_exe()?).args(&words).arg(format!("other={name}")).spawn()?;
    pin(0)?; // Only now: the other process would inherit the affinity.
    let figure = measure(&there, &back, &plan)?;
    if !other.wait()?.success() {
        return Err("the other side failed".into());
    }
    let (kind, what) = if plan.streams { ("stream", "rate") } else { ("round", "p50_us") };
    println!("kind={kind} {what}={figure:.3} cpu_s={:.6}", cpu_seconds()?);
    Ok(())
}
