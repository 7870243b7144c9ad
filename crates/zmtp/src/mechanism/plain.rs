//! PLAIN (RFC 24): the client sends a name and a password in the clear.
//!
//! | client | server |
//! | --- | --- |
//! | HELLO: name, password | |
//! | | WELCOME, if the caller accepts the client |
//! | INITIATE: properties | |
//! | | READY: properties |
//!
//! RFC 24 pads command names to eight letters; here they have a length prefix, as in libzmq. libzmq's ERROR has a
//! typo in all versions so far: `^RROR` instead of `05` `ERROR`, because a hexadecimal escape in C extends over all
//! following hex digits. libzmq's clients understand only that spelling, so our server refuses with it; our client
//! accepts both.

use pinnace_crypto::SecretBytes;

use super::{AuthorizationRequest, Mechanism, Outcome, Traffic, unexpected, unexpected_unless_error};
use crate::command::{self, Command};
use crate::error::{Error, Misbehaviour};
use crate::handshake::{Limits, Output};
use crate::{frame, metadata};

const HELLO: &[u8] = b"\x05HELLO";
const WELCOME: &[u8] = b"\x07WELCOME";
const INITIATE: &[u8] = b"\x08INITIATE";
const READY: &[u8] = b"\x05READY";
const LIBZMQ_ERROR: &[u8] = b"^RROR";

/// The side that sends the credentials.
#[derive(Debug)]
pub(crate) struct Client {
    /// The properties for INITIATE; `None` once INITIATE is sent.
    unsent: Option<Vec<u8>>,
}

impl Client {
    /// Name and password must have at most 255 bytes each; the caller has checked this.
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

/// The side that receives the credentials.
#[derive(Debug)]
pub(crate) struct Server {
    metadata: Vec<u8>,
    authorize: bool,
    state: ServerState,
}

#[derive(Debug)]
enum ServerState {
    Hello,
    /// The caller decides about name and password.
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

    fn request(&self) -> Option<AuthorizationRequest<'_>> {
        match &self.state {
            ServerState::Asked(username, password) => {
                Some(AuthorizationRequest { mechanism: "PLAIN", credentials: vec![username, password] })
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

/// Appends the frame that refuses a client.
pub(super) fn encode_refusal(status: &[u8], out: &mut Vec<u8>) {
    frame::append(frame::COMMAND, &[LIBZMQ_ERROR, &[status.len() as u8], status], out);
}

/// Name and password, each with a length prefix, and no trailing bytes.
fn parse_hello(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&len, rest) = body.split_first()?;
    let (username, rest) = rest.split_at_checked(len.into())?;
    let (&len, password) = rest.split_first()?;
    (password.len() == usize::from(len)).then_some((username, password))
}
