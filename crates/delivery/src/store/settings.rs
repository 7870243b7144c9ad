//! What a client was started with and another process needs to send its messages (`agent`).
//!
//! A client records it in its store at each start. No secret is in it: of CURVE's keys only the public ones, and the
//! address of a registry without its password.

use std::time::Duration;

use pinnace_crypto::PublicKey;

use super::{RetainLimits, State, Store};
use crate::log::{LogError, Urgency};
use crate::registry::{Lasting, Member};
use crate::store::records::SETTINGS;
use crate::wire::{Bytes, NAME_MAX, put_counted, put_number};

/// Which values are present.
const REGISTRY: u8 = 1;
const PASSWORD: u8 = 2;
const REASSIGN: u8 = 4;
const KEY: u8 = 8;
const RETAIN: u8 = 16;
/// Expired messages become dead letters.
const KEEPS_EXPIRED: u8 = 32;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SenderSettings {
    /// The address of the registry, without a password and with an absolute path; None: there is none.
    pub registry: Option<String>,
    /// A password was left out of it.
    pub has_password: bool,
    pub reassign_after: Option<Duration>,
    pub retain: RetainLimits,
    /// Expired messages become dead letters.
    pub keeps_expired: bool,
    /// In bytes.
    pub disk_limit: u64,
    /// The client's own key, with CURVE.
    pub key: Option<PublicKey>,
    /// Other clients' keys, sorted by name.
    pub trusted: Vec<(String, PublicKey)>,
    /// Clients known in advance.
    pub peers: Vec<Member>,
}

impl SenderSettings {
    fn write(&self, client: u32) -> Vec<u8> {
        let mut to = Vec::new();
        put_number(&mut to, u64::from(client));
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let reassign = self.reassign_after;
        to.push(
            flag(self.registry.is_some(), REGISTRY)
                | flag(self.has_password, PASSWORD)
                | flag(reassign.is_some(), REASSIGN)
                | flag(self.key.is_some(), KEY)
                | flag(self.retain.age.is_some(), RETAIN)
                | flag(self.keeps_expired, KEEPS_EXPIRED),
        );
        put_counted(&mut to, self.registry.as_deref().unwrap_or_default().as_bytes());
        let ms = |time: Option<Duration>| {
            time.map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
        };
        put_number(&mut to, ms(reassign));
        put_number(&mut to, ms(self.retain.age));
        put_number(&mut to, self.retain.bytes);
        put_number(&mut to, self.disk_limit);
        to.extend_from_slice(self.key.as_ref().map_or(&[], |key| &key[..]));
        put_number(&mut to, self.trusted.len() as u64);
        for (name, key) in &self.trusted {
            put_counted(&mut to, name.as_bytes());
            to.extend_from_slice(&key[..]);
        }
        put_number(&mut to, self.peers.len() as u64);
        for peer in &self.peers {
            put_counted(&mut to, peer.name.as_bytes());
            put_counted(&mut to, peer.endpoint.as_bytes());
            put_number(&mut to, peer.topics.len() as u64);
            peer.topics.iter().for_each(|topic| put_counted(&mut to, topic.as_bytes()));
        }
        to
    }

    /// Without the number of the client. None: a later version has written it.
    fn read(from: &mut Bytes<'_>) -> Option<SenderSettings> {
        let flags = from.byte()?;
        let registry = from.text(usize::MAX)?.to_owned();
        let (reassign_ms, retain_ms, bytes) = (from.number()?, from.number()?, from.number()?);
        let disk_limit = from.number()?;
        let age = (flags & RETAIN != 0).then(|| Duration::from_millis(retain_ms));
        let key = if flags & KEY == 0 { None } else { Some(from.array()?) };
        let name = |from: &mut Bytes<'_>| from.text(NAME_MAX).map(str::to_owned);
        let count = from.number()?;
        let trusted = (0..count).map(|_| Some((name(from)?, from.array()?))).collect::<Option<_>>()?;
        let count = from.number()?;
        let mut peer = || {
            let (name, endpoint) = (name(from)?, from.text(usize::MAX)?.to_owned());
            let topics = from.number()?;
            let topics =
                (0..topics).map(|_| from.text(NAME_MAX).map(str::to_owned)).collect::<Option<_>>()?;
            Some(Member { name, id: None, endpoint, topics, version: 0, lasting: Lasting::Durable })
        };
        let peers = (0..count).map(|_| peer()).collect::<Option<_>>()?;
        Some(SenderSettings {
            registry: (flags & REGISTRY != 0).then_some(registry),
            has_password: flags & PASSWORD != 0,
            reassign_after: (flags & REASSIGN != 0).then(|| Duration::from_millis(reassign_ms)),
            retain: RetainLimits { age, bytes },
            keeps_expired: flags & KEEPS_EXPIRED != 0,
            disk_limit,
            key,
            trusted,
            peers,
        })
    }
}

impl Store {
    /// Replaces what is recorded of a client, if it differs. It is on the disk before every message that is accepted
    /// later.
    pub fn set_sender_settings(&self, client: u32, settings: &SenderSettings) -> Result<(), LogError> {
        let (mut state, record) = (self.lock(), settings.write(client));
        if state.settings.get(&client) != Some(&record) {
            state.settings.insert(client, record.clone());
            self.append(&mut state, Urgency::Interval, SETTINGS, &[&record])?;
        }
        Ok(())
    }
}

impl State {
    /// What a client was started with. None: it is not recorded, or was by a later version.
    pub fn sender_settings(&self, client: u32) -> Option<SenderSettings> {
        let mut from = Bytes::new(self.settings.get(&client)?);
        from.number()?;
        SenderSettings::read(&mut from)
    }

    pub(super) fn find_sender_settings(&mut self, record: &[u8]) -> Option<()> {
        let client = u32::try_from(Bytes::new(record).number()?).ok()?;
        self.settings.insert(client, record.to_owned());
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_they_were_written() {
        let peer = |name: &str, topics: &[&str]| Member {
            name: name.to_owned(),
            id: None,
            endpoint: "tcp://host:1".to_owned(),
            topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
            version: 0,
            lasting: Lasting::Durable,
        };
        let full = SenderSettings {
            registry: Some("redis://host".to_owned()),
            has_password: true,
            reassign_after: Some(Duration::from_secs(30)),
            retain: RetainLimits { age: Some(Duration::from_secs(60)), bytes: 1 << 30 },
            keeps_expired: true,
            disk_limit: u64::MAX,
            key: Some([7; 32]),
            trusted: vec![("a".to_owned(), [1; 32]), ("b".to_owned(), [2; 32])],
            peers: vec![peer("a", &[]), peer("b", &["x", "y"])],
        };
        let none = SenderSettings {
            registry: None,
            has_password: false,
            reassign_after: None,
            retain: RetainLimits { age: None, bytes: u64::MAX },
            keeps_expired: false,
            disk_limit: 4 << 20,
            key: None,
            trusted: Vec::new(),
            peers: Vec::new(),
        };
        for settings in [full, none] {
            let mut state = State::default();
            let record = settings.write(300);
            state.find_sender_settings(&record).unwrap();
            assert_eq!(state.sender_settings(300), Some(settings));
            assert_eq!(state.sender_settings(1), None);
            for end in 0..record.len() {
                let mut cut = State::default();
                let _ = cut.find_sender_settings(&record[..end]);
                assert_eq!(cut.sender_settings(300), None);
            }
        }
    }
}
