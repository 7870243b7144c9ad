//! The driver of the Rust face: driver.py describes each command.

mod together;

use std::collections::HashMap;
use std::io::{BufRead, ErrorKind};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use pinnace::delivery::registry::RegistryError;
use pinnace::delivery::{CURSOR_SCHEMA, Client, Delivery, Durability, Error, Options, Settlement};
use pinnace::{Interest, Poller};

/// Error numbers that all faces report.
const ENOENT: i32 = 2;
const EIO: i32 = 5;
const EAGAIN: i32 = 11;
const EFAULT: i32 = 14;
const EBUSY: i32 = 16;
const EEXIST: i32 = 17;
const EINVAL: i32 = 22;
const EADDRINUSE: i32 = 98;
const EMSGSIZE: i32 = 90;
const ESTALE: i32 = 116;
const ECANCELED: i32 = 125;

/// What the suite receives for an error: a number and a text.
struct Refused(i32, String);

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        let number = match &error {
            Error::Name
            | Error::Property(_)
            | Error::Setting(_)
            | Error::Together(_)
            | Error::Registry(
                RegistryError::Endpoint
                | RegistryError::Topics
                | RegistryError::Lease
                | RegistryError::Url(_),
            ) => EINVAL,
            Error::Endpoint(error) => error.errno(),
            Error::NameTaken => EEXIST,
            Error::InUse | Error::Registry(RegistryError::Busy) => EBUSY,
            Error::Io(ErrorKind::NotFound) => ENOENT,
            Error::Metrics { kind: ErrorKind::AddrInUse, .. } => EADDRINUSE,
            Error::TimedOut => EAGAIN,
            Error::TooLargeTogether(_) => EMSGSIZE,
            Error::Void => ESTALE,
            Error::Closed => ECANCELED,
            _ => EIO,
        };
        Refused(number, error.to_string())
    }
}

type Answer = Result<String, Refused>;

struct Driver {
    clients: HashMap<String, Arc<Client>>,
    deliveries: Vec<Option<Delivery>>,
    /// Permissions for handlers that hang, one each.
    release: Sender<()>,
    released: Arc<Mutex<Receiver<()>>>,
    /// What handlers that close have got.
    closing: Sender<Result<(), Error>>,
    closed: Receiver<Result<(), Error>>,
}

fn ok<E: Into<Refused>>(done: Result<(), E>) -> Answer {
    done.map(|()| "ok".to_owned()).map_err(Into::into)
}

fn number(word: &str) -> u64 {
    word.parse().unwrap_or_else(|_| panic!("{word} is no number"))
}

/// A time in milliseconds; below 0 means forever.
fn ms(word: &str) -> Option<Duration> {
    word.parse().ok().map(Duration::from_millis)
}

fn deadline(word: &str) -> Option<Instant> {
    ms(word).map(|time| Instant::now() + time)
}

fn body(spec: &str) -> Vec<u8> {
    if let Some(text) = spec.strip_prefix('=') {
        return text.as_bytes().to_vec();
    }
    let (size, seed) = spec.split_once(':').expect("SIZE:SEED");
    (0..number(size)).map(|at| (at / 7 + number(seed)) as u8).collect()
}

fn text(delivery: &Delivery) -> String {
    String::from_utf8_lossy(delivery.body()).into_owned()
}

fn adler32(bytes: &[u8]) -> u32 {
    let (low, high) = bytes.iter().fold((1, 0), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % 65_521;
        (low, (high + low) % 65_521)
    });
    high << 16 | low
}

impl Driver {
    fn client(&self, word: &str) -> Arc<Client> {
        self.clients[word].clone()
    }

    fn start(&mut self, words: &[&str]) -> Answer {
        let [client, name, topic, options @ ..] = words else { panic!("start") };
        let mut builder = Client::builder(name, topic);
        let (mut first, mut most) = (Duration::from_millis(100), Duration::from_secs(60));
        for option in options {
            let (key, value) = option.split_once('=').expect("KEY=VALUE");
            builder = match key {
                "data_dir" => builder.data_dir(value),
                "registry" => builder.registry(value),
                "listen" => builder.listen(value),
                "metrics" => builder.metrics(value),
                "lease_ms" => builder.lease(Duration::from_millis(number(value))),
                "deduplicate_for_ms" if value == "forever" => builder.deduplicate_for(Duration::MAX),
                "deduplicate_for_ms" => builder.deduplicate_for(Duration::from_millis(number(value))),
                "ack_within_ms" => builder.ack_within(Duration::from_millis(number(value))),
                "interval_ms" => builder.interval(Duration::from_millis(number(value))),
                "max_deliveries" => builder.max_deliveries(number(value) as u32),
                "handler_linger_ms" => builder.handler_linger(Duration::from_millis(number(value))),
                "dead_letter_expired" => builder.dead_letter_expired(value == "1"),
                "disk_limit" => builder.disk_limit(number(value)),
                "durable" => builder.durable(value == "1"),
                "retain_for_ms" => builder.retain_for(Some(Duration::from_millis(number(value)))),
                "retain_bytes" => builder.retain_bytes(number(value)),
                "topic" => builder.topics(&[value]),
                "peer" => {
                    let mut parts = value.splitn(3, '@');
                    let mut part = || parts.next().expect("NAME@ENDPOINT@TOPIC");
                    builder.peer(part(), part(), &[part()])
                }
                "retry_first_ms" | "retry_most_ms" => {
                    let wait = if key == "retry_first_ms" { &mut first } else { &mut most };
                    *wait = Duration::from_millis(number(value));
                    builder
                }
                key => panic!("no option {key}"),
            };
        }
        let started = builder.retry(first, most).start()?;
        self.clients.insert((*client).to_owned(), Arc::new(started));
        ok::<Error>(Ok(()))
    }

    fn send(&self, words: &[&str]) -> Answer {
        let [call, client, topic, spec, options @ ..] = words else { panic!("send") };
        let (client, body) = (self.client(client), body(spec));
        let [all, interval, ttl, timeout] = options else {
            let all = *call == "all";
            if all {
                return Ok(format!("number {}", client.send_all(topic, &body)?));
            }
            return ok(client.send_to(topic, &body));
        };
        let durability = if *interval == "1" { Durability::Interval } else { Durability::Sync };
        let ttl = ms(ttl).filter(|ttl| !ttl.is_zero());
        let options =
            Options { all: *all == "1", durability, ttl, deadline: deadline(timeout), ..Options::default() };
        ok(client.send(topic, &body, &options))
    }

    fn describe(&self, words: &[&str]) -> Answer {
        let [client, topic, spec, texts @ ..] = words else { panic!("describe") };
        let (texts, headers) = texts.split_at(5);
        let text = |at: usize| match texts[at] {
            "-" => None,
            "''" => Some(""),
            text => Some(text),
        };
        let headers: Vec<(&str, &[u8])> = headers
            .iter()
            .map(|header| header.split_once('=').expect("KEY=VALUE"))
            .map(|(key, value)| (key, value.as_bytes()))
            .collect();
        let options = Options {
            id: text(0),
            content_type: text(1),
            traceparent: text(2),
            tracestate: text(3),
            ordering_key: text(4),
            headers: &headers,
            ..Options::default()
        };
        ok(self.client(client).send(topic, &body(spec), &options))
    }

    fn properties(&self, at: &str) -> Answer {
        let delivery = self.deliveries[number(at) as usize].as_ref();
        let delivery = delivery.ok_or_else(|| Refused(EFAULT, "settled already".to_owned()))?;
        let texts = [
            delivery.id(),
            delivery.content_type(),
            delivery.traceparent(),
            delivery.tracestate(),
            delivery.ordering_key(),
        ];
        let mut said = format!("properties {}", texts.map(|text| text.unwrap_or("-")).join(" "));
        for (key, value) in delivery.headers() {
            assert_eq!(delivery.header(key), Some(value));
            said = format!("{said} {key}={}", String::from_utf8_lossy(value));
        }
        Ok(said)
    }

    fn burst(&self, client: &str, topic: &str, count: &str) -> Answer {
        let (client, mut last) = (self.client(client), None);
        for number in 0..number(count) {
            last = Some(client.send_async(topic, number.to_string().as_bytes(), &Options::default())?);
        }
        ok(last.map_or(Ok(()), |ticket| client.wait(ticket, None)))
    }

    fn recv(&mut self, client: &str, timeout: &str) -> Answer {
        let client = self.client(client);
        let delivery = match timeout {
            "0" => client.try_recv()?.ok_or(Error::TimedOut)?,
            timeout => client.recv(deadline(timeout))?,
        };
        let said = format!(
            "delivery {} {} {} {} {} {} {}",
            self.deliveries.len(),
            delivery.from(),
            delivery.topic(),
            delivery.deliveries(),
            delivery.accepted_ms(),
            delivery.body().len(),
            adler32(delivery.body())
        );
        self.deliveries.push(Some(delivery));
        Ok(said)
    }

    fn dead(&self, at: &str) -> Answer {
        let delivery = self.deliveries[number(at) as usize].as_ref();
        let dead = delivery.and_then(Delivery::dead);
        let dead = dead.ok_or_else(|| Refused(ENOENT, "no dead letter".to_owned()))?;
        let reason = dead.reason as u8;
        Ok(format!("dead {} {} {} {reason}", dead.topic, dead.receiver, dead.deliveries))
    }

    fn cursor(&self, at: &str) -> Answer {
        let delivery = self.deliveries[number(at) as usize].as_ref();
        let delivery = delivery.ok_or_else(|| Refused(EFAULT, "settled already".to_owned()))?;
        let cursor = delivery.cursor();
        let (sender, settled) = (cursor.sender_text(), cursor.settled);
        Ok(format!("cursor {sender} {} {} {settled}", cursor.stream, cursor.number))
    }

    fn by_peer(&self, client: &str) -> String {
        let all = self.client(client).pending_by_peer();
        let peers = all.into_iter().map(|pending| {
            let receiver = pending.receiver.unwrap_or_else(|| "-".to_owned());
            format!(" {receiver}:{}:{}", pending.topic, pending.messages)
        });
        format!("by_peer{}", peers.collect::<String>())
    }

    fn settle(&mut self, words: &[&str]) -> Answer {
        let delivery = self.deliveries[number(words[1]) as usize].take();
        let delivery = delivery.ok_or_else(|| Refused(EFAULT, "settled already".to_owned()))?;
        match words {
            ["ack", _] => delivery.ack(),
            ["nack", _, delay] => delivery.nack(ms(delay)),
            ["terminate", _] => delivery.terminate(),
            ["give_back", _] => delivery.give_back(),
            _ => drop(delivery),
        }
        ok::<Error>(Ok(()))
    }

    fn poll(&self, client: &str, timeout: &str) -> Answer {
        let (client, poller) = (self.client(client), Poller::new().expect("a poller"));
        let readiness = client.readiness()?;
        poller.add_fd(&readiness, Interest::READABLE, ()).expect("a descriptor that can be polled");
        let ready = poller.wait(ms(timeout)).expect("poll");
        Ok(format!("number {}", ready.len()))
    }

    fn take(&self, client: &str, count: &str) -> Answer {
        let (client, mut said) = (self.client(client), "took".to_owned());
        for _ in 0..number(count) {
            let delivery = client.recv(deadline("20000"))?;
            said = format!("{said} {}", text(&delivery));
            delivery.ack();
        }
        Ok(said)
    }

    fn run(&self, client: &str, verdicts: &[&str]) -> Answer {
        let (client, mut said) = (self.client(client), "ran".to_owned());
        for (at, verdict) in verdicts.iter().enumerate() {
            let mut note = |delivery: &Delivery| {
                said = format!("{said} {}:{}", text(delivery), delivery.deliveries());
            };
            match *verdict {
                "ack" => client.run(|delivery| {
                    note(delivery);
                    ControlFlow::Break(())
                })?,
                "throw" => {
                    let thrown = catch_unwind(AssertUnwindSafe(|| {
                        client.run(|delivery| -> ControlFlow<()> {
                            note(delivery);
                            panic!("on purpose")
                        })
                    }));
                    assert!(thrown.is_err(), "the panic comes out");
                }
                verdict => {
                    let settlement = match verdict {
                        "nack" => Settlement::Nack(None),
                        "terminate" => Settlement::Terminate,
                        _ => Settlement::Fail,
                    };
                    client.run(|delivery| {
                        note(delivery);
                        (settlement, ControlFlow::Break(at))
                    })?;
                }
            }
        }
        Ok(said)
    }

    fn forward(&self, client: &str, topic: &str) -> Answer {
        let (client, topic) = (self.client(client), topic.to_owned());
        thread::spawn(move || {
            let ended = client.run(|delivery| match client.send_to(&topic, delivery.body()) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::Break(error),
            });
            assert!(matches!(ended, Err(Error::Closed)), "{ended:?}");
        });
        ok::<Error>(Ok(()))
    }

    fn start_process(&self, client: &str, topic: &str) -> Answer {
        let (client, topic) = (self.client(client), topic.to_owned());
        let sender = Arc::downgrade(&client);
        ok(client.listen(move |_| {
            let said = Command::new("grep").args(["SigBlk", "/proc/self/status"]).output().expect("grep");
            let blocked = String::from_utf8_lossy(&said.stdout).split_whitespace().nth(1).map(str::to_owned);
            let sender = sender.upgrade().ok_or(Error::Closed)?;
            sender.send_to(&topic, blocked.unwrap_or_default().as_bytes())
        }))
    }

    fn hang(&self, client: &str, topic: &str) -> Answer {
        let (client, topic, released) = (self.client(client), topic.to_owned(), self.released.clone());
        let sender = Arc::downgrade(&client);
        ok(client.listen(move |delivery| {
            released.lock().expect("no panic").recv().expect("the driver lives");
            match sender.upgrade().filter(|_| topic != "-") {
                Some(sender) => sender.send_to(&topic, delivery.body()),
                None => Ok(()),
            }
        }))
    }

    fn close_by_handler(&self, client: &str, timeout: &str) -> Answer {
        let (client, closing, time) = (self.client(client), self.closing.clone(), ms(timeout));
        let own = client.clone();
        ok(client.listen(move |_| {
            let deadline = || time.map(|time| Instant::now() + time);
            let closed = own.drain(deadline()).and_then(|()| own.close(deadline()));
            closing.send(closed.and_then(|()| own.close(deadline()))).map_err(|_| Error::Closed)
        }))
    }

    fn close_twice(&self, client: &str, timeout: &str) -> Answer {
        let client = self.client(client);
        thread::scope(|scope| {
            let both = [(); 2].map(|()| scope.spawn(|| client.close(deadline(timeout))));
            both.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
        })?;
        ok(client.close(deadline(timeout)))
    }

    /// Drops a client, as most programs do.
    fn close(&mut self, client: &str) -> Answer {
        let client = self.clients.remove(client).map(Arc::try_unwrap);
        // A thread of `forward` shares it.
        ok(client.and_then(Result::err).map_or(Ok(()), |shared| shared.close(deadline("20000"))))
    }

    fn interrupt(&mut self, name: &str) -> Answer {
        let shared = self.client(name);
        let client = shared.clone();
        let receiver = thread::spawn(move || shared.recv(None).map(drop));
        client.close(deadline("20000"))?;
        self.close(name)?;
        ok(receiver.join().expect("the thread ends"))
    }

    fn obey(&mut self, words: &[&str]) -> Answer {
        match words {
            ["start", rest @ ..] => self.start(rest),
            ["close", client] => self.close(client),
            ["send" | "all" | "with", ..] => self.send(words),
            ["describe", rest @ ..] => self.describe(rest),
            ["properties", delivery] => self.properties(delivery),
            ["together", client, delivery, timeout, messages @ ..] => {
                self.together(client, delivery, timeout, messages)
            }
            ["burst", client, topic, count] => self.burst(client, topic, count),
            ["recv", client, timeout] => self.recv(client, timeout),
            ["dead", delivery] => self.dead(delivery),
            ["cursor", delivery] => self.cursor(delivery),
            ["schema"] => Ok(format!("schema {}", CURSOR_SCHEMA.replace('\n', " "))),
            ["by_peer", client] => Ok(self.by_peer(client)),
            ["ack" | "nack" | "terminate" | "fail" | "give_back", ..] => self.settle(words),
            ["take", client, count] => self.take(client, count),
            ["run", client, verdicts @ ..] => self.run(client, verdicts),
            ["forward", client, topic] => self.forward(client, topic),
            ["start_process", client, topic] => self.start_process(client, topic),
            ["hang", client, topic] => self.hang(client, topic),
            ["release"] => ok(self.release.send(()).map_err(|_| Error::Closed)),
            ["in_hand", client] => Ok(format!("number {}", self.client(client).in_hand())),
            ["drain", client, timeout] => ok(self.client(client).drain(deadline(timeout))),
            ["close_within", client, timeout] => ok(self.client(client).close(deadline(timeout))),
            ["close_by_handler", client, timeout] => self.close_by_handler(client, timeout),
            ["closed"] => {
                ok(self.closed.recv_timeout(Duration::from_secs(60)).unwrap_or(Err(Error::TimedOut)))
            }
            ["close_twice", client, timeout] => self.close_twice(client, timeout),
            ["pending", client] => Ok(format!("number {}", self.client(client).pending())),
            ["settle", client, most, timeout] => {
                ok(self.client(client).wait_pending(number(most), deadline(timeout)))
            }
            ["poll", client, timeout] => self.poll(client, timeout),
            ["wait_listeners", client, topic, count, timeout] => {
                ok(self.client(client).wait_listeners(topic, number(count) as usize, deadline(timeout)))
            }
            ["subscribe", client, topic] => ok(self.client(client).subscribe(topic)),
            ["forget", client, name] => ok(self.client(client).forget(name)),
            ["unsubscribe", client, topic] => ok(self.client(client).unsubscribe(topic)),
            ["addresses", client, topic] => {
                Ok(format!("addresses {}", self.client(client).addresses_of(topic).join(" ")))
            }
            ["statistics", client] => {
                Ok(format!("statistics {}", self.client(client).statistics().to_json()))
            }
            ["metrics", client] => {
                let address = self.client(client).metrics_address();
                let address = address.ok_or(Error::Io(ErrorKind::NotFound))?;
                Ok(format!("metrics {address}"))
            }
            ["identity", client] => {
                let client = self.client(client);
                Ok(format!("identity {} {}", client.name(), client.endpoint()))
            }
            ["interrupt", client] => self.interrupt(client),
            words => panic!("no command {words:?}"),
        }
    }
}

fn main() {
    let ((release, released), (closing, closed)) = (channel(), channel());
    let (clients, deliveries, released) = (HashMap::new(), Vec::new(), Arc::new(Mutex::new(released)));
    let mut driver = Driver { clients, deliveries, release, released, closing, closed };
    // Hides the deliberate panics of handlers.
    std::panic::set_hook(Box::new(|panic| {
        if !panic.to_string().contains("on purpose") {
            eprintln!("{panic}");
        }
    }));
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("commands are text");
        let words: Vec<&str> = line.split_whitespace().collect();
        match driver.obey(&words) {
            Ok(said) => println!("{said}"),
            Err(Refused(number, words)) => println!("error {number} {words}"),
        }
    }
}
