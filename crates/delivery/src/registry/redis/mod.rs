//! A registry on a Redis server, or on one that speaks as it does: shared by hosts.
//!
//! Its address is `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`, or `rediss://` for TLS, where `?ca=PATH` tells whom
//! to trust (PEM; by default the system's authorities) and `&cert=PATH&key=PATH` who asks.
//!
//! A client has its name until a moment that it moves on by renewing; the clock is the server's. Where that is set,
//! leases are longer or shorter by as much. Each call is one script, and a script is one step to everybody else. It
//! wants Redis 5 or later. The keys, of one slot on a cluster, whose node is to be named by the address:
//!
//! | key | what it holds |
//! | --- | --- |
//! | `{pinnace}:clients` | a hash by name: id, lease, endpoint |
//! | `{pinnace}:topics` | a hash by name: the topics |
//! | `{pinnace}:leases` | a sorted set of names, by when their leases end, in milliseconds since 1970 |
//! | `{pinnace}:version` | the number of the last change; the next is greater, and at least the time in microseconds |
//!
//! What it guarantees: what [`Registry`] does, as long as the server keeps what it was told. Where it forgets it all,
//! or goes back to what it was once, `renew` says Lost, and who claims anew then is there again; where it goes back to
//! an older claim of the same client, that shows among the members. No call takes longer
//! than [`CONNECT_TIMEOUT`] and [`ANSWER_TIMEOUT`] together (but for the system's look-up of the host's name). One that
//! finds no server is Unreachable; so are those that follow, at once, until it is time to try again:
//! [`FIRST_PAUSE`] later, then twice that, and at most [`LONGEST_PAUSE`]. To open it takes no server.
//!
//! What it does not: two may have a name where the server forgot that one had, until that one renews its lease. And
//! what cannot be read within [`ANSWER_TIMEOUT`], because it is so much, is not known.
//!
//! A user of the server's for this alone: `ACL SETUSER NAME on >PASSWORD ~{pinnace}:* +select +evalsha +script|load
//! +time +get +set +hget +hset +hdel +hgetall +zadd +zrem +zscore +zcount +zrangebyscore`.

mod address;
mod link;
mod record;
mod scripts;

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{ConnectionLike, ErrorKind, FromRedisValue, RedisError, ScriptInvocation};

use super::members::check_name;
use super::{Entry, Id, Members, Registry, RegistryError};
use address::Address;
use link::Link;
use record::{write_id, write_topics};
use scripts::{Scripts, call};

/// How long it may take to connect, and to be let in.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the server may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// After a server did not answer: how long it is left alone.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Names that are renewed by one script: while it runs the server does nothing else.
const AT_ONCE: usize = 200;

/// A registry on a Redis server.
pub struct Redis {
    address: Address,
    scripts: Scripts,
    link: Option<Link>,
    down: Option<Down>,
    told: Option<Seen>,
}

/// A server that did not answer.
struct Down {
    error: RegistryError,
    until: Instant,
    pause: Duration,
}

/// What tells one state from another.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    version: String,
    over: i64,
}

/// What there is: its state, the names of the living, and what lies there of all.
type Found = (String, i64, Vec<Vec<u8>>, HashMap<Vec<u8>, Vec<u8>>, HashMap<Vec<u8>, Vec<u8>>);

impl Redis {
    /// Takes an address. Whether there is a server shows when it is asked. Errors: Url; Io, of a file that it names.
    pub fn open(url: &str) -> Result<Redis, RegistryError> {
        let address = Address::read(url)?;
        Ok(Redis { address, scripts: Scripts::new(), link: None, down: None, told: None })
    }

    /// Runs a script, by a new connection where the old one has come to its end: to do it twice is to do it once.
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

impl Registry for Redis {
    fn claim(&mut self, me: &Entry) -> Result<(), RegistryError> {
        me.check()?;
        let topics = write_topics(&me.to_member());
        let has_it: bool = self.run(|scripts| {
            let mut claim = call(&scripts.claim);
            claim.arg(&me.name).arg(write_id(&me.id)).arg(me.lease.as_millis() as u64);
            claim.arg(&me.endpoint).arg(&topics);
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
        check_name(name)?;
        let is_free: bool = self.run(|scripts| {
            let mut release = call(&scripts.release);
            release.arg(name).arg(write_id(id));
            release
        })?;
        if is_free { Ok(()) } else { Err(RegistryError::Lost) }
    }

    fn members(&mut self) -> Result<Option<Members>, RegistryError> {
        // At first: of no state, since no number of those that are over is less than nothing.
        let told = self.told.clone().unwrap_or(Seen { version: String::new(), over: -1 });
        let found: Option<Found> = self.run(|scripts| {
            let mut members = call(&scripts.members);
            members.arg(&told.version).arg(told.over);
            members
        })?;
        let Some((version, over, living, clients, topics)) = found else { return Ok(None) };
        self.told = Some(Seen { version, over });
        let read = |name: &Vec<u8>| record::read(name, clients.get(name)?, topics.get(name)?);
        let lives: HashSet<&Vec<u8>> = living.iter().collect();
        let away = clients.keys().filter(|name| !lives.contains(name));
        Ok(Some(living.iter().filter_map(read).collect::<Members>().with_away(away.filter_map(read))))
    }

    fn clear(&mut self, topic: &str) -> Result<usize, RegistryError> {
        self.run(|scripts| {
            let mut clear = call(&scripts.clear);
            clear.arg(topic);
            clear
        })
    }
}

/// The system's error, which the library keeps where others may share it.
fn system(error: &RedisError) -> Option<&io::Error> {
    let shared = error.source()?.downcast_ref::<Arc<dyn Error + Send + Sync>>()?;
    shared.downcast_ref()
}

/// Whose fault an error is. What the server says holds no password, and what is added none either.
fn failed(address: &Address, error: &RedisError) -> RegistryError {
    let at = format!("{}:{}", address.host, address.port);
    let io = |kind| RegistryError::Io { kind, text: format!("{at}: {error}") };
    if error.is_timeout() {
        return RegistryError::Unreachable(format!("{at}: no answer in time"));
    }
    // What TLS refuses, and who answers in the clear.
    if system(error).is_some_and(|system| system.kind() == io::ErrorKind::InvalidData) {
        return io(io::ErrorKind::InvalidData);
    }
    match (error.kind(), error.code()) {
        (ErrorKind::Io, _) => RegistryError::Unreachable(format!("{at}: {error}")),
        (ErrorKind::Parse, _) => RegistryError::Foreign(format!("{at} does not speak as Redis does")),
        (_, Some("NOAUTH" | "WRONGPASS" | "NOPERM")) => io(io::ErrorKind::PermissionDenied),
        (_, Some("LOADING" | "MASTERDOWN" | "READONLY" | "CLUSTERDOWN" | "TRYAGAIN" | "BUSY")) => {
            RegistryError::Unreachable(format!("{at}: {error}"))
        }
        (ErrorKind::UnexpectedReturnType, _) | (_, Some("WRONGTYPE")) => {
            RegistryError::Damaged(format!("{at}: {error}"))
        }
        _ => io(io::ErrorKind::Other),
    }
}
