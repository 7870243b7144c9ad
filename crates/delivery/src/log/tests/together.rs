//! Records that are appended together are found together, or not at all.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::faulty::{Faulty, next};
use super::{NUMBERED, settings, tell};
use crate::log::{Checkpointer, Log, LogError, Position, Replay, Urgency, open};

/// For each group, how many of its records were found.
#[derive(Default)]
struct Groups {
    found: BTreeMap<u64, u64>,
}

impl Checkpointer for Groups {
    fn checkpoint(&self, _: &mut dyn FnMut(u8, &[&[u8]])) {}

    fn summary(&self, _: u64) -> Vec<u8> {
        Vec::new()
    }
}

impl Replay for Groups {
    fn summary(&mut self, _: u64, _: &[u8]) -> bool {
        false
    }

    fn record(&mut self, _: Position, _: u8, payload: &[u8]) {
        let group = u64::from_le_bytes(payload[..8].try_into().unwrap());
        *self.found.entry(group).or_default() += 1;
    }
}

/// Appends a group of `count` records, whose numbers of bytes differ. Returns its batch.
fn append(log: &Log, urgency: Urgency, group: u64, count: u64, len: usize) -> u64 {
    let body = vec![group as u8; len];
    let number = group.to_le_bytes();
    let payloads: Vec<[&[u8]; 2]> =
        (0..count).map(|at| [&number[..], &body[..len / (at as usize + 1)]]).collect();
    let records: Vec<(u8, &[&[u8]])> = payloads.iter().map(|payload| (NUMBERED, &payload[..])).collect();
    loop {
        log.wait_until_calm(None).unwrap();
        match log.append_together(urgency, &records, &Groups::default()) {
            Err(LogError::NoRoom(_)) => log.wait_for_room(None).unwrap(),
            appended => return appended.unwrap().batch,
        }
    }
}

#[test]
fn a_power_cut_leaves_a_group_whole_or_takes_it_whole() {
    let seeds = if std::env::var("FAULTS").is_ok_and(|value| value == "long") { 2000 } else { 100 };
    let (mut whole, mut taken) = (0, 0);
    for seed in 1..=seeds {
        let mut random = seed * 91;
        let disk = Faulty::new(seed);
        let log = open(Arc::new(disk.clone()), settings(), &mut Groups::default()).unwrap();
        let log = log.start(&Groups::default(), Box::new(|_| {})).unwrap();
        let (mut counts, mut safe) = (BTreeMap::new(), 0);
        for group in 1..=10 + next(&mut random) % 20 {
            let count = 1 + next(&mut random) % 5;
            let len = [20, 3000, 90_000, 700_000][(next(&mut random) % 4) as usize];
            let urgency = [Urgency::Sync, Urgency::Interval][(next(&mut random) % 2) as usize];
            let batch = append(&log, urgency, group, count, len);
            counts.insert(group, count);
            if next(&mut random).is_multiple_of(8) {
                log.wait(batch, None).unwrap();
                safe = group;
            }
        }
        let left = disk.left_by_power();
        drop(log);
        let mut groups = Groups::default();
        open(Arc::new(left), settings(), &mut groups).unwrap();
        let found = groups.found.len() as u64;
        assert!(found >= safe, "seed {seed}: {safe} were safe, {found} are there");
        let expected: BTreeMap<u64, u64> =
            counts.range(..=found).map(|(group, count)| (*group, *count)).collect();
        assert_eq!(groups.found, expected, "seed {seed}");
        whole += found;
        taken += counts.len() as u64 - found;
    }
    assert!(taken > 0, "no cut came in time");
    tell(&format!("power cuts of groups of records, {seeds} times"), whole);
}
