//! The numbers by which a SERVER or a PEER knows its peers (RFC 41, "routing id"), and which pipe each leads to.
//!
//! It guarantees that no two pipes have the same number, that none is 0, and that a number which was given up
//! comes again only after all others were given: the numbers count up, from one that differs with each socket.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use crate::pipe::PipeId;

#[derive(Clone, Copy, Default)]
struct Slot {
    /// 0: there is no such pipe.
    number: u32,
    /// The number leads to the pipe: it has not ended.
    leads: bool,
}

pub(super) struct Numbers {
    pipes: HashMap<u32, PipeId>,
    /// By the pipes' ids.
    slots: Vec<Slot>,
    /// The pipe received from last: most likely, the next that is sent to.
    pub(super) recent: Option<PipeId>,
    next: u32,
}

impl Default for Numbers {
    fn default() -> Numbers {
        Numbers::counting_from(RandomState::new().hash_one(0) as u32)
    }
}

impl Numbers {
    fn counting_from(next: u32) -> Numbers {
        Numbers { pipes: HashMap::new(), slots: Vec::new(), recent: None, next }
    }

    /// Gives a new pipe its number.
    pub(super) fn add(&mut self, id: PipeId) {
        while self.next == 0 || self.pipes.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let index = id.0 as usize;
        if self.slots.len() <= index {
            self.slots.resize(index + 1, Slot::default());
        }
        self.slots[index] = Slot { number: self.next, leads: true };
        self.pipes.insert(self.next, id);
        self.next = self.next.wrapping_add(1);
    }

    #[inline(always)]
    fn slot(&self, id: PipeId) -> Slot {
        self.slots.get(id.0 as usize).copied().unwrap_or_default()
    }

    /// A pipe's number, even once it has ended; 0 where there is no such pipe.
    #[inline(always)]
    pub(super) fn number(&self, id: PipeId) -> u32 {
        self.slot(id).number
    }

    /// The pipe that a number leads to.
    #[inline(always)]
    pub(super) fn find(&self, number: u32) -> Option<PipeId> {
        if let Some(id) = self.recent
            && let Slot { number: recent, leads: true } = self.slot(id)
            && recent == number
        {
            return Some(id);
        }
        self.pipes.get(&number).copied()
    }

    /// A pipe has ended: its number leads nowhere.
    pub(super) fn release(&mut self, id: PipeId) {
        if let Some(slot) = self.slots.get_mut(id.0 as usize)
            && std::mem::take(&mut slot.leads)
        {
            self.pipes.remove(&slot.number);
        }
    }

    /// A pipe is gone.
    pub(super) fn remove(&mut self, id: PipeId) {
        self.release(id);
        if let Some(slot) = self.slots.get_mut(id.0 as usize) {
            *slot = Slot::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_leads_to_its_pipe_until_that_ends() {
        let mut numbers = Numbers::default();
        (0..100).for_each(|id| numbers.add(PipeId(id)));
        for id in (0..100).map(PipeId) {
            let number = numbers.number(id);
            assert_eq!(numbers.find(number), Some(id));
            numbers.recent = Some(id);
            assert_eq!(numbers.find(number), Some(id));
            numbers.release(id);
            assert_eq!((numbers.find(number), numbers.number(id)), (None, number));
            numbers.remove(id);
            assert_eq!(numbers.number(id), 0);
        }
    }

    #[test]
    fn neither_0_nor_a_number_in_use_is_given() {
        let mut numbers = Numbers::counting_from(u32::MAX);
        let given: Vec<u32> = (0..3)
            .map(|id| {
                numbers.add(PipeId(id));
                numbers.number(PipeId(id))
            })
            .collect();
        assert_eq!(given, [u32::MAX, 1, 2]);
        numbers.next = u32::MAX;
        numbers.release(PipeId(1));
        numbers.add(PipeId(3));
        assert_eq!(numbers.number(PipeId(3)), 1);
        numbers.next = 1;
        numbers.add(PipeId(4));
        assert_eq!(numbers.number(PipeId(4)), 3);
        assert_eq!(numbers.find(0), None);
    }
}
