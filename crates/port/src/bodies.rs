//! Bodies of messages that are too large for a request: they come in parts before it.

use std::collections::HashMap;

use crate::wire::{Malformed, Part};

/// The most octets of a body.
const BODY_MAX: usize = 1 << 31;

#[derive(Default)]
struct Body {
    octets: Vec<u8>,
    is_whole: bool,
}

/// Bodies that have begun to come, by the numbers of their channels.
#[derive(Default)]
pub struct Bodies(HashMap<u32, Body>);

impl Bodies {
    pub fn contains(&self, number: u32) -> bool {
        self.0.contains_key(&number)
    }

    pub fn begin(&mut self, number: u32) {
        self.0.insert(number, Body::default());
    }

    /// Adds a part. Without such a body nothing happens: the client has dropped it. Error: it is too large.
    pub fn add(&mut self, number: u32, part: Part, content: &[u8]) -> Result<(), Malformed> {
        let Some(body) = self.0.get_mut(&number) else { return Ok(()) };
        if part == Part::GivenUp {
            *body = Body::default();
            return Ok(());
        }
        if body.octets.len() + content.len() > BODY_MAX {
            return Err(Malformed::Length);
        }
        body.octets.extend_from_slice(content);
        body.is_whole = part == Part::Last;
        Ok(())
    }

    /// Takes a body whose last part has come.
    pub fn take(&mut self, number: u32) -> Option<Vec<u8>> {
        self.0.remove(&number).filter(|body| body.is_whole).map(|body| body.octets)
    }

    pub fn forget(&mut self, number: u32) {
        self.0.remove(&number);
    }
}
