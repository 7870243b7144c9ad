//! A network in memory: connections with delays, which can be cut, and partitions, also in one direction.
//!
//! It keeps what `peer_loop::network` promises: frames of one connection arrive in order, and each end receives `LOST`
//! when it is lost. On a loss, a first part of the frames in flight is delivered and the next ones are dropped; a link
//! sends its remaining ones on the next connection, after its Hello.

mod ends;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::environment::simulated::{below, elapsed};
use crate::peer_loop::network::{LOST, Network, Token};

/// A running process of a simulated client. Each start is another one.
pub type Process = u32;

type LinkId = u64;
type ConnectionId = u32;

/// How long after a loss a link connects again.
const RECONNECT_AFTER: Duration = Duration::from_millis(10);
/// How long a partition lasts before the heartbeats end a connection.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Clone, Default)]
pub struct SimulatedNetwork(Arc<Mutex<Wires>>);

#[derive(Default)]
struct Wires {
    /// The host of each process: partitions are between hosts.
    hosts: BTreeMap<Process, usize>,
    dead: BTreeSet<Process>,
    listeners: BTreeMap<String, BoundListener>,
    links: BTreeMap<LinkId, LinkState>,
    connections: BTreeMap<ConnectionId, Connection>,
    last: u32,
    /// Frames from the first host to the second are held up, since this time.
    partitions: BTreeMap<(usize, usize), Duration>,
    /// The longest delay of a frame, in microseconds.
    delay_us: u64,
    /// Ready sockets.
    ready: BTreeSet<(Process, Key)>,
    /// Frames carried, for the record.
    frames: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    In(u32),
    Out(usize),
}

struct BoundListener {
    process: Process,
    client: u32,
    arrived: VecDeque<(ConnectionId, Vec<u8>)>,
}

struct LinkState {
    process: Process,
    index: usize,
    endpoint: Option<String>,
    hello: Vec<u8>,
    connection: Option<ConnectionId>,
    connect_at: Duration,
    /// Frames sent while there is no connection.
    unsent: VecDeque<Vec<u8>>,
    arrived: VecDeque<Vec<u8>>,
}

struct Connection {
    link: LinkId,
    endpoint: String,
    hosts: (usize, usize),
    to_listener: VecDeque<(Duration, Vec<u8>)>,
    to_link: VecDeque<(Duration, Vec<u8>)>,
}

impl SimulatedNetwork {
    pub fn new(delay_us: u64) -> SimulatedNetwork {
        let network = SimulatedNetwork::default();
        network.lock().delay_us = delay_us;
        network
    }

    fn lock(&self) -> MutexGuard<'_, Wires> {
        self.0.lock().unwrap()
    }

    /// Registers a process on a host, and returns the network as it uses it.
    pub fn process(&self, process: Process, host: usize) -> Arc<dyn Network> {
        self.lock().hosts.insert(process, host);
        Arc::new(ends::NetworkAccess::new(self.clone(), process))
    }

    /// The process dies: its connections are lost, and nothing that it does from now on has an effect.
    pub fn kill(&self, process: Process) {
        let mut state = self.lock();
        state.dead.insert(process);
        state.listeners.retain(|_, listener| listener.process != process);
        let of_process = |link: &LinkState| link.process == process;
        let ended: Vec<ConnectionId> = state
            .connections
            .iter()
            .filter(|(_, connection)| {
                state.links.get(&connection.link).is_some_and(of_process)
                    || !state.listeners.contains_key(&connection.endpoint)
            })
            .map(|(id, _)| *id)
            .collect();
        ended.into_iter().for_each(|connection| state.lose(connection));
        state.links.retain(|_, link| !of_process(link));
        state.ready.retain(|(other, _)| *other != process);
    }

    /// Cuts some connection.
    pub fn cut(&self) {
        let mut state = self.lock();
        let all: Vec<ConnectionId> = state.connections.keys().copied().collect();
        if !all.is_empty() {
            state.lose(all[below(all.len() as u64) as usize]);
        }
    }

    /// Holds up frames from one host to another.
    pub fn partition(&self, from: usize, to: usize) {
        self.lock().partitions.entry((from, to)).or_insert_with(elapsed);
    }

    /// Ends all partitions.
    pub fn heal(&self) {
        self.lock().partitions.clear();
    }

    /// The sockets of a process that can be read.
    pub fn take_ready(&self, process: Process) -> Vec<Token> {
        let mut state = self.lock();
        let tokens: Vec<Key> =
            state.ready.iter().filter(|(other, _)| *other == process).map(|(_, token)| *token).collect();
        state.ready.retain(|(other, _)| *other != process);
        let token = |key| match key {
            Key::In(client) => Token::In(client),
            Key::Out(peer) => Token::Out(peer),
        };
        tokens.into_iter().map(token).collect()
    }

    /// The number of frames carried so far.
    pub fn frames(&self) -> u64 {
        self.lock().frames
    }

    /// Does what is due. Returns the time of the next deadline.
    pub fn advance(&self) -> Option<Duration> {
        let mut state = self.lock();
        let now = elapsed();
        state.end_by_heartbeats(now);
        let links: Vec<LinkId> = state.links.keys().copied().collect();
        links.into_iter().for_each(|link| state.connect(link, now));
        let connections: Vec<ConnectionId> = state.connections.keys().copied().collect();
        connections.into_iter().for_each(|connection| state.carry(connection, now));
        state.next_due()
    }
}

impl Wires {
    fn next_number(&mut self) -> u32 {
        self.last += 1;
        self.last
    }

    /// When a frame sent now arrives, if the one before it arrives at `before`.
    fn arrival(&self, before: Option<Duration>) -> Duration {
        let at = elapsed() + Duration::from_micros(1 + below(self.delay_us.max(1)));
        before.map_or(at, |before| before.max(at))
    }

    fn is_held_up(&self, from: usize, to: usize) -> bool {
        self.partitions.contains_key(&(from, to))
    }

    fn connect(&mut self, id: LinkId, now: Duration) {
        let Some(link) = self.links.get(&id) else { return };
        if link.connection.is_some() || link.connect_at > now {
            return;
        }
        let host_of = |process: Process| self.hosts.get(&process).copied().unwrap_or_default();
        let Some(endpoint) = link.endpoint.clone() else { return };
        let target = self.listeners.get(&endpoint).map(|listener| host_of(listener.process));
        let from = host_of(link.process);
        let open = target.filter(|to| !self.is_held_up(from, *to) && !self.is_held_up(*to, from));
        let Some(to) = open else {
            if let Some(link) = self.links.get_mut(&id) {
                link.connect_at = now + RECONNECT_AFTER;
            }
            return;
        };
        let number = self.next_number();
        let Some(link) = self.links.get_mut(&id) else { return };
        link.connection = Some(number);
        let mut frames = vec![link.hello.clone()];
        frames.extend(link.unsent.drain(..));
        let (to_listener, to_link) = (VecDeque::new(), VecDeque::new());
        let connection = Connection { link: id, endpoint, hosts: (from, to), to_listener, to_link };
        self.connections.insert(number, connection);
        frames.into_iter().for_each(|frame| self.send_to_listener(number, frame));
    }

    fn send_to_listener(&mut self, number: ConnectionId, frame: Vec<u8>) {
        let before = self.connections.get(&number).and_then(|one| one.to_listener.back()).map(|sent| sent.0);
        let at = self.arrival(before);
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.to_listener.push_back((at, frame));
        }
    }

    fn send_to_link(&mut self, number: ConnectionId, frame: Vec<u8>) {
        let before = self.connections.get(&number).and_then(|one| one.to_link.back()).map(|sent| sent.0);
        let at = self.arrival(before);
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.to_link.push_back((at, frame));
        }
    }

    /// Delivers the frames of a connection that are due.
    fn carry(&mut self, number: ConnectionId, now: Duration) {
        let Some(connection) = self.connections.get(&number) else { return };
        let (from, to) = connection.hosts;
        let held_up = (self.is_held_up(from, to), self.is_held_up(to, from));
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let mut arrived = (Vec::new(), Vec::new());
        while !held_up.0
            && let Some((_, frame)) = connection.to_listener.pop_front_if(|(at, _)| *at <= now)
        {
            arrived.0.push(frame);
        }
        while !held_up.1
            && let Some((_, frame)) = connection.to_link.pop_front_if(|(at, _)| *at <= now)
        {
            arrived.1.push(frame);
        }
        let (link, endpoint) = (connection.link, connection.endpoint.clone());
        self.frames += (arrived.0.len() + arrived.1.len()) as u64;
        arrived.0.into_iter().for_each(|frame| self.arrive_at_listener(&endpoint, number, frame));
        arrived.1.into_iter().for_each(|frame| self.arrive_at_link(link, frame));
    }

    fn arrive_at_listener(&mut self, endpoint: &str, from: ConnectionId, frame: Vec<u8>) {
        if let Some(listener) = self.listeners.get_mut(endpoint) {
            listener.arrived.push_back((from, frame));
            self.ready.insert((listener.process, Key::In(listener.client)));
        }
    }

    fn arrive_at_link(&mut self, link: LinkId, frame: Vec<u8>) {
        if let Some(link) = self.links.get_mut(&link) {
            link.arrived.push_back(frame);
            self.ready.insert((link.process, Key::Out(link.index)));
        }
    }

    /// Loses a connection: a first part of the frames under way has arrived, and of the others some are lost.
    fn lose(&mut self, number: ConnectionId) {
        let Some(connection) = self.connections.remove(&number) else { return };
        let Connection { link, endpoint, mut to_listener, mut to_link, .. } = connection;
        for _ in 0..below(to_listener.len() as u64 + 1) {
            if let Some((_, frame)) = to_listener.pop_front() {
                self.arrive_at_listener(&endpoint, number, frame);
            }
        }
        for _ in 0..below(to_link.len() as u64 + 1) {
            if let Some((_, frame)) = to_link.pop_front() {
                self.arrive_at_link(link, frame);
            }
        }
        let lost = below(to_listener.len() as u64 + 1) as usize;
        to_listener.drain(..lost);
        self.arrive_at_listener(&endpoint, number, LOST.to_vec());
        self.arrive_at_link(link, LOST.to_vec());
        if let Some(link) = self.links.get_mut(&link) {
            link.connection = None;
            link.connect_at = elapsed() + RECONNECT_AFTER;
            // Its first frame may be a Hello, which the next connection sends by itself.
            let unsent = to_listener.into_iter().map(|(_, frame)| frame).filter(|frame| *frame != link.hello);
            link.unsent = unsent.collect();
        }
    }

    /// Ends connections over which nothing has passed for too long.
    fn end_by_heartbeats(&mut self, now: Duration) {
        let long: BTreeSet<(usize, usize)> = self
            .partitions
            .iter()
            .filter(|(_, since)| **since + HEARTBEAT_TIMEOUT <= now)
            .map(|(of, _)| *of)
            .collect();
        if long.is_empty() {
            return;
        }
        let is_long = |(from, to): (usize, usize)| long.contains(&(from, to)) || long.contains(&(to, from));
        let ended: Vec<ConnectionId> = self
            .connections
            .iter()
            .filter(|(_, connection)| is_long(connection.hosts))
            .map(|(number, _)| *number)
            .collect();
        for number in ended {
            if let Some(connection) = self.connections.get_mut(&number) {
                // Frames in the partitioned direction are lost.
                let (from, to) = connection.hosts;
                if long.contains(&(from, to)) {
                    connection.to_listener.clear();
                }
                if long.contains(&(to, from)) {
                    connection.to_link.clear();
                }
            }
            self.lose(number);
        }
    }

    fn next_due(&self) -> Option<Duration> {
        let frames = self.connections.values().flat_map(|connection| {
            let (from, to) = connection.hosts;
            let out = connection.to_listener.front().filter(|_| !self.is_held_up(from, to));
            let back = connection.to_link.front().filter(|_| !self.is_held_up(to, from));
            out.into_iter().chain(back).map(|(at, _)| *at)
        });
        let connects =
            self.links.values().filter(|link| link.connection.is_none() && link.endpoint.is_some());
        let heartbeats = self.partitions.values().map(|since| *since + HEARTBEAT_TIMEOUT);
        let ends = heartbeats.filter(|at| *at > elapsed());
        frames.chain(connects.map(|link| link.connect_at)).chain(ends).min()
    }

    /// Ends a connection without delivering `LOST` to the link.
    fn end_silently(&mut self, number: ConnectionId) {
        if let Some(connection) = self.connections.remove(&number) {
            let mut to_listener = connection.to_listener;
            for _ in 0..below(to_listener.len() as u64 + 1) {
                if let Some((_, frame)) = to_listener.pop_front() {
                    self.arrive_at_listener(&connection.endpoint, number, frame);
                }
            }
            self.arrive_at_listener(&connection.endpoint, number, LOST.to_vec());
        }
    }
}
