//! Credit: what a client has granted and was not used.

#[derive(Debug, Clone, Copy, Default)]
pub struct Credit {
    messages: u64,
    /// The last message may take more octets than are left.
    octets: i64,
}

impl Credit {
    pub fn is_left(self) -> bool {
        self.messages > 0 && self.octets > 0
    }

    pub fn grant(&mut self, messages: u32, octets: u32) {
        self.messages = self.messages.saturating_add(messages.into());
        self.octets = self.octets.saturating_add(octets.into());
    }

    /// A message of so many octets was delivered.
    pub fn use_for(&mut self, octets: usize) {
        self.messages = self.messages.saturating_sub(1);
        self.octets = self.octets.saturating_sub_unsigned(octets as u64);
    }
}
