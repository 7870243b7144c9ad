//! NULL: each side sends READY with its properties.
//!
//! In RFC 37 the client speaks first; libzmq sends READY on both sides at once, and so do we. If the caller
//! requires authorization, our READY waits for its decision, as libzmq's READY waits for ZAP.

use super::{AuthorizationRequest, Mechanism, Outcome, Traffic, unexpected_unless_error};
use crate::command::Command;
use crate::error::Error;
use crate::handshake::{Limits, Output};
use crate::metadata;

const READY: &[u8] = b"\x05READY";

#[derive(Debug)]
pub(crate) struct Null {
    /// The properties for READY; `None` once READY is sent.
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

    fn request(&self) -> Option<AuthorizationRequest<'_>> {
        self.unsent.as_ref().map(|_| AuthorizationRequest { mechanism: "NULL", credentials: Vec::new() })
    }

    fn accept(&mut self, output: &mut Output) -> Outcome {
        if let Some(metadata) = self.unsent.take() {
            output.command(&[READY, &metadata]);
        }
        Outcome::Wait
    }
}
