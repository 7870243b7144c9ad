//! The promise of docs/delivery.md, as oracle that a simulation keeps: what was sent, which receivers were promised it,
//! and what was handled. It knows the clients only by what their users see.
//!
//! 1. A message to one that was accepted is handled by a client, or becomes a dead letter that is handled.
//! 2. A message to all that was accepted is handled by each client that listened: one whose subscription the sender's
//!    store has recorded, or the registry has shown, and that did not end since. A durable subscription does not end
//!    with its process. A message that was sent while no receiver was known, and is on the disk, is handled by each
//!    client that listens in the end; by one of them, if the sender's disk was full.
//! 3. One sender's messages to all of a topic reach each durable receiver in the order of sending, except those that
//!    were sent before it ended an earlier subscription, those in memory that were sent while no receiver was known,
//!    those that were not on the sender's disk when its host lost power, and those that may have expired at the
//!    receiver before it ended, if its clock was set back since.
//! 4. A client never gets a message again that it has acknowledged, also after its close, unless it was killed since,
//!    or a store was replaced by an old copy.
//! 5. What arrives was sent, and is unchanged.
//! 6. A message to all that is sent after the registry showed the end of a subscription does not reach that client.
//! 7. In the end, nothing is pending for a client that lives, nor to one while a client listens.
//! 8. One sender's messages to one of a topic that have the same ordering key are handled for the first time in the
//!    order of sending, whichever clients handle them.
//! 9. A message with a time to live need not be handled after that was over by the clock of its sender or its receiver,
//!    and no client gets it for the first time after that, by its own clock. If its sender keeps what has expired, and
//!    it is on the disk, it is a dead letter then, for each receiver that has not handled it. A message to all need not
//!    be one if it had expired by the sender's clock, the sender had sent a later message, and the sender's process
//!    then ended by a power cut, with a failed disk or with a full one.
//! 10. A dead letter is unchanged. One that has expired is of a sender that wants it, its time to live was over, and
//!     its receiver has not acknowledged it, unless that was killed since.

mod lifetime;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lifetime::Clocks;

use super::network::Process;
use crate::environment::simulated::elapsed;

/// How long the registry may take to show a change to all, if it answers.
pub const SHOWN_AFTER: Duration = Duration::from_millis(400);

pub type Node = usize;
pub type Topic = usize;

/// A subscription that is open.
struct Subscription {
    since: Duration,
    /// From then on the registry certainly shows it; None: it may have forgotten it.
    shown_from: Option<Duration>,
}

struct Sent {
    sender: Node,
    all: bool,
    topic: Topic,
    at: Duration,
    len: usize,
    /// Receivers that were promised it.
    expected: BTreeSet<Node>,
    /// Clients that certainly have left.
    left: BTreeSet<Node>,
    /// No receiver was known: it is kept for those to come; if it is in memory, for the first.
    had_no_receiver: bool,
    accepted: bool,
    /// It is on no disk: the receiver does not record that it has handled it.
    is_memory: bool,
    ordering_key: Option<u32>,
    /// When its time to live is over, by its sender's clock.
    ends_ms: Option<i64>,
    /// Lost with its process, or with what an old copy replaced.
    is_exempt: bool,
    handled: BTreeMap<Node, Handled>,
    /// The receivers of its dead letters that were handled; None: it expired before a receiver had it.
    letters: BTreeSet<Option<Node>>,
}

#[derive(Default)]
struct Handled {
    deliveries: u32,
    /// The process in which it was acknowledged.
    acked_in: Option<Process>,
}

/// The oracle of a simulation.
#[derive(Default)]
pub struct Oracle {
    sent: Vec<Sent>,
    subscriptions: BTreeMap<(Node, Topic), Subscription>,
    /// Subscriptions that have ended, and since when the registry certainly shows it.
    ended: BTreeMap<(Node, Topic), Duration>,
    /// When a client has last ended a subscription of a topic.
    last_end: BTreeMap<(Node, Topic), Duration>,
    /// Subscriptions that a sender's store has certainly recorded: sender, receiver, topic.
    recorded: BTreeSet<(Node, Node, Topic)>,
    /// When a host last lost power.
    lost_power: BTreeMap<Node, Duration>,
    /// When a client has last ended.
    last_death: BTreeMap<Node, Duration>,
    /// When clients ended that may have had letters of expired messages that were not on their disk.
    lost_letters: Vec<(Node, Duration)>,
    /// Hosts whose disk was full, and until when letters may have waited for room.
    full_until: BTreeMap<Node, Duration>,
    /// Processes that have ended.
    ended_processes: BTreeSet<Process>,
    /// Processes that have closed their client, with all that it has handled on the disk.
    closed: BTreeSet<Process>,
    /// The highest message to all delivered so far, by receiver, sender and topic.
    last_in_order: BTreeMap<(Node, Node, Topic), u32>,
    /// The highest message to one delivered so far, by sender, topic and ordering key.
    last_of_key: BTreeMap<(Node, Topic, u32), u32>,
    /// A store was replaced by an old copy: messages may come twice and out of order.
    pub has_copies: bool,
    /// Clients whose store was replaced by an old copy while their clock was set back: those that have seen a later
    /// entry ignore theirs.
    behind: BTreeSet<Node>,
    /// Clients that are not durable. One that cannot renew its lease counts as ended, although it lives.
    transient: BTreeSet<Node>,
    /// Messages may be moved to other receivers.
    reassigns: bool,
    /// Clients whose expired messages become dead letters.
    keeps_expired: BTreeSet<Node>,
    pub clocks: Clocks,
    /// Broken promises.
    pub findings: Vec<String>,
}

pub fn body_of(number: u32, len: usize) -> Vec<u8> {
    let mut body = number.to_le_bytes().to_vec();
    body.extend((4..len).map(|at| (number as usize * 31 + at) as u8));
    body
}

impl Oracle {
    pub fn new(
        hosts: usize,
        reassigns: bool,
        transient: BTreeSet<Node>,
        keeps_expired: BTreeSet<Node>,
    ) -> Oracle {
        let clocks = Clocks::new(hosts);
        Oracle { reassigns, transient, keeps_expired, clocks, ..Oracle::default() }
    }

    fn report(&mut self, text: String) {
        self.findings.push(format!("{:.3} s: {text}", elapsed().as_secs_f64()));
    }

    /// Whether others may have seen a later entry of a client than its own, which starts.
    pub fn set_behind(&mut self, node: Node, is_behind: bool) {
        match is_behind {
            true => self.behind.insert(node),
            false => self.behind.remove(&node),
        };
    }

    /// A client begins to listen on a topic. `is_shown`: the registry has taken note.
    pub fn record_subscribed(&mut self, node: Node, topic: Topic, is_shown: bool) {
        let now = elapsed();
        self.ended.remove(&(node, topic));
        let shown_from = is_shown.then_some(now + SHOWN_AFTER);
        let known =
            self.subscriptions.entry((node, topic)).or_insert(Subscription { since: now, shown_from });
        known.shown_from = known.shown_from.or(shown_from);
    }

    /// A client is about to end its subscription. `is_shown`: the registry will take note.
    pub fn record_unsubscribed(&mut self, node: Node, topic: Topic, is_shown: bool) {
        let ended = self.subscriptions.remove(&(node, topic));
        self.last_end.insert((node, topic), elapsed());
        let was_shown = ended.is_some_and(|of| of.shown_from.is_some_and(|from| from <= elapsed()));
        if was_shown && is_shown {
            self.ended.insert((node, topic), elapsed() + SHOWN_AFTER);
        }
        self.recorded.retain(|(_, receiver, on)| (*receiver, *on) != (node, topic));
    }

    /// The registry has lost its state, and living clients register again. `healthy_from`: since when it answers all of
    /// them; None: it does not.
    pub fn registry_changed(&mut self, is_living: impl Fn(Node) -> bool, healthy_from: Option<Duration>) {
        self.ended.clear();
        for ((node, _), subscription) in &mut self.subscriptions {
            let later = healthy_from.filter(|_| is_living(*node)).map(|from| from + SHOWN_AFTER);
            subscription.shown_from = later;
        }
    }

    /// A client has died: its subscriptions that the registry does not show yet will not appear. `power`: its host has
    /// lost power.
    pub fn record_death(&mut self, node: Node, process: Process, power: bool) {
        self.ended_processes.insert(process);
        self.last_death.insert(node, elapsed());
        if self.full_until.get(&node).is_some_and(|until| *until > elapsed()) {
            self.record_data_lost(node);
        }
        if power {
            self.lost_power.insert(node, elapsed());
        }
        let own = self.subscriptions.iter_mut().filter(|((of, _), _)| *of == node);
        for (_, subscription) in own {
            subscription.shown_from = subscription.shown_from.filter(|from| *from <= elapsed());
        }
    }

    pub fn topics_of(&self, node: Node) -> Vec<Topic> {
        self.subscriptions.keys().filter(|(of, _)| *of == node).map(|(_, topic)| *topic).collect()
    }

    /// The receivers that are promised a message to all sent now. `sees_registry`: the sender's view is up to date.
    fn expected(&self, sender: Node, topic: Topic, sees_registry: bool) -> BTreeSet<Node> {
        let now = elapsed();
        let of_topic = self.subscriptions.iter().filter(|((node, on), _)| *on == topic && *node != sender);
        let is_expected = |node: Node, subscription: &Subscription| {
            let is_shown = subscription.shown_from.is_some_and(|from| from <= now);
            self.recorded.contains(&(sender, node, topic))
                || (sees_registry && is_shown && !self.behind.contains(&node))
        };
        of_topic.filter(|((node, _), of)| is_expected(*node, of)).map(|((node, _), _)| *node).collect()
    }

    /// A message is sent. Returns its number.
    pub fn record_send(
        &mut self,
        sender: Node,
        all: bool,
        topic: Topic,
        len: usize,
        sees_registry: bool,
    ) -> u32 {
        let expected = if all { self.expected(sender, topic, sees_registry) } else { BTreeSet::new() };
        let (at, handled) = (elapsed(), BTreeMap::new());
        let has_left = |((_, on), from): &(&(Node, Topic), &Duration)| *on == topic && **from <= at;
        let left = self.ended.iter().filter(has_left).map(|((node, _), _)| *node);
        let left = if all && sees_registry { left.collect() } else { BTreeSet::new() };
        let (had_no_receiver, accepted, is_exempt) = (false, false, false);
        self.sent.push(Sent {
            sender,
            all,
            topic,
            at,
            len,
            expected,
            left,
            had_no_receiver,
            accepted,
            is_memory: false,
            ordering_key: None,
            ends_ms: None,
            is_exempt,
            handled,
            letters: BTreeSet::new(),
        });
        self.sent.len() as u32 - 1
    }

    pub fn record_in_memory(&mut self, number: u32) {
        self.sent[number as usize].is_memory = true;
    }

    pub fn record_ordering_key(&mut self, number: u32, key: u32) {
        self.sent[number as usize].ordering_key = Some(key);
    }

    /// The sender was told how many receivers a message to all has.
    pub fn record_receivers(&mut self, number: u32, receivers: usize) {
        let of = &mut self.sent[number as usize];
        of.had_no_receiver = receivers == 0;
        let expected = of.expected.clone();
        if of.all && receivers < expected.len() {
            self.report(format!("message {number} to all has {receivers} receivers instead of {expected:?}"));
        }
    }

    /// A message is on the sender's disk, as the sender was told.
    pub fn record_accepted(&mut self, number: u32) {
        let of = &mut self.sent[number as usize];
        of.accepted = true;
        for receiver in of.expected.clone() {
            let is_open = |one: &Subscription| one.since <= of.at;
            if of.all
                && !self.transient.contains(&receiver)
                && self.subscriptions.get(&(receiver, of.topic)).is_some_and(is_open)
            {
                self.recorded.insert((of.sender, receiver, of.topic));
            }
        }
    }

    /// The sender's store is replaced by a copy made at `made`.
    pub fn record_replaced(&mut self, node: Node, made: Duration) {
        self.has_copies = true;
        for of in self.sent.iter_mut().filter(|of| of.sender == node) {
            // A message that was given up, or has expired, may have been a dead letter in the store that is lost.
            let may_be_dead = of.handled.values().any(|handled| handled.acked_in.is_none())
                || of.ends_ms.is_some_and(|ends_ms| self.clocks.have_shown(ends_ms, of.at));
            of.is_exempt |= of.at >= made || may_be_dead;
        }
        // What the copy has recorded is not known here.
        self.recorded.retain(|(sender, _, _)| *sender != node);
    }

    /// A client gets a message; returns its number.
    pub fn record_delivered(
        &mut self,
        node: Node,
        process: Process,
        from: Node,
        topic: Topic,
        body: &[u8],
    ) -> Option<u32> {
        let number = body.first_chunk().map(|number| u32::from_le_bytes(*number));
        let Some((number, of)) =
            number.and_then(|number| Some((number, self.sent.get_mut(number as usize)?)))
        else {
            self.report(format!("client {node} got a message that was never sent"));
            return None;
        };
        let is_as_sent = of.sender == from && of.topic == topic && body_of(number, of.len) == body;
        let (all, sender, had_no_receiver) = (of.all, of.sender, of.had_no_receiver);
        let (is_memory, sent_at, accepted) = (of.is_memory, of.at, of.accepted);
        let has_left = of.left.contains(&node) && !had_no_receiver;
        let key = of.ordering_key.filter(|_| !all && of.handled.is_empty());
        let handled = of.handled.entry(node).or_default();
        handled.deliveries += 1;
        let (is_first, was_acked_in) = (handled.deliveries == 1, handled.acked_in);
        if !is_as_sent {
            self.report(format!("client {node} got message {number} changed"));
        }
        if is_first {
            self.check_lifetime(node, number);
        }
        if has_left && !self.has_copies {
            self.report(format!("client {node} got message {number} after it had left the topic"));
        }
        let is_recorded =
            |acked_in: Process| acked_in == process || (!is_memory && self.closed.contains(&acked_in));
        if was_acked_in.is_some_and(is_recorded) && !self.has_copies && (all || !self.reassigns) {
            self.report(format!("client {node} got message {number} again after its acknowledgement"));
        }
        if let Some(key) = key.filter(|_| !self.has_copies) {
            let last = self.last_of_key.insert((sender, topic, key), number).filter(|last| *last > number);
            if let Some(last) = last {
                self.report(format!("client {node} got message {number} after {last} of its ordering key"));
            }
        }
        // The sender may have learned late that an earlier subscription had ended.
        let begin = self.subscriptions.get(&(node, topic)).map(|subscription| subscription.since);
        let is_before = |end: &Duration| {
            sent_at <= *end || (!had_no_receiver && begin.is_none_or(|begin| sent_at < begin))
        };
        let is_of_earlier = self.last_end.get(&(node, topic)).is_some_and(is_before);
        // The lease of a client that is not durable, and so its subscription, may end and begin again at any time.
        // If the power cut took the record of its stream, later messages are in a stream of another number.
        let was_cut = !accepted && self.lost_power.get(&sender).is_some_and(|cut| sent_at <= *cut);
        let is_exempt = is_of_earlier
            || (had_no_receiver && is_memory)
            || was_cut
            || self.transient.contains(&node)
            || self.may_have_expired_before(number, node);
        if all && is_first && !is_exempt && !self.has_copies {
            let last = self.last_in_order.insert((node, sender, topic), number);
            if last.is_some_and(|last| last > number) {
                self.report(format!("client {node} got message {number} after {}", last.unwrap_or_default()));
            }
        }
        Some(number)
    }

    pub fn record_acked(&mut self, node: Node, process: Process, number: u32) {
        if let Some(handled) = self.sent[number as usize].handled.get_mut(&node) {
            handled.acked_in = Some(process);
        }
    }

    /// A process has closed its client, and what it has handled is on the disk.
    pub fn record_closed(&mut self, process: Process) {
        self.closed.insert(process);
    }

    /// Messages that were accepted and whose promise is not kept yet.
    pub fn missing(&self, has_listener: impl Fn(Node, Topic) -> bool) -> Vec<String> {
        let mut missing = Vec::new();
        let sent = self.sent.iter().enumerate().filter(|(_, of)| of.accepted && !of.is_exempt);
        for (number, of) in sent {
            let acked = |node: &Node| of.handled.get(node).is_some_and(|handled| handled.acked_in.is_some());
            let kind = if of.all { "all" } else { "one" };
            let text = |lack: &str| {
                let at = of.at.as_secs_f64();
                format!(
                    "message {number} to {kind}, sent by {} to topic {} at {at:.3} s: {lack}",
                    of.sender, of.topic
                )
            };
            let is_kept =
                of.all && of.had_no_receiver && !of.is_memory && !self.full_until.contains_key(&of.sender);
            let listeners = self
                .subscriptions
                .keys()
                .filter(|(node, topic)| is_kept && *topic == of.topic && *node != of.sender);
            let expected = of.expected.iter().copied().chain(listeners.map(|(node, _)| *node));
            let has_ended =
                |node: &Node| of.letters.contains(&Some(*node)) || self.may_be_gone(number, Some(*node));
            let lacking: Vec<Node> = expected.filter(|node| !acked(node) && !has_ended(node)).collect();
            if !lacking.is_empty() {
                missing.push(text(&format!("not handled by {lacking:?}")));
            } else if of.expected.is_empty()
                && !of.handled.keys().any(acked)
                && of.letters.is_empty()
                && !self.may_be_gone(number, None)
                && has_listener(of.sender, of.topic)
            {
                missing.push(text("not handled"));
            }
        }
        missing
    }

    pub fn count(&self) -> (usize, usize) {
        let handled =
            self.sent.iter().map(|of| of.handled.values().map(|one| one.deliveries as usize).sum::<usize>());
        (self.sent.iter().filter(|of| of.accepted).count(), handled.sum())
    }
}
