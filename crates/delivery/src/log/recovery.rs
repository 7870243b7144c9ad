//! Recovery when a log is opened: which batches are valid, and whether anything that was on the disk is missing.
//!
//! Every batch names a batch up to which everything was on the disk when it was written. If valid batches stop and a
//! later batch says that the missing one was on the disk, the log is damaged. If no later batch does, the missing part
//! was never reported as safe, and the log ends there. Required segments are also known by number: the newest segment
//! begins with a list of them, and the seal of a full segment names the next.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::format::PAGE;
use super::queue::{FREED, IN_USE};
use super::scan::{Scan, scan};
use super::segment::{FoundFile, Segment, Spare};
use super::storage::Storage;
use super::{Damage, LogError, Position, Replay};

/// The content of a storage.
pub struct Recovered {
    pub segments: BTreeMap<u64, Arc<Segment>>,
    pub spares: Vec<Spare>,
    /// Segments that do not count. They must be retired before the log continues.
    pub torn: Vec<Segment>,
    pub last_batch: u64,
    pub last_segment: u64,
    /// Segments without a seal, and where their batches end.
    pub unsealed: Vec<(Arc<Segment>, u64)>,
    /// Where the batches of each segment end.
    pub ends: BTreeMap<u64, u64>,
    /// The names of guard files.
    pub guards: Vec<String>,
    pub damage: Vec<Damage>,
}

/// Reads everything, older segments first. Damage is skipped if `skip` is set, otherwise an error.
pub fn recover(storage: &dyn Storage, skip: bool, replay: &mut dyn Replay) -> Result<Recovered, LogError> {
    let mut found = scan_files(storage)?;
    found.leave_out_unbegun()?;
    found.leave_out_torn()?;
    found.leave_out_unused(storage)?;
    if !found.damage.is_empty() && !skip {
        return Err(LogError::Damaged(found.damage));
    }
    found.read(skip, replay)?;
    match found.damage.is_empty() || skip {
        true => Ok(found),
        false => Err(LogError::Damaged(found.damage)),
    }
}

/// Examines all files.
fn scan_files(storage: &dyn Storage) -> Result<Recovered, LogError> {
    let (mut segments, mut spares, mut damage) = (BTreeMap::new(), Vec::new(), Vec::new());
    let mut guards = Vec::new();
    for name in storage.list()?.into_iter().filter(|name| name.ends_with(".log")) {
        match Segment::find(storage, name.clone())? {
            FoundFile::Segment(segment) => {
                let number = segment.header.number;
                if let Some(other) = segments.insert(number, Arc::new(segment)) {
                    damage.push(Damage::Twice { segment: number, file: other.name.clone() });
                }
            }
            FoundFile::Spare(spare) => spares.push(spare),
            FoundFile::Unfinished => storage.remove(&name)?,
            FoundFile::Guard => guards.push(name),
            FoundFile::Damaged => damage.push(Damage::Header { file: name }),
        }
    }
    let last_segment = segments.keys().next_back().copied().unwrap_or(0);
    Ok(Recovered {
        segments,
        spares,
        torn: Vec::new(),
        last_batch: 0,
        last_segment,
        unsealed: Vec::new(),
        ends: BTreeMap::new(),
        guards,
        damage,
    })
}

impl Recovered {
    /// Drops newest segments without any batch: the log continues in the newest segment that has one.
    fn leave_out_unbegun(&mut self) -> Result<(), LogError> {
        while let Some((&number, segment)) = self.segments.last_key_value() {
            let batches = scan(segment, segment.limit(), false, &mut |_, _, _| {})?;
            let was_written = segment.sealed()?.is_some_and(|(seal, _)| seal.end > PAGE);
            if batches.first.is_some() || batches.is_damaged() || was_written {
                return Ok(());
            }
            // Their batch numbers must not be reused, even though no caller was told of them.
            self.note(batches.later.iter().map(|batch| batch.number).max());
            self.leave_out(number);
        }
        Ok(())
    }

    /// If the end of a segment is missing and was never reported as safe, the following segments do not count either.
    fn leave_out_torn(&mut self) -> Result<(), LogError> {
        let mut scans: Vec<(u64, Scan)> = Vec::new();
        for (number, segment) in self.segments.iter().rev() {
            if segment.sealed()?.is_some() {
                break;
            }
            scans.push((*number, scan(segment, segment.limit(), false, &mut |_, _, _| {})?));
        }
        scans.reverse();
        for at in 1..scans.len() {
            let (before, here) = (&scans[at - 1], &scans[at..]);
            let missing = before.1.last.map_or(0, |last| last + 1);
            if here[0].1.first == Some(missing) {
                continue;
            }
            if here.iter().any(|(_, scan)| scan.durable >= missing) {
                let (segment, at) = (before.0, before.1.end);
                let file =
                    self.segments.get(&segment).map(|segment| segment.name.clone()).unwrap_or_default();
                self.damage.push(Damage::Batches { segment, file, at });
                continue;
            }
            for (number, scan) in here {
                self.note(scan.last);
                self.note(scan.later.iter().map(|batch| batch.number).max());
                self.leave_out(*number);
            }
            return Ok(());
        }
        Ok(())
    }

    /// Sets aside segments that the newest does not list, and reports listed ones that are missing.
    fn leave_out_unused(&mut self, storage: &dyn Storage) -> Result<(), LogError> {
        let Some((&newest, segment)) = self.segments.last_key_value() else { return Ok(()) };
        let (mut in_use, mut freed, mut listed) = (BTreeMap::new(), BTreeSet::new(), false);
        scan(segment, segment.limit(), false, &mut |_, kind, payload| match kind {
            IN_USE => {
                listed = true;
                let numbers: Vec<u64> = numbers(payload).collect();
                in_use.extend(numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])));
            }
            FREED => freed.extend(numbers(payload)),
            _ => {}
        })?;
        if let Some((seal, _)) = segment.sealed()?
            && seal.next != 0
            && !self.goes_on(storage)?
        {
            self.damage.push(Damage::Missing { segment: seal.next });
        }
        if !listed {
            // The segment's beginning is damaged, which `read` reports.
            return Ok(());
        }
        for number in self.segments.keys().copied().collect::<Vec<u64>>() {
            if number != newest && (!in_use.contains_key(&number) || freed.contains(&number)) {
                self.set_aside(number)?;
            }
        }
        for (number, end) in in_use {
            if self.segments.contains_key(&number) {
                self.ends.insert(number, end);
            } else if !freed.contains(&number) {
                self.damage.push(Damage::Missing { segment: number });
            }
        }
        Ok(())
    }

    /// Whether a segment was begun after the files were examined, by a process that writes to the log. What was
    /// found is then the log at an earlier moment.
    fn goes_on(&self, storage: &dyn Storage) -> Result<bool, LogError> {
        Ok(scan_files(storage)?.last_segment > self.last_segment)
    }

    /// Replays the segments, older ones first.
    fn read(&mut self, skip: bool, replay: &mut dyn Replay) -> Result<(), LogError> {
        let newest = self.segments.keys().next_back().copied();
        for (number, segment) in self.segments.clone() {
            let sealed = segment.sealed()?;
            if Some(number) != newest
                && let Some((seal, Some(summary))) = &sealed
                && replay.summary(number, summary)
            {
                self.ends.entry(number).or_insert(seal.end);
                continue;
            }
            // Only its seal tells the end of the newest segment, if the log was closed.
            let end = self.ends.get(&number).copied().or(sealed.as_ref().map(|(seal, _)| seal.end));
            let until = end.map_or(segment.limit(), |end| end.min(segment.limit()));
            let mut record = |at: u32, kind: u8, payload: &[u8]| {
                if !matches!(kind, IN_USE | FREED) {
                    replay.record(Position { segment: number, at }, kind, payload);
                }
            };
            let batches = scan(&segment, until, skip, &mut record)?;
            let damage = Damage::Batches { segment: number, file: segment.name.clone(), at: batches.end };
            let is_short = end.is_some() && batches.end < until;
            if (is_short || batches.is_damaged()) && !self.damage.contains(&damage) {
                self.damage.push(damage);
            }
            self.note(batches.last);
            self.note(batches.later.iter().map(|batch| batch.number).max());
            self.ends.insert(number, end.unwrap_or(batches.end));
            if sealed.is_none() {
                self.unsealed.push((segment, batches.end));
            }
        }
        Ok(())
    }

    fn note(&mut self, batch: Option<u64>) {
        self.last_batch = self.last_batch.max(batch.unwrap_or(0));
    }

    /// Drops a segment that does not count, and is not marked as such on the disk.
    fn leave_out(&mut self, number: u64) {
        if let Some(Ok(segment)) = self.segments.remove(&number).map(Arc::try_unwrap) {
            self.torn.push(segment);
        }
    }

    /// Sets aside an unused segment, so that its file can be reused. An unsealed one has to be retired first: a later
    /// recovery could take it for the last segment.
    fn set_aside(&mut self, number: u64) -> Result<(), LogError> {
        if let Some(Ok(segment)) = self.segments.remove(&number).map(Arc::try_unwrap) {
            match segment.sealed()?.is_some() {
                true => self.spares.push(segment.into_spare()),
                false => self.torn.push(segment),
            }
        }
        Ok(())
    }
}

fn numbers(payload: &[u8]) -> impl Iterator<Item = u64> + '_ {
    payload.chunks_exact(8).map(|bytes| u64::from_le_bytes(std::array::from_fn(|i| bytes[i])))
}
