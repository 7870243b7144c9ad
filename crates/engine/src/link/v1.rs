//! Incoming ZMTP 1.0 frames get the headers of 3.x as they arrive, so that later stages are the same.

use pinnace_zmtp::{Error, frame, v1};

/// Translates a stream of 1.0 frames.
#[derive(Default)]
pub(crate) struct FromV1 {
    /// Bytes of the body that have not come yet.
    body: u64,
    /// The first bytes of an incomplete header.
    head: Vec<u8>,
}

impl FromV1 {
    /// Takes `bytes` and appends their translation to `out`.
    pub(super) fn translate(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        while !bytes.is_empty() {
            if self.body > 0 {
                let taken = bytes.len().min(usize::try_from(self.body).unwrap_or(usize::MAX));
                out.extend_from_slice(&bytes[..taken]);
                self.body -= taken as u64;
                bytes = &bytes[taken..];
                continue;
            }
            self.head.push(bytes[0]);
            bytes = &bytes[1..];
            let Some(header) = v1::parse(&self.head)? else { continue };
            let mut head = [0; frame::MAX_HEADER];
            let len = frame::encode(header.flags & frame::MORE, header.body_len, &mut head);
            out.extend_from_slice(&head[..len]);
            self.body = header.body_len;
            self.head.clear();
        }
        Ok(())
    }
}
