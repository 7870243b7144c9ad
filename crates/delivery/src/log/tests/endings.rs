//! Logs with unclean ends: several in a row, or at critical moments.

use std::io::ErrorKind;
use std::sync::Arc;

use super::faulty::{Faulty, next};
use super::{Numbers, append, filled, is_noticed, open_log, raise_floor, tell};
use crate::log::Urgency;
use crate::log::format::{Header, PAGE};

/// The file of a segment.
fn file_of(storage: &Faulty, segment: u64) -> String {
    let number = |bytes: &[u8]| Header::read(bytes.first_chunk()?).map(|header| header.number);
    storage.files().into_iter().find(|(_, bytes)| number(bytes) == Some(segment)).unwrap().0
}

#[test]
fn the_first_batch_of_a_closed_log_s_last_segment_rots() {
    let (storage, numbers) = filled(120, 30_000, true);
    // Give the last segment one batch, then more of them.
    drop(open_log(Arc::new(storage.clone()), &mut Numbers::default()).unwrap());
    for more in 0..2 {
        let mut found = Numbers::default();
        let log = open_log(Arc::new(storage.clone()), &mut found).unwrap();
        let newest = *log.segments().last().unwrap();
        for number in (121..).take(more * 3) {
            let batch = append(&log, &mut found, Urgency::Sync, number, 3000).unwrap().batch;
            log.wait(batch, None).unwrap();
        }
        drop(log);
        let name = file_of(&storage, newest);
        for at in [0, 9, 40] {
            let spoilt = storage.copy();
            spoilt.spoil(&name, |bytes| bytes[PAGE as usize + at] ^= 0x20);
            assert!(is_noticed(spoilt, &numbers, 0), "at {at}, {more} more");
        }
    }
}

/// Opens a log with one operation of the opening failing, then cuts the power.
fn end_while_opened(storage: &Faulty, count: u64) -> Faulty {
    let disk = storage.copy();
    disk.fail_in(count, ErrorKind::Other);
    // The opening may fail or succeed.
    drop(open_log(Arc::new(disk.clone()), &mut Numbers::default()));
    disk.cut_power();
    disk
}

#[test]
fn the_power_goes_while_a_log_is_opened_again_and_again() {
    let seeds = if std::env::var("FAULTS").is_ok_and(|value| value == "long") { 3000 } else { 60 };
    let mut sent = 0;
    for seed in 1..=seeds {
        let (mut random, disk) = (seed * 131, Faulty::new(seed));
        let mut numbers = Numbers { summaries: seed % 2 == 0, ..Numbers::default() };
        let log = open_log(Arc::new(disk.clone()), &mut numbers).unwrap();
        let (count, mut safe) = (8 + next(&mut random) % 40, 0);
        for number in 0..count {
            let len = [20, 3000, 90_000][(next(&mut random) % 3) as usize];
            let batch = append(&log, &mut numbers, Urgency::Sync, number, len).unwrap().batch;
            match next(&mut random) % 4 {
                0 => {
                    log.wait(batch, None).unwrap();
                    safe = number + 1;
                }
                1 if safe > numbers.floor => {
                    let floor = numbers.floor + next(&mut random) % (safe - numbers.floor + 1);
                    raise_floor(&log, &mut numbers, floor).unwrap();
                }
                _ => {}
            }
        }
        let mut left = disk.copy();
        left.cut_power();
        for _ in 0..5 {
            left = end_while_opened(&left, next(&mut random) % 12);
            let mut found = Numbers { summaries: numbers.summaries, ..Numbers::default() };
            let opened = open_log(Arc::new(left.copy()), &mut found);
            assert!(opened.is_ok(), "seed {seed}: {:?}", opened.err());
            let (first, there) = (found.floor, found.places.keys().copied());
            assert!(
                there.clone().eq(first..first + there.len() as u64),
                "seed {seed}: no gap, nothing twice"
            );
            assert!(first + there.len() as u64 >= safe, "seed {seed}: {safe} were safe");
        }
        sent += safe;
    }
    tell(&format!("power cuts while a log is opened, {} times", seeds * 5), sent);
}
