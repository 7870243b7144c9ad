//! Bodies of all sizes.

use std::io::Read;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use pinnace_delivery::{Builder, Durability, Error, Options, Verdict};

use crate::common::{client, soon};

#[test]
fn bodies_of_any_size() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = client("receiver", dir.path()).start().unwrap();
    let sender =
        client("sender", dir.path()).peer("receiver", receiver.endpoint(), &["news"]).start().unwrap();
    for len in [0, 1, 1000, 65_536, 1 << 20, (1 << 20) + 1, 20_000_000] {
        let body: Vec<u8> = (0..len).map(|at: usize| (at / 7) as u8).collect();
        sender.send_to("news", &body).unwrap();
        let delivery = receiver.recv(soon()).unwrap_or_else(|error| panic!("{len} bytes: {error}"));
        assert!(delivery.body() == body, "{len} bytes");
        delivery.ack();
    }
}

/// A body that no compression makes smaller.
fn noise(len: usize) -> Vec<u8> {
    let mut random = 7_u64;
    let bytes = std::iter::repeat_with(|| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 56) as u8
    });
    bytes.take(len).collect()
}

/// Passes on connections to an endpoint, and ends each of them after `most` bytes to the endpoint.
fn cut_connections(endpoint: &str, most: u64) -> String {
    let (to, here) =
        (endpoint.trim_start_matches("tcp://").to_owned(), TcpListener::bind("127.0.0.1:0").unwrap());
    let own = format!("tcp://{}", here.local_addr().unwrap());
    std::thread::spawn(move || {
        for from in here.incoming() {
            let (from, mut to) = (from.unwrap(), TcpStream::connect(&to).unwrap());
            let (mut back, mut answers) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            let answering = std::thread::spawn(move || std::io::copy(&mut answers, &mut back));
            let _ = std::io::copy(&mut from.take(most), &mut to);
            let _ = to.shutdown(Shutdown::Write);
            let _ = answering.join();
        }
    });
    own
}

/// Each connection carries a part of it.
#[test]
fn a_large_body_arrives_over_several_connections() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = client("receiver", dir.path()).listen("tcp://127.0.0.1:*").start().unwrap();
    let endpoint = cut_connections(receiver.endpoint(), 1_500_000);
    let sender = client("sender", dir.path()).peer("receiver", &endpoint, &["news"]).start().unwrap();
    let body = noise(4_500_000);
    for durability in [Durability::Sync, Durability::Memory] {
        for all in [false, true] {
            sender.send("news", &body, &Options { durability, all, ..Options::default() }).unwrap();
            let delivery =
                receiver.recv(soon()).unwrap_or_else(|error| panic!("{durability:?}, all {all}: {error}"));
            assert!(delivery.body() == body, "{durability:?}, all {all}");
            delivery.ack();
        }
    }
    sender.wait_pending(0, soon()).unwrap();
}

/// How often the files of a store contain the bytes `some`.
fn count_stored(dir: &Path, some: &[u8]) -> usize {
    let files = std::fs::read_dir(dir).unwrap().map(|file| std::fs::read(file.unwrap().path()).unwrap());
    files.map(|bytes| bytes.windows(some.len()).filter(|window| *window == some).count()).sum()
}

#[test]
fn large_bodies_are_compressed_where_it_pays() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = client("receiver", dir.path()).start().unwrap();
    let sender = client("sender", dir.path()).compress_from(100_000);
    let sender = sender.peer("receiver", receiver.endpoint(), &["news"]).start().unwrap();
    let rule: Vec<u8> = (0..1_500_000_u32).flat_map(u32::to_le_bytes).collect();
    let small = [b"small".repeat(10), vec![b'x'; 90_000]].concat();
    let large = [b"large".repeat(10), vec![b'x'; 110_000]].concat();
    for durability in [Durability::Sync, Durability::Memory] {
        for body in [&rule, &small, &large] {
            sender.send("news", body, &Options { durability, ..Options::default() }).unwrap();
            let delivery = receiver.recv(soon()).unwrap();
            assert!(delivery.body() == body);
            delivery.ack();
        }
    }
    let store = dir.path().join("sender");
    assert_eq!((count_stored(&store, &small[..50]), count_stored(&store, &large[..50])), (1, 0));
}

#[test]
fn what_is_too_large_is_refused_or_becomes_a_dead_letter() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = client("receiver", dir.path()).max_body(3_000_000).start().unwrap();
    let undertaker = client("undertaker", dir.path()).start().unwrap();
    let sender = client("sender", dir.path()).max_body(4_000_000).compress_from(3_500_000);
    let sender = sender
        .peer("receiver", receiver.endpoint(), &["news"])
        .peer("undertaker", undertaker.endpoint(), &["news.dead"])
        .start()
        .unwrap();
    assert_eq!(sender.send_to("news", &[0; 4_000_001]), Err(Error::TooLarge));
    // A body that is too large on the wire, and one that is too large once decompressed.
    for len in [3_000_001, 4_000_000] {
        for durability in [Durability::Sync, Durability::Memory] {
            let options = Options { durability, ..Options::default() };
            let body = vec![b'x'; len];
            sender.send("news", &body, &options).unwrap();
            sender.send("news", b"behind", &options).unwrap();
            let delivery = receiver.recv(soon()).unwrap();
            assert_eq!(delivery.body(), b"behind");
            delivery.ack();
            let letter = undertaker.recv(soon()).unwrap();
            let dead = letter.dead().unwrap();
            assert!(letter.body() == body && dead.reason == Verdict::TooLarge, "{dead:?}");
            letter.ack();
        }
    }
    sender.wait_pending(0, soon()).unwrap();
}

#[test]
fn a_body_that_files_may_never_hold_is_too_large() {
    let dir = tempfile::tempdir().unwrap();
    let noise = noise((8 << 20) + 1);
    for limit in [4_usize, 5, 8, 12, 16, 20, 24, 32].map(|mega| mega << 20) {
        let sender = client(&format!("sender{limit}"), dir.path()).disk_limit(limit as u64).start().unwrap();
        let most = (limit / 16).max(limit.saturating_sub(16 << 20) / 2);
        let (too_large, for_ever) = (&noise[..=most], Options::default());
        assert_eq!(sender.send("nobody's", too_large, &for_ever), Err(Error::TooLarge), "{limit}");
        let in_memory = Options { durability: Durability::Memory, ..Options::default() };
        sender.send("nobody's", too_large, &in_memory).unwrap();
        sender.clear_pending("nobody's").unwrap();
        // Whatever the files held before.
        for round in 0..8 {
            let options = Options { deadline: soon(), ..Options::default() };
            sender.send("nobody's", &noise[..most], &options).unwrap_or_else(|error| {
                panic!("{most} bytes of {limit} in round {round}: {error}");
            });
            sender.clear_pending("nobody's").unwrap();
        }
    }
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (long, short) = (Duration::from_secs(2), Duration::from_secs(1));
    let builder = || client("one", dir.path());
    for builder in [builder().disk_limit(100), builder().max_body(0), builder().retry(long, short)] {
        assert!(matches!(builder.start().err(), Some(Error::Setting(_))));
    }
    let tell = |builder: Builder| builder.start().err().unwrap();
    assert!(matches!(tell(builder().advertise("nonsense")), Error::Endpoint(_)));
    for endpoint in ["nonsense", "tcp://127.0.0.1:99999", ""] {
        assert!(
            matches!(tell(builder().peer("two", endpoint, &[])), Error::Unreachable { .. }),
            "{endpoint}"
        );
    }
    assert_eq!(tell(builder().peer("", "tcp://127.0.0.1:1", &[])), Error::Name);
    assert!(matches!(tell(builder().peer("one", "tcp://127.0.0.1:1", &[])), Error::Setting(_)));
    builder().disk_limit(4 << 20).max_body(1).retry(short, short).start().unwrap();
}
