//! One run: what is done to client and server, and the end at which everything promised has happened.

use std::time::Duration;

use pinnace_engine::Body;
use pinnace_eventloop::Task;

use super::acts::{Act, FAULTS, WORK};
use super::contents;
use super::disk::{SimulatedDisk, SimulatedNode};
use super::network::{self, Network};
use super::node::{COPY, ClientLife, SERVED, ServerLife};
use super::promise::{Tree, Versions, check_copy, check_kept, tree_of};
use super::random::Random;
use crate::client::task::Settings;
use crate::clock::simulated::Simulated;
use crate::dialogue::requester::Limits;
use crate::dialogue::{Event, Report};
use crate::rules::{Deletion, Rules};
use crate::wire::Message;

/// The steps with faults, and the most until the last transfer has ended.
const STEPS: u64 = 400;
const LAST_STEPS: u64 = 100_000;
/// How often the last transfer is repeated if files have failed.
const LAST_TRANSFERS: usize = 3;
/// The most octets of the head of a small file.
const ENTRY_MAX: u64 = 120;
/// The largest window of the server, which receives uploads.
const SERVER_WINDOW: u64 = 16 << 20;

/// What ends abruptly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interruption {
    Link,
    Client,
    Power,
    Server,
}

pub struct World {
    time: Simulated,
    pub random: Random,
    pub served: SimulatedDisk,
    pub local: SimulatedDisk,
    pub network: Network,
    pub client: Option<ClientLife>,
    pub server: Option<ServerLife>,
    pub settings: Settings,
    /// The client uploads, and does not fetch.
    pub uploads: bool,
    acts: Vec<(Act, u64)>,
    /// The most steps between two acts: with few, a file takes many acts.
    pace: u64,
    has_power_cuts: bool,
    versions: Versions,
    /// Changes of the source so far.
    pub changes: u64,
    /// The copy when the transfer began, if the source has not changed since.
    before: Option<Tree>,
    pub has_failed_disk: bool,
    pub has_corrupted: bool,
    pub has_cancelled: bool,
    has_cut_power: bool,
    interruptions: u64,
    finished: u64,
    /// The course of events, if it is kept.
    log: Option<Vec<String>>,
}

/// What a run has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    pub finished: u64,
    pub interruptions: u64,
    pub content: u64,
    pub virtual_ms: u64,
}

impl World {
    pub fn new(seed: u64, log: bool) -> World {
        let mut random = Random::new(seed);
        let served = SimulatedDisk::new(Random::new(random.next()), 1_000_000);
        let local = SimulatedDisk::new(Random::new(random.next()), 5_000_000);
        contents::fill(&served, &mut random, SERVED);
        contents::fill(&local, &mut random, COPY);
        let mut acts = WORK.to_vec();
        FAULTS.iter().filter(|_| random.chance(35)).for_each(|group| acts.extend_from_slice(group));
        if random.chance(60) {
            acts.push((Act::ReplaceFile, 12));
        }
        let uploads = random.chance(30);
        // The host that has a power cut is the client's.
        acts.retain(|(act, _)| *act != Act::CutPower || !uploads);
        let pace = *random.pick(&[6, 15, 40]);
        let window_max = *random.pick(&[1 << 20, 2 << 20, 4 << 20]);
        let chunk = *random.pick(&[1_000, 16_384, 50_000, 262_144, 524_288]);
        let limits = Limits { window_max, chunk, rate: None };
        let settings = Settings { patience: Duration::from_secs(10), limits, domain: String::new() };
        let delay = Duration::from_micros(*random.pick(&[20, 500, 20_000]));
        let largest_chunk = u64::from(Limits::default().chunk.max(chunk));
        let network = Network::new(delay, (window_max, SERVER_WINDOW), largest_chunk);
        let mut world = World {
            time: Simulated::begin(),
            has_power_cuts: acts.iter().any(|(act, _)| *act == Act::CutPower),
            client: Some(ClientLife::new(settings.clone())),
            server: Some(ServerLife::new(&served)),
            random,
            served,
            local,
            network,
            settings,
            uploads,
            acts,
            pace,
            versions: Versions::default(),
            changes: 0,
            before: None,
            has_failed_disk: false,
            has_corrupted: false,
            has_cancelled: false,
            has_cut_power: false,
            interruptions: 0,
            finished: 0,
            log: log.then(Vec::new),
        };
        for (disk, base) in [world.source(), world.copy()] {
            world.versions.note(&tree_of(&disk, base));
        }
        world
    }

    pub fn note(&mut self, text: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            log.push(format!("{:10.4} {}", self.time.elapsed().as_secs_f64(), text()));
        }
    }

    /// The course of events, if it is kept.
    pub fn take_log(&mut self) -> Vec<String> {
        self.log.take().unwrap_or_default()
    }

    /// The disk that files come from, and the folder on it.
    pub fn source(&self) -> (SimulatedDisk, &'static str) {
        if self.uploads { (self.local.clone(), COPY) } else { (self.served.clone(), SERVED) }
    }

    /// The disk that they go to.
    pub fn copy(&self) -> (SimulatedDisk, &'static str) {
        if self.uploads { (self.served.clone(), SERVED) } else { (self.local.clone(), COPY) }
    }

    fn source_tree(&self) -> Tree {
        let (disk, base) = self.source();
        tree_of(&disk, base)
    }

    fn copy_tree(&self) -> Tree {
        let (disk, base) = self.copy();
        tree_of(&disk, base)
    }

    pub fn source_changed(&mut self) {
        self.changes += 1;
        self.before = None;
        self.versions.note(&self.source_tree());
    }

    /// A transfer begins.
    pub fn note_before(&mut self) {
        self.before = Some(self.copy_tree());
    }

    pub fn random_rules(&mut self) -> Rules {
        let random = &mut self.random;
        Rules {
            deletion: random.chance(40).then(|| Deletion { most: None, force: random.chance(50) }),
            whole_files: random.chance(30),
            checksum: random.chance(15),
            compress: random.chance(25),
            fsync: self.has_power_cuts || random.chance(20),
            ..Rules::default()
        }
    }

    /// Ends something abruptly. What is on the disks must be whole then.
    pub fn interrupt(&mut self, what: Interruption) {
        self.interruptions += 1;
        self.network.cut();
        match what {
            Interruption::Link => {}
            Interruption::Client | Interruption::Power => self.client = None,
            Interruption::Server => self.server = None,
        }
        if what == Interruption::Power {
            self.local.cut_power();
            (self.before, self.has_cut_power) = (None, true);
        }
    }

    /// A new connection. The session of the one before ends.
    pub fn restore_link(&mut self) {
        if self.network.is_up || self.server.is_none() {
            return;
        }
        self.note(|| "the link is there again".to_owned());
        self.server = Some(ServerLife::new(&self.served));
        self.network.is_up = true;
        if let Some(client) = &self.client {
            // The socket's own notice that it has connected again.
            client.shared.deliver(Message::GREETING.to_frame().into());
        }
    }

    /// Runs to the end. Error: what was found.
    pub fn run(&mut self) -> Result<Summary, String> {
        let weights: u64 = self.acts.iter().map(|(_, weight)| weight).sum();
        for _ in 0..STEPS {
            let mut chosen = self.random.below(weights);
            let found = self.acts.iter().find(|(_, weight)| match chosen.checked_sub(*weight) {
                Some(rest) => {
                    chosen = rest;
                    false
                }
                None => true,
            });
            if let Some((act, _)) = found.copied() {
                self.act(act);
            }
            for _ in 0..self.random.below(self.pace) {
                self.step()?;
            }
            self.versions.check(&self.copy_tree())?;
        }
        self.settle()?;
        let elapsed = self.time.elapsed();
        Ok(Summary {
            finished: self.finished,
            interruptions: self.interruptions,
            content: self.network.to_client.content,
            virtual_ms: elapsed.as_millis() as u64,
        })
    }

    /// All faults end, and a last transfer makes a copy.
    fn settle(&mut self) -> Result<(), String> {
        self.note(|| "all faults have ended".to_owned());
        self.repair_disks();
        for act in [Act::StartServer, Act::StartClient, Act::RestoreLink] {
            self.act(act);
        }
        let rules = Rules { deletion: Some(Deletion { most: None, force: true }), ..Rules::default() };
        for attempt in 1.. {
            self.finish_transfer()?;
            let (disk, uploads, since) = (self.local.clone(), self.uploads, self.changes);
            let client = self.client.as_mut().ok_or("no client")?;
            client.start(&disk, uploads, &rules, since);
            self.note(|| format!("last transfer {attempt}"));
            match self.finish_transfer()? {
                Some(report) if report.failed.is_empty() => break,
                outcome if attempt == LAST_TRANSFERS => {
                    return Err(format!("the last transfer fails: {outcome:?}"));
                }
                _ => {}
            }
        }
        check_copy(&self.source_tree(), &self.copy_tree(), true)?;
        self.check_content()
    }

    /// Each interruption makes at most a window travel twice.
    fn check_content(&self) -> Result<(), String> {
        let has_lost = self.has_cut_power || self.has_failed_disk || self.has_corrupted || self.has_cancelled;
        if self.uploads || self.changes > 0 || has_lost {
            return Ok(());
        }
        let size = |node: &SimulatedNode| match node {
            SimulatedNode::File(file) => file.octets.len() as u64 + ENTRY_MAX,
            _ => 0,
        };
        let limits = self.settings.limits;
        let window = limits.window_max + u64::from(limits.chunk);
        let most = self.source_tree().values().map(size).sum::<u64>() + self.interruptions * window;
        match self.network.to_client.content > most {
            true => Err(format!(
                "{} octets of files were sent, at most {most} are due",
                self.network.to_client.content
            )),
            false => Ok(()),
        }
    }

    /// Works until the transfer has ended. Returns its report, if it was not aborted.
    fn finish_transfer(&mut self) -> Result<Option<Report>, String> {
        let mut report = None;
        for _ in 0..LAST_STEPS {
            if self.client.as_ref().is_none_or(|client| client.transfer.is_none()) {
                return Ok(report);
            }
            report = self.step()?.or(report);
        }
        Err("a transfer does not end".to_owned())
    }

    /// The next step of one of them. Returns the report of a transfer that has ended.
    fn step(&mut self) -> Result<Option<Report>, String> {
        let now = self.time.elapsed();
        match self.random.below(6) {
            0 | 1 => self.client_works()?,
            2 | 3 => self.server_works()?,
            4 => self.deliver(now),
            _ => {
                let next = self.network.next().unwrap_or(now + Duration::from_millis(50));
                self.time.advance_to(next.max(now) + Duration::from_micros(self.random.below(50)));
                self.deliver(self.time.elapsed());
            }
        }
        self.take_events()
    }

    fn client_works(&mut self) -> Result<(), String> {
        let Some(client) = &mut self.client else { return Ok(()) };
        client.task.work();
        let shared = client.shared.clone();
        while self.network.is_up
            && let Some(frame) = shared.outbox.pop()
        {
            self.note(|| format!("    client: {}", network::shown(&frame)));
            self.network.send_to_server(self.time.elapsed(), frame)?;
        }
        shared.outbox.is_freed();
        Ok(())
    }

    fn server_works(&mut self) -> Result<(), String> {
        let Some(server) = &mut self.server else { return Ok(()) };
        if !self.network.is_up {
            return Ok(());
        }
        if server.session.turn(&server.outbox).is_none() {
            // It has told the client that it is over: a new one begins with the next frame.
            let outbox = std::mem::take(&mut server.outbox);
            *server = ServerLife { outbox, ..ServerLife::new(&self.served) };
        }
        let frames: Vec<Body> = std::iter::from_fn(|| server.outbox.pop()).collect();
        server.outbox.is_freed();
        for frame in frames {
            self.note(|| format!("    server: {}", network::shown(&frame)));
            self.network.send_to_client(self.time.elapsed(), frame)?;
        }
        Ok(())
    }

    fn deliver(&mut self, now: Duration) {
        if let (Some(server), Some(frame)) = (&mut self.server, self.network.at_server(now)) {
            server.session.on_frame(&frame, &server.mounts);
        }
        if let (Some(client), Some(frame)) = (&self.client, self.network.at_client(now)) {
            client.shared.deliver(frame);
        }
    }

    /// Checks what the client is told.
    fn take_events(&mut self) -> Result<Option<Report>, String> {
        loop {
            let running = self.client.as_ref().and_then(|client| client.transfer.as_ref());
            let Some(event) = running.and_then(|running| running.events.next_at_once()) else {
                return Ok(None);
            };
            self.note(|| match &event {
                Event::Finished { path, size, .. } => format!("finished {path}, {size} octets"),
                other => format!("{other:?}"),
            });
            match event {
                Event::Finished { path, digest, .. } => {
                    self.finished += 1;
                    let path = path.strip_prefix("/data/served/").unwrap_or(&path);
                    self.versions.check_finished(&self.copy_tree(), path, &digest)?;
                }
                // Its groups were those that were announced, so its digest is too.
                Event::Failed { error, .. } if error.text.contains("another digest") => {
                    return Err(format!("groups are right, and the file is wrong: {error}"));
                }
                Event::Ended(report) => {
                    self.end_transfer(&report)?;
                    return Ok(Some(report));
                }
                Event::Aborted(_) => {
                    self.check_kept()?;
                    self.client.iter_mut().for_each(|client| client.transfer = None);
                    return Ok(None);
                }
                _ => {}
            }
        }
    }

    fn check_kept(&self) -> Result<(), String> {
        match &self.before {
            Some(before) => check_kept(&self.source_tree(), before, &self.copy_tree()),
            None => Ok(()),
        }
    }

    fn end_transfer(&mut self, report: &Report) -> Result<(), String> {
        self.check_kept()?;
        let Some(running) = self.client.as_mut().and_then(|client| client.transfer.take()) else {
            return Ok(());
        };
        let is_quiet = running.since == self.changes;
        if is_quiet && report.failed.is_empty() {
            let is_mirror = running.rules.deletion.is_some();
            check_copy(&self.source_tree(), &self.copy_tree(), is_mirror)?;
        }
        Ok(())
    }
}
