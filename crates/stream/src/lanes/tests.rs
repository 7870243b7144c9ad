//! Lanes against a model: a log in memory, and receivers that take what is sent.

use proptest::prelude::*;

use super::*;

const WINDOW: u64 = 100;
const PEERS: usize = 2;
const STREAMS: u32 = 4;

#[derive(Debug, Clone)]
enum Step {
    /// A message for these streams is logged; its numbers leave gaps of this size.
    Append(Vec<u32>, u64),
    Connect(usize),
    Disconnect(usize),
    /// The receiver asks for everything again after one of its earlier numbers.
    Resend(u32, u64),
    Grant(usize, u64),
    /// One turn: a read of this many records for the lanes behind, and one at the tail.
    Pump(usize),
    Remove(usize),
}

/// A receiver's view of a stream.
#[derive(Default)]
struct Received {
    /// The numbers of the present run, since the last `resume`.
    last: u64,
    done: RangeSet,
    all: BTreeSet<u64>,
}

struct Model {
    lanes: Lanes<usize, ()>,
    /// The messages, by position: stream and number of each copy.
    log: Vec<Vec<(u32, u64)>>,
    numbers: Vec<u64>,
    received: Vec<Received>,
    granted: [u64; PEERS],
    spent: [u64; PEERS],
}

fn peer_of(stream: u32) -> usize {
    stream as usize % PEERS
}

impl Model {
    fn new() -> Model {
        let mut lanes = Lanes::new(Some(0));
        for peer in 0..PEERS {
            assert_eq!(lanes.add_peer(WINDOW), peer);
        }
        for stream in 0..STREAMS {
            assert!(lanes.add_lane(stream, peer_of(stream), ()));
            assert!(!lanes.add_lane(stream, peer_of(stream), ()));
        }
        let received = (0..STREAMS).map(|_| Received::default()).collect();
        let numbers = vec![0; STREAMS as usize];
        Model { lanes, log: Vec::new(), numbers, received, granted: [0; PEERS], spent: [0; PEERS] }
    }

    fn resume(&mut self, stream: u32, after: u64) {
        let is_later = |(other, number): &(u32, u64)| *other == stream && *number > after;
        let position = self.log.iter().position(|copies| copies.iter().any(is_later));
        let received = &mut self.received[stream as usize];
        // Every third number that arrived was also handled.
        received.done = RangeSet::default();
        received.all.iter().filter(|number| *number % 3 == 0).for_each(|number| {
            received.done.add(*number, *number);
        });
        if self.lanes.resume(stream, after, received.done.clone(), position) {
            received.last = after;
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Append(streams, gap) => {
                let mut copies = Vec::new();
                for stream in streams {
                    let number = &mut self.numbers[stream as usize];
                    *number += 1 + gap;
                    copies.push((stream, *number));
                }
                self.log.push(copies);
            }
            Step::Connect(peer) => {
                self.lanes.connect(peer);
                (self.granted[peer], self.spent[peer]) = (0, 0);
                for stream in self.lanes.streams_of(peer).to_vec() {
                    let received = self.received[stream as usize].all.last().copied().unwrap_or(0);
                    self.resume(stream, received);
                }
            }
            Step::Disconnect(peer) => self.lanes.disconnect(peer),
            Step::Resend(stream, back) => {
                let received = self.received[stream as usize].last;
                self.resume(stream, received.saturating_sub(back));
            }
            Step::Grant(peer, bytes) => {
                self.granted[peer] =
                    self.granted[peer].max((self.spent[peer] + bytes).min(self.spent[peer] + WINDOW));
                self.lanes.grant(peer, self.spent[peer] + bytes);
            }
            Step::Pump(records) => drop(self.pump(records)),
            Step::Remove(peer) => self.lanes.remove_peer(peer),
        }
        self.check();
    }

    /// Returns true if a read made progress.
    fn pump(&mut self, records: usize) -> bool {
        let behind = self.lanes.furthest_behind();
        if let Some(from) = behind {
            let next = self.read(from, records, Served::Behind);
            self.lanes.served_behind(from, next);
        }
        if !self.lanes.is_any_connected() {
            self.lanes.set_tail(self.log.len());
            return behind.is_some();
        }
        let tail = self.lanes.tail().unwrap();
        let next = self.read(tail, records, Served::Current);
        self.lanes.set_tail(next);
        behind.is_some() || next != tail
    }

    fn read(&mut self, from: usize, records: usize, serves: Served) -> usize {
        let next = (from + records).min(self.log.len());
        for position in from..next {
            for (stream, number) in self.log[position].clone() {
                let Some(mut lane) = self.lanes.offer(stream, number, position, serves) else { continue };
                let (peer, cost) = (peer_of(stream), 10 + number % 7);
                match lane.advance_to(number, cost) {
                    Some(prev) => {
                        assert!(self.spent[peer] < self.granted[peer], "sent without credit");
                        self.spent[peer] += cost;
                        let received = &mut self.received[stream as usize];
                        assert_eq!(prev, received.last, "a gap, or a number twice");
                        assert!(number > prev && !received.done.contains(number));
                        received.last = number;
                        received.all.insert(number);
                    }
                    None => lane.stall(position),
                }
                self.check();
            }
        }
        next
    }

    /// Every lane is listed where its state says, and nowhere else.
    fn check(&self) {
        let (mut behind, mut stalled) = (BTreeSet::new(), [const { BTreeSet::new() }; PEERS]);
        for (stream, lane) in &self.lanes.lanes {
            match lane.state {
                State::Behind(position) => drop(behind.insert((position, *stream))),
                State::Stalled(_) => drop(stalled[lane.peer].insert(*stream)),
                State::NotReady | State::Current => {}
            }
            assert!(self.lanes.is_connected(lane.peer) || !lane.is_ready());
        }
        assert_eq!(self.lanes.behind, behind);
        for (peer, stalled) in self.lanes.peers.iter().zip(stalled) {
            assert_eq!(peer.stalled.len(), stalled.len());
            assert!(peer.stalled.iter().all(|stream| stalled.contains(stream)));
        }
    }

    /// Connects all peers, and sends with enough credit until nothing is left.
    fn finish(&mut self) {
        (0..PEERS).for_each(|peer| self.step(Step::Connect(peer)));
        let mut turns = 0;
        loop {
            (0..PEERS).for_each(|peer| self.step(Step::Grant(peer, WINDOW)));
            if !self.pump(3) {
                break;
            }
            turns += 1;
            assert!(turns < 10_000, "the loop does not end");
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let streams = prop::collection::btree_set(0..STREAMS, 1..=STREAMS as usize);
    prop_oneof![
        6 => (streams, 0_u64..3).prop_map(|(streams, gap)| Step::Append(streams.into_iter().collect(), gap)),
        2 => (0..PEERS).prop_map(Step::Connect),
        1 => (0..PEERS).prop_map(Step::Disconnect),
        1 => (0..STREAMS, 0_u64..20).prop_map(|(stream, back)| Step::Resend(stream, back)),
        4 => (0..PEERS, 0_u64..200).prop_map(|(peer, bytes)| Step::Grant(peer, bytes)),
        6 => (1_usize..6).prop_map(Step::Pump),
    ]
}

proptest! {
    #[test]
    fn each_message_goes_out_once_and_in_order(steps in prop::collection::vec(step(), 0..120)) {
        let mut model = Model::new();
        steps.into_iter().for_each(|step| model.step(step));
        model.finish();
        for (stream, received) in (0..).zip(&model.received) {
            let copies = model.log.iter().flatten().filter(|copy| copy.0 == stream);
            assert!(copies.map(|copy| &copy.1).eq(&received.all), "all of the log arrived");
            assert!(model.lanes.lane(stream).unwrap().is_current());
        }
    }

    #[test]
    fn lanes_of_a_removed_peer_are_gone(steps in prop::collection::vec(step(), 0..60)) {
        let mut model = Model::new();
        steps.into_iter().for_each(|step| model.step(step));
        model.step(Step::Remove(0));
        assert_eq!((model.lanes.streams_of(0), model.lanes.is_connected(0)), (&[][..], false));
        assert!((0..STREAMS).all(|stream| model.lanes.lane(stream).is_none() == (peer_of(stream) == 0)));
        model.finish();
    }
}

/// Lanes of one connected peer with credit, and the log read up to `tail`.
fn ready(streams: u32, tail: u64) -> Lanes<u64, ()> {
    let mut lanes = Lanes::new(Some(tail));
    let peer = lanes.add_peer(WINDOW);
    lanes.connect(peer);
    lanes.grant(peer, WINDOW);
    (1..=streams).for_each(|stream| assert!(lanes.add_lane(stream, peer, ())));
    lanes
}

#[test]
fn one_read_serves_all_lanes_on_its_way() {
    let mut lanes = ready(3, 30);
    for (stream, position) in [(1, 5), (2, 8), (3, 20)] {
        assert!(lanes.resume(stream, 0, RangeSet::default(), Some(position)));
    }
    assert_eq!(lanes.furthest_behind(), Some(5));
    assert!(lanes.offer(1, 1, 5, Served::Behind).is_some());
    assert!(lanes.offer(2, 1, 7, Served::Behind).is_none(), "before its position");
    assert!(lanes.offer(2, 1, 8, Served::Behind).is_some());
    assert!(lanes.offer(1, 1, 30, Served::Current).is_none(), "it is not current");
    assert_eq!(lanes.served_behind(5, 10), []);
    assert_eq!(lanes.furthest_behind(), Some(10));
    let mut current = lanes.served_behind(10, 30);
    current.sort_unstable();
    assert_eq!(current, [1, 2, 3]);
    assert_eq!(lanes.furthest_behind(), None);
    assert!((1..=3).all(|stream| lanes.lane(stream).unwrap().is_current()));
    assert!(lanes.offer(3, 1, 30, Served::Current).is_some());
}

#[test]
fn a_stalled_lane_waits_for_credit_and_the_others_move_on() {
    let mut lanes = ready(2, 30);
    (1..=2).for_each(|stream| assert!(lanes.resume(stream, 0, RangeSet::default(), Some(5))));
    assert_eq!(lanes.offer(1, 1, 6, Served::Behind).unwrap().advance_to(1, WINDOW), Some(0));
    let mut lane = lanes.offer(1, 2, 7, Served::Behind).unwrap();
    assert_eq!(lane.advance_to(2, 1), None);
    lane.stall(7);
    assert!(lanes.offer(1, 3, 8, Served::Behind).is_none());
    assert_eq!(lanes.served_behind(5, 20), []);
    assert_eq!(lanes.furthest_behind(), Some(20));
    lanes.grant(0, 2 * WINDOW);
    assert_eq!(lanes.furthest_behind(), Some(7));
    assert_eq!(lanes.offer(1, 2, 7, Served::Behind).unwrap().advance_to(2, 1), Some(1));
}

#[test]
fn a_read_without_progress_ends_the_backlog_only_at_the_tail() {
    let mut lanes = ready(1, 30);
    assert!(lanes.resume(1, 0, RangeSet::default(), Some(5)));
    assert_eq!(lanes.served_behind(5, 5), []);
    assert_eq!(lanes.furthest_behind(), Some(5));
    lanes.set_tail(5);
    assert_eq!(lanes.served_behind(5, 5), [1]);
    assert!(lanes.lane(1).unwrap().is_current());
}

#[test]
fn nothing_is_resumed_before_the_peer_is_connected() {
    let mut lanes = ready(1, 30);
    lanes.disconnect(0);
    assert!(!lanes.is_any_connected());
    assert!(!lanes.resume(1, 7, RangeSet::default(), None));
    assert!(!lanes.resume(9, 7, RangeSet::default(), None), "no such lane");
    lanes.connect(0);
    assert!(lanes.resume(1, 7, RangeSet::default(), None));
    assert!(lanes.offer(1, 7, 30, Served::Current).is_none(), "the peer has it");
    let mut lane = lanes.offer(1, 8, 30, Served::Current).unwrap();
    assert_eq!(lane.advance_to(8, 1), None, "credit of the earlier connection is void");
}
