//! A registry in memory that fails as servers do: it does not answer, it forgets everything, or it comes back with what
//! it held earlier.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::network::Process;
use crate::environment::simulated::elapsed;
use crate::registry::{Entry, Id, LEFT_FOR, Member, Members, NO_ID, Registry, RegistryError};

#[derive(Clone, Default)]
pub struct SimulatedRegistry(Arc<Mutex<RegistryServer>>);

#[derive(Default)]
struct RegistryServer {
    records: BTreeMap<String, Record>,
    /// Changes with every change of the records.
    version: u64,
    /// It answers no process, or not these.
    is_down: bool,
    unreachable: BTreeSet<Process>,
    dead: BTreeSet<Process>,
    /// What it held at an earlier time.
    saved: Option<BTreeMap<String, Record>>,
}

#[derive(Clone)]
struct Record {
    entry: Entry,
    until: Duration,
    /// The client gave its name back, at this time.
    left_at: Option<Duration>,
}

struct RegistryAccess {
    registry: SimulatedRegistry,
    process: Process,
    /// The version and the living names that it has seen last.
    seen: Option<(u64, Vec<String>)>,
}

impl SimulatedRegistry {
    fn lock(&self) -> MutexGuard<'_, RegistryServer> {
        self.0.lock().unwrap()
    }

    pub fn process(&self, process: Process) -> Box<dyn Registry> {
        Box::new(RegistryAccess { registry: self.clone(), process, seen: None })
    }

    pub fn kill(&self, process: Process) {
        self.lock().dead.insert(process);
    }

    pub fn set_down(&self, is_down: bool) {
        self.lock().is_down = is_down;
    }

    pub fn set_unreachable(&self, process: Process) {
        self.lock().unreachable.insert(process);
    }

    /// It answers every living process again.
    pub fn heal(&self) {
        let mut server = self.lock();
        server.is_down = false;
        server.unreachable.clear();
    }

    pub fn forget(&self) {
        let mut server = self.lock();
        server.records.clear();
        server.version += 1;
    }

    /// Saves what it holds now, for `come_back_old`.
    pub fn save(&self) {
        let mut server = self.lock();
        server.saved = Some(server.records.clone());
    }

    /// Returns false if nothing was saved.
    pub fn come_back_old(&self) -> bool {
        let mut server = self.lock();
        let Some(saved) = server.saved.take() else { return false };
        server.records = saved;
        server.version += 1;
        true
    }
}

impl RegistryAccess {
    fn server(&self) -> Result<MutexGuard<'_, RegistryServer>, RegistryError> {
        let server = self.registry.lock();
        match server.is_down
            || server.dead.contains(&self.process)
            || server.unreachable.contains(&self.process)
        {
            true => Err(RegistryError::Unreachable("the simulated registry does not answer".to_owned())),
            false => Ok(server),
        }
    }
}

impl RegistryAccess {
    fn give_back(&mut self, name: &str, id: &Id, keeps_topics: bool) -> Result<(), RegistryError> {
        let mut server = self.server()?;
        match server.records.get_mut(name) {
            None => return Ok(()),
            Some(record) if record.entry.id != *id && record.entry.id != NO_ID => {
                return Err(RegistryError::Lost);
            }
            Some(record) => {
                record.entry.id = NO_ID;
                record.entry.topics.retain(|_| keeps_topics);
                record.left_at = Some(elapsed());
            }
        }
        server.version += 1;
        Ok(())
    }
}

impl RegistryServer {
    fn is_living(record: &Record) -> bool {
        record.left_at.is_none() && record.until > elapsed()
    }
}

impl Registry for RegistryAccess {
    fn claim(&mut self, me: &Entry) -> Result<(), RegistryError> {
        me.check()?;
        let mut server = self.server()?;
        let taken = server.records.get(&me.name);
        if taken.is_some_and(|record| record.entry.id != me.id && RegistryServer::is_living(record)) {
            return Err(RegistryError::NameTaken);
        }
        let record = Record { entry: me.clone(), until: elapsed() + me.lease, left_at: None };
        server.records.insert(me.name.clone(), record);
        server.version += 1;
        Ok(())
    }

    fn renew(&mut self, name: &str, id: &Id) -> Result<(), RegistryError> {
        let mut server = self.server()?;
        let own = server.records.get_mut(name).filter(|record| record.entry.id == *id);
        let record = own.ok_or(RegistryError::Lost)?;
        let was_living = RegistryServer::is_living(record);
        record.until = elapsed() + record.entry.lease;
        server.version += u64::from(!was_living);
        Ok(())
    }

    fn release(&mut self, name: &str, id: &Id) -> Result<(), RegistryError> {
        self.give_back(name, id, false)
    }

    fn detach(&mut self, name: &str, id: &Id) -> Result<(), RegistryError> {
        self.give_back(name, id, true)
    }

    fn members(&mut self) -> Result<Option<Members>, RegistryError> {
        let server = self.server()?;
        let now = elapsed();
        let (mut living, mut away): (Vec<Member>, Vec<Member>) = (Vec::new(), Vec::new());
        for record in server.records.values() {
            match record.left_at {
                Some(at) if at + LEFT_FOR <= now && record.entry.topics.is_empty() => {}
                None if RegistryServer::is_living(record) => living.push(record.entry.to_member()),
                _ => away.push(record.entry.to_member()),
            }
        }
        let seen = (server.version, living.iter().map(|member| member.name.clone()).collect());
        drop(server);
        if self.seen.as_ref() == Some(&seen) {
            return Ok(None);
        }
        self.seen = Some(seen);
        Ok(Some(living.into_iter().collect::<Members>().with_away(away)))
    }

    fn clear(&mut self, topic: &str) -> Result<usize, RegistryError> {
        let mut server = self.server()?;
        let mut count = 0;
        for record in server.records.values_mut() {
            if !RegistryServer::is_living(record) && record.entry.topics.iter().any(|other| other == topic) {
                record.entry.topics.retain(|other| other != topic);
                record.entry.id = NO_ID;
                count += 1;
            }
        }
        server.version += u64::from(count > 0);
        Ok(count)
    }
}
