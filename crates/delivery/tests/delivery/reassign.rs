//! Clients that share a topic, and the messages of one that goes away.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use pinnace_delivery::{Builder, Client, Durability, Error, Options};

use crate::common::soon;

fn client(dir: &Path, name: &str, topic: &str) -> Builder {
    let registry = format!("dir://{}", dir.join("registry").display());
    Client::builder(name, topic).data_dir(dir.join(name)).registry(&registry)
}

fn wait_for(client: &Client, topic: &str, count: usize) {
    let until = soon().unwrap();
    while client.addresses_of(topic).len() != count {
        assert!(Instant::now() < until, "{count} on {topic}");
        std::thread::yield_now();
    }
}

fn take(client: &Client) -> String {
    let delivery = client.recv(soon()).unwrap();
    let text = String::from_utf8(delivery.body()[..4].to_vec()).unwrap();
    delivery.ack();
    text
}

#[test]
fn what_waited_for_one_that_went_goes_to_another() {
    let dir = tempfile::tempdir().unwrap();
    let here = client(dir.path(), "here", "work").start().unwrap();
    let gone = client(dir.path(), "gone", "work").start().unwrap();
    let sender = client(dir.path(), "sender", "work.done").reassign_after(Some(Duration::from_millis(100)));
    let sender = sender.start().unwrap();
    wait_for(&sender, "work", 2);
    let mut gone = Some(gone);
    let (mut one, mut each) = (BTreeSet::new(), BTreeSet::new());
    // Some messages before the client goes, some before that is known, and some after; with large ones, ones sent to
    // both, and ones in memory among them.
    for number in 0..100 {
        let durability = if number % 3 == 0 { Durability::Memory } else { Durability::Interval };
        let all = number % 10 == 7;
        let text = format!("{number:04}");
        let mut body = text.clone().into_bytes();
        body.resize(if number % 25 == 2 { 2_500_000 } else { 100 }, b'-');
        sender.send("work", &body, &Options { durability, all, ..Options::default() }).unwrap();
        if all {
            each.insert(text)
        } else {
            one.insert(text)
        };
        if number == 60 {
            drop(gone.take());
        }
        if number == 80 {
            wait_for(&sender, "work", 1);
        }
    }
    let expected: BTreeSet<String> = one.union(&each).cloned().collect();
    let mut taken = BTreeSet::new();
    while taken != expected {
        let text = take(&here);
        assert!(taken.insert(text.clone()), "{text} came twice");
        assert!(expected.contains(&text), "{text}");
    }
    // The messages sent to all still wait for the client that is away.
    let for_gone =
        sender.pending_by_peer().into_iter().find(|pending| pending.receiver.as_deref() == Some("gone"));
    let kept = for_gone.unwrap().messages;
    assert!(kept > 0 && kept <= each.len() as u64, "{kept}");
    let back = client(dir.path(), "gone", "work").start().unwrap();
    for _ in 0..kept {
        let text = take(&back);
        assert!(each.contains(&text), "{text}");
    }
    sender.wait_pending(0, soon()).unwrap();
    assert!(matches!(back.recv(Some(Instant::now())), Err(Error::TimedOut)));
    assert!(matches!(here.recv(Some(Instant::now())), Err(Error::TimedOut)));
}

#[test]
fn where_there_is_no_other_it_waits_until_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let gone = client(dir.path(), "gone", "work").start().unwrap();
    let sender =
        client(dir.path(), "sender", "results").reassign_after(Some(Duration::ZERO)).start().unwrap();
    wait_for(&sender, "work", 1);
    sender.send_to("work", b"0000").unwrap();
    drop(gone);
    wait_for(&sender, "work", 0);
    for number in 1..10 {
        sender.send_to("work", format!("{number:04}").as_bytes()).unwrap();
    }
    let other = client(dir.path(), "other", "work").start().unwrap();
    for number in 0..10 {
        assert_eq!(take(&other), format!("{number:04}"));
    }
    sender.wait_pending(0, soon()).unwrap();
}

#[test]
fn who_wants_it_waits_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let gone = client(dir.path(), "gone", "work").start().unwrap();
    let sender = client(dir.path(), "sender", "results").reassign_after(None).start().unwrap();
    wait_for(&sender, "work", 1);
    sender.send_to("work", b"0001").unwrap();
    // It may have handled what it has in hand when it ends.
    let in_hand = gone.recv(soon()).unwrap();
    assert_eq!(gone.close(Some(Instant::now())), Err(Error::TimedOut));
    wait_for(&sender, "work", 0);
    let other = client(dir.path(), "other", "work").start().unwrap();
    wait_for(&sender, "work", 1);
    sender.send_to("work", b"0002").unwrap();
    assert_eq!(take(&other), "0002");
    drop(in_hand);
    let back = client(dir.path(), "gone", "work").start().unwrap();
    assert_eq!(take(&back), "0001");
    sender.wait_pending(0, soon()).unwrap();
}
