//! Maps between the pipes of a SERVER or PEER and the numbers ("routing id", RFC 41) that stand for their peers.
//!
//! Guarantees that no two pipes share a number, that no number is 0, and that a released number is reused only after
//! all others: the numbers count up from a random start per socket.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use crate::pipe::PipeId;

#[derive(Clone, Copy, Default)]
struct NumberSlot {
    /// 0 if the pipe does not exist.
    number: u32,
    /// The number is mapped to the pipe: the pipe has not ended.
    leads: bool,
}

pub(crate) struct Numbers {
    pipes: HashMap<u32, PipeId>,
    /// Indexed by pipe id.
    slots: Vec<NumberSlot>,
    /// The pipe received from last, most likely the next destination.
    pub(crate) recent: Option<PipeId>,
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

    /// Assigns a number to a new pipe.
    pub(crate) fn add(&mut self, id: PipeId) {
        while self.next == 0 || self.pipes.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let index = id.0 as usize;
        if self.slots.len() <= index {
            self.slots.resize(index + 1, NumberSlot::default());
        }
        self.slots[index] = NumberSlot { number: self.next, leads: true };
        self.pipes.insert(self.next, id);
        self.next = self.next.wrapping_add(1);
    }

    #[inline(always)]
    fn slot(&self, id: PipeId) -> NumberSlot {
        self.slots.get(id.0 as usize).copied().unwrap_or_default()
    }

    /// The pipe's number, also after the pipe has ended; 0 if there is no such pipe.
    #[inline(always)]
    pub(crate) fn number(&self, id: PipeId) -> u32 {
        self.slot(id).number
    }

    /// The pipe with this number.
    #[inline(always)]
    pub(crate) fn find(&self, number: u32) -> Option<PipeId> {
        if let Some(id) = self.recent
            && let NumberSlot { number: recent, leads: true } = self.slot(id)
            && recent == number
        {
            return Some(id);
        }
        self.pipes.get(&number).copied()
    }

    /// Unmaps the number of a pipe that has ended.
    pub(crate) fn release(&mut self, id: PipeId) {
        if let Some(slot) = self.slots.get_mut(id.0 as usize)
            && std::mem::take(&mut slot.leads)
        {
            self.pipes.remove(&slot.number);
        }
    }

    /// Forgets a pipe.
    pub(crate) fn remove(&mut self, id: PipeId) {
        self.release(id);
        if let Some(slot) = self.slots.get_mut(id.0 as usize) {
            *slot = NumberSlot::default();
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
