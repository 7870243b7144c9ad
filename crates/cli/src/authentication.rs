//! The ZAP handler (RFC 27) on its own thread, for a list of CURVE keys or of names with passwords.
//!
//! The thread ends with its context.

use std::path::Path;

use pinnace::certificate::{Certificate, Store};
use pinnace::{Error, Frame, Message, Rep, z85};
use pinnace_crypto::{SecretBytes, equal};
use pinnace_sys::thread;

use crate::outcome::{Failure, Outcome, say};
use crate::secrets;
use crate::sockets::Context;
use crate::table::SocketArgs;

const HANDLER: &str = "inproc://zeromq.zap.01";
const VERSION: &[u8] = b"1.0";
/// The largest file of names, in bytes.
const USERS_MAX: usize = 1 << 20;

/// The list of accepted peers.
pub enum Authenticator {
    Keys(Vec<[u8; 32]>),
    Names(Vec<(Vec<u8>, SecretBytes)>),
}

impl Authenticator {
    /// `None` if the flags give no list; then no handler runs.
    pub fn load(given: &SocketArgs) -> Outcome<Option<Authenticator>> {
        if let Some(file) = &given.plain_users {
            return Ok(Some(Authenticator::Names(names_and_passwords(file)?)));
        }
        if given.allow.is_empty() {
            return Ok(None);
        }
        let mut keys = Vec::new();
        for place in &given.allow {
            let failed = |error| Failure::of(place.display(), error);
            if !place.is_dir() {
                keys.push(*Certificate::load_public(place).map_err(failed)?.public_key());
                continue;
            }
            // Report files in the directory that are not certificates: the user may have meant them to be.
            let store = Store::load(place).map_err(failed)?;
            for (file, error) in &store.refused {
                say(format!("{}: accepts no client: {error}", file.display()));
            }
            if store.is_empty() {
                say(format!("{}: accepts no client: the folder contains no certificate", place.display()));
            }
            keys.extend(store.iter().map(|certificate| *certificate.public_key()));
        }
        Ok(Some(Authenticator::Keys(keys)))
    }

    /// Answers all ZAP requests of this context from now on.
    pub fn watch(self, context: &Context) -> Outcome {
        let handler =
            Rep::builder(context.inner()).bind(HANDLER).map_err(|error| Failure::of(HANDLER, error))?;
        let answering = thread::start("", move || self.answer_all(&handler));
        answering.map(drop).map_err(|error| Failure::of("starting a thread", error))
    }

    /// Runs until the context ends or the socket fails. Without a handler, peers are refused.
    fn answer_all(&self, handler: &Rep) {
        loop {
            let asked = handler.recv();
            match asked.and_then(|asked| handler.send(self.decide(&asked)).map_err(Error::from)) {
                Ok(()) | Err(Error::Interrupted | Error::State) => {}
                Err(_) => break,
            }
        }
    }

    /// Request frames: version, request, domain, address, routing id, mechanism, credentials.
    fn decide(&self, asked: &Message) -> Message {
        let frame = |at: usize| asked.get(at).map(|frame| &frame[..]).unwrap_or_default();
        let user = match (self, frame(5)) {
            (Authenticator::Keys(keys), b"CURVE") => {
                let known = keys.iter().find(|key| equal(&key[..], frame(6)));
                known.map(|key| z85::encode_key(key).into_bytes())
            }
            (Authenticator::Names(names), b"PLAIN") => {
                let known =
                    names.iter().find(|(name, password)| name == frame(6) && equal(password, frame(7)));
                known.map(|(name, _)| name.clone())
            }
            _ => None,
        };
        let (status, text) = if user.is_some() { ("200", "OK") } else { ("400", "not on the list") };
        let user = user.unwrap_or_default();
        Message::from_iter(
            [VERSION, frame(1), status.as_bytes(), text.as_bytes(), &user, b""].map(Frame::from),
        )
    }
}

/// Reads a file of names and passwords, NAME:PASSWORD in each line. Empty lines, and those that begin with #, count for
/// nothing.
pub fn names_and_passwords(file: &Path) -> Outcome<Vec<(Vec<u8>, SecretBytes)>> {
    let text = secrets::read(file, USERS_MAX)?;
    let mut names = Vec::new();
    for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let at = line.iter().position(|&byte| byte == b':');
        let wrong = || Failure::of(file.display(), format!("line {}: must be NAME:PASSWORD", index + 1));
        let at = at.ok_or_else(wrong)?;
        names.push((line[..at].to_vec(), SecretBytes::from(&line[at + 1..])));
    }
    Ok(names)
}
