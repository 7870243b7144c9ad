//! `pinnace bench`: throughput and latency between two processes, or two threads of this one.
//!
//! The receiver measures throughput, from the first message to the last, as libzmq's local_thr does. Latency is
//! half a round trip, and each round trip is timed. Processor time is that of this process; with --self it covers
//! both ends.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use pinnace::{Error, SocketType};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value, json};

use crate::outcome::{Failure, Outcome};
use crate::settings;
use crate::sockets::{Context, Socket};
use crate::table::{Bench, Measure};

pub fn run(given: &Bench) -> Outcome {
    let endpoints: Vec<_> = [&given.bind, &given.connect, &given.both].into_iter().flatten().collect();
    let context = settings::context(&given.socket, &endpoints)?;
    let outcome = match (&given.bind, &given.connect, &given.both) {
        (Some(endpoint), ..) => answering(given, &context, endpoint, &|_| ()),
        (_, Some(endpoint), _) => asking(given, &context, endpoint),
        (.., Some(endpoint)) => both(given, &context, endpoint),
        (None, None, None) => Err(Failure::usage("one of --bind, --connect and --self is required")),
    };
    context.inner().terminate().map_err(|error| Failure::Failed(error.to_string()))?;
    print(given, outcome?)
}

/// The results, in printing order.
type Found = Option<Vec<(&'static str, Value)>>;

fn both(given: &Bench, context: &Context, endpoint: &str) -> Outcome<Found> {
    let (told, bound) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let answer = move || answering(given, context, endpoint, &|at| drop(told.send(at)));
        let first = pinnace_sys::thread::start_scoped(scope, "", answer)
            .map_err(|error| Failure::of("starting a thread", error))?;
        let asked = match bound.recv() {
            Ok(endpoint) => asking(given, context, &endpoint),
            // The binding end has failed, and reports why.
            Err(_) => Ok(None),
        };
        let answered =
            first.join().unwrap_or_else(|_| Err(Failure::Failed("the other thread panicked".to_owned())));
        Ok(answered?.or(asked?))
    })
}

fn prepared(given: &Bench, context: &Context, socket_type: SocketType) -> Outcome<Socket> {
    let socket = settings::socket(context, socket_type, &given.socket)?;
    let limit = given.timeout.as_millis().to_string();
    for name in ["rcvtimeo", "sndtimeo", "linger"] {
        settings::set(&socket, name, limit.as_bytes())?;
    }
    Ok(socket)
}

/// The end that binds: receives all messages, or echoes each. Calls `told` with the endpoint once it is bound.
fn answering(given: &Bench, context: &Context, endpoint: &str, told: &dyn Fn(String)) -> Outcome<Found> {
    let socket_type = if given.measure == Measure::Thr { SocketType::Pull } else { SocketType::Rep };
    let socket = prepared(given, context, socket_type)?;
    let outcome = socket.bind(endpoint).and_then(|actual| {
        if given.socket.verbose {
            crate::outcome::say(format!("bound to {actual}"));
        }
        told(actual);
        match given.measure {
            Measure::Thr => receive_all(given, &socket),
            Measure::Lat => echo_all(given, &socket),
        }
    });
    settings::print_stats(&given.socket, &[("bench", &socket)]);
    socket.close(true);
    outcome
}

/// The end that connects: sends all messages, or sends requests and times each reply.
fn asking(given: &Bench, context: &Context, endpoint: &str) -> Outcome<Found> {
    let socket_type = if given.measure == Measure::Thr { SocketType::Push } else { SocketType::Req };
    let socket = prepared(given, context, socket_type)?;
    let outcome = socket.connect(endpoint).and_then(|_| match given.measure {
        Measure::Thr => {
            let body = body(given)?;
            (0..given.count).try_for_each(|_| send(&socket, &body)).map(|()| None)
        }
        Measure::Lat => time_all(given, &socket),
    });
    socket.close(outcome.is_ok());
    outcome
}

/// A message of the configured size.
fn body(given: &Bench) -> Outcome<Vec<u8>> {
    let mut body = Vec::new();
    body.try_reserve_exact(given.size)
        .map_err(|_| Failure::of("--size", format!("cannot allocate {} bytes", given.size)))?;
    body.resize(given.size, 0);
    Ok(body)
}

fn send(socket: &Socket, body: &[u8]) -> Outcome {
    socket.0.send_bytes(body).map_err(|error| failure(socket, error))
}

/// Receives one message of the configured size.
fn recv(given: &Bench, socket: &Socket) -> Outcome {
    let (mut frames, mut len) = (0, 0);
    let received = socket.0.recv_with(|frame| {
        frames += 1;
        len += frame.len();
    });
    received.map_err(|error| failure(socket, error))?;
    if frames != 1 || len != given.size {
        return Err(Failure::Failed(format!("received a message of {len} bytes, not of {}", given.size)));
    }
    Ok(())
}

fn failure(socket: &Socket, error: Error) -> Failure {
    match error {
        Error::WouldBlock => socket.timed_out("no message was sent or received"),
        error => Failure::Failed(error.to_string()),
    }
}

fn receive_all(given: &Bench, socket: &Socket) -> Outcome<Found> {
    recv(given, socket)?;
    let (started, used) = (Instant::now(), processor_time());
    for _ in 1..given.count {
        recv(given, socket)?;
    }
    let (took, used) = (started.elapsed().as_secs_f64(), processor_time().saturating_sub(used));
    let rate = (given.count - 1) as f64 / took.max(1e-9);
    Ok(Some(vec![
        ("size", json!(given.size)),
        ("count", json!(given.count)),
        ("seconds", json!(rounded(took, 6))),
        ("messages_per_second", json!(rate.round() as u64)),
        ("megabytes_per_second", json!(rounded(rate * given.size as f64 / 1e6, 3))),
        ("processor_seconds", json!(rounded(used.as_secs_f64(), 6))),
    ]))
}

fn echo_all(given: &Bench, socket: &Socket) -> Outcome<Found> {
    let body = body(given)?;
    for _ in 0..given.count {
        recv(given, socket)?;
        send(socket, &body)?;
    }
    Ok(None)
}

fn time_all(given: &Bench, socket: &Socket) -> Outcome<Found> {
    let body = body(given)?;
    let used = processor_time();
    let mut trips = Vec::new();
    for _ in 0..given.count {
        let started = Instant::now();
        send(socket, &body)?;
        recv(given, socket)?;
        trips.push(started.elapsed());
    }
    let used = processor_time().saturating_sub(used);
    trips.sort_unstable();
    let total: Duration = trips.iter().sum();
    let half = |trip: Duration| json!(rounded(trip.as_secs_f64() * 1e6 / 2.0, 3));
    let part = |percent: usize| half(trips[(trips.len() - 1) * percent / 100]);
    Ok(Some(vec![
        ("size", json!(given.size)),
        ("count", json!(given.count)),
        ("mean_us", half(total / u32::try_from(trips.len()).unwrap_or(u32::MAX))),
        ("p50_us", part(50)),
        ("p99_us", part(99)),
        ("max_us", part(100)),
        ("processor_seconds", json!(rounded(used.as_secs_f64(), 6))),
    ]))
}

fn rounded(number: f64, digits: i32) -> f64 {
    let unit = 10_f64.powi(digits);
    (number * unit).round() / unit
}

/// The processor time of this process.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

fn print(given: &Bench, found: Found) -> Outcome {
    let Some(found) = found else { return Ok(()) };
    let mut text = String::new();
    if given.json {
        let object: Map<String, Value> =
            found.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        text = format!("{}\n", Value::Object(object));
    } else {
        for (name, value) in found {
            text += &format!("{name}: {value}\n");
        }
    }
    io::stdout().lock().write_all(text.as_bytes()).map_err(|error| Failure::of_output(&error))
}
