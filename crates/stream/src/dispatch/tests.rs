//! A sender with three receivers, in any order of events.

use std::collections::{BTreeSet, HashMap, VecDeque};

use proptest::prelude::*;

use super::*;

const PATIENCE: Duration = Duration::from_secs(30);
const LAST: u64 = 60;

#[derive(Debug, Clone)]
enum Step {
    /// A receiver asks for this many messages more.
    Ask(usize, u64),
    /// The sender offers all free numbers again, or goes on.
    Offer,
    OfferOn,
    /// A receiver handles its first message.
    Handle(usize),
    /// A receiver reports what it has, with or without a lost connection before.
    Report(usize),
    /// A receiver returns all that waits.
    Return(usize),
    Disconnect(usize),
    /// A receiver's process dies, with all it has, and a new one reports.
    Die(usize),
    /// A receiver stops listening, or listens again.
    Stop(usize),
    Listen(usize),
    /// The receivers that are away have been so for too long.
    Free,
}

fn step() -> impl Strategy<Value = Step> {
    let receiver = 0_usize..3;
    prop_oneof![
        4 => (receiver.clone(), 1_u64..9).prop_map(|(at, count)| Step::Ask(at, count)),
        1 => Just(Step::Offer),
        4 => Just(Step::OfferOn),
        4 => receiver.clone().prop_map(Step::Handle),
        1 => receiver.clone().prop_map(Step::Report),
        1 => receiver.clone().prop_map(Step::Return),
        1 => receiver.clone().prop_map(Step::Disconnect),
        1 => receiver.clone().prop_map(Step::Stop),
        2 => receiver.clone().prop_map(Step::Listen),
        1 => receiver.prop_map(Step::Die),
        1 => Just(Step::Free),
    ]
}

fn message(number: u64) -> Offer {
    Offer { number, is_first: true, key: None }
}

/// Two of three messages have one of four keys.
fn key_of(number: u64) -> Option<u64> {
    (!number.is_multiple_of(3)).then_some(number % 4)
}

/// A sender of the numbers up to `LAST`, and three receivers.
struct Shop {
    dispatch: Dispatch,
    done: RangeSet,
    free: BTreeSet<u64>,
    receivers: [Receiver; 3],
    now: Instant,
    /// The receivers of keys, as long as they were connected since.
    keys: HashMap<u64, usize>,
    /// The last number that was offered since the queues were dropped.
    offered: u64,
}

#[derive(Default)]
struct Receiver {
    waits: VecDeque<u64>,
    generation: u64,
    wanted: u64,
    is_connected: bool,
    has_stopped: bool,
}

impl Shop {
    fn new() -> Shop {
        let (dispatch, done, now) = (Dispatch::default(), RangeSet::default(), Instant::now());
        let (free, receivers, keys) = ((1..=LAST).collect(), Default::default(), HashMap::new());
        let mut shop = Shop { dispatch, done, free, receivers, now, keys, offered: 0 };
        (0..3).for_each(|at| shop.dispatch.join(at, at as u64, now));
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
        let Reported { mut taken, regained } =
            self.dispatch.report(at, receiver.generation, 0, &held, &self.done);
        for number in regained.iter().flat_map(|(first, last)| first..=last) {
            if let Some(key) = key_of(number) {
                match self.dispatch.regain(at, number, key, self.now) {
                    true if receiver.has_stopped => drop(self.keys.remove(&key)),
                    true => drop(self.keys.insert(key, at)),
                    false => taken.add(number, number),
                }
            }
        }
        receiver.waits.retain(|number| !taken.contains(*number) && !self.done.contains(*number));
        let free = before.without(&self.dispatch.assigned()).without(&self.done);
        self.add_free(&free);
        self.offer();
    }

    /// Messages with the same key go to the same receiver while it is connected, in order, and to another one only if
    /// no receiver may have one of them.
    fn check_key(&mut self, number: u64, at: usize) {
        let Some(key) = key_of(number) else { return };
        let assigned = self.dispatch.members.iter().filter(|member| member.peer != at);
        let is_same =
            |other: u64| other != number && key_of(other) == Some(key) && !self.done.contains(other);
        for member in assigned {
            let others = member.assigned.iter().flat_map(|(first, last)| first..=last);
            assert!(!others.into_iter().any(is_same), "{number}: {} has one of key {key}", member.peer);
        }
        assert!(!self.free.range(..number).copied().any(is_same), "{number} is before others of key {key}");
        assert_eq!(*self.keys.entry(key).or_insert(at), at, "{number} of key {key}");
    }

    fn offer(&mut self) {
        self.dispatch.offer_again(false);
        self.offered = 0;
        self.offer_on();
    }

    /// Offers the numbers that were not offered since the queues were dropped.
    fn offer_on(&mut self) {
        for number in self.free.clone().range(self.offered + 1..).copied() {
            self.offered = number;
            let offer = Offer { key: key_of(number).map(|key| (key, self.now)), ..message(number) };
            let member = match self.dispatch.choose(&offer, |_| true) {
                Choice::Member(member) => member,
                Choice::Deferred => continue,
                Choice::Nobody => {
                    self.offered = number - 1;
                    break;
                }
            };
            self.give(member, number);
        }
        self.dispatch.end_burst();
    }

    /// Sends what waits for a receiver.
    fn serve(&mut self, at: usize) {
        while let Some((member, numbers)) = self.dispatch.deferred_for(at, 2) {
            for number in numbers {
                if !self.dispatch.can_take(member, true, |_| true) {
                    break;
                }
                let is_free = self.free.contains(&number);
                self.dispatch.pop_deferred(member, is_free, self.now);
                if is_free {
                    self.give(member, number);
                }
            }
        }
    }

    fn give(&mut self, member: usize, number: u64) {
        let at = self.dispatch.peer(member);
        self.check_key(number, at);
        let receiver = &mut self.receivers[at];
        assert!(receiver.is_connected, "a receiver that is away gets nothing");
        self.free.remove(&number);
        self.dispatch.assign(member, number, true);
        receiver.waits.push_back(number);
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Ask(at, count) => {
                let receiver = &mut self.receivers[at];
                receiver.wanted += count;
                self.dispatch.want(at, receiver.generation, receiver.wanted);
                self.serve(at);
            }
            Step::Offer => self.offer(),
            Step::OfferOn => self.offer_on(),
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
                self.keys.retain(|_, of| *of != at);
                if self.dispatch.waits_for(at) {
                    self.offer();
                }
            }
            Step::Die(at) => {
                self.receivers[at].waits.clear();
                self.dispatch.disconnect(at, self.now);
                self.keys.retain(|_, of| *of != at);
                self.report(at);
            }
            Step::Stop(at) => {
                self.dispatch.stop(at);
                self.receivers[at].has_stopped = true;
                self.keys.retain(|_, of| *of != at);
                if self.dispatch.waits_for(at) {
                    self.offer();
                }
            }
            Step::Listen(at) => {
                self.dispatch.join(at, at as u64, self.now);
                self.receivers[at].has_stopped = false;
                self.serve(at);
            }
            Step::Free => {
                self.now += PATIENCE;
                let (free, next) = self.dispatch.free_after(self.now, PATIENCE);
                assert_eq!(next, None, "all that are away were so for long enough");
                self.add_free(&free);
                self.offer();
            }
        }
        if self.dispatch.waits_in_vain(self.now) {
            self.offer();
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
        (0..3).for_each(|at| shop.take(Step::Listen(at)));
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
        dispatch.join(peer, peer as u64, Instant::now());
        dispatch.report(peer, 1, wanted, &nothing, &nothing);
    }
    dispatch
}

#[test]
fn messages_to_idle_receivers_alternate_and_bursts_go_in_rows() {
    let mut dispatch = two_receivers(8);
    let mut give = |number| {
        let Choice::Member(member) = dispatch.choose(&message(number), |_| true) else { return None };
        dispatch.assign(member, number, true);
        Some(member)
    };
    let burst: Vec<Option<usize>> = (1..=8).map(&mut give).collect();
    assert_eq!(burst, [0, 0, 0, 1, 1, 1, 0, 0].map(Some));
}

#[test]
fn a_receiver_without_credit_or_subscription_gets_nothing() {
    let mut dispatch = two_receivers(8);
    assert_eq!(dispatch.choose(&message(1), |peer| peer == 1), Choice::Member(1));
    dispatch.end_burst();
    dispatch.stop(1);
    assert_eq!(dispatch.choose(&message(1), |_| true), Choice::Member(0));
    dispatch.end_burst();
    assert_eq!(dispatch.choose(&message(1), |peer| peer == 1), Choice::Nobody);
}

#[test]
fn the_parts_of_a_message_go_to_one_receiver() {
    let mut dispatch = two_receivers(1);
    let Choice::Member(member) = dispatch.choose(&message(1), |_| true) else { panic!("nobody") };
    dispatch.assign(member, 1, false);
    for (part, ends) in [(2, false), (3, true)] {
        let part = Offer { is_first: false, ..message(part) };
        assert_eq!(dispatch.choose(&part, |_| true), Choice::Member(member));
        assert_eq!(dispatch.choose(&part, |peer| peer != member), Choice::Nobody, "it waits for that credit");
        dispatch.assign(member, part.number, ends);
    }
    assert_eq!(
        dispatch.choose(&message(4), |_| true),
        Choice::Member(1 - member),
        "the first has its message"
    );
}

#[test]
fn an_only_receiver_gets_many_at_once() {
    let (mut dispatch, now, nothing) = (Dispatch::default(), Instant::now(), RangeSet::default());
    dispatch.join(0, 0, now);
    assert_eq!(dispatch.only_member(1, |_| true), None, "it has not reported");
    dispatch.report(0, 1, 8, &nothing, &nothing);
    assert_eq!(dispatch.only_member(8, |_| true), Some(0));
    assert_eq!(dispatch.only_member(8, |_| false), None, "it has no credit");
    assert_eq!(dispatch.only_member(9, |_| true), None, "it has asked for 8");
    // Five messages in seven parts.
    dispatch.assign_all(0, 1, 7, 5);
    assert_eq!(dispatch.loads().collect::<Vec<_>>(), [(0, 5)]);
    assert_eq!(dispatch.assigned(), RangeSet::new(7, Vec::new()).unwrap());
    assert_eq!((dispatch.only_member(3, |_| true), dispatch.only_member(4, |_| true)), (Some(0), None));
    dispatch.join(1, 1, now);
    assert_eq!(dispatch.only_member(1, |_| true), None, "there is another one");
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
    let Reported { taken, regained } = dispatch.report(0, 2, 1, &held, &RangeSet::default());
    assert_eq!(taken.iter().collect::<Vec<_>>(), [(5, 5)]);
    assert_eq!(regained.iter().collect::<Vec<_>>(), [(6, 6)]);
    assert_eq!(dispatch.assigned().iter().collect::<Vec<_>>(), [(5, 6)]);
}

#[test]
fn all_senders_choose_the_same_receiver_for_a_key() {
    let (now, mut counts) = (Instant::now(), [0; 2]);
    let choice = |peers: [usize; 2], key: u64| {
        let mut dispatch = Dispatch::default();
        for peer in peers {
            dispatch.join(peer, peer as u64, now);
            dispatch.report(peer, 1, 1, &RangeSet::default(), &RangeSet::default());
        }
        match dispatch.choose(&Offer { key: Some((key, now)), ..message(1) }, |_| true) {
            Choice::Member(member) => dispatch.peer(member),
            other => panic!("{other:?}"),
        }
    };
    for key in 0..1000 {
        let chosen = choice([0, 1], key);
        assert_eq!(choice([1, 0], key), chosen);
        counts[chosen] += 1;
    }
    assert!(counts.iter().all(|count| (400..600).contains(count)), "{counts:?}");
}

#[test]
fn other_keys_go_on_while_one_waits_for_its_receiver() {
    let (mut dispatch, now) = (two_receivers(1), Instant::now());
    let mut choose = |number, key| {
        let choice = dispatch.choose(&Offer { key: Some((key, now)), ..message(number) }, |_| true);
        if let Choice::Member(member) = choice {
            dispatch.assign(member, number, true);
        }
        choice
    };
    let Choice::Member(first) = choose(1, 7) else { panic!("nobody") };
    assert_eq!(choose(2, 7), Choice::Deferred, "its receiver has not asked for more");
    let other =
        (8..).find(|key| matches!(choose(*key, *key), Choice::Member(member) if member != first)).unwrap();
    assert_eq!(dispatch.deferred_for(first, 9), None, "it has asked for one");
    dispatch.want(first, 1, 2);
    let waiting: Vec<u64> = std::iter::once(2).chain(8..other).collect();
    assert_eq!(dispatch.deferred_for(first, 99), Some((first, waiting)));
    let third = dispatch.choose(&Offer { key: Some((7, now)), ..message(other + 1) }, |_| true);
    assert_eq!(third, Choice::Deferred, "the second comes first");
    assert!(dispatch.can_take(first, true, |_| true) && !dispatch.can_take(first, true, |_| false));
    dispatch.pop_deferred(first, true, now);
    assert_eq!(dispatch.deferred_for(first, 1).map(|(_, numbers)| numbers[0] > 2), Some(true));
}

/// A receiver that is about to connect gets the keys that fit it, also those of messages sent before.
#[test]
fn a_receiver_that_is_expected_gets_its_keys() {
    let (mut dispatch, now, nothing) = (two_receivers(1), Instant::now(), RangeSet::default());
    let mut late = 0;
    let mut choose = |dispatch: &mut Dispatch, now| {
        let key = (0..).find(|key| fitness(*key, 2) > fitness(*key, 0).max(fitness(*key, 1)))?;
        late += 1;
        Some(dispatch.choose(&Offer { key: Some((key, now)), ..message(late) }, |_| true))
    };
    dispatch.join(2, 2, now);
    assert_eq!(choose(&mut dispatch, now), Some(Choice::Deferred));
    let next = dispatch.next_expected(now);
    assert!(
        !dispatch.waits_in_vain(now) && next.is_some_and(|next| dispatch.waits_in_vain(next)),
        "{next:?}"
    );
    dispatch.offer_again(false);
    let is_other = |choice| matches!(choice, Some(Choice::Member(0 | 1)));
    assert!(is_other(choose(&mut dispatch, next.unwrap())), "it did not connect");
    let mut dispatch = two_receivers(1);
    dispatch.join(2, 2, now);
    dispatch.report(2, 1, 1, &nothing, &nothing);
    assert_eq!(choose(&mut dispatch, now), Some(Choice::Member(2)));
}

#[test]
fn a_key_goes_to_others_once_its_receiver_has_none_of_it() {
    let (mut dispatch, now) = (two_receivers(8), Instant::now());
    let key = |number, now| Offer { key: Some((7, now)), ..message(number) };
    let Choice::Member(first) = dispatch.choose(&key(1, now), |_| true) else { panic!("nobody") };
    dispatch.assign(first, 1, true);
    dispatch.disconnect(first, now);
    assert_eq!(dispatch.choose(&key(2, now), |_| true), Choice::Deferred, "it may handle the first one");
    dispatch.free_after(now + PATIENCE, PATIENCE);
    dispatch.offer_again(false);
    assert_eq!(dispatch.choose(&key(1, now), |_| true), Choice::Member(1 - first));
    dispatch.assign(1 - first, 1, true);
    dispatch.report(first, 2, 8, &RangeSet::default(), &RangeSet::default());
    assert_eq!(dispatch.choose(&key(2, now), |_| true), Choice::Member(1 - first), "it keeps the key");
    let done = RangeSet::new(2, Vec::new()).unwrap();
    dispatch.finish(&done);
    let later = now + Duration::from_secs(600);
    assert_eq!(dispatch.choose(&key(3, later), |_| true), Choice::Member(first), "the key was forgotten");
}
