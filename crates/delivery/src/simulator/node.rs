//! A simulated host with one client: its disk, the process that runs now, and the deliveries in its hands.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::network::{Process, SimulatedNetwork};
use super::promise::{Node, Topic};
use super::registry::SimulatedRegistry;
use crate::environment::{now, simulated};
use crate::instance::Instance;
use crate::log::tests::faulty::Faulty;
use crate::registry::Watch;
use crate::store::records::Receiver;
use crate::{Client, Delivery, Error};

/// How often the watch's thread asks the registry.
const WATCH_EVERY: Duration = Duration::from_millis(50);
/// How long a client keeps its name without renewing it.
const LEASE: Duration = Duration::from_secs(2);

/// The settings of a client, the same for each of its starts.
#[derive(Clone)]
pub struct HostSettings {
    pub topics: Vec<Topic>,
    pub reassign_after: Option<Duration>,
    pub max_deliveries: Option<u32>,
    pub ack_within: Option<Duration>,
    pub skips: bool,
    pub disk_limit: u64,
    pub durable: bool,
    pub keeps_expired: bool,
}

pub struct Host {
    pub node: Node,
    pub settings: HostSettings,
    pub disk: Faulty,
    /// The offset of its wall clock, and the latest time that this has shown.
    pub skew_ms: i64,
    pub latest_ms: i64,
    /// None: its process has ended.
    pub life: Option<Life>,
    /// An earlier copy of its disk, and when it was made.
    pub copy: Option<(Faulty, Duration)>,
    /// Its disk was replaced by an earlier copy.
    pub is_restored: bool,
}

/// A process with its client.
pub struct Life {
    pub process: Process,
    pub client: Client,
    pub instance: Arc<Instance>,
    pub watch: Arc<Watch>,
    /// Messages that the disk has not confirmed: the batch, and the number.
    pub unconfirmed: Vec<(u64, u32)>,
    /// Deliveries that handlers have.
    pub in_hand: Vec<Handling>,
    pub watch_at: Duration,
    /// When its peer loop and log have work; None: only after an event.
    pub due: Option<Duration>,
    pub errors: Arc<Mutex<Vec<Error>>>,
}

/// A delivery that a handler has.
pub struct Handling {
    /// When the handler ends.
    pub until: Duration,
    pub delivery: Delivery,
    /// The message's number; None: it is a dead letter.
    pub number: Option<u32>,
}

pub fn name_of(node: Node) -> String {
    format!("n{node}")
}

pub fn node_of(name: &str) -> Node {
    name.trim_start_matches('n').parse().unwrap_or(usize::MAX)
}

pub fn topic_name(topic: Topic) -> String {
    format!("t{topic}")
}

pub fn topic_of(name: &str) -> Topic {
    name.trim_start_matches('t').parse().unwrap_or(usize::MAX)
}

/// An address of its own for each start: the one before may still be in use.
fn endpoint_of(node: Node, process: Process) -> String {
    format!("ipc://@n{node}-{process}")
}

impl Host {
    fn wall_ms(&self) -> i64 {
        simulated::elapsed().as_millis() as i64 + self.skew_ms
    }

    pub fn step_clock(&mut self, by_ms: i64) {
        self.latest_ms = self.latest_ms.max(self.wall_ms());
        self.skew_ms += by_ms;
    }

    /// Returns true if the client may have used later versions of its entry than its store and its clock know of.
    pub fn may_be_behind(&self) -> bool {
        self.is_restored && self.wall_ms() <= self.latest_ms
    }

    /// Starts the client. Errors: as of `Builder::start`.
    pub fn start(
        &mut self,
        process: Process,
        network: &SimulatedNetwork,
        registry: &SimulatedRegistry,
    ) -> Result<(), Error> {
        simulated::set_skew_ms(self.skew_ms);
        let topics: Vec<String> = self.settings.topics.iter().map(|topic| topic_name(*topic)).collect();
        let name = name_of(self.node);
        let errors = Arc::new(Mutex::new(Vec::new()));
        let reported = errors.clone();
        let mut builder = Client::builder(&name, &name)
            .topics(&topics.iter().map(String::as_str).collect::<Vec<_>>())
            .listen(&endpoint_of(self.node, process))
            .lease(LEASE)
            .linger(Duration::ZERO)
            .interval(Duration::from_millis(20))
            .retry(Duration::from_millis(20), Duration::from_millis(300))
            .reassign_after(self.settings.reassign_after)
            .disk_limit(self.settings.disk_limit)
            .durable(self.settings.durable)
            .dead_letter_expired(self.settings.keeps_expired)
            .on_error(move |error| reported.lock().unwrap().push(error.clone()));
        if let Some(deliveries) = self.settings.max_deliveries {
            builder = builder.max_deliveries(deliveries);
        }
        if let Some(within) = self.settings.ack_within {
            builder = builder.ack_within(within);
        }
        if self.settings.skips {
            builder = builder.skip_failing();
        }
        if self.disk.is_dead() {
            // An earlier start has failed on it.
            self.disk = self.disk.left_by_kill();
        }
        let storage = Arc::new(self.disk.clone());
        let instance = Instance::stepped(storage, builder.settings(), network.process(process, self.node))?;
        let instance = Arc::new(instance);
        let watch = Watch::stepped(registry.process(process));
        let client = builder.start_with(&instance, Some(watch.clone()), None)?;
        let watch_at = simulated::elapsed() + WATCH_EVERY;
        let (unconfirmed, in_hand, due) = (Vec::new(), Vec::new(), Some(simulated::elapsed()));
        self.life =
            Some(Life { process, client, instance, watch, unconfirmed, in_hand, watch_at, due, errors });
        Ok(())
    }

    /// The topics of messages to one that are pending.
    pub fn pending_to_one(&self) -> Vec<String> {
        let Some(life) = &self.life else { return Vec::new() };
        let state = life.instance.store.lock();
        let pending =
            state.outbox.iter().filter(|of| of.record.receiver == Receiver::Anyone && of.pending() > 0);
        pending.map(|of| of.record.topic.clone()).collect()
    }

    /// Lets the process do what is due. Returns the time of its next deadline.
    pub fn step(&mut self, network: &SimulatedNetwork) -> Option<Duration> {
        let life = self.life.as_mut()?;
        simulated::set_skew_ms(self.skew_ms);
        let now = simulated::elapsed();
        if life.watch_at <= now {
            life.watch.step();
            life.watch_at = now + WATCH_EVERY;
        }
        loop {
            let ready = network.take_ready(life.process);
            if ready.is_empty() && !life.instance.doorbell.is_rung() && life.due.is_none_or(|due| due > now) {
                break;
            }
            life.due = life.instance.step(ready).map(simulated::since_begin);
        }
        life.due.into_iter().chain([life.watch_at]).min()
    }

    /// The process dies: what it does from now on has no effect. `power`: with the host's power, so that
    /// what was not synced may be lost.
    pub fn kill(&mut self, power: bool, network: &SimulatedNetwork, registry: &SimulatedRegistry) {
        let Some(life) = self.life.take() else { return };
        network.kill(life.process);
        registry.kill(life.process);
        let left = if power { self.disk.left_by_power() } else { self.disk.left_by_kill() };
        self.disk = left;
        // Destructors run, but disk, network and registry already ignore this process.
        let Life { client, instance, watch, in_hand, .. } = life;
        drop((in_hand, client, watch, instance));
    }

    /// An orderly close. Then `settle` is called with each delivery in hand and its number, and the process ends.
    /// Returns the process, and whether all that it has handled is on the disk.
    pub fn close(
        &mut self,
        network: &SimulatedNetwork,
        registry: &SimulatedRegistry,
        settle: &mut dyn FnMut(Process, Delivery, Option<u32>),
    ) -> Option<(Process, bool)> {
        let life = self.life.take()?;
        simulated::set_skew_ms(self.skew_ms);
        let Life { process, client, instance, watch, in_hand, .. } = life;
        // In a simulation no thread settles anything meanwhile.
        let _ = client.close(Some(now()));
        drop(client);
        in_hand.into_iter().for_each(|hand| settle(process, hand.delivery, hand.number));
        let is_recorded = instance.store.log().progress().is_ok();
        drop((watch, instance));
        network.kill(process);
        registry.kill(process);
        Some((process, is_recorded))
    }
}
