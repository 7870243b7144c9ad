//! NULL: each side sends READY with its properties, and that is all.
//!
//! RFC 37 lets the client speak first; libzmq sends READY on both sides at once, and so do we. Where the caller
//! wants to be asked, our READY waits for its answer, as libzmq's does for ZAP's.

use super::{Mechanism, Outcome, Request, Traffic, unexpected_unless_error};
use crate::command::Command;
use crate::error::Error;
use crate::handshake::{Limits, Output};
use crate::metadata;

const READY: &[u8] = b"\x05READY";

#[derive(Debug)]
pub(crate) struct Null {
    /// What READY will say; none once it is sent.
    unsent: Option<Vec<u8>>,
}

impl Null {
    pub(crate) fn start(metadata: Vec<u8>, authorize: bool, output: &mut Output) -> Null {
        let mut null = Null { unsent: Some(metadata) };
        if !authorize {
            null.accept(output);
        }
        null
    }
}

impl Mechanism for Null {
    fn receive(
        &mut self,
        command: Command<'_>,
        limits: &Limits,
        _output: &mut Output,
    ) -> Result<Outcome, Error> {
        match command {
            Command::Ready(properties) => {
                Ok(Outcome::Ready(metadata::parse(properties, limits.max_properties)?, Traffic::Clear))
            }
            other => Err(unexpected_unless_error(other)),
        }
    }

    fn request(&self) -> Option<Request<'_>> {
        self.unsent.as_ref().map(|_| Request { mechanism: "NULL", credentials: Vec::new() })
    }

    fn accept(&mut self, output: &mut Output) -> Outcome {
        if let Some(metadata) = self.unsent.take() {
            output.command(&[READY, &metadata]);
        }
        Outcome::Wait
    }
}
