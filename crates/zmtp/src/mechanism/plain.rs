//! PLAIN (RFC 24): the client sends a name and a password, for everybody on the way to read.
//!
//! | client | server |
//! | --- | --- |
//! | HELLO: name, password | |
//! | | WELCOME, where the caller lets the client in |
//! | INITIATE: properties | |
//! | | READY: properties |
//!
//! Where RFC 24 pads the names of commands to eight letters, they have their length in front, as in libzmq. And
//! libzmq's ERROR has a slip of the pen, in all versions so far: `^RROR` stands in place of `05` `ERROR`, since C
//! reads a hexadecimal escape as far as there are digits. Its clients know that spelling alone, so a server
//! refuses with it; our client takes both.

use pinnace_crypto::SecretBytes;

use super::{Mechanism, Outcome, Request, Traffic, unexpected, unexpected_unless_error};
use crate::command::{self, Command};
use crate::error::{Error, Misbehaviour};
use crate::handshake::{Limits, Output};
use crate::{frame, metadata};

const HELLO: &[u8] = b"\x05HELLO";
const WELCOME: &[u8] = b"\x07WELCOME";
const INITIATE: &[u8] = b"\x08INITIATE";
const READY: &[u8] = b"\x05READY";
const LIBZMQ_ERROR: &[u8] = b"^RROR";

/// The side that says who it is.
#[derive(Debug)]
pub(crate) struct Client {
    /// What INITIATE will say; none once it is sent.
    unsent: Option<Vec<u8>>,
}

impl Client {
    /// Name and password have at most 255 bytes each.
    pub(crate) fn start(metadata: Vec<u8>, username: &[u8], password: &[u8], output: &mut Output) -> Client {
        output.command(&[HELLO, &[username.len() as u8], username, &[password.len() as u8], password]);
        Client { unsent: Some(metadata) }
    }
}

impl Mechanism for Client {
    fn parse<'a>(&self, body: &'a [u8]) -> Result<Command<'a>, Error> {
        match body.strip_prefix(LIBZMQ_ERROR) {
            Some(reason) => Ok(Command::Error { reason: command::parse_reason(reason)? }),
            None => command::parse(body),
        }
    }

    fn receive(
        &mut self,
        command: Command<'_>,
        limits: &Limits,
        output: &mut Output,
    ) -> Result<Outcome, Error> {
        match (command, &self.unsent) {
            (Command::Unknown { name: b"WELCOME", body }, Some(metadata)) => {
                if !body.is_empty() {
                    return Err(Misbehaviour::MalformedWelcome.into());
                }
                output.command(&[INITIATE, metadata]);
                self.unsent = None;
                Ok(Outcome::Wait)
            }
            (Command::Ready(properties), None) => {
                Ok(Outcome::Ready(metadata::parse(properties, limits.max_properties)?, Traffic::Clear))
            }
            (other, _) => Err(unexpected_unless_error(other)),
        }
    }
}

/// The side that is told who comes.
#[derive(Debug)]
pub(crate) struct Server {
    metadata: Vec<u8>,
    authorize: bool,
    state: ServerState,
}

#[derive(Debug)]
enum ServerState {
    Hello,
    /// The caller looks at name and password.
    Asked(Vec<u8>, SecretBytes),
    Initiate,
}

impl Server {
    pub(crate) fn new(metadata: Vec<u8>, authorize: bool) -> Server {
        Server { metadata, authorize, state: ServerState::Hello }
    }
}

impl Mechanism for Server {
    fn receive(
        &mut self,
        command: Command<'_>,
        limits: &Limits,
        output: &mut Output,
    ) -> Result<Outcome, Error> {
        match (command, &self.state) {
            (Command::Unknown { name: b"HELLO", body }, ServerState::Hello) => {
                let (username, password) = parse_hello(body).ok_or(Misbehaviour::MalformedHello)?;
                self.state = ServerState::Asked(username.to_vec(), SecretBytes::from(password));
                Ok(if self.authorize { Outcome::Wait } else { self.accept(output) })
            }
            (Command::Unknown { name: b"INITIATE", body }, ServerState::Initiate) => {
                let properties = metadata::parse(body, limits.max_properties)?;
                output.command(&[READY, &self.metadata]);
                Ok(Outcome::Ready(properties, Traffic::Clear))
            }
            (other, _) => Err(unexpected(other)),
        }
    }

    fn request(&self) -> Option<Request<'_>> {
        match &self.state {
            ServerState::Asked(username, password) => {
                Some(Request { mechanism: "PLAIN", credentials: vec![username, password] })
            }
            _ => None,
        }
    }

    fn accept(&mut self, output: &mut Output) -> Outcome {
        output.command(&[WELCOME]);
        self.state = ServerState::Initiate;
        Outcome::Wait
    }
}

/// Appends the frame with which a client is refused.
pub(super) fn encode_refusal(status: &[u8], out: &mut Vec<u8>) {
    frame::append(frame::COMMAND, &[LIBZMQ_ERROR, &[status.len() as u8], status], out);
}

/// Name and password, each with its length in front, and nothing behind them.
fn parse_hello(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&len, rest) = body.split_first()?;
    let (username, rest) = rest.split_at_checked(len.into())?;
    let (&len, password) = rest.split_first()?;
    (password.len() == usize::from(len)).then_some((username, password))
}
