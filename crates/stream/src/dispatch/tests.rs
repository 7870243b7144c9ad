//! A sender with three receivers, in any order of events.

use std::collections::{BTreeSet, VecDeque};

use proptest::prelude::*;

use super::*;

const PATIENCE: Duration = Duration::from_secs(30);
const LAST: u64 = 60;

#[derive(Debug, Clone)]
enum Step {
    /// A receiver asks for this many messages more.
    Ask(usize, u64),
    /// The sender offers the free numbers.
    Offer,
    /// A receiver handles its first message.
    Handle(usize),
    /// A receiver reports what it has, with or without a lost connection before.
    Report(usize),
    /// A receiver returns all that waits.
    Return(usize),
    Disconnect(usize),
    /// A receiver's process dies, with all it has, and a new one reports.
    Die(usize),
    /// The receivers that are away have been so for too long.
    Free,
}

fn step() -> impl Strategy<Value = Step> {
    let receiver = 0_usize..3;
    prop_oneof![
        4 => (receiver.clone(), 1_u64..9).prop_map(|(at, count)| Step::Ask(at, count)),
        4 => Just(Step::Offer),
        4 => receiver.clone().prop_map(Step::Handle),
        1 => receiver.clone().prop_map(Step::Report),
        1 => receiver.clone().prop_map(Step::Return),
        1 => receiver.clone().prop_map(Step::Disconnect),
        1 => receiver.prop_map(Step::Die),
        1 => Just(Step::Free),
    ]
}

/// A sender of the numbers up to `LAST`, and three receivers.
struct Shop {
    dispatch: Dispatch,
    done: RangeSet,
    free: BTreeSet<u64>,
    receivers: [Receiver; 3],
    now: Instant,
}

#[derive(Default)]
struct Receiver {
    waits: VecDeque<u64>,
    generation: u64,
    wanted: u64,
    is_connected: bool,
}

impl Shop {
    fn new() -> Shop {
        let (dispatch, done, now) = (Dispatch::default(), RangeSet::default(), Instant::now());
        let mut shop =
            Shop { dispatch, done, free: (1..=LAST).collect(), receivers: Default::default(), now };
        (0..3).for_each(|at| shop.dispatch.join(at, now));
        shop
    }

    fn add_free(&mut self, free: &RangeSet) {
        for (first, last) in free.iter() {
            self.free.extend(first..=last);
        }
    }

    fn report(&mut self, at: usize) {
        let receiver = &mut self.receivers[at];
        receiver.generation += 1;
        (receiver.is_connected, receiver.wanted) = (true, 0);
        let mut held = RangeSet::default();
        receiver.waits.iter().for_each(|number| held.add(*number, *number));
        let before = self.dispatch.assigned();
        let taken = self.dispatch.report(at, receiver.generation, 0, &held, &self.done);
        receiver.waits.retain(|number| !taken.contains(*number) && !self.done.contains(*number));
        let free = before.without(&self.dispatch.assigned()).without(&self.done);
        self.add_free(&free);
    }

    fn offer(&mut self) {
        for number in self.free.clone() {
            let Some(member) = self.dispatch.choose(number, true, |_| true) else { break };
            let receiver = &mut self.receivers[self.dispatch.peer(member)];
            assert!(receiver.is_connected, "a receiver that is away gets nothing");
            self.free.remove(&number);
            self.dispatch.assign(member, number, true);
            receiver.waits.push_back(number);
        }
        self.dispatch.end_burst();
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Ask(at, count) => {
                let receiver = &mut self.receivers[at];
                receiver.wanted += count;
                self.dispatch.want(at, receiver.generation, receiver.wanted);
            }
            Step::Offer => self.offer(),
            Step::Handle(at) => {
                if let Some(number) = self.receivers[at].waits.pop_front() {
                    self.done.add(number, number);
                    self.dispatch.finish(&self.done);
                }
            }
            Step::Report(at) => self.report(at),
            Step::Return(at) => {
                self.receivers[at].waits.clear();
                self.report(at);
            }
            Step::Disconnect(at) => {
                self.receivers[at].is_connected = false;
                self.dispatch.disconnect(at, self.now);
            }
            Step::Die(at) => {
                self.receivers[at].waits.clear();
                self.dispatch.disconnect(at, self.now);
                self.report(at);
            }
            Step::Free => {
                self.now += PATIENCE;
                let (free, next) = self.dispatch.free_after(self.now, PATIENCE);
                assert_eq!(next, None, "all that are away were so for long enough");
                self.add_free(&free);
            }
        }
        let assigned = self.dispatch.assigned();
        // A receiver that was given up may come back with what was free meanwhile.
        self.free.retain(|number| !self.done.contains(*number) && !assigned.contains(*number));
        for number in (1..=LAST).filter(|number| !self.done.contains(*number)) {
            assert!(self.free.contains(&number) || assigned.contains(number), "{number} is not forgotten");
        }
    }
}

proptest! {
    #[test]
    fn each_number_is_handled_in_the_end(steps in prop::collection::vec(step(), 0..200)) {
        let mut shop = Shop::new();
        steps.into_iter().for_each(|step| shop.take(step));
        (0..3).for_each(|at| shop.take(Step::Report(at)));
        while shop.done.all_upto() < LAST {
            (0..3).for_each(|at| shop.take(Step::Ask(at, 1)));
            shop.take(Step::Offer);
            (0..3).for_each(|at| shop.take(Step::Handle(at)));
        }
        assert_eq!(shop.dispatch.assigned(), RangeSet::default());
    }
}

fn two_receivers(wanted: u64) -> Dispatch {
    let (mut dispatch, nothing) = (Dispatch::default(), RangeSet::default());
    for peer in [0, 1] {
        dispatch.join(peer, Instant::now());
        dispatch.report(peer, 1, wanted, &nothing, &nothing);
    }
    dispatch
}

#[test]
fn messages_to_idle_receivers_alternate_and_bursts_go_in_rows() {
    let mut dispatch = two_receivers(8);
    let mut give = |number| {
        let member = dispatch.choose(number, true, |_| true)?;
        dispatch.assign(member, number, true);
        Some(member)
    };
    let burst: Vec<Option<usize>> = (1..=8).map(&mut give).collect();
    assert_eq!(burst, [0, 0, 0, 1, 1, 1, 0, 0].map(Some));
}

#[test]
fn a_receiver_without_credit_or_subscription_gets_nothing() {
    let mut dispatch = two_receivers(8);
    assert_eq!(dispatch.choose(1, true, |peer| peer == 1), Some(1));
    dispatch.end_burst();
    dispatch.stop(1);
    assert_eq!(dispatch.choose(1, true, |_| true), Some(0));
    dispatch.end_burst();
    assert_eq!(dispatch.choose(1, true, |peer| peer == 1), None);
}

#[test]
fn the_parts_of_a_message_go_to_one_receiver() {
    let mut dispatch = two_receivers(1);
    let member = dispatch.choose(1, true, |_| true).unwrap();
    dispatch.assign(member, 1, false);
    for (part, ends) in [(2, false), (3, true)] {
        assert_eq!(dispatch.choose(part, false, |_| true), Some(member));
        assert_eq!(dispatch.choose(part, false, |peer| peer != member), None, "it waits for that credit");
        dispatch.assign(member, part, ends);
    }
    assert_eq!(dispatch.choose(4, true, |_| true), Some(1 - member), "the first has its message");
}

#[test]
fn what_others_have_by_now_is_named() {
    let mut dispatch = two_receivers(8);
    let now = Instant::now();
    dispatch.assign(0, 5, true);
    dispatch.disconnect(0, now);
    assert_eq!(dispatch.free_after(now, PATIENCE), (RangeSet::default(), Some(now + PATIENCE)));
    assert_eq!(dispatch.free_after(now + PATIENCE, PATIENCE).0.first(), Some(5));
    dispatch.assign(1, 5, true);
    let held = RangeSet::new(0, vec![(5, 6)]).unwrap();
    let taken = dispatch.report(0, 2, 1, &held, &RangeSet::default());
    assert_eq!(taken.iter().collect::<Vec<_>>(), [(5, 5)]);
    assert_eq!(dispatch.assigned().iter().collect::<Vec<_>>(), [(5, 6)]);
}
