//! Authentication by keys (CURVE, RFC 26): which peers a client accepts, and whether a peer's name is its own.
//!
//! One ZAP handler (RFC 27) for all clients of the process admits peers with keys known to the client, and reports the
//! key of each. The name that the peer then gives must belong to that key.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use pinnace_crypto::{KeyPair, PublicKey};
use pinnace_engine::{AdmissionRequest, Context, Error, Invalid, Socket, handle_zap};

/// The property of a connection that holds the key by which its peer was admitted.
pub const USER_ID: &str = "User-Id";

/// A client's own keys, and the public keys of others by name.
#[derive(Debug, Clone)]
pub struct Keyring {
    pub own: KeyPair,
    pub others: HashMap<String, PublicKey>,
}

/// The keyrings of listening clients, by ZAP domain. None: the handler is not started.
static DOMAINS: Mutex<Option<HashMap<String, Weak<Keyring>>>> = Mutex::new(None);

impl Keyring {
    /// Returns true if `name` belongs to the peer with this user id.
    pub fn is(&self, name: &str, user_id: Option<&[u8]>) -> bool {
        self.others.get(name).is_some_and(|key| user_id == Some(text(key).as_bytes()))
    }

    /// The name of the client with this user id.
    pub fn name_of(&self, user_id: Option<&[u8]>) -> Option<&str> {
        self.others.keys().find(|name| self.is(name, user_id)).map(String::as_str)
    }

    /// Sets a listening socket to admit only peers with known keys.
    pub fn guard(self: &Arc<Keyring>, context: &Context, socket: Socket) -> Result<(), Error> {
        let random = pinnace_sys::random::bytes().map_err(Error::from)?;
        let domain = text(&random);
        admit(context, &domain, self)?;
        socket.configure(|options| {
            options.security.zap_domain = domain;
            options.security.be_curve_server(&self.own);
        })
    }

    /// Sets a connecting socket to reach one peer only. Error: Invalid, its key is not known.
    pub fn address(&self, socket: Socket, name: &str) -> Result<(), Error> {
        let key = self.others.get(name).ok_or(Error::Invalid(Invalid::Key))?;
        socket.configure(|options| options.security.be_curve_client(&self.own, key))
    }
}

fn text(key: &[u8; 32]) -> String {
    key.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Registers a keyring with the ZAP handler, which the first call starts.
fn admit(context: &Context, domain: &str, keyring: &Arc<Keyring>) -> Result<(), Error> {
    let mut domains = DOMAINS.lock().unwrap_or_else(PoisonError::into_inner);
    if domains.is_none() {
        handle_zap(context, "pinnace-keys", user_of)?;
    }
    let domains = domains.get_or_insert_default();
    domains.retain(|_, keyring| keyring.strong_count() > 0);
    domains.insert(domain.to_owned(), Arc::downgrade(keyring));
    Ok(())
}

/// The user id of a peer's key, if the domain admits it.
fn user_of(request: &AdmissionRequest) -> Option<String> {
    if request.mechanism() != b"CURVE" {
        return None;
    }
    let domains = DOMAINS.lock().unwrap_or_else(PoisonError::into_inner);
    let keyring = domains.as_ref()?.get(std::str::from_utf8(request.domain()).ok()?)?.upgrade()?;
    let key: &[u8; 32] = request.credential(0).try_into().ok()?;
    keyring.others.values().any(|other| other == key).then(|| text(key))
}
