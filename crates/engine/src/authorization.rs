//! Authorization of peers, as a handshake sees it. `socket::zap` asks the application's handler.

use std::task::Waker;

use pinnace_zmtp::{AuthorizationRequest, Refusal};

use crate::error::Error;
use crate::options::Options;

/// Asks a context's handler about peers.
pub(crate) trait Authorizer: Send + Sync {
    /// Asks about the peer at `address`; None if there is no handler.
    fn ask(
        &self,
        options: &Options,
        address: &str,
        request: &AuthorizationRequest<'_>,
    ) -> Result<Option<Box<dyn Inquiry>>, Error>;
}

/// A request that waits for its answer.
pub(crate) trait Inquiry: Send {
    /// Has `waker` woken, once, when the answer may have arrived. Call `answer` after this.
    fn wake_with(&mut self, waker: &Waker) -> Result<(), Error>;

    /// The answer, once it has arrived. Errors: Fault if the handler is gone without an answer.
    fn answer(&self) -> Result<Option<Answer>, Error>;
}

/// The handler's answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The peer is admitted.
    Admitted(Admission),
    Refused(Refusal),
    /// A malformed answer, with libzmq's number for the fault.
    Broken(u32),
}

/// The handler's statements about an admitted peer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Admission {
    pub(crate) user_id: Vec<u8>,
    pub(crate) properties: Vec<(String, Vec<u8>)>,
}
