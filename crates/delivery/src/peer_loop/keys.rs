//! Authentication by keys (CURVE, RFC 26): which peers a client accepts, and whether a peer's name is its own.
//!
//! One ZAP handler (RFC 27) for all clients of the process admits peers with keys known to the client, and reports the
//! key of each. The name that the peer then gives must belong to that key.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use pinnace_crypto::{KeyPair, PublicKey};
use pinnace_engine::{Context, Error, Invalid, Outgoing, Socket, SocketType};

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
        let socket = context.socket(SocketType::Rep)?;
        socket.bind("inproc://zeromq.zap.01")?;
        let answer_all = move || while answer(socket).is_ok() {};
        pinnace_sys::thread::start("pinnace-keys", answer_all).map_err(|_| Error::NoMemory)?;
    }
    let domains = domains.get_or_insert_default();
    domains.retain(|_, keyring| keyring.strong_count() > 0);
    domains.insert(domain.to_owned(), Arc::downgrade(keyring));
    Ok(())
}

/// Answers one ZAP request: version, request id, domain, address, identity, mechanism, credentials.
fn answer(socket: Socket) -> Result<(), Error> {
    let mut frames: Vec<Vec<u8>> = Vec::new();
    socket.recv_frames(true, &mut |frame| frames.push(frame.data().to_vec()))?;
    let user_id = match &frames[..] {
        [_, _, domain, _, _, mechanism, key] if mechanism == b"CURVE" => user_of(domain, key),
        _ => None,
    };
    let request_id = frames.get(1).cloned().unwrap_or_default();
    let status: [&[u8]; 2] = if user_id.is_some() { [b"200", b"OK"] } else { [b"400", b"not known here"] };
    let user_id = user_id.unwrap_or_default();
    let reply: [&[u8]; 6] = [b"1.0", &request_id, status[0], status[1], user_id.as_bytes(), b""];
    socket.send_message(&mut reply.map(Outgoing::Bytes), true)
}

/// The user id of a key, if the domain admits it.
fn user_of(domain: &[u8], key: &[u8]) -> Option<String> {
    let domains = DOMAINS.lock().unwrap_or_else(PoisonError::into_inner);
    let keyring = domains.as_ref()?.get(std::str::from_utf8(domain).ok()?)?.upgrade()?;
    let key: &[u8; 32] = key.try_into().ok()?;
    keyring.others.values().any(|other| other == key).then(|| text(key))
}
