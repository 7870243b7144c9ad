//! What a run does to its hosts, network and registry.

use std::time::Duration;

use super::network::Process;
use super::node::{Handling, name_of, node_of, topic_name, topic_of};
use super::promise::{Node, Topic, body_of};
use super::world::{TOPICS, World};
use crate::environment::simulated::{self, below, elapsed};
use crate::{Delivery, Durability, Error, Options};

/// One of the things that a run does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    Send,
    Receive,
    EndHandlers,
    Subscribe,
    Unsubscribe,
    Start,
    Close,
    Kill,
    CutPower,
    FailDisk,
    FillDisk,
    FreeDisk,
    StepClock,
    CutConnection,
    Partition,
    HealNetwork,
    RegistryDown,
    RegistryUnreachable,
    RegistryHangs,
    RegistryForgets,
    SaveRegistry,
    RegistryComesBackOld,
    HealRegistry,
    CopyDisk,
    ReplaceByCopy,
}

/// The acts of all runs, with their weights.
pub const WORK: [(Act, u64); 5] =
    [(Act::Send, 30), (Act::Receive, 30), (Act::EndHandlers, 20), (Act::Subscribe, 1), (Act::Start, 4)];

/// Groups of faults, of which each run has some.
pub const FAULTS: [&[(Act, u64)]; 9] = [
    &[(Act::Kill, 2), (Act::CutPower, 1)],
    &[(Act::Close, 2), (Act::Unsubscribe, 1)],
    &[(Act::FailDisk, 1), (Act::CutPower, 1)],
    &[(Act::FillDisk, 1), (Act::FreeDisk, 3)],
    &[(Act::StepClock, 1)],
    &[(Act::CutConnection, 3), (Act::Partition, 1), (Act::HealNetwork, 2)],
    &[(Act::RegistryDown, 1), (Act::RegistryUnreachable, 1), (Act::RegistryHangs, 1), (Act::HealRegistry, 3)],
    &[(Act::RegistryForgets, 1), (Act::SaveRegistry, 1), (Act::RegistryComesBackOld, 1)],
    &[(Act::CopyDisk, 1), (Act::ReplaceByCopy, 1)],
];
/// The index of the group of store copies. It permits duplicates, which disables checks, so few runs have it.
pub const COPIES: usize = FAULTS.len() - 1;

/// Times to live.
const TTLS_MS: [u64; 5] = [1, 20, 300, 5_000, 600_000];

impl World {
    pub fn perform(&mut self, act: Act) {
        let node = self.random_living();
        match (act, node) {
            (Act::Start, _) => {
                let ended: Vec<Node> =
                    (0..self.hosts.len()).filter(|node| self.hosts[*node].life.is_none()).collect();
                if !ended.is_empty() {
                    self.start(ended[below(ended.len() as u64) as usize]);
                }
            }
            (Act::CutConnection, _) => self.network.cut(),
            (Act::Partition, _) => {
                let count = self.hosts.len() as u64;
                let (from, to) = (below(count) as usize, below(count) as usize);
                self.note(|| format!("nothing passes from n{from} to n{to}"));
                self.network.partition(from, to);
            }
            (Act::HealNetwork, _) => self.network.heal(),
            (Act::RegistryDown | Act::RegistryForgets | Act::SaveRegistry | Act::RegistryComesBackOld, _)
            | (Act::HealRegistry, _) => self.change_registry(act),
            (_, None) => {}
            (Act::Send, Some(node)) => (0..1 + below(4)).for_each(|_| self.send(node)),
            (Act::Receive, Some(node)) => (0..1 + below(6)).for_each(|_| self.receive(node)),
            (Act::EndHandlers, Some(node)) => self.end_handlers(node, false),
            (Act::Subscribe, Some(node)) => self.subscribe(node),
            (Act::Unsubscribe, Some(node)) => self.unsubscribe(node),
            (Act::Close, Some(node)) => self.close(node),
            (Act::Kill, Some(node)) => self.kill(node, false),
            (Act::CutPower, Some(node)) => self.kill(node, true),
            (Act::FailDisk, Some(node)) => {
                self.hosts[node].disk.fail_in(below(20), std::io::ErrorKind::Other);
            }
            (Act::FillDisk, Some(node)) => {
                self.note(|| format!("{}'s disk is full", name_of(node)));
                self.oracle.record_full_disk(node, true);
                self.hosts[node].disk.set_space(Some(3 << 20));
            }
            (Act::FreeDisk, Some(node)) => {
                self.note(|| format!("{}'s disk has room", name_of(node)));
                self.oracle.record_full_disk(node, false);
                self.hosts[node].disk.set_space(None);
            }
            (Act::StepClock, Some(node)) => {
                self.hosts[node].step_clock(below(7_200_000) as i64 - 3_600_000);
                self.oracle.clocks.record_step(node, self.hosts[node].skew_ms);
                self.note(|| format!("{}'s clock steps", name_of(node)));
            }
            (Act::RegistryUnreachable, Some(node)) => {
                if let Some(life) = &self.hosts[node].life {
                    self.registry.set_unreachable(life.process);
                }
                self.mark_registry_unhealthy();
            }
            (Act::RegistryHangs, Some(node)) => {
                if let Some(life) = &self.hosts[node].life {
                    life.watch.set_hangs(true);
                }
                self.mark_registry_unhealthy();
            }
            (Act::CopyDisk, Some(node)) => {
                self.hosts[node].copy = Some((self.hosts[node].disk.copy(), elapsed()));
            }
            (Act::ReplaceByCopy, Some(node)) => self.replace_by_copy(node),
        }
    }

    fn mark_registry_unhealthy(&mut self) {
        self.healthy_since = None;
    }

    fn registry_changed(&mut self) {
        let healthy_from = self.healthy_since.map(|_| elapsed());
        self.healthy_since = healthy_from;
        let hosts = &self.hosts;
        self.oracle.registry_changed(|node| hosts[node].life.is_some(), healthy_from);
    }

    pub fn change_registry(&mut self, act: Act) {
        self.note(|| format!("{act:?}"));
        match act {
            Act::RegistryDown => {
                self.registry.set_down(true);
                self.mark_registry_unhealthy();
            }
            Act::RegistryForgets => {
                self.registry.forget();
                self.registry_changed();
            }
            Act::SaveRegistry => self.registry.save(),
            Act::RegistryComesBackOld => {
                if self.registry.come_back_old() {
                    self.registry_changed();
                }
            }
            _ => {
                self.registry.heal();
                let lives = self.hosts.iter().filter_map(|host| host.life.as_ref());
                lives.for_each(|life| life.watch.set_hangs(false));
                if self.healthy_since.is_none() {
                    self.healthy_since = Some(elapsed());
                    self.registry_changed();
                }
            }
        }
    }

    pub fn start(&mut self, node: Node) {
        self.last_process += 1;
        let process = self.last_process;
        let before = self.oracle.topics_of(node);
        let started = self.hosts[node].start(process, &self.network, &self.registry);
        self.note(|| format!("{} starts as process {process}: {started:?}", name_of(node)));
        let Some(life) = &self.hosts[node].life else {
            self.network.kill(process);
            self.registry.kill(process);
            let may_fail = matches!(
                started,
                Err(Error::NameTaken
                    | Error::Registry(_)
                    | Error::Failed(_)
                    | Error::NoRoom(_)
                    | Error::Io(_))
            );
            if !may_fail {
                self.oracle.findings.push(format!("{} cannot start: {started:?}", name_of(node)));
            }
            return;
        };
        self.oracle.set_behind(node, self.hosts[node].may_be_behind());
        let topics: Vec<Topic> = life.client.topics().iter().map(|topic| topic_of(topic)).collect();
        let lost: Vec<Topic> = before.into_iter().filter(|topic| !topics.contains(topic)).collect();
        if !lost.is_empty() && !self.oracle.has_copies {
            self.oracle.findings.push(format!("{} has lost its topics {lost:?}", name_of(node)));
        }
        // A restored copy may lack recent topics.
        lost.into_iter().for_each(|topic| self.oracle.record_unsubscribed(node, topic, false));
        let is_shown = self.healthy_since.is_some();
        topics.into_iter().filter(|topic| *topic < usize::MAX).for_each(|topic| {
            self.oracle.record_subscribed(node, topic, is_shown);
        });
    }

    fn subscribe(&mut self, node: Node) {
        let topic = below(TOPICS) as Topic;
        let Some(life) = &self.hosts[node].life else { return };
        simulated::set_skew_ms(self.hosts[node].skew_ms);
        let done = life.client.subscribe(&topic_name(topic));
        self.note(|| format!("{} subscribes {}: {done:?}", name_of(node), topic_name(topic)));
        if done.is_ok() {
            self.oracle.record_subscribed(node, topic, self.healthy_since.is_some());
        }
    }

    fn unsubscribe(&mut self, node: Node) {
        let topic = below(TOPICS) as Topic;
        let Some(life) = &self.hosts[node].life else { return };
        simulated::set_skew_ms(self.hosts[node].skew_ms);
        let done = life.client.unsubscribe(&topic_name(topic));
        let is_shown = done.is_ok() && self.healthy_since.is_some();
        self.oracle.record_unsubscribed(node, topic, is_shown);
        self.note(|| format!("{} unsubscribes {}: {done:?}", name_of(node), topic_name(topic)));
    }

    fn close(&mut self, node: Node) {
        self.note(|| format!("{} closes", name_of(node)));
        let Some(life) = &self.hosts[node].life else { return };
        self.oracle.record_death(node, life.process, false);
        self.end_transient(node, self.healthy_since.is_some());
        // An acknowledgement after the close counts; a delivery that is dropped has failed.
        let oracle = &mut self.oracle;
        let mut settle = |process: Process, delivery: Delivery, number: Option<u32>| {
            if let Some(number) = number.filter(|_| below(2) == 0) {
                oracle.record_acked(node, process, number);
                delivery.ack();
            }
        };
        let closed = self.hosts[node].close(&self.network, &self.registry, &mut settle);
        // A full disk may reject the final record of handled messages.
        let has_room = !self.acts.iter().any(|(act, _)| matches!(act, Act::FillDisk | Act::FailDisk));
        if let Some((process, true)) = closed.filter(|_| has_room) {
            self.oracle.record_closed(process);
        }
    }

    pub fn kill(&mut self, node: Node, power: bool) {
        self.note(|| format!("{} is killed, power: {power}", name_of(node)));
        let Some(life) = &self.hosts[node].life else { return };
        self.oracle.record_death(node, life.process, power);
        if power || life.instance.store.log().progress().is_err() {
            self.oracle.record_data_lost(node);
        }
        self.hosts[node].kill(power, &self.network, &self.registry);
        self.end_transient(node, false);
    }

    /// A process has ended or is about to: the subscriptions of a client that is not durable end with it. `is_shown`:
    /// the registry will take note soon.
    fn end_transient(&mut self, node: Node, is_shown: bool) {
        if !self.hosts[node].settings.durable {
            for topic in self.oracle.topics_of(node) {
                self.oracle.record_unsubscribed(node, topic, is_shown);
            }
        }
    }

    fn replace_by_copy(&mut self, node: Node) {
        let Some((copy, made)) = self.hosts[node].copy.take() else { return };
        self.kill(node, false);
        self.note(|| format!("{} is given back its disk of {:.3} s back", name_of(node), made.as_secs_f64()));
        (self.hosts[node].disk, self.hosts[node].is_restored) = (copy, true);
        self.oracle.record_replaced(node, made);
    }

    fn send(&mut self, node: Node) {
        let (topic, all) = (below(TOPICS) as Topic, below(2) == 0);
        let len = self.sizes[below(self.sizes.len() as u64) as usize];
        let durability = [Durability::Sync, Durability::Interval, Durability::Memory][below(7) as usize % 3];
        let sees_registry = self.healthy_since.is_some();
        simulated::set_skew_ms(self.hosts[node].skew_ms);
        let Some(life) = &mut self.hosts[node].life else { return };
        let number = self.oracle.record_send(node, all, topic, len, sees_registry);
        let deadline = Some(crate::environment::now());
        let key = Some(number % 2).filter(|_| self.has_keys);
        let key_text = key.map(|key| format!("key {key}"));
        let ttl = (self.has_ttl && below(2) == 0)
            .then(|| Duration::from_millis(TTLS_MS[below(TTLS_MS.len() as u64) as usize]));
        let ordering_key = key_text.as_deref();
        let options = Options { all, durability, deadline, ttl, ordering_key, ..Options::default() };
        if let Some(ttl) = ttl {
            self.oracle.record_ttl(number, ttl);
        }
        if let Some(key) = key {
            self.oracle.record_ordering_key(number, key);
        }
        let sent = life.client.send_async(&topic_name(topic), &body_of(number, len), &options);
        if let Ok(ticket) = &sent {
            let (receivers, batch) = (ticket.receivers(), u64::from(*ticket));
            match durability {
                Durability::Memory => self.oracle.record_in_memory(number),
                Durability::Sync | Durability::Interval => life.unconfirmed.push((batch, number)),
            }
            self.oracle.record_receivers(number, receivers);
        }
        life.due = Some(elapsed());
        let view = self.log.is_some().then(|| life.client.describe_routes());
        let (name, topic) = (name_of(node), topic_name(topic));
        let (key, ttl) =
            (key_text.unwrap_or_default(), ttl.map(|ttl| format!("ttl {ttl:?}")).unwrap_or_default());
        self.note(|| {
            format!("{name} sends {number} to {topic}, all: {all}, {durability:?} {key}{ttl}: {sent:?}")
        });
        if !self.oracle.findings.is_empty() {
            self.note(|| format!("{name} knows {}", view.unwrap_or_default()));
        }
    }

    pub fn receive(&mut self, node: Node) {
        simulated::set_skew_ms(self.hosts[node].skew_ms);
        let Some(life) = &mut self.hosts[node].life else { return };
        let process = life.process;
        let Ok(delivery) = life.client.recv(Some(crate::environment::now())) else { return };
        let number = match delivery.dead() {
            Some(_) => None,
            None => {
                let (from, topic) = (node_of(delivery.from()), topic_of(delivery.topic()));
                let number = self.oracle.record_delivered(node, process, from, topic, delivery.body());
                if number.is_none() {
                    return;
                }
                number
            }
        };
        let deliveries = delivery.deliveries();
        // One in fifty hangs until its process ends.
        let hangs = if below(50) == 0 { Duration::from_secs(3600) } else { Duration::ZERO };
        let until = elapsed() + Duration::from_millis(below(30) * below(30)) + hangs;
        life.in_hand.push(Handling { until, delivery, number });
        self.note(|| format!("{} gets {number:?}, delivery {deliveries}", name_of(node)));
    }

    /// Ends some handlers. `all`: they all succeed, now.
    pub fn end_handlers(&mut self, node: Node, all: bool) {
        simulated::set_skew_ms(self.hosts[node].skew_ms);
        let Some(life) = &mut self.hosts[node].life else { return };
        let now = elapsed();
        let ended: Vec<Handling> = life.in_hand.extract_if(.., |hand| all || hand.until <= now).collect();
        let process = life.process;
        for Handling { delivery, number, .. } in ended {
            let fails = !all && below(100) < self.failing;
            self.end_handler(node, process, delivery, number, fails);
        }
    }

    fn end_handler(
        &mut self,
        node: Node,
        process: Process,
        delivery: Delivery,
        number: Option<u32>,
        fails: bool,
    ) {
        let how = if fails { below(3) } else { 3 };
        let text = ["drops", "nacks", "gives up", "acknowledges"][how as usize];
        self.note(|| format!("{} {text} {number:?}", name_of(node)));
        match (number, fails) {
            (None, _) => {
                let letter = delivery.dead().and_then(|dead| {
                    self.oracle.record_dead_letter(node_of(delivery.from()), dead, delivery.body())
                });
                self.note(|| format!("{} has buried {letter:?}", name_of(node)));
                delivery.ack();
            }
            (Some(number), false) => {
                self.oracle.record_acked(node, process, number);
                delivery.ack();
            }
            (Some(_), true) => match how {
                0 => drop(delivery),
                1 => delivery.nack(None),
                _ => delivery.terminate(),
            },
        }
        if let Some(life) = &mut self.hosts[node].life {
            life.due = Some(elapsed());
        }
    }
}
