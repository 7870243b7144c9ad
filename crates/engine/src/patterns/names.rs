//! The names of a ROUTER's peers, and which pipe each leads to.
//!
//! A name is the routing id that a peer announced, the one that ZMQ_CONNECT_ROUTING_ID gave it, or five bytes
//! made up here, which begin with 0. RFC 28 keeps those for us, and peers announce them nevertheless: what is
//! made up is never a name that leads somewhere. It guarantees that a name leads to one pipe at most, found by
//! hash whatever their number. It decides nothing: two pipes with the same name are the router's business.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use crate::pipe::PipeId;

/// How we stand with a pipe.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Its peer is not known yet.
    New,
    /// It has a name, and the name leads to it.
    Named,
    /// It is not there any more; what it sent before can be received.
    Away,
    /// Another has its name.
    Ignored,
    /// Another has taken its name; what had come in by then, up to this message of the pipe, is still received.
    Ousted { until: u64 },
}

/// Whose idea a name was.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Nobody,
    Peer,
    Made,
    /// ZMQ_CONNECT_ROUTING_ID: it stays through reconnects.
    Given,
}

struct Slot {
    name: Arc<[u8]>,
    origin: Origin,
    standing: Standing,
}

pub(super) struct Names {
    pipes: HashMap<Arc<[u8]>, PipeId>,
    /// Connected peers whose name leads to another, in the order in which they lost it or claimed it in vain.
    waiting: HashMap<Arc<[u8]>, Vec<PipeId>>,
    slots: Vec<Option<Slot>>,
    /// The pipe received from last: most likely, the next that is sent to.
    pub(super) recent: Option<PipeId>,
    next: u32,
    /// The name made up last.
    pub(super) made: Option<Arc<[u8]>>,
}

impl Default for Names {
    fn default() -> Names {
        let next = RandomState::new().hash_one(0) as u32;
        Names {
            pipes: HashMap::new(),
            waiting: HashMap::new(),
            slots: Vec::new(),
            recent: None,
            next,
            made: None,
        }
    }
}

impl Names {
    /// A pipe is there; `given` is the name that our side gave it, or empty.
    pub(super) fn add(&mut self, id: PipeId, given: &[u8]) {
        let index = id.0 as usize;
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, || None);
        }
        let origin = if given.is_empty() { Origin::Nobody } else { Origin::Given };
        self.slots[index] = Some(Slot { name: Arc::from(given), origin, standing: Standing::New });
    }

    /// A pipe is gone.
    pub(super) fn remove(&mut self, id: PipeId) {
        self.stop_waiting(id);
        self.release(id, Standing::Away);
        if let Some(slot) = self.slots.get_mut(id.0 as usize) {
            *slot = None;
        }
    }

    #[inline(always)]
    fn slot(&self, id: PipeId) -> Option<&Slot> {
        self.slots.get(id.0 as usize)?.as_ref()
    }

    fn slot_mut(&mut self, id: PipeId) -> Option<&mut Slot> {
        self.slots.get_mut(id.0 as usize)?.as_mut()
    }

    pub(super) fn standing(&self, id: PipeId) -> Option<Standing> {
        self.slot(id).map(|slot| slot.standing)
    }

    /// Whether our side has named it, so that it keeps the name while it is not connected.
    pub(super) fn is_given(&self, id: PipeId) -> bool {
        self.slot(id).is_some_and(|slot| slot.origin == Origin::Given)
    }

    /// Whether its name was made up here.
    pub(super) fn is_made(&self, id: PipeId) -> bool {
        self.slot(id).is_some_and(|slot| slot.origin == Origin::Made)
    }

    /// The name of a pipe, whether or not it leads to it.
    #[inline(always)]
    pub(super) fn name(&self, id: PipeId) -> &[u8] {
        self.slot(id).map_or(&[], |slot| &slot.name)
    }

    /// The same, to be kept.
    pub(super) fn name_of(&self, id: PipeId) -> Option<Arc<[u8]>> {
        self.slot(id).map(|slot| slot.name.clone())
    }

    /// Settles a pipe's name, by what its peer has announced. A name made up before is kept for a peer that
    /// announces none, unless another took it while this one was away.
    pub(super) fn settle(&mut self, id: PipeId, announced: &[u8]) {
        let Some(origin) = self.slot(id).map(|slot| slot.origin) else { return };
        let (name, origin) = match origin {
            Origin::Given => return,
            _ if !announced.is_empty() => (Arc::from(announced), Origin::Peer),
            Origin::Made if self.rival(id).is_none() => return,
            Origin::Nobody | Origin::Peer | Origin::Made => (self.make(), Origin::Made),
        };
        if let Some(slot) = self.slot_mut(id) {
            (slot.name, slot.origin) = (name, origin);
        }
    }

    fn make(&mut self) -> Arc<[u8]> {
        loop {
            let [a, b, c, d] = self.next.to_be_bytes();
            self.next = self.next.wrapping_add(1);
            let name = [0, a, b, c, d];
            if !self.pipes.contains_key(&name[..]) {
                let name: Arc<[u8]> = Arc::from(&name[..]);
                self.made = Some(name.clone());
                return name;
            }
        }
    }

    /// The other pipe that a pipe's name leads to.
    pub(super) fn rival(&self, id: PipeId) -> Option<PipeId> {
        self.pipes.get(self.name(id)).copied().filter(|&other| other != id)
    }

    /// Lets a pipe's name lead to it.
    pub(super) fn claim(&mut self, id: PipeId) {
        let Some(slot) = self.slots.get_mut(id.0 as usize).and_then(Option::as_mut) else { return };
        slot.standing = Standing::Named;
        self.pipes.insert(slot.name.clone(), id);
    }

    /// A pipe's name does not lead to it any more.
    pub(super) fn release(&mut self, id: PipeId, standing: Standing) {
        let Some(slot) = self.slots.get_mut(id.0 as usize).and_then(Option::as_mut) else { return };
        if slot.standing == Standing::Named {
            self.pipes.remove(&slot.name);
        }
        slot.standing = standing;
    }

    /// A pipe's name leads to another pipe: it gets the name when that one leaves (`successor`).
    pub(super) fn wait(&mut self, id: PipeId, standing: Standing) {
        self.release(id, standing);
        if let Some(slot) = self.slot(id) {
            let name = slot.name.clone();
            self.waiting.entry(name).or_default().push(id);
        }
    }

    /// A pipe's peer has left: it does not wait for its name any more.
    pub(super) fn stop_waiting(&mut self, id: PipeId) {
        let Some(slot) = self.slots.get(id.0 as usize).and_then(Option::as_ref) else { return };
        let Some(waiting) = self.waiting.get_mut(&slot.name) else { return };
        waiting.retain(|&other| other != id);
        if waiting.is_empty() {
            self.waiting.remove(&slot.name);
        }
    }

    /// The pipe that gets a name which leads nowhere any more: of those that wait the `newest`, or the oldest.
    pub(super) fn successor(&mut self, name: &[u8], newest: bool) -> Option<PipeId> {
        let waiting = self.waiting.get(name)?;
        let id = if newest { *waiting.last()? } else { *waiting.first()? };
        self.stop_waiting(id);
        Some(id)
    }

    /// The pipe that a name leads to.
    #[inline(always)]
    pub(super) fn find(&self, name: &[u8]) -> Option<PipeId> {
        if let Some(id) = self.recent
            && let Some(slot) = self.slot(id)
            && slot.standing == Standing::Named
            && *slot.name == *name
        {
            return Some(id);
        }
        self.pipes.get(name).copied()
    }

    /// All pipes that names lead to.
    pub(super) fn pipes(&self) -> impl Iterator<Item = PipeId> + '_ {
        self.pipes.values().copied()
    }
}
