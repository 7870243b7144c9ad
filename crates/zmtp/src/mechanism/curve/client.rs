//! CURVE's client.

use std::sync::Arc;

use pinnace_crypto::{BoxKey, KeyPair, PublicKey, Secret};

use super::traffic::{Opener, Sealer, TrafficRole};
use super::{COOKIE_LEN, Entropy, HELLO, INITIATE, LONG_NONCE_LEN, PADDING, SHORT_NONCE_LEN, VERSION};
use super::{long_nonce, short_nonce, unreadable};
use crate::command::Command;
use crate::error::{Error, Misbehaviour, Misuse};
use crate::handshake::{Limits, Output};
use crate::mechanism::{Mechanism, Outcome, Traffic, unexpected_unless_error};
use crate::metadata;

/// The numbers of HELLO and INITIATE; MESSAGE uses the following ones.
const HELLO_NUMBER: [u8; SHORT_NONCE_LEN] = 1_u64.to_be_bytes();
const INITIATE_NUMBER: [u8; SHORT_NONCE_LEN] = 2_u64.to_be_bytes();
const FIRST_MESSAGE: u64 = 3;

/// Length of WELCOME after its name: a nonce, and a box of S' and the cookie.
const WELCOME_LEN: usize = LONG_NONCE_LEN + 144;
/// Minimum length of READY after its name: a number, and an empty box.
const READY_MIN: usize = SHORT_NONCE_LEN + pinnace_crypto::TAG_LEN;

#[derive(Debug)]
pub(crate) struct Client {
    keys: Arc<KeyPair>,
    server_key: PublicKey,
    metadata: Vec<u8>,
    /// C' and its secret.
    transient: KeyPair,
    vouch_nonce: Secret<LONG_NONCE_LEN>,
    state: CurveClientState,
}

#[derive(Debug)]
enum CurveClientState {
    /// The key of C' and S, which opens WELCOME.
    Welcome(BoxKey),
    /// The key of C' and S', which opens everything after WELCOME.
    Ready(BoxKey),
}

impl Client {
    pub(crate) fn start(
        metadata: Vec<u8>,
        keys: Arc<KeyPair>,
        server_key: &PublicKey,
        entropy: &Entropy,
        output: &mut Output,
    ) -> Result<Client, Error> {
        let transient = KeyPair::from_secret(entropy.transient());
        let key = BoxKey::shared(server_key, &transient.secret).map_err(|_| Misuse::WeakServerKey)?;
        let signature = key.seal(&short_nonce(b"CurveZMQHELLO---", &HELLO_NUMBER), &[0; 64]);
        output.command(&[HELLO, VERSION, PADDING, &transient.public, &HELLO_NUMBER, &signature]);
        let vouch_nonce = Secret::copy_of(entropy.first_nonce());
        let (server_key, state) = (*server_key, CurveClientState::Welcome(key));
        Ok(Client { keys, server_key, metadata, transient, vouch_nonce, state })
    }

    fn initiate(&mut self, welcome: &[u8], output: &mut Output) -> Result<Outcome, Error> {
        let CurveClientState::Welcome(key) = &self.state else { return Ok(Outcome::Wait) };
        // libzmq does not distinguish a WELCOME of a wrong length from one that does not open.
        let malformed = || Misbehaviour::Unreadable { command: "WELCOME" };
        if welcome.len() != WELCOME_LEN {
            return Err(malformed().into());
        }
        let (nonce, sealed) = welcome.split_first_chunk().ok_or_else(malformed)?;
        let opened = key.open(&long_nonce(b"WELCOME-", nonce), sealed).map_err(unreadable("WELCOME"))?;
        let (server_transient, cookie) = opened.split_first_chunk().ok_or_else(malformed)?;
        debug_assert_eq!(cookie.len(), COOKIE_LEN);

        let key = BoxKey::shared(server_transient, &self.transient.secret).map_err(unreadable("WELCOME"))?;
        let vouch = self.vouch(server_transient)?;
        let told = [&self.keys.public, &self.vouch_nonce[..], &vouch, &self.metadata].concat();
        let sealed = key.seal(&short_nonce(b"CurveZMQINITIATE", &INITIATE_NUMBER), &told);
        output.command(&[INITIATE, cookie, &INITIATE_NUMBER, &sealed]);
        self.state = CurveClientState::Ready(key);
        Ok(Outcome::Wait)
    }

    /// Proves that the owner of C uses C' to talk to the server S, and to no other server.
    fn vouch(&self, server_transient: &PublicKey) -> Result<Vec<u8>, Error> {
        let key = BoxKey::shared(server_transient, &self.keys.secret).map_err(unreadable("WELCOME"))?;
        let told = [self.transient.public, self.server_key].concat();
        Ok(key.seal(&long_nonce(b"VOUCH---", &self.vouch_nonce), &told))
    }
}

impl Mechanism for Client {
    fn receive(
        &mut self,
        command: Command<'_>,
        limits: &Limits,
        output: &mut Output,
    ) -> Result<Outcome, Error> {
        match (command, &self.state) {
            (Command::Unknown { name: b"WELCOME", body }, CurveClientState::Welcome(_)) => {
                self.initiate(body, output)
            }
            (Command::Ready(body), CurveClientState::Ready(key)) => {
                if body.len() < READY_MIN {
                    return Err(Misbehaviour::MalformedReady.into());
                }
                let (number, sealed) = body.split_first_chunk().ok_or(Misbehaviour::MalformedReady)?;
                let told = key
                    .open(&short_nonce(b"CurveZMQREADY---", number), sealed)
                    .map_err(unreadable("READY"))?;
                let properties = metadata::parse(&told, limits.max_properties)?;
                let sealer = Sealer::new(key, TrafficRole::Client, FIRST_MESSAGE);
                let opener = Opener::new(key, TrafficRole::Client, u64::from_be_bytes(*number));
                Ok(Outcome::Ready(properties, Traffic::Sealed(sealer, opener)))
            }
            (other, _) => Err(unexpected_unless_error(other)),
        }
    }
}
