//! What goes with a message beside its frame: a peer's number, a group.

/// What goes with a message beside its frame, where the socket's type has one frame a message and says so
/// elsewhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Label {
    /// Which peer (SERVER, PEER); 0: none.
    pub routing_id: u32,
    /// Which group (RADIO, DISH), at most 255 bytes; empty: none.
    pub group: Vec<u8>,
}

impl Label {
    /// It says nothing.
    #[inline(always)]
    pub fn is_blank(&self) -> bool {
        self.routing_id == 0 && self.group.is_empty()
    }

    /// Makes it what another is, in the memory it has.
    pub(crate) fn assign(&mut self, other: &Label) {
        self.clear();
        self.routing_id = other.routing_id;
        self.group.extend_from_slice(&other.group);
    }

    /// Makes it blank; its memory is kept.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.routing_id = 0;
        self.group.clear();
    }

    /// Makes it blank; returns what it was.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Label {
        if self.is_blank() { Label::default() } else { std::mem::take(self) }
    }
}
