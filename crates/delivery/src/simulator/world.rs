//! One run: hosts, network and registry, what is done to them, and the end at which everything promised has happened.

use std::collections::HashMap;
use std::time::Duration;

use super::acts::{Act, COPIES, FAULTS, WORK};
use super::network::{Process, SimulatedNetwork};
use super::node::{Host, HostSettings, name_of, topic_name, topic_of};
use super::promise::{Node, Oracle, Topic};
use super::registry::SimulatedRegistry;
use crate::Error;
use crate::environment::simulated::{self, advance_to, below, elapsed};
use crate::log::tests::faulty::Faulty;

pub const TOPICS: u64 = 3;
/// The suffix of dead-letter topics.
const DEAD: &str = ".dead";
/// How long everything may take once all faults have ended.
const QUIESCE_LIMIT: Duration = Duration::from_secs(120);
const DISK_LIMIT: u64 = 64 << 20;
/// The most bytes of a part, in half of the runs.
const PART_BYTES: usize = 7_000;

pub struct World {
    pub hosts: Vec<Host>,
    pub network: SimulatedNetwork,
    pub registry: SimulatedRegistry,
    pub oracle: Oracle,
    pub last_process: Process,
    pub acts: Vec<(Act, u64)>,
    /// The registry answers all, and has done so since.
    pub healthy_since: Option<Duration>,
    /// The credit of a connection, in bytes.
    pub window: u64,
    /// How often a handler fails or gives up, in percent.
    pub failing: u64,
    /// The lengths of messages.
    pub sizes: &'static [usize],
    /// Some messages to one have ordering keys.
    pub has_keys: bool,
    /// Some messages have a time to live.
    pub has_ttl: bool,
    /// The course of events, if it is kept.
    pub log: Option<Vec<String>>,
}

/// What a run has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    pub accepted: usize,
    pub handled: usize,
    pub frames: u64,
    pub virtual_ms: u64,
}

/// The sizes of bodies. `fills`: so large that there is soon no room for letters.
fn choose_sizes(fills: bool) -> &'static [usize] {
    let sizes: &[usize] = [&[4, 20, 100][..], &[4, 1000, 30_000], &[8]][below(3) as usize];
    if fills { &[4, 90_000] } else { sizes }
}

impl World {
    pub fn new(seed: u64, log: bool) -> World {
        let count = 2 + below(5) as usize;
        let delay_us = [50, 500, 5_000, 50_000][below(4) as usize];
        let reassigns = below(2) == 0;
        let has_ttl = seed % 3 == 2;
        let mut acts = WORK.to_vec();
        for (group, faults) in FAULTS.iter().enumerate() {
            if below(if group == COPIES { 10 } else { 3 }) == 0 {
                acts.extend_from_slice(faults);
            }
        }
        let sizes = choose_sizes(has_ttl && acts.iter().any(|(act, _)| *act == Act::FillDisk));
        simulated::set_part_limit(if seed % 2 == 1 { PART_BYTES } else { usize::MAX });
        let window = [8 << 20, 50_000, 2_000, 200][below(4) as usize];
        simulated::set_window(window);
        simulated::set_ranges_limit([usize::MAX, 16, 3, 1][below(4) as usize]);
        let failing = [0, 5, 30][below(3) as usize];
        let hosts = (0..count).map(|node| {
            let topics = (0..TOPICS as usize).filter(|_| below(2) == 0).collect();
            let settings = HostSettings {
                topics,
                reassign_after: reassigns.then(|| Duration::from_secs(1 + below(5))),
                max_deliveries: (below(4) == 0).then_some(3),
                ack_within: (below(4) == 0).then(|| Duration::from_millis(200)),
                skips: below(4) == 0,
                disk_limit: DISK_LIMIT,
                durable: below(4) > 0,
                keeps_expired: has_ttl && below(2) == 0,
            };
            let disk = Faulty::new(seed.wrapping_mul(31).wrapping_add(node as u64));
            Host {
                node,
                settings,
                disk,
                skew_ms: 0,
                latest_ms: 0,
                life: None,
                copy: None,
                is_restored: false,
            }
        });
        let (network, registry) = (SimulatedNetwork::new(delay_us), SimulatedRegistry::default());
        let hosts: Vec<Host> = hosts.collect();
        let those = |is_one: fn(&HostSettings) -> bool| {
            hosts.iter().filter(|host| is_one(&host.settings)).map(|host| host.node).collect()
        };
        let (transient, keeps_expired) = (those(|of| !of.durable), those(|of| of.keeps_expired));
        let oracle = Oracle::new(count, reassigns, transient, keeps_expired);
        let (last_process, healthy_since) = (0, Some(Duration::ZERO));
        let log = log.then(Vec::new);
        World {
            hosts,
            network,
            registry,
            oracle,
            last_process,
            acts,
            healthy_since,
            window,
            failing,
            sizes,
            has_keys: seed % 4 == 1,
            has_ttl,
            log,
        }
    }

    pub fn note(&mut self, text: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            log.push(format!("{:10.3} {}", elapsed().as_secs_f64(), text()));
        }
    }

    /// The course of events, if it is kept.
    pub fn take_log(&mut self) -> Vec<String> {
        self.log.take().unwrap_or_default()
    }

    /// Runs the whole scenario. Error: what was found.
    pub fn run(&mut self) -> Result<Summary, Vec<String>> {
        (0..self.hosts.len()).for_each(|node| self.start(node));
        for _ in 0..150 + below(250) {
            self.pass(below(40) * below(40));
            self.check_credit();
            self.act();
            if !self.oracle.findings.is_empty() {
                return Err(std::mem::take(&mut self.oracle.findings));
            }
        }
        self.run_until_quiescent();
        match self.oracle.findings.is_empty() {
            true => Ok(self.summary()),
            false => Err(std::mem::take(&mut self.oracle.findings)),
        }
    }

    fn summary(&self) -> Summary {
        let (accepted, handled) = self.oracle.count();
        let virtual_ms = elapsed().as_millis() as u64;
        Summary { accepted, handled, frames: self.network.frames(), virtual_ms }
    }

    /// Lets time pass, and everything happen that is due meanwhile.
    fn pass(&mut self, ms: u64) {
        let until = elapsed() + Duration::from_millis(ms);
        loop {
            let mut next = self.network.advance();
            for node in 0..self.hosts.len() {
                let due = self.hosts[node].step(&self.network);
                next = next.into_iter().chain(due).min();
            }
            self.confirm();
            let now = elapsed();
            match next.filter(|next| *next < until) {
                // What a step has sent may be due already.
                Some(next) if next <= now => advance_to(now + Duration::from_micros(1)),
                Some(next) => advance_to(next),
                None => {
                    advance_to(until);
                    return;
                }
            }
            if elapsed() >= until {
                return;
            }
        }
    }

    /// Notes which messages are on the disk, and kills processes whose disk has failed.
    fn confirm(&mut self) {
        for node in 0..self.hosts.len() {
            let Some(life) = &mut self.hosts[node].life else { continue };
            match life.instance.store.log().progress() {
                Ok((_, durable)) => {
                    let confirmed = life.unconfirmed.extract_if(.., |(batch, _)| *batch <= durable);
                    confirmed.for_each(|(_, number)| self.oracle.record_accepted(number));
                }
                Err(_) => {
                    self.note(|| format!("{} has a failed disk, and ends", name_of(node)));
                    self.kill(node, below(2) == 0);
                }
            }
        }
        self.look_for_errors();
    }

    /// Checks that what a receiver holds of a sender, and what this may still send, are at most a window.
    fn check_credit(&mut self) {
        for host in &self.hosts {
            // With a time limit an expired delivery is queued again while it is still held, and counts twice.
            let Some(life) = host.life.as_ref().filter(|_| host.settings.ack_within.is_none()) else {
                continue;
            };
            let in_hand = life.in_hand.iter().filter_map(|hand| hand.delivery.owed_credit());
            let mut held = HashMap::new();
            for (sender, bytes) in in_hand.chain(life.client.owed_credit()) {
                *held.entry(sender).or_insert(0) += bytes;
            }
            for (sender, outstanding) in life.instance.peer_loop.outstanding_credit() {
                let held = held.get(&sender).copied().unwrap_or(0);
                if outstanding > 0 && outstanding + held > self.window {
                    let text = format!(
                        "{} holds {held} bytes of a sender, which may send {outstanding} more; the window is {}",
                        name_of(host.node),
                        self.window
                    );
                    self.oracle.findings.push(text);
                }
            }
        }
    }

    fn look_for_errors(&mut self) {
        for host in &self.hosts {
            let Some(life) = &host.life else { continue };
            for error in std::mem::take(&mut *life.errors.lock().unwrap()) {
                let is_expected = match &error {
                    Error::Failed(_) | Error::NoRoom(_) | Error::NoAnswer { .. } | Error::HeldBack { .. } => {
                        true
                    }
                    Error::Copied { .. } => self.oracle.has_copies,
                    Error::Refused { text, .. } => !text.contains("protocol"),
                    _ => false,
                };
                if !is_expected {
                    let text = format!("{} was told: {error}", name_of(host.node));
                    self.oracle.findings.push(text);
                }
            }
        }
    }

    fn living(&self) -> Vec<Node> {
        (0..self.hosts.len()).filter(|node| self.hosts[*node].life.is_some()).collect()
    }

    pub fn random_living(&self) -> Option<Node> {
        let living = self.living();
        (!living.is_empty()).then(|| living[below(living.len() as u64) as usize])
    }

    fn act(&mut self) {
        let total: u64 = self.acts.iter().map(|(_, weight)| weight).sum();
        let mut at = below(total);
        let chosen = self.acts.iter().find(|(_, weight)| {
            let is_it = at < *weight;
            at = at.saturating_sub(*weight);
            is_it
        });
        let Some(act) = chosen.map(|(act, _)| *act) else { return };
        self.perform(act);
    }

    /// Ends all faults, starts all clients, and lets them work until everything promised has happened.
    fn run_until_quiescent(&mut self) {
        self.note(|| "all faults end".to_owned());
        self.network.heal();
        self.change_registry(Act::HealRegistry);
        for host in &mut self.hosts {
            host.disk.set_space(None);
            host.disk.stop_failing();
        }
        let until = elapsed() + QUIESCE_LIMIT;
        loop {
            for node in 0..self.hosts.len() {
                if self.hosts[node].life.is_none() {
                    self.hosts[node].settings.topics = (0..TOPICS as usize).collect();
                    self.start(node);
                }
                (0..50).for_each(|_| self.receive(node));
                self.end_handlers(node, true);
            }
            self.bury_dead();
            self.pass(50);
            let missing = self.missing();
            if missing.is_empty() || !self.oracle.findings.is_empty() {
                return;
            }
            if elapsed() > until {
                self.note_pending();
                self.oracle.findings = missing;
                return;
            }
        }
    }

    /// Notes what is pending in all stores.
    fn note_pending(&mut self) {
        for node in 0..self.hosts.len() {
            let Some(life) = &self.hosts[node].life else { continue };
            let pending: Vec<_> =
                life.client.pending_by_peer().into_iter().filter(|pending| pending.messages > 0).collect();
            let topics = life.client.topics();
            let error = life.client.registry_error();
            self.note(|| format!("{} listens on {topics:?}, {error:?}, has {pending:?}", name_of(node)));
        }
    }

    fn missing(&self) -> Vec<String> {
        let listens = |node: Node, topic: Topic| {
            let topics = self.hosts[node].life.as_ref().map(|life| life.client.topics());
            topics.is_some_and(|topics| topics.contains(&topic_name(topic)))
        };
        let has_listener = |sender: Node, topic: Topic| {
            (0..self.hosts.len()).any(|node| node != sender && listens(node, topic))
        };
        let mut missing = self.oracle.missing(has_listener);
        for host in &self.hosts {
            let pending = host.life.iter().flat_map(|life| life.client.pending_by_peer());
            for one in pending.filter(|one| one.receiver.is_some() && one.messages > 0) {
                missing.push(format!("{} has {one:?}", name_of(host.node)));
            }
            for topic in host.pending_to_one() {
                if has_listener(host.node, topic_of(&topic)) || topic.ends_with(DEAD) {
                    missing.push(format!("{} has messages to one of {topic}", name_of(host.node)));
                }
            }
        }
        missing
    }

    /// In the end some clients listen for dead letters too.
    fn bury_dead(&mut self) {
        for node in 0..self.hosts.len().min(2) {
            let Some(life) = &self.hosts[node].life else { continue };
            simulated::set_skew_ms(self.hosts[node].skew_ms);
            let dead = |topic: u64| format!("{}{DEAD}", topic_name(topic as Topic));
            if !life.client.topics().contains(&dead(0)) {
                // A failure shows as letters that nobody handles.
                (0..TOPICS).for_each(|topic| drop(life.client.subscribe(&dead(topic))));
            }
        }
    }
}
