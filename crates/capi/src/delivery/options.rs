//! What a client is to be: options by name, as text, so that more of them change no function.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use parking_lot::Mutex;
use pinnace_delivery::{Builder, Client};
use pinnace_engine::Error;

use super::trouble::{Trouble, attempt};
use crate::arguments::text;
use crate::registry::Registry;

pub(super) static OPTIONS: Registry<Mutex<Options>> = Registry::new();

/// The options as they were set; they serve for any number of clients.
pub(super) struct Options {
    name: String,
    topic: String,
    data_dir: Option<PathBuf>,
    registry: Option<String>,
    listen: Option<String>,
    lease_ms: u64,
    interval_ms: u64,
    retry_first_ms: u64,
    retry_most_ms: u64,
    max_deliveries: u32,
    skip_damage: bool,
    peers: Vec<Peer>,
}

struct Peer {
    name: String,
    endpoint: String,
    topics: Vec<String>,
}

/// Takes a value over; an error says what would be one.
type Set = fn(&mut Options, &CStr) -> Result<(), String>;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// What can be set: a line an option.
const KEYS: &[(&str, Set)] = &[
    ("data_dir", |options, value| {
        options.data_dir = Some(PathBuf::from(OsStr::from_bytes(value.to_bytes())));
        Ok(())
    }),
    ("registry", |options, value| word(value).map(|url| options.registry = Some(url))),
    ("listen", |options, value| word(value).map(|endpoint| options.listen = Some(endpoint))),
    ("lease_ms", |options, value| number(value, 1, 30 * DAY_MS).map(|ms| options.lease_ms = ms)),
    ("interval_ms", |options, value| number(value, 1, DAY_MS).map(|ms| options.interval_ms = ms)),
    ("retry_first_ms", |options, value| number(value, 1, DAY_MS).map(|ms| options.retry_first_ms = ms)),
    ("retry_most_ms", |options, value| number(value, 1, DAY_MS).map(|ms| options.retry_most_ms = ms)),
    ("max_deliveries", |options, value| {
        number(value, 0, u32::MAX.into()).map(|most| options.max_deliveries = most as u32)
    }),
    ("skip_damage", |options, value| number(value, 0, 1).map(|skip| options.skip_damage = skip == 1)),
];

fn word(value: &CStr) -> Result<String, String> {
    value.to_str().map(str::to_owned).map_err(|_| "text in UTF-8".to_owned())
}

fn number(value: &CStr, least: u64, most: u64) -> Result<u64, String> {
    let found = value.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let found = found.and_then(|text| text.parse().ok()).filter(|found| (least..=most).contains(found));
    found.ok_or_else(|| format!("a number from {least} to {most}"))
}

impl Options {
    fn set(&mut self, key: &CStr, value: &CStr) -> Result<(), Trouble> {
        let Some((name, set)) = KEYS.iter().find(|(name, _)| name.as_bytes() == key.to_bytes()) else {
            let known: Vec<&str> = KEYS.iter().map(|(name, _)| *name).collect();
            let words = format!("there is no option {key:?}; there are {}", known.join(", "));
            return Err(Trouble::new(libc::EINVAL, words));
        };
        set(self, value)
            .map_err(|wanted| Trouble::new(libc::EINVAL, format!("{name} is {wanted}, not {value:?}")))
    }

    pub(super) fn builder(&self) -> Builder {
        let ms = Duration::from_millis;
        let mut builder = Client::builder(&self.name, &self.topic)
            .lease(ms(self.lease_ms))
            .interval(ms(self.interval_ms))
            .retry(ms(self.retry_first_ms), ms(self.retry_most_ms));
        if let Some(path) = &self.data_dir {
            builder = builder.data_dir(path);
        }
        if let Some(url) = &self.registry {
            builder = builder.registry(url);
        }
        if let Some(endpoint) = &self.listen {
            builder = builder.listen(endpoint);
        }
        if self.max_deliveries > 0 {
            builder = builder.max_deliveries(self.max_deliveries);
        }
        if self.skip_damage {
            builder = builder.skip_damage();
        }
        for peer in &self.peers {
            let topics: Vec<&str> = peer.topics.iter().map(String::as_str).collect();
            builder = builder.peer(&peer.name, &peer.endpoint, &topics);
        }
        builder
    }
}

/// A C string, in whatever bytes it is.
///
/// # Safety
/// `from` must be null or a C string that stays for as long as the result is used.
unsafe fn given<'a>(from: *const c_char, what: &str) -> Result<&'a CStr, Trouble> {
    if from.is_null() {
        return Err(Trouble::new(libc::EFAULT, format!("{what} is NULL")));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { CStr::from_ptr(from) })
}

/// A C string in UTF-8; `what` it is goes into the words of an error.
///
/// # Safety
/// As `given`.
pub(super) unsafe fn string<'a>(from: *const c_char, what: &str) -> Result<&'a str, Trouble> {
    // SAFETY: the caller's promise.
    unsafe { text(from) }.map_err(|error| {
        let problem = if error == Error::Fault { "NULL" } else { "no UTF-8" };
        Trouble::new(error.errno(), format!("{what} is {problem}"))
    })
}

pub(super) fn no_options(_: Error) -> Trouble {
    Trouble::new(libc::EFAULT, "these are no options, or they were destroyed")
}

/// The options of a client that is to be; NULL on an error.
///
/// # Safety
/// Both must be null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_options_new(
    name: *const c_char,
    topic: *const c_char,
) -> *mut c_void {
    attempt(|| {
        // SAFETY: the caller's promise.
        let (name, topic) = unsafe { (string(name, "the name")?, string(topic, "the topic")?) };
        Ok(OPTIONS.insert(Mutex::new(Options {
            name: name.to_owned(),
            topic: topic.to_owned(),
            data_dir: None,
            registry: None,
            listen: None,
            lease_ms: 10_000,
            interval_ms: 100,
            retry_first_ms: 100,
            retry_most_ms: 60_000,
            max_deliveries: 0,
            skip_damage: false,
            peers: Vec::new(),
        })))
    })
}

/// Sets one option, given as text.
///
/// # Safety
/// Both must be null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_options_set(
    handle: *mut c_void,
    key: *const c_char,
    value: *const c_char,
) -> c_int {
    attempt(|| {
        let options = OPTIONS.get(handle).map_err(no_options)?;
        // SAFETY: the caller's promise.
        let (key, value) = unsafe { (given(key, "the option")?, given(value, "the value")?) };
        options.lock().set(key, value)?;
        Ok(0)
    })
}

/// Another client that is known beforehand, with the topics that it listens on.
///
/// # Safety
/// Texts must be null or C strings, `topics` null or point to `count` of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_client_options_peer(
    handle: *mut c_void,
    name: *const c_char,
    endpoint: *const c_char,
    topics: *const *const c_char,
    count: usize,
) -> c_int {
    attempt(|| {
        let options = OPTIONS.get(handle).map_err(no_options)?;
        // SAFETY: the caller's promise.
        let (name, endpoint) =
            unsafe { (string(name, "the peer's name")?, string(endpoint, "its endpoint")?) };
        if topics.is_null() && count > 0 {
            return Err(Trouble::new(libc::EFAULT, "the topics are NULL"));
        }
        let mut known = Vec::new();
        for at in 0..count {
            // SAFETY: the caller's promise.
            known.push(unsafe { string(*topics.add(at), "a topic") }?.to_owned());
        }
        let peer = Peer { name: name.to_owned(), endpoint: endpoint.to_owned(), topics: known };
        options.lock().peers.push(peer);
        Ok(0)
    })
}

/// Lets options go. Clients that were started with them are not concerned.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_client_options_destroy(handle: *mut c_void) -> c_int {
    attempt(|| OPTIONS.remove(handle).map(|_| 0).map_err(no_options))
}
