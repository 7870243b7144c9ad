//! CURVE's server.

use std::sync::Arc;

use pinnace_crypto::{BoxKey, Forged, KeyPair, PublicKey, Secret, equal};

use super::traffic::{Opener, Sealer, TrafficRole};
use super::{COOKIE_LEN, Entropy, PADDING, READY, SHORT_NONCE_LEN, SIGNATURE_LEN, VERSION, WELCOME};
use super::{LONG_NONCE_LEN, long_nonce, short_nonce, unreadable};
use crate::command::Command;
use crate::error::{Error, Misbehaviour};
use crate::handshake::{Limits, Output};
use crate::mechanism::{AuthorizationRequest, Mechanism, Outcome, Traffic, unexpected};
use crate::metadata;

/// The number of READY; MESSAGE uses the following ones.
const READY_NUMBER: [u8; SHORT_NONCE_LEN] = 1_u64.to_be_bytes();
const FIRST_MESSAGE: u64 = 2;

/// Length of HELLO after its name: version, padding, C', a number, a box.
const HELLO_LEN: usize = VERSION.len() + PADDING.len() + 32 + SHORT_NONCE_LEN + SIGNATURE_LEN;
/// Minimum content of INITIATE's box: C, the vouch's nonce, the vouch.
const TOLD_MIN: usize = 32 + LONG_NONCE_LEN + SIGNATURE_LEN;
/// Minimum length of INITIATE after its name: the cookie, a number, a box.
const INITIATE_MIN: usize = COOKIE_LEN + SHORT_NONCE_LEN + pinnace_crypto::TAG_LEN + TOLD_MIN;

#[derive(Debug)]
pub(crate) struct Server {
    keys: Arc<KeyPair>,
    metadata: Vec<u8>,
    authorize: bool,
    /// S' and its secret.
    transient: KeyPair,
    cookie_key: BoxKey,
    cookie_nonce: [u8; LONG_NONCE_LEN],
    welcome_nonce: [u8; LONG_NONCE_LEN],
    state: CurveServerState,
}

#[derive(Debug)]
enum CurveServerState {
    Hello,
    /// Holds C'.
    Initiate(PublicKey),
    /// The caller decides about C; everything for acceptance is ready.
    Asked(Box<VerifiedInitiate>),
    Done,
}

/// The content of a verified INITIATE.
#[derive(Debug)]
struct VerifiedInitiate {
    client_key: PublicKey,
    /// The key of C' and S'.
    key: BoxKey,
    number: u64,
    properties: Vec<(String, Vec<u8>)>,
}

impl Server {
    pub(crate) fn new(metadata: Vec<u8>, authorize: bool, keys: Arc<KeyPair>, entropy: &Entropy) -> Server {
        Server {
            keys,
            metadata,
            authorize,
            transient: KeyPair::from_secret(entropy.transient()),
            cookie_key: entropy.cookie_key(),
            cookie_nonce: *entropy.first_nonce(),
            welcome_nonce: *entropy.welcome_nonce(),
            state: CurveServerState::Hello,
        }
    }

    fn welcome(&mut self, hello: &[u8], output: &mut Output) -> Result<Outcome, Error> {
        let malformed = || Misbehaviour::MalformedHello;
        if hello.len() != HELLO_LEN || !hello.starts_with(VERSION) {
            return Err(malformed().into());
        }
        let rest = &hello[VERSION.len() + PADDING.len()..];
        let (client, rest) = rest.split_first_chunk().ok_or_else(malformed)?;
        let (number, signature) = rest.split_first_chunk().ok_or_else(malformed)?;
        let key = BoxKey::shared(client, &self.keys.secret).map_err(unreadable("HELLO"))?;
        // RFC 26 fills the box with zeros. Only that it opens is checked, as in libzmq.
        key.open(&short_nonce(b"CurveZMQHELLO---", number), signature).map_err(unreadable("HELLO"))?;

        let cookie =
            self.cookie_key.seal(&long_nonce(b"COOKIE--", &self.cookie_nonce), &*self.cookie_content(client));
        let told = [&self.transient.public[..], &self.cookie_nonce, &cookie].concat();
        let sealed = key.seal(&long_nonce(b"WELCOME-", &self.welcome_nonce), &told);
        output.command(&[WELCOME, &self.welcome_nonce, &sealed]);
        self.state = CurveServerState::Initiate(*client);
        Ok(Outcome::Wait)
    }

    /// The content of the cookie: the client's transient key (C') and the secret of ours (S'), as in RFC 26.
    fn cookie_content(&self, client: &PublicKey) -> Secret<64> {
        let mut cookie_content = Secret::zeroed();
        cookie_content[..32].copy_from_slice(client);
        cookie_content[32..].copy_from_slice(&*self.transient.secret);
        cookie_content
    }

    /// Opens an INITIATE from the outside in: the cookie, the box, the vouch. Returns nothing unless all three are
    /// valid.
    fn known(&self, client: &PublicKey, initiate: &[u8], limits: &Limits) -> Result<VerifiedInitiate, Error> {
        let malformed = || Misbehaviour::MalformedInitiate;
        if initiate.len() < INITIATE_MIN {
            return Err(malformed().into());
        }
        let forged = unreadable("INITIATE");
        let (cookie, rest) = initiate.split_first_chunk::<COOKIE_LEN>().ok_or_else(malformed)?;
        self.check_cookie(client, cookie)?;

        let (number, sealed) = rest.split_first_chunk().ok_or_else(malformed)?;
        let key = BoxKey::shared(client, &self.transient.secret).map_err(&forged)?;
        let told = key.open(&short_nonce(b"CurveZMQINITIATE", number), sealed).map_err(&forged)?;
        let (client_key, rest) = told.split_first_chunk().ok_or_else(malformed)?;
        let (vouch, metadata) = rest.split_first_chunk::<COOKIE_LEN>().ok_or_else(malformed)?;
        self.check_vouch(client, client_key, vouch)?;

        let properties = metadata::parse(metadata, limits.max_properties)?;
        Ok(VerifiedInitiate { client_key: *client_key, key, number: u64::from_be_bytes(*number), properties })
    }

    /// The cookie must be ours, of this connection, and for this client.
    fn check_cookie(&self, client: &PublicKey, cookie: &[u8; COOKIE_LEN]) -> Result<(), Error> {
        let forged = unreadable("INITIATE");
        let (nonce, sealed) = cookie.split_first_chunk().ok_or(Misbehaviour::MalformedInitiate)?;
        let opened = self.cookie_key.open(&long_nonce(b"COOKIE--", nonce), sealed).map_err(&forged)?;
        if equal(&opened, &*self.cookie_content(client)) { Ok(()) } else { Err(forged(Forged)) }
    }

    /// The vouch must state that C' is the transient key of C's owner, and that it is meant for our key. libzmq
    /// does not check the latter, so another server could replay a vouch that it received.
    fn check_vouch(
        &self,
        client: &PublicKey,
        client_key: &PublicKey,
        vouch: &[u8; COOKIE_LEN],
    ) -> Result<(), Error> {
        let forged = unreadable("INITIATE");
        let (nonce, sealed) = vouch.split_first_chunk().ok_or(Misbehaviour::MalformedInitiate)?;
        let key = BoxKey::shared(client_key, &self.transient.secret).map_err(&forged)?;
        let told = key.open(&long_nonce(b"VOUCH---", nonce), sealed).map_err(&forged)?;
        if equal(&told, &[*client, self.keys.public].concat()) {
            Ok(())
        } else {
            Err(Misbehaviour::WrongVouch.into())
        }
    }

    fn ready(&mut self, known: VerifiedInitiate, output: &mut Output) -> Outcome {
        let VerifiedInitiate { key, number, properties, .. } = known;
        let sealed = key.seal(&short_nonce(b"CurveZMQREADY---", &READY_NUMBER), &self.metadata);
        output.command(&[READY, &READY_NUMBER, &sealed]);
        let sealer = Sealer::new(&key, TrafficRole::Server, FIRST_MESSAGE);
        Outcome::Ready(properties, Traffic::Sealed(sealer, Opener::new(&key, TrafficRole::Server, number)))
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
            (Command::Unknown { name: b"HELLO", body }, CurveServerState::Hello) => {
                self.welcome(body, output)
            }
            (Command::Unknown { name: b"INITIATE", body }, CurveServerState::Initiate(client)) => {
                let known = self.known(client, body, limits)?;
                if self.authorize {
                    self.state = CurveServerState::Asked(Box::new(known));
                    return Ok(Outcome::Wait);
                }
                self.state = CurveServerState::Done;
                Ok(self.ready(known, output))
            }
            (other, _) => Err(unexpected(other)),
        }
    }

    fn request(&self) -> Option<AuthorizationRequest<'_>> {
        match &self.state {
            CurveServerState::Asked(known) => {
                Some(AuthorizationRequest { mechanism: "CURVE", credentials: vec![&known.client_key] })
            }
            _ => None,
        }
    }

    fn accept(&mut self, output: &mut Output) -> Outcome {
        match std::mem::replace(&mut self.state, CurveServerState::Done) {
            CurveServerState::Asked(known) => self.ready(*known, output),
            other => {
                self.state = other;
                Outcome::Wait
            }
        }
    }
}
