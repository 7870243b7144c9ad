//! The default of a store's disk limit, and a store that has more than its limit.

use std::path::Path;
use std::time::{Duration, Instant};

use pinnace_delivery::{Builder, Durability, Error, Full, Options};

use crate::common::{client, soon};

fn bytes_of(store: &Path) -> u64 {
    std::fs::read_dir(store).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum()
}

/// What a store may have, by its statistics.
fn limit_of(builder: Builder) -> Option<u64> {
    builder.start().unwrap().statistics().store.disk_limit_bytes
}

#[test]
fn a_tenth_of_the_file_system_is_the_default() {
    let dir = tempfile::tempdir().unwrap();
    let size = pinnace_sys::files::file_system_bytes(dir.path()).unwrap();
    let wanted = if size == 0 { 4 << 30 } else { (size / 10).clamp(4 << 20, 4 << 30) };
    assert_eq!(limit_of(client("default", dir.path())), Some(wanted));
    assert_eq!(limit_of(client("given", dir.path()).disk_limit(5 << 20)), Some(5 << 20));
    let none = client("none", dir.path()).disk_limit(u64::MAX).start().unwrap().statistics();
    assert_eq!(none.store.disk_limit_bytes, None);
    let line = "pinnace_delivery_store_disk_limit_bytes{client=\"none\"} +Inf\n";
    assert!(none.to_prometheus().contains(line), "{}", none.to_prometheus());
}

/// As after an upgrade from a version without a default.
#[test]
fn a_store_above_its_limit_opens_and_drains() {
    let dir = tempfile::tempdir().unwrap();
    let (most, body) = (4 << 20, vec![7; 100_000]);
    let kept = Options { all: true, durability: Durability::Interval, ..Options::default() };
    let receiver = client("receiver", dir.path()).start().unwrap();
    let (endpoint, topics) = (receiver.endpoint().to_owned(), ["news"]);
    receiver.close(soon()).unwrap();
    let sender = || client("sender", dir.path()).peer("receiver", &endpoint, &topics);
    let unlimited = sender().disk_limit(u64::MAX).start().unwrap();
    (0..100).for_each(|_| unlimited.send("news", &body, &kept).unwrap());
    // Leaves spare files behind.
    (0..60).for_each(|_| unlimited.send("other", &body, &kept).unwrap());
    unlimited.clear_pending("other").unwrap();
    drop(unlimited);
    let store = dir.path().join("sender");
    let before = bytes_of(&store);
    assert!(before > 10_000_000, "{before}");
    let mut sizes = Vec::new();
    for _ in 0..6 {
        let limited = sender().disk_limit(most).start().unwrap();
        let brief = Options { deadline: Some(Instant::now() + Duration::from_millis(500)), ..kept };
        // The file that the opening has begun is used up first.
        let refused = std::iter::repeat_with(|| limited.send("other", &body, &brief)).find(Result::is_err);
        let Some(Err(Error::NoRoom(Some(shortage)))) = refused else { panic!("{refused:?}") };
        assert_eq!(shortage.full, Full::DiskLimit(most));
        let names_receiver = shortage.largest.iter().any(|of| of.receiver.as_deref() == Some("receiver"));
        assert!(names_receiver, "{shortage}");
        assert!(shortage.used_bytes > most, "{shortage}");
        limited.clear_pending("other").unwrap();
        drop(limited);
        sizes.push(bytes_of(&store));
    }
    // Spare files are removed. An opening needs a file for its first records, and one for those that free space.
    assert!(sizes.iter().all(|bytes| *bytes < before), "{before}: {sizes:?}");
    let limited = sender().disk_limit(most).start().unwrap();
    let pending = limited.pending();
    let receiver = client("receiver", dir.path()).listen(&endpoint).start().unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| limited.send("news", &body, &Options { deadline: soon(), ..kept }));
        (0..=pending).for_each(|_| receiver.recv(soon()).unwrap().ack());
        assert_eq!(waits.join().unwrap(), Ok(()));
    });
    limited.wait_pending(0, soon()).unwrap();
}
