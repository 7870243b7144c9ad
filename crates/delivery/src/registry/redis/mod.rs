//! A registry on a Redis server, or a compatible one: shared by hosts.
//!
//! Its address is `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`, or `rediss://` for TLS, with `?ca=PATH` for the
//! trusted authorities (PEM; by default the system's) and `&cert=PATH&key=PATH` for a client certificate.
//!
//! A client has its name until its lease ends, and extends the lease by renewing; the clock is the server's. Setting
//! that clock makes leases longer or shorter. Each call is one script, which is atomic. Requires Redis 5 or later. The
//! keys are in one slot of a cluster; the address must be that of the slot's node:
//!
//! | key | content |
//! | --- | --- |
//! | `{pinnace}:clients` | a hash by name: id, lease, endpoint |
//! | `{pinnace}:topics` | a hash by name: the topics |
//! | `{pinnace}:leases` | a sorted set of names, by the end of their leases, in milliseconds since 1970 |
//! | `{pinnace}:version` | the number of the last change; the next is greater, and at least the time in microseconds |
//!
//! Guarantees: those of [`Registry`], as long as the server keeps its data. If it loses everything, or goes back to an
//! older state, `renew` returns Lost, and a client that claims again is present again; if it goes back to an older
//! claim of the same client, the members show that claim. No call takes longer than [`CONNECT_TIMEOUT`] and
//! [`ANSWER_TIMEOUT`] together (except for the system's look-up of the host name). A call that finds no server returns
//! Unreachable; so do the following calls, at once, until the next attempt: after [`FIRST_PAUSE`], then twice that, and
//! at most [`LONGEST_PAUSE`]. Opening needs no server.
//!
//! Not guaranteed: after the server has lost a name, two clients may have it until the first one renews its lease. A
//! registry too large to be read within [`ANSWER_TIMEOUT`] cannot be read.
//!
//! A server user with the minimal rights: `ACL SETUSER NAME on >PASSWORD ~{pinnace}:* +select +evalsha +script|load
//! +time +get +set +hget +hset +hdel +hgetall +zadd +zrem +zscore +zcount +zrangebyscore`.

mod address;
mod link;
mod record;
mod scripts;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{ConnectionLike, ErrorKind, FromRedisValue, RedisError, ScriptInvocation};

use super::members::check_name;
use super::{Entry, Id, LEFT_FOR, Members, NO_ID, Registry, RegistryError};
use address::Address;
use link::Link;
use record::{write_id, write_topics};
use scripts::{Scripts, call};

/// The longest time to connect and authenticate.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest time for the server to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// The pauses before a server that did not answer is tried again.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Names renewed by one script: the server does nothing else while it runs.
const AT_ONCE: usize = 200;

/// A registry on a Redis server.
pub struct Redis {
    address: Address,
    scripts: Scripts,
    link: Option<Link>,
    down: Option<Down>,
    last_seen: Option<RedisSeen>,
}

/// A server that did not answer.
struct Down {
    error: RegistryError,
    until: Instant,
    pause: Duration,
}

/// Identifies a state of the registry.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RedisSeen {
    version: String,
    over: i64,
}

/// The state, the names of the living, and the clients and topics of all.
type MembersReply = (String, i64, Vec<Vec<u8>>, HashMap<Vec<u8>, Vec<u8>>, HashMap<Vec<u8>, Vec<u8>>);

impl Redis {
    /// Parses an address, without connecting. Errors: Url; Io, of a file that it names.
    pub fn open(url: &str) -> Result<Redis, RegistryError> {
        let address = Address::read(url)?;
        Ok(Redis { address, scripts: Scripts::new(), link: None, down: None, last_seen: None })
    }

    /// Runs a script, on a new connection if the old one has ended. The scripts are idempotent.
    fn run<T: FromRedisValue>(
        &mut self,
        arguments: impl Fn(&Scripts) -> ScriptInvocation<'_>,
    ) -> Result<T, RegistryError> {
        if let Some(down) = self.down.as_ref().filter(|down| Instant::now() < down.until) {
            return Err(down.error.clone());
        }
        let had_link = self.link.is_some();
        let deadline = Instant::now() + CONNECT_TIMEOUT + ANSWER_TIMEOUT;
        let mut done = self.attempt(deadline, &arguments);
        if had_link && done.as_ref().is_err_and(|error| error.is_io_error() && !error.is_timeout()) {
            done = self.attempt(deadline, &arguments);
        }
        let done = done.map_err(|error| failed(&self.address, &error));
        match &done {
            Err(error) if self.link.is_none() || matches!(error, RegistryError::Unreachable(_)) => {
                let pause = self.down.as_ref().map_or(FIRST_PAUSE, |down| LONGEST_PAUSE.min(down.pause * 2));
                self.down = Some(Down { error: error.clone(), until: Instant::now() + pause, pause });
                self.link = None;
            }
            _ => self.down = None,
        }
        done
    }

    fn attempt<T: FromRedisValue>(
        &mut self,
        deadline: Instant,
        arguments: impl Fn(&Scripts) -> ScriptInvocation<'_>,
    ) -> Result<T, RedisError> {
        let mut link = match self.link.take() {
            Some(link) => link,
            None => Link::connect(&self.address, deadline.min(Instant::now() + CONNECT_TIMEOUT))?,
        };
        link.set_deadline(deadline.min(Instant::now() + ANSWER_TIMEOUT));
        let done = arguments(&self.scripts).invoke(&mut link);
        self.link = Some(link).filter(ConnectionLike::is_open);
        done
    }
}

impl Redis {
    fn give_back(&mut self, name: &str, id: &Id, keeps_topics: bool) -> Result<(), RegistryError> {
        check_name(name)?;
        let is_free: bool = self.run(|scripts| {
            let mut release = call(&scripts.release);
            release.arg(name).arg(write_id(id)).arg(write_id(&NO_ID)).arg(u8::from(keeps_topics));
            release
        })?;
        if is_free { Ok(()) } else { Err(RegistryError::Lost) }
    }
}

impl Registry for Redis {
    fn claim(&mut self, me: &Entry) -> Result<(), RegistryError> {
        me.check()?;
        let topics = write_topics(&me.to_member());
        let has_it: bool = self.run(|scripts| {
            let mut claim = call(&scripts.claim);
            claim.arg(&me.name).arg(write_id(&me.id)).arg(me.lease.as_millis() as u64);
            claim.arg(&me.endpoint).arg(&topics).arg(LEFT_FOR.as_millis() as u64);
            claim
        })?;
        if has_it { Ok(()) } else { Err(RegistryError::NameTaken) }
    }

    fn renew(&mut self, name: &str, id: &Id) -> Result<(), RegistryError> {
        self.renew_all(&[(name, id)]).pop().unwrap_or(Err(RegistryError::Lost))
    }

    fn renew_all(&mut self, held: &[(&str, &Id)]) -> Vec<Result<(), RegistryError>> {
        if let Some(error) = held.iter().find_map(|(name, _)| check_name(name).err()) {
            return vec![Err(error); held.len()];
        }
        let mut all = Vec::with_capacity(held.len());
        for some in held.chunks(AT_ONCE) {
            let renewed = self.run(|scripts| {
                let mut renew = call(&scripts.renew);
                for (name, id) in some {
                    renew.arg(*name).arg(write_id(id));
                }
                renew
            });
            match renewed {
                Ok(renewed) => all.extend(Vec::<bool>::into_iter(renewed).map(|is_theirs| match is_theirs {
                    true => Ok(()),
                    false => Err(RegistryError::Lost),
                })),
                Err(error) => all.extend(some.iter().map(|_| Err(error.clone()))),
            }
        }
        all
    }

    fn release(&mut self, name: &str, id: &Id) -> Result<(), RegistryError> {
        self.give_back(name, id, false)
    }

    fn detach(&mut self, name: &str, id: &Id) -> Result<(), RegistryError> {
        self.give_back(name, id, true)
    }

    fn members(&mut self) -> Result<Option<Members>, RegistryError> {
        // Initially no state: the count of expired leases is never negative.
        let last_seen = self.last_seen.clone().unwrap_or(RedisSeen { version: String::new(), over: -1 });
        let found: Option<MembersReply> = self.run(|scripts| {
            let mut members = call(&scripts.members);
            members.arg(&last_seen.version).arg(last_seen.over);
            members
        })?;
        let Some((version, over, living, clients, topics)) = found else { return Ok(None) };
        self.last_seen = Some(RedisSeen { version, over });
        let read = |name: &Vec<u8>| record::read(name, clients.get(name)?, topics.get(name)?);
        let lives: HashSet<&Vec<u8>> = living.iter().collect();
        let away = clients.keys().filter(|name| !lives.contains(name));
        Ok(Some(living.iter().filter_map(read).collect::<Members>().with_away(away.filter_map(read))))
    }

    fn clear(&mut self, topic: &str) -> Result<usize, RegistryError> {
        self.run(|scripts| {
            let mut clear = call(&scripts.clear);
            clear.arg(topic).arg(write_id(&NO_ID));
            clear
        })
    }
}

/// The system's error, inside the library's shared error.
fn system(error: &RedisError) -> Option<&io::Error> {
    let shared = error.source()?.downcast_ref::<Arc<dyn Error + Send + Sync>>()?;
    shared.downcast_ref()
}

/// Maps an error to its cause. Neither the server's text nor what is added holds a password.
fn failed(address: &Address, error: &RedisError) -> RegistryError {
    let at = format!("{}:{}", address.host, address.port);
    let io = |kind| RegistryError::Io { kind, text: format!("{at}: {error}") };
    if error.is_timeout() {
        return RegistryError::Unreachable(format!("{at}: no answer in time"));
    }
    // TLS has refused the peer, or the peer does not speak TLS.
    if system(error).is_some_and(|system| system.kind() == io::ErrorKind::InvalidData) {
        return io(io::ErrorKind::InvalidData);
    }
    // What the server says depends on the size of the command. A wrong password is another error.
    let needs_password = error.code() == Some("NOAUTH")
        || error.detail().is_some_and(|detail| detail.contains("unauthenticated"));
    if needs_password {
        let text = format!("{at}: \"NOAUTH\": the server requires a password, and the address has none");
        return RegistryError::Io { kind: io::ErrorKind::PermissionDenied, text };
    }
    match (error.kind(), error.code()) {
        (ErrorKind::Io, _) => RegistryError::Unreachable(format!("{at}: {error}")),
        (ErrorKind::Parse, _) => RegistryError::Foreign(format!("{at} does not speak as Redis does")),
        (_, Some("WRONGPASS" | "NOPERM")) => io(io::ErrorKind::PermissionDenied),
        (_, Some("LOADING" | "MASTERDOWN" | "READONLY" | "CLUSTERDOWN" | "TRYAGAIN" | "BUSY")) => {
            RegistryError::Unreachable(format!("{at}: {error}"))
        }
        (ErrorKind::UnexpectedReturnType, _) | (_, Some("WRONGTYPE")) => {
            RegistryError::Damaged(format!("{at}: {error}"))
        }
        _ => io(io::ErrorKind::Other),
    }
}
