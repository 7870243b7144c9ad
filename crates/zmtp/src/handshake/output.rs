//! Bytes to be written. They may contain a password, so they are wiped once all are written.

use pinnace_crypto::SecretBytes;

use crate::{frame, v1};

#[derive(Debug, Default)]
pub(crate) struct Output {
    bytes: SecretBytes,
    sent: usize,
}

impl Output {
    pub(crate) fn waiting(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    pub(crate) fn sent(&mut self, n: usize) {
        self.sent = self.sent.saturating_add(n).min(self.bytes.len());
        if self.sent == self.bytes.len() {
            self.bytes.clear();
            self.sent = 0;
        }
    }

    /// Adds bytes without framing.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Adds a command frame; its body is the concatenation of `parts`.
    pub(crate) fn command(&mut self, parts: &[&[u8]]) {
        self.framed(frame::COMMAND, parts);
    }

    /// Adds a message frame.
    pub(super) fn message(&mut self, body: &[u8]) {
        self.framed(0, &[body]);
    }

    /// Adds a frame of ZMTP 1.0.
    pub(super) fn v1_message(&mut self, body: &[u8]) {
        let mut header = [0; v1::MAX_HEADER];
        let header_len = v1::encode(0, body.len() as u64, &mut header);
        self.raw(&header[..header_len]);
        self.raw(body);
    }

    fn framed(&mut self, flags: u8, parts: &[&[u8]]) {
        let body_len: usize = parts.iter().map(|part| part.len()).sum();
        let mut header = [0; frame::MAX_HEADER];
        let header_len = frame::encode(flags, body_len as u64, &mut header);
        self.raw(&header[..header_len]);
        for part in parts {
            self.raw(part);
        }
    }
}
