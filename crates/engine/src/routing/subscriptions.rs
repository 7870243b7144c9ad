//! The topics that each pipe has subscribed to, matched by message prefix.
//!
//! Guarantees: a pipe holds each topic once, however often it subscribes (RFC 37 counts, libzmq's publishers do not,
//! and its subscribers send one CANCEL for many SUBSCRIBEs). A message matches each pipe once. The memory that one
//! peer can make us hold is limited.

use std::collections::{HashMap, HashSet};

use pinnace_ring::NoMemory;

use super::radix::{Radix, Value};
use crate::pipe::PipeId;

/// Limit of topics per peer.
pub(crate) const TOPICS_PER_PEER: usize = 1 << 20;
/// Longest topic, in bytes.
pub(crate) const TOPIC_MAX_BYTES: usize = 64 * 1024;
/// Limit of one peer's topics together, in bytes.
pub(crate) const TOPICS_PER_PEER_BYTES: usize = 128 << 20;

/// The effect of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Added {
    /// No pipe had the topic before.
    First,
    /// Other pipes have it too.
    Another,
    /// The pipe has it already, or the pipe is unknown.
    Known,
    /// Over a limit, or out of memory.
    Refused,
}

/// The effect of an unsubscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removed {
    /// No pipe has the topic any more.
    Last,
    /// Other pipes still have it.
    Left,
    /// The pipe did not have it.
    Unknown,
}

/// Called with each topic that a pipe loses, and true if no pipe has the topic any more.
pub(crate) type Lost<'a> = &'a mut dyn FnMut(&[u8], bool);

/// The topics of one pipe.
#[derive(Default)]
struct PeerSubscriptions {
    nodes: HashSet<u32>,
    bytes: usize,
}

/// The topics of all pipes.
#[derive(Default)]
pub(crate) struct Subscriptions {
    tree: Radix<PipeSet>,
    held: HashMap<PipeId, PeerSubscriptions>,
    seen: Seen,
}

impl Subscriptions {
    /// Accepts subscriptions of this pipe from now on.
    pub(crate) fn add_pipe(&mut self, id: PipeId) {
        self.held.insert(id, PeerSubscriptions::default());
    }

    /// Forgets a pipe, and calls `lost` with each of its topics.
    pub(crate) fn remove_pipe(&mut self, id: PipeId, mut lost: Option<Lost<'_>>) {
        let Some(held) = self.held.remove(&id) else { return };
        let mut topic = Vec::new();
        for node in held.nodes {
            let set = self.tree.value_mut(node);
            set.remove(id);
            let last = set.is_empty();
            topic.clear();
            if let Some(lost) = &mut lost
                && self.tree.append_topic(node, &mut topic).is_ok()
            {
                lost(&topic, last);
            }
            self.tree.prune(node);
        }
    }

    pub(crate) fn add(&mut self, id: PipeId, topic: &[u8]) -> Added {
        let Some(held) = self.held.get(&id) else { return Added::Known };
        if self.tree.find(topic).is_some_and(|node| self.tree.value(node).contains(id)) {
            return Added::Known;
        }
        let fits = topic.len() <= TOPIC_MAX_BYTES
            && held.nodes.len() < TOPICS_PER_PEER
            && held.bytes + topic.len() <= TOPICS_PER_PEER_BYTES;
        if !fits {
            return Added::Refused;
        }
        self.add_new(id, topic).unwrap_or(Added::Refused)
    }

    fn add_new(&mut self, id: PipeId, topic: &[u8]) -> Result<Added, NoMemory> {
        let Some(held) = self.held.get_mut(&id) else { return Ok(Added::Known) };
        held.nodes.try_reserve(1).map_err(|_| NoMemory)?;
        let node = self.tree.insert(topic)?;
        let set = self.tree.value_mut(node);
        let first = set.is_empty();
        if let Err(error) = set.insert(id) {
            self.tree.prune(node);
            return Err(error);
        }
        held.nodes.insert(node);
        held.bytes += topic.len();
        Ok(if first { Added::First } else { Added::Another })
    }

    pub(crate) fn remove(&mut self, id: PipeId, topic: &[u8]) -> Removed {
        let Some(held) = self.held.get_mut(&id) else { return Removed::Unknown };
        let Some(node) = self.tree.find(topic) else { return Removed::Unknown };
        if !held.nodes.remove(&node) {
            return Removed::Unknown;
        }
        held.bytes -= topic.len();
        let set = self.tree.value_mut(node);
        set.remove(id);
        let last = set.is_empty();
        self.tree.prune(node);
        if last { Removed::Last } else { Removed::Left }
    }

    /// Number of distinct topics.
    pub(crate) fn topics(&self) -> usize {
        self.tree.nodes().count()
    }

    /// Sets `into` to the pipes with a topic that is a prefix of `bytes`, each pipe once.
    #[inline(always)]
    pub(crate) fn find(&mut self, bytes: &[u8], into: &mut Vec<PipeId>) {
        into.clear();
        let mut sets = self.tree.prefixes(bytes).map(PipeSet::as_slice).filter(|set| !set.is_empty());
        let Some(first) = sets.next() else { return };
        into.extend_from_slice(first);
        let Some(mut set) = sets.next() else { return };
        self.seen.forget();
        into.iter().for_each(|&id| _ = self.seen.note(id));
        loop {
            into.extend(set.iter().filter(|&&id| self.seen.note(id)));
            let Some(next) = sets.next() else { return };
            set = next;
        }
    }

    /// Sets `into` to the pipes that have exactly this topic.
    #[inline(always)]
    pub(crate) fn find_exact(&self, topic: &[u8], into: &mut Vec<PipeId>) {
        into.clear();
        if let Some(node) = self.tree.find(topic) {
            into.extend_from_slice(self.tree.value(node).as_slice());
        }
    }
}

impl Subscriptions {
    /// Replaces `ids` with the pipes of `all` that are not in it.
    pub(crate) fn invert(&mut self, all: &[PipeId], ids: &mut Vec<PipeId>) {
        self.seen.forget();
        ids.iter().for_each(|&id| _ = self.seen.note(id));
        ids.clear();
        ids.extend(all.iter().filter(|&&id| self.seen.note(id)));
    }
}

/// The pipes of one topic; most topics have one.
#[derive(Default)]
enum PipeSet {
    #[default]
    None,
    One(PipeId),
    /// Sorted.
    Many(Vec<PipeId>),
}

impl Value for PipeSet {
    fn is_empty(&self) -> bool {
        matches!(self, PipeSet::None)
    }
}

impl PipeSet {
    #[inline(always)]
    fn as_slice(&self) -> &[PipeId] {
        match self {
            PipeSet::None => &[],
            PipeSet::One(id) => std::slice::from_ref(id),
            PipeSet::Many(ids) => ids,
        }
    }

    fn contains(&self, id: PipeId) -> bool {
        self.as_slice().binary_search(&id).is_ok()
    }

    /// Adds a pipe that is not in the set.
    fn insert(&mut self, id: PipeId) -> Result<(), NoMemory> {
        match self {
            PipeSet::None => *self = PipeSet::One(id),
            PipeSet::One(other) => {
                let mut ids = Vec::new();
                ids.try_reserve_exact(2).map_err(|_| NoMemory)?;
                ids.extend([id.min(*other), id.max(*other)]);
                *self = PipeSet::Many(ids);
            }
            PipeSet::Many(ids) => {
                ids.try_reserve(1).map_err(|_| NoMemory)?;
                ids.insert(ids.partition_point(|&other| other < id), id);
            }
        }
        Ok(())
    }

    fn remove(&mut self, id: PipeId) {
        match self {
            PipeSet::None => {}
            PipeSet::One(only) if *only == id => *self = PipeSet::None,
            PipeSet::One(_) => {}
            PipeSet::Many(ids) => {
                if let Ok(index) = ids.binary_search(&id) {
                    ids.remove(index);
                }
                match ids[..] {
                    [] => *self = PipeSet::None,
                    [only] => *self = PipeSet::One(only),
                    _ => {}
                }
            }
        }
    }
}

/// The pipes already seen in the current round, indexed by pipe id.
#[derive(Default)]
struct Seen {
    round: u32,
    rounds: Vec<u32>,
}

impl Seen {
    /// Begins a new round.
    fn forget(&mut self) {
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.rounds.clear();
            self.round = 1;
        }
    }

    /// Returns true if this is the pipe's first time in the round.
    fn note(&mut self, id: PipeId) -> bool {
        let index = id.0 as usize;
        if self.rounds.len() <= index {
            self.rounds.resize(index + 1, 0);
        }
        std::mem::replace(&mut self.rounds[index], self.round) != self.round
    }
}
