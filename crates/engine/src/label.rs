//! Metadata of a message outside its frame: a peer's routing id, a group.

/// Metadata of a message outside its frame, for the socket types with single-frame messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Label {
    /// The peer (SERVER, PEER); 0: none.
    pub routing_id: u32,
    /// The group (RADIO, DISH), at most 255 bytes; empty: none.
    pub group: Vec<u8>,
}

impl Label {
    /// Returns true if nothing is set.
    #[inline(always)]
    pub fn is_blank(&self) -> bool {
        self.routing_id == 0 && self.group.is_empty()
    }

    /// Copies another label, reusing this one's memory.
    pub(crate) fn assign(&mut self, other: &Label) {
        self.clear();
        self.routing_id = other.routing_id;
        self.group.extend_from_slice(&other.group);
    }

    /// Clears the label and keeps its memory.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.routing_id = 0;
        self.group.clear();
    }

    /// Clears the label; returns its old value.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Label {
        if self.is_blank() { Label::default() } else { std::mem::take(self) }
    }
}
