//! The log on failing disks.
//!
//! Records are numbered. Those that were waited for are found after reopening, in order and once; all others found were
//! appended before. Segments are freed in order, oldest first, as by the log's users.

mod endings;
pub mod faulty;
mod together;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::storage::{Directory, Storage};
use super::{
    Appended, Checkpointer, Damage, Log, LogError, MAX_PAYLOAD, Position, Replay, Settings, Urgency, open,
};
use crate::checker::{STRICT, Sums, report};
use faulty::{Faulty, next};

const NUMBERED: u8 = 2;
const FLOOR: u8 = 3;

/// Keeps the lowest number needed, and the position of each record.
#[derive(Default, Clone)]
struct Numbers {
    /// Numbers below it are not needed.
    floor: u64,
    /// The positions of needed records.
    places: BTreeMap<u64, Position>,
    /// Numbers in the order found.
    found: Vec<u64>,
    /// Whether summaries replace reading full segments.
    summaries: bool,
}

impl Checkpointer for Numbers {
    fn checkpoint(&self, add: &mut dyn FnMut(u8, &[&[u8]])) {
        add(FLOOR, &[&self.floor.to_le_bytes()]);
    }

    fn summary(&self, segment: u64) -> Vec<u8> {
        if !self.summaries {
            return Vec::new();
        }
        let here = self.places.iter().filter(|(_, place)| place.segment == segment);
        let numbers = here.flat_map(|(number, place)| {
            let mut bytes = number.to_le_bytes().to_vec();
            bytes.extend_from_slice(&place.at.to_le_bytes());
            bytes
        });
        std::iter::once(0).chain(numbers).collect()
    }
}

impl Replay for Numbers {
    fn summary(&mut self, segment: u64, summary: &[u8]) -> bool {
        for entry in summary[1..].chunks(12) {
            let number = u64::from_le_bytes(entry[..8].try_into().unwrap());
            let at = u32::from_le_bytes(entry[8..].try_into().unwrap());
            self.find(number, Position { segment, at });
        }
        true
    }

    fn record(&mut self, place: Position, kind: u8, payload: &[u8]) {
        let number = u64::from_le_bytes(payload[..8].try_into().unwrap());
        match kind {
            FLOOR => {
                self.floor = self.floor.max(number);
                self.places.retain(|number, _| *number >= self.floor);
            }
            NUMBERED => {
                assert_eq!(payload, payload_of(number, payload.len()));
                self.find(number, place);
            }
            kind => panic!("a record of kind {kind}"),
        }
    }
}

impl Numbers {
    fn find(&mut self, number: u64, place: Position) {
        self.found.push(number);
        if number >= self.floor {
            self.places.insert(number, place);
        }
    }
}

fn payload_of(number: u64, len: usize) -> Vec<u8> {
    let mut random = number * 2 + 1;
    let mut payload = number.to_le_bytes().to_vec();
    payload.resize_with(len.max(8), || next(&mut random) as u8);
    payload
}

fn settings() -> Settings {
    Settings { interval: Duration::from_millis(5), most: u64::MAX, skip_damage: false }
}

fn open_log(storage: Arc<dyn Storage>, numbers: &mut Numbers) -> Result<Log, LogError> {
    open(storage, settings(), numbers)?.start(numbers, Box::new(|_| {}))
}

/// Appends, and waits for room if needed.
fn append(
    log: &Log,
    numbers: &mut Numbers,
    urgency: Urgency,
    number: u64,
    len: usize,
) -> Result<Appended, LogError> {
    let deadline = Instant::now() + Duration::from_secs(20);
    let appended = loop {
        log.wait_until_calm(Some(deadline))?;
        match log.append(urgency, NUMBERED, &[&payload_of(number, len)], numbers) {
            Err(LogError::NoRoom(_)) => log.wait_for_room(Some(deadline))?,
            other => break other?,
        }
    };
    numbers.places.insert(number, appended.position);
    Ok(appended)
}

fn raise_floor(log: &Log, numbers: &mut Numbers, floor: u64) -> Result<(), LogError> {
    numbers.floor = floor;
    numbers.places.retain(|number, _| *number >= floor);
    log.append(Urgency::Control, FLOOR, &[&floor.to_le_bytes()], numbers)?;
    let needed = numbers.places.values().next().map_or(u64::MAX, |place| place.segment);
    for segment in log.segments().into_iter().filter(|segment| *segment < needed) {
        log.free(segment, numbers)?;
    }
    Ok(())
}

#[test]
fn what_was_waited_for_is_found_after_power_cuts() {
    let seeds = if std::env::var("FAULTS").is_ok_and(|value| value == "long") { 2000 } else { 150 };
    let mut sent = 0;
    for seed in 1..=seeds {
        let mut random = seed * 77;
        let mut storage = Faulty::new(seed);
        let mut numbers = Numbers { summaries: seed % 2 == 0, ..Numbers::default() };
        let mut safe = 0;
        for _ in 0..4 {
            let log = open_log(Arc::new(storage.clone()), &mut numbers).unwrap();
            let found: Vec<u64> = numbers.places.keys().copied().collect();
            let first = numbers.floor;
            let expected: Vec<u64> = (first..first + found.len() as u64).collect();
            assert_eq!(found, expected, "seed {seed}: no gap");
            assert!(first + found.len() as u64 >= safe, "seed {seed}: {safe} were safe, found {found:?}");
            assert!(numbers.found.is_sorted_by(|a, b| a < b), "seed {seed}: in order and once");
            let mut next_number = first + found.len() as u64;
            for _ in 0..next(&mut random) % 60 {
                let len = [0, 20, 3000, 90_000][(next(&mut random) % 4) as usize];
                let urgency = [Urgency::Sync, Urgency::Interval][(next(&mut random) % 2) as usize];
                let appended = append(&log, &mut numbers, urgency, next_number, len).unwrap();
                next_number += 1;
                match next(&mut random) % 6 {
                    0..=2 if urgency == Urgency::Sync => {
                        log.wait(appended.batch, None).unwrap();
                        safe = next_number;
                    }
                    3 if safe > numbers.floor => {
                        let floor = numbers.floor + next(&mut random) % (safe - numbers.floor + 1);
                        raise_floor(&log, &mut numbers, floor).unwrap();
                    }
                    _ => {}
                }
            }
            // Continue with the disk as the power cut left it; the log's threads keep writing to the old copy.
            storage = storage.copy();
            storage.cut_power();
            numbers = Numbers { summaries: numbers.summaries, ..Numbers::default() };
        }
        sent += safe;
    }
    tell(&format!("power cuts of a log, {} times", seeds * 4), sent);
}

/// Reports a test in which nothing was lost.
fn tell(what: &str, sent: u64) {
    report(what, &Sums { sent: sent as usize, ..Sums::default() }, &STRICT, "");
}

/// A log with several segments, all on the disk, closed or left open, and the numbers in it.
fn filled(count: u64, len: usize, closed: bool) -> (Faulty, Numbers) {
    let storage = Faulty::new(count);
    let mut numbers = Numbers::default();
    let log = open_log(Arc::new(storage.clone()), &mut numbers).unwrap();
    for number in 0..count {
        let batch = append(&log, &mut numbers, Urgency::Sync, number, len).unwrap().batch;
        if number % 4 == 3 {
            log.wait(batch, None).unwrap();
        }
    }
    let last = append(&log, &mut numbers, Urgency::Sync, count, len).unwrap().batch;
    log.wait(last, None).unwrap();
    if closed {
        drop(log);
        return (storage, numbers);
    }
    (storage.copy(), numbers)
}

/// Opens a spoilt log and asserts that it reports damage or has all records (except `but_for`). Returns true if damage
/// was reported.
fn is_noticed(storage: Faulty, expected: &Numbers, but_for: usize) -> bool {
    let mut numbers = Numbers::default();
    match open(Arc::new(storage), settings(), &mut numbers) {
        Err(LogError::Damaged(damage)) => {
            assert!(!damage.is_empty());
            true
        }
        Err(error) => panic!("{error:?}"),
        Ok(_) => {
            let least = expected.places.len() - but_for;
            let there = numbers.places.keys().zip(expected.places.keys()).take_while(|(a, b)| a == b).count();
            assert!(there >= least, "{there} of {least} are there, and nobody said a word");
            false
        }
    }
}

#[test]
fn bytes_that_rot_are_noticed() {
    let (storage, numbers) = filled(120, 30_000, true);
    let mut random = 99;
    let mut noticed = 0;
    for round in 0..400 {
        let spoilt = storage.copy();
        let files = spoilt.files();
        let (name, bytes) = &files[next(&mut random) as usize % files.len()];
        let at = next(&mut random) as usize % bytes.len();
        match round % 4 {
            0 => spoilt.spoil(name, |bytes| bytes[at] ^= 1 << (round % 8)),
            1 => spoilt.spoil(name, |bytes| {
                let end = (at + 4096).min(bytes.len());
                bytes[at..end].fill(0);
            }),
            2 => spoilt.spoil(name, |bytes| {
                let end = (at + 700).min(bytes.len());
                bytes[at..end].fill(0xa5);
            }),
            _ => spoilt.spoil(name, |bytes| bytes[at / 2..].fill(0)),
        }
        // If the end of the newest segment is lost together with its seal, nothing shows that it was ever longer.
        let newest = numbers.places.values().map(|place| place.segment).max().unwrap();
        let in_newest = numbers.places.values().filter(|place| place.segment == newest).count();
        noticed += u32::from(is_noticed(spoilt, &numbers, if round % 4 == 3 { in_newest } else { 0 }));
    }
    assert!(noticed > 100, "{noticed} of 400 were noticed: the test spoils what nobody needs");
}

#[test]
fn of_a_log_that_was_not_closed_no_more_than_the_last_batch_may_go_unnoticed() {
    let (storage, numbers) = filled(40, 3000, false);
    for (name, bytes) in storage.files() {
        for at in (0..bytes.len()).step_by(997) {
            let spoilt = storage.copy();
            spoilt.spoil(&name, |bytes| bytes[at] ^= 0x10);
            is_noticed(spoilt, &numbers, 1);
        }
    }
}

#[test]
fn a_file_that_is_gone_is_missed() {
    let (storage, numbers) = filled(200, 30_000, true);
    let mut noticed = 0;
    for (name, _) in storage.files() {
        let spoilt = storage.copy();
        Storage::remove(&spoilt, &name).unwrap();
        noticed += u32::from(is_noticed(spoilt, &numbers, 0));
        let spoilt = storage.copy();
        spoilt.spoil(&name, |bytes| bytes.truncate(bytes.len() / 2));
        noticed += u32::from(is_noticed(spoilt, &numbers, 0));
    }
    assert!(noticed >= 6, "{noticed}");
}

#[test]
fn damage_is_left_out_where_that_is_asked_for() {
    let (storage, numbers) = filled(120, 30_000, true);
    let place = numbers.places[&60];
    let files = storage.files();
    let holds = |bytes: &[u8]| bytes[place.at as usize + 8..].starts_with(&payload_of(60, 30_000));
    let (name, _) = files.iter().find(|(_, bytes)| bytes.len() > place.at as usize && holds(bytes)).unwrap();
    storage.spoil(name, |bytes| bytes[place.at as usize + 100] ^= 4);
    let mut found = Numbers::default();
    let opened =
        open(Arc::new(storage.clone()), Settings { skip_damage: true, ..settings() }, &mut found).unwrap();
    assert_eq!(opened.damage().len(), 1);
    assert!(matches!(opened.damage()[0], Damage::Batches { segment, .. } if segment == place.segment));
    assert!(!found.places.contains_key(&60));
    assert!(found.places.len() >= numbers.places.len() - 5, "others of its batch may go with it");
    // The log continues, and reports the damage as long as the segment is needed.
    drop(opened.start(&found, Box::new(|_| {})).unwrap());
    let mut again = Numbers::default();
    let opened = open(Arc::new(storage), Settings { skip_damage: true, ..settings() }, &mut again).unwrap();
    assert_eq!(opened.damage().len(), 1);
    assert_eq!(again.places, found.places);
}

#[test]
fn any_operation_may_fail() {
    for kind in [ErrorKind::Other, ErrorKind::StorageFull] {
        let mut sent = 0;
        for count in 0..60 {
            let storage = Faulty::new(count);
            storage.fail_in(count, kind);
            let mut numbers = Numbers::default();
            let mut safe = 0;
            if let Ok(log) = open_log(Arc::new(storage.clone()), &mut numbers) {
                for number in 0..40 {
                    let appended = append(&log, &mut numbers, Urgency::Sync, number, 60_000)
                        .and_then(|appended| log.wait(appended.batch, None));
                    match appended {
                        Ok(()) => safe = number + 1,
                        Err(LogError::NoRoom(_)) => break,
                        Err(LogError::Failed(failure)) => {
                            assert_eq!(failure.kind, kind);
                            let again = log.append(Urgency::Sync, NUMBERED, &[&[0; 8]], &numbers);
                            assert!(matches!(again, Err(LogError::Failed(_))), "never again: {again:?}");
                            break;
                        }
                        Err(LogError::TimedOut) => break,
                        Err(error) => panic!("{error:?}"),
                    }
                }
            }
            let left = storage.copy();
            left.cut_power();
            let mut found = Numbers::default();
            drop(open_log(Arc::new(left), &mut found).unwrap());
            let there: Vec<u64> = found.places.keys().copied().collect();
            assert!(there.len() as u64 >= safe, "operation {count}: {safe} were safe, {there:?} are there");
            assert!(there.iter().copied().eq(0..there.len() as u64));
            sent += safe;
        }
        tell(&format!("each write, sync and creation of 60 fails in turn: {kind}"), sent);
    }
}

#[test]
fn a_full_disk_refuses_what_is_new_and_goes_on_when_there_is_space() {
    let storage = Faulty::new(5);
    let mut numbers = Numbers::default();
    let log = open_log(Arc::new(storage.clone()), &mut numbers).unwrap();
    storage.set_space(Some(6 << 20));
    let mut number = 0;
    let refused = loop {
        match log.append(Urgency::Sync, NUMBERED, &[&payload_of(number, 50_000)], &numbers) {
            Ok(appended) => {
                numbers.places.insert(number, appended.position);
                number += 1;
            }
            Err(LogError::NoRoom(_)) => {
                if let Err(error) = log.wait_for_room(Some(Instant::now() + Duration::from_secs(2))) {
                    break error;
                }
            }
            Err(error) => panic!("{error:?}"),
        }
    };
    assert_eq!(refused, LogError::NoRoom(Some(ErrorKind::StorageFull)));
    assert!(number > 40, "{number}");
    // Records that free space are still accepted, any number of times.
    for _ in 0..1000 {
        log.append(Urgency::Control, FLOOR, &[&0_u64.to_le_bytes()], &numbers).unwrap();
    }
    raise_floor(&log, &mut numbers, number - 1).unwrap();
    let batch = append(&log, &mut numbers, Urgency::Sync, number, 50_000).unwrap().batch;
    log.wait(batch, None).unwrap();
    drop(log);
    let mut found = Numbers::default();
    drop(open_log(Arc::new(storage), &mut found).unwrap());
    assert_eq!(found.places.keys().copied().collect::<Vec<u64>>(), [number - 1, number]);
}

#[test]
fn a_directory_that_takes_no_files_is_not_waited_for() {
    let storage = Faulty::new(6);
    let mut numbers = Numbers::default();
    let log = open_log(Arc::new(storage.clone()), &mut numbers).unwrap();
    storage.refuse_files(Some(ErrorKind::PermissionDenied));
    let append = |number| log.append(Urgency::Sync, NUMBERED, &[&payload_of(number, 50_000)], &numbers);
    let refused = (0..).find_map(|number| match append(number) {
        Err(LogError::NoRoom(_)) => log.wait_for_room(None).err(),
        appended => appended.map(drop).err(),
    });
    assert_eq!(refused, Some(LogError::Io(ErrorKind::PermissionDenied)));
    storage.refuse_files(None);
    let until = Instant::now() + Duration::from_secs(20);
    while log.wait_for_room(Some(until)).is_err() {
        assert!(Instant::now() < until, "it is not tried again");
    }
    log.wait(append(1 << 20).unwrap().batch, None).unwrap();
}

#[test]
fn what_is_written_can_be_read_at_once() {
    let mut numbers = Numbers::default();
    let log = open_log(Arc::new(Faulty::new(1)), &mut numbers).unwrap();
    let mut last = 0;
    for number in 0..3000 {
        let len = if number % 100 == 50 { 200_000 } else { number as usize % 900 };
        last = append(&log, &mut numbers, Urgency::Interval, number, len).unwrap().batch;
    }
    assert_eq!(log.wait(last, Some(Instant::now() + Duration::from_secs(20))), Ok(()));
    let (mut seen, mut buffer) = (0, Vec::new());
    let mut at = Log::start_of(log.segments()[0]);
    loop {
        let next = log
            .read(at, 64 << 10, &mut buffer, &mut |place, kind, payload| {
                if kind == NUMBERED {
                    assert_eq!(payload, payload_of(seen, payload.len()));
                    assert_eq!(numbers.places[&seen], place);
                    seen += 1;
                }
                !seen.is_multiple_of(10)
            })
            .unwrap();
        if next == at {
            break;
        }
        at = next;
    }
    assert_eq!(seen, 3000);
}

#[test]
fn a_directory_is_one_log_s_at_a_time() {
    let place = tempfile::tempdir().unwrap();
    let mut numbers = Numbers::default();
    {
        let directory = Directory::open(place.path()).unwrap();
        assert_eq!(
            Directory::open(place.path()).err().map(|error| error.kind()),
            Some(ErrorKind::WouldBlock)
        );
        let log = open_log(Arc::new(directory), &mut numbers).unwrap();
        for number in 0..5000 {
            append(&log, &mut numbers, Urgency::Sync, number, 1000).unwrap();
        }
        assert!(matches!(
            log.append(Urgency::Sync, NUMBERED, &[&vec![0; MAX_PAYLOAD + 1]], &numbers),
            Err(LogError::TooLarge)
        ));
    }
    let directory = Directory::open(place.path()).unwrap();
    let mut found = Numbers::default();
    drop(open_log(Arc::new(directory), &mut found).unwrap());
    assert_eq!(found.places.len(), 5000, "closing writes what has gathered");
}

#[test]
fn files_are_used_again() {
    let storage = Faulty::new(3);
    let mut numbers = Numbers::default();
    let log = open_log(Arc::new(storage.clone()), &mut numbers).unwrap();
    for number in 0..20_000 {
        append(&log, &mut numbers, Urgency::Sync, number, 20_000).unwrap();
        if number % 20 == 19 {
            raise_floor(&log, &mut numbers, number).unwrap();
        }
    }
    let bytes: usize = storage.files().iter().map(|(_, bytes)| bytes.len()).sum();
    assert!(bytes <= 96 << 20, "{bytes} for 400 MB that went through");
}
