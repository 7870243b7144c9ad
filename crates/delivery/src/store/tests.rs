//! How a store recovers.

use std::time::Duration;

use super::*;
use crate::client::Options;
use crate::log::Directory;
use crate::log::tests::faulty::Faulty;
use crate::properties;
use crate::wire::{BEGINS, DEAD, ENDS, PART_MAX, PROPERTIES};

fn open(dir: &std::path::Path) -> Store {
    let settings = Settings { interval: Duration::from_millis(1), most: u64::MAX, skip_damage: false };
    Store::open(Arc::new(Directory::open(dir).unwrap()), settings, Box::new(|_| {})).unwrap()
}

fn send(store: &Store, stream: u32, flags: u8) {
    let urgency = Urgency::Sync;
    let sending = Sending {
        client: 0,
        streams: &[stream],
        flags,
        accepted_ms: 0,
        ttl_ms: 0,
        body: b"part",
        urgency,
        id: None,
    };
    store.accept(&mut store.lock(), &sending).unwrap();
}

#[test]
fn a_message_without_its_end_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let stream = {
        let store = open(dir.path());
        store.claim("one", [1; 16]).unwrap();
        let stream = store.stream(&mut store.lock(), 0, &Receiver::Anyone, "news").unwrap();
        send(&store, stream, BEGINS | ENDS);
        send(&store, stream, BEGINS);
        send(&store, stream, ENDS);
        send(&store, stream, BEGINS);
        send(&store, stream, 0);
        assert_eq!(store.lock().pending(0), 2, "the whole ones");
        stream
    };
    let store = open(dir.path());
    {
        let state = store.lock();
        let record = &state.outbox.get(stream).unwrap().record;
        assert_eq!(state.pending(0), 2);
        assert_eq!((record.last & 7, record.done.contains(record.last)), (5, true), "the others are done");
    }
    // The next message gets a new number.
    store.claim("one", [1; 16]).unwrap();
    send(&store, stream, BEGINS | ENDS);
    assert_eq!(store.lock().pending(0), 3);
    drop(store);
    assert_eq!(open(dir.path()).lock().pending(0), 3);
}

/// The records of one segment are read, and of the next one only the summary.
#[test]
fn a_message_whose_end_is_in_a_summary_is_whole() {
    let record = |state: &mut State, segment, seq, flags| {
        let mut message = Vec::new();
        records::write_message(&mut message, flags, 0, 0, &[(1, seq)]);
        state.record(Position { segment, at: 4096 }, MESSAGE, &message);
    };
    let begun = || {
        let (mut state, at) = (State::default(), Position { segment: 1, at: 4096 });
        let client =
            records::ClientRecord { number: 0, name: "one".into(), id: [1; 16], openings: Vec::new() };
        state.record(at, CLIENT, &client.write());
        state.record(at, STREAM, &records::StreamRecord::new(1, 0, Receiver::Anyone, "news").write_all().0);
        record(&mut state, 1, 1, BEGINS);
        state
    };
    let mut all = begun();
    record(&mut all, 2, 2, 0);
    record(&mut all, 2, 3, ENDS);
    all.finish_recovery();
    let summary = all.outbox.summary(2);
    let mut state = begun();
    assert!(Replay::summary(&mut state, 2, &summary));
    state.finish_recovery();
    for state in [&all, &state] {
        assert_eq!((state.pending(0), state.outbox.get(1).unwrap().record.done.last()), (1, 0));
    }
    let mut torn = begun();
    torn.finish_recovery();
    assert_eq!((torn.pending(0), torn.outbox.get(1).unwrap().record.done.last()), (0, 1));
}

/// A record of this size fills a batch, and what follows would be in the next one.
#[test]
fn a_moved_message_is_in_one_stream_whatever_the_crash() {
    let open_on = |disk: &Faulty| {
        let settings = Settings { interval: Duration::from_millis(1), most: u64::MAX, skip_damage: false };
        Store::open(Arc::new(disk.clone()), settings, Box::new(|_| {})).unwrap()
    };
    let (disk, body) = (Faulty::default(), vec![7; PART_MAX]);
    let send = |store: &Store, streams: &[u32]| {
        let (flags, urgency, id) = (BEGINS | ENDS, Urgency::Sync, None);
        let (accepted_ms, ttl_ms) = (0, 0);
        let sending = Sending { client: 0, streams, flags, accepted_ms, ttl_ms, body: &body, urgency, id };
        while let Err(LogError::NoRoom(_)) = store.accept(&mut store.lock(), &sending) {
            store.log().wait_for_room(None).unwrap();
        }
    };
    let store = open_on(&disk);
    store.claim("one", [1; 16]).unwrap();
    let stream = |receiver| store.stream(&mut store.lock(), 0, &receiver, "news").unwrap();
    let (from, to) = (stream(Receiver::Anyone), stream(Receiver::Client("two".into())));
    let other = stream(Receiver::Client("other".into()));
    send(&store, &[from]);
    drop(store);
    let mut moved = 0;
    for count in 0..50 {
        let disk = disk.copy();
        let store = open_on(&disk);
        // After this, the segment has room.
        send(&store, &[other]);
        let wanted = Wanted { range: 1..=u64::MAX, enough_bytes: 0, filter: &|_| true };
        let found = store.messages(from, &wanted).unwrap();
        disk.fail_in(count, std::io::ErrorKind::Other);
        if store.transfer(&mut store.lock(), from, &found, to, Cause::Reassigned).is_ok() {
            let batch = store.lock().outbox.get(from).unwrap().recorded_in;
            let _ = store.log().wait(batch, None);
        }
        drop(store);
        let store = open_on(&disk.copy());
        let state = store.lock();
        let pending = |stream| state.outbox.get(stream).unwrap().pending();
        assert_eq!(pending(from) + pending(to), 1, "crash after {count} operations");
        moved += pending(to);
    }
    assert!(moved > 0 && moved < 50, "{moved}");
}

#[test]
fn numbers_of_an_epoch_are_above_all_others() {
    let dir = tempfile::tempdir().unwrap();
    let mut last = 0;
    for epoch in 1..=3 {
        let store = open(dir.path());
        assert_eq!(store.claim("one", [9; 16]).unwrap().opening().epoch, epoch);
        let stream = store.stream(&mut store.lock(), 0, &Receiver::Client("two".into()), "news").unwrap();
        send(&store, stream, BEGINS | ENDS);
        let record = store.lock().outbox.get(stream).unwrap().record.clone();
        assert!(record.last > last && record.last >> 40 == epoch);
        last = record.last;
        // A receiver may report as done what an earlier epoch sent and the log lost, but not what was never sent.
        let done = |upto| RangeSet::new(upto, Vec::new()).unwrap();
        assert!(!store.mark_done(&mut store.lock(), stream, &done(last + 1), Cause::Cleared).unwrap());
        assert!(store.mark_done(&mut store.lock(), stream, &done(last - 1), Cause::Cleared).unwrap());
        assert_eq!(store.lock().pending(0), 1);
    }
}

/// A store with a client that has opened an incoming stream.
fn open_receiver(dir: &std::path::Path) -> (Store, Incoming) {
    let (store, of) = (open(dir), (0, [2; 16], 7));
    store.claim("one", [1; 16]).unwrap();
    let (name, topic) = ("two".to_owned(), "news".to_owned());
    let cursor = records::CursorRecord {
        client: of.0,
        sender: of.1,
        stream: of.2,
        opening: Opening { epoch: 1, mark: 1 },
        name,
        topic,
        done: RangeSet::default(),
    };
    store.lock().put_cursor(cursor);
    (store, of)
}

/// More ranges than one record can have.
#[test]
fn progress_with_many_gaps_is_recovered_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (store, of) = open_receiver(dir.path());
    let mut done = RangeSet::default();
    (1..=3000).for_each(|number| done.add(2 * number, 2 * number));
    let batch = store.note(&mut store.lock(), &of, &done).unwrap();
    store.log().wait(batch, None).unwrap();
    // What the log has is not written again, until the stream is opened again.
    assert_eq!(store.note(&mut store.lock(), &of, &done), Ok(batch));
    let cursor = store.lock().cursors[&of].clone();
    store.lock().put_cursor(cursor);
    assert_ne!(store.note(&mut store.lock(), &of, &done), Ok(batch));
    // A further number does not need all of it again.
    let new = RangeSet::new(0, vec![(6002, 6002)]).unwrap();
    store.note(&mut store.lock(), &of, &new).unwrap();
    done.add_all(&new, u64::MAX);
    assert_eq!(store.lock().cursors[&of].write_new(&new).len(), 2);
    drop(store);
    // From the records, then from the checkpoint.
    for _ in 0..2 {
        let store = open(dir.path());
        assert_eq!(store.lock().cursors[&of].done, done);
    }
}

#[test]
fn who_only_receives_does_not_fill_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let (store, of) = open_receiver(dir.path());
    let mut noted = 0;
    while noted < 100_000 {
        let done = RangeSet::new(noted + 1, Vec::new()).unwrap();
        let outcome = store.note(&mut store.lock(), &of, &done);
        match outcome {
            Ok(_) => noted += 1,
            Err(LogError::NoRoom(_)) => store.log().wait_for_room(None).unwrap(),
            Err(error) => panic!("{error:?}"),
        }
    }
    let segments = store.log().segments();
    assert!(segments.len() <= 2 && segments[0] >= 3, "{segments:?} of some megabytes");
}

fn hold(store: &Store, stream: u32) {
    let urgency = Urgency::Sync;
    let flags = BEGINS | ENDS;
    let sending = Sending {
        client: 0,
        streams: &[stream],
        flags,
        accepted_ms: 0,
        ttl_ms: 0,
        body: b"held",
        urgency,
        id: None,
    };
    store.hold(&mut store.lock(), &sending);
}

#[test]
fn what_was_in_memory_alone_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.claim("one", [1; 16]).unwrap();
    let stream = |topic| store.stream(&mut store.lock(), 0, &Receiver::Anyone, topic).unwrap();
    let (news, other) = (stream("news"), stream("other"));
    send(&store, news, BEGINS | ENDS);
    hold(&store, news);
    // Fill the log with other messages, until a new segment begins with a checkpoint of the streams.
    while store.log().segments().len() < 3 {
        match store.accept(&mut store.lock(), &large(&[other])) {
            Ok(_) => {}
            Err(LogError::NoRoom(_)) => store.log().wait_for_room(None).unwrap(),
            Err(error) => panic!("{error:?}"),
        }
    }
    assert_eq!(store.lock().outbox.get(news).unwrap().pending(), 2);
    drop(store);
    let store = open(dir.path());
    assert_eq!(store.lock().outbox.get(news).unwrap().pending(), 1);
    // Numbers done after a gap count once, and so do the numbers skipped between epochs.
    store.claim("one", [1; 16]).unwrap();
    send(&store, news, BEGINS | ENDS);
    assert_eq!(store.lock().outbox.get(news).unwrap().pending(), 2);
    let last = store.lock().outbox.get(news).unwrap().record.last;
    let mut done = RangeSet::default();
    done.add(last, last);
    let before = store.lock().outbox.get(news).unwrap().record.done.clone();
    assert!(store.mark_done(&mut store.lock(), news, &done, Cause::Cleared).unwrap(), "{before:?}");
    assert_eq!(store.lock().outbox.get(news).unwrap().pending(), 1, "{before:?}");
}

fn large(streams: &[u32]) -> Sending<'_> {
    static BODY: [u8; 100_000] = [7; 100_000];
    let (flags, urgency) = (BEGINS | ENDS, Urgency::Sync);
    Sending { client: 0, streams, flags, accepted_ms: 0, ttl_ms: 0, body: &BODY, urgency, id: None }
}

#[test]
fn openings_in_which_a_receiver_was_heard_are_remembered() {
    let dir = tempfile::tempdir().unwrap();
    let mut openings = Vec::new();
    let mut own = [0; 16];
    for number in 0..100 {
        let store = open(dir.path());
        let client = store.claim("one", [number; 16]).unwrap();
        assert_eq!(client.id, [0; 16], "whose store it is");
        openings.push(client.opening());
        let stream = store.stream(&mut store.lock(), 0, &Receiver::Client("two".into()), "news").unwrap();
        send(&store, stream, BEGINS | ENDS);
        let mut state = store.lock();
        let last = state.outbox.get(stream).unwrap().record.last;
        assert!(state.may_have_given(stream, last) && !state.may_have_given(stream, last + 1));
        let done = RangeSet::new(last, Vec::new()).unwrap();
        match number {
            5 | 20 => store.acknowledge(&mut state, stream, "receiver", &done).unwrap(),
            _ => drop(store.mark_done(&mut state, stream, &done, Cause::Cleared).unwrap()),
        }
        if number == 50 {
            assert_eq!(state.id_for(0, "two"), [0; 16]);
            store.part(&mut state, 0, "two").unwrap();
            own = state.id_for(0, "two");
        }
        let known: Vec<bool> = openings.iter().map(|opening| state.was_there(0, "two", *opening)).collect();
        let last = number as usize;
        let expected: Vec<bool> = (0..=last).map(|at| last - at < 64 || (at == 20 && last < 50)).collect();
        assert_eq!(known, expected, "in opening {number}");
        assert!(state.was_there(0, "two", Opening::default()), "where nobody was heard of");
        let other = Opening { mark: openings[last].mark ^ 1, ..openings[last] };
        assert!(!state.was_there(0, "two", other));
    }
    let store = open(dir.path());
    let state = store.lock();
    assert!(own != [0; 16] && state.id_for(0, "two") == own && state.id_for(0, "three") == [0; 16]);
}

/// An id, sent to the only client, whose window is not over.
fn sending_id(id: &str) -> SendingId {
    SendingId { digest: digest_of("news", id), receivers: 1, window_ms: u64::MAX }
}

/// Accepts a part, with an id if the message begins with it.
fn send_with_id(store: &Store, stream: u32, flags: u8, id: Option<&str>) {
    let options = Options { id, ..Options::default() };
    let (block, urgency) = (properties::block_of(&options).unwrap(), Urgency::Sync);
    let flags = flags | if block.is_empty() { 0 } else { PROPERTIES };
    let (streams, accepted_ms, id) = (&[stream], crate::environment::now_ms(), id.map(sending_id));
    let sending = Sending { client: 0, streams, flags, accepted_ms, ttl_ms: 0, body: &block, urgency, id };
    accept(store, &sending);
}

fn accept(store: &Store, sending: &Sending<'_>) {
    loop {
        let accepted = store.accept(&mut store.lock(), sending);
        match accepted {
            Ok(_) => return,
            Err(LogError::NoRoom(_)) => store.log().wait_for_room(None).unwrap(),
            Err(error) => panic!("{error:?}"),
        }
    }
}

fn is_known(store: &Store, id: &str) -> bool {
    matches!(store.lock().sent.state_of(0, &sending_id(id)), IdState::Sent(_))
}

/// Also if the parts are in several files, of which the first are used again.
#[test]
fn an_id_counts_once_the_last_part_is_in_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let fills = |store: &Store, stream: u32| {
        let first = store.log().segments().last().copied();
        while store.log().segments().last().copied() == first {
            accept(store, &large(&[stream]));
        }
    };
    let open_with = |ids: &[(&str, bool)]| {
        let store = open(dir.path());
        store.claim("one", [1; 16]).unwrap();
        for (id, is_wanted) in ids {
            assert_eq!(is_known(&store, id), *is_wanted, "{id}");
        }
        store
    };
    let store = open_with(&[]);
    let stream = |receiver| store.stream(&mut store.lock(), 0, &Receiver::Client(receiver), "news").unwrap();
    let (news, other) = (stream("two".to_owned()), stream("three".to_owned()));
    // It was cut by a crash.
    send_with_id(&store, news, BEGINS, Some("cut"));
    fills(&store, other);
    send_with_id(&store, news, 0, None);
    drop(store);
    let store = open_with(&[("cut", false)]);
    // It failed, and another message came after it.
    send_with_id(&store, news, BEGINS, Some("failed"));
    fills(&store, other);
    store.lock().sent.end(0, &sending_id("failed"));
    store.end_parts(&mut store.lock(), &[news], 1).unwrap();
    send_with_id(&store, news, BEGINS | ENDS, None);
    send_with_id(&store, news, BEGINS, Some("whole"));
    fills(&store, other);
    send_with_id(&store, news, 0, None);
    assert!(!is_known(&store, "whole"));
    fills(&store, other);
    send_with_id(&store, news, ENDS, None);
    assert!(is_known(&store, "whole"));
    // A dead letter has the id of its original, which the application has not sent on that topic.
    send_with_id(&store, other, BEGINS | ENDS | DEAD, Some("dead"));
    let all_done = |store: &Store, stream: u32| {
        let upto = store.lock().outbox.get(stream).unwrap().record.last;
        store
            .mark_done(&mut store.lock(), stream, &RangeSet::new(upto, Vec::new()).unwrap(), Cause::Cleared)
            .unwrap();
    };
    all_done(&store, news);
    all_done(&store, other);
    let batch = store.log().progress().unwrap().0;
    store.log().wait(batch, None).unwrap();
    drop(store);
    for _ in 0..3 {
        let store = open_with(&[
            ("cut", false),
            ("failed", false),
            ("whole", true),
            ("dead", false),
            ("none", false),
        ]);
        fills(&store, other);
        all_done(&store, other);
    }
}

/// If there is no room for the records of an heir, nothing has changed, and the next attempt gives one.
#[test]
fn an_heir_without_a_record_is_undone() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.claim("one", [1; 16]).unwrap();
    let receiver = Receiver::Client("two".into());
    let former = store.stream(&mut store.lock(), 0, &receiver, "news").unwrap();
    let kept = store.stream(&mut store.lock(), 0, &Receiver::Later, "news").unwrap();
    send(&store, kept, BEGINS | ENDS);
    let mut state = store.lock();
    let undone = state.outbox.inherit(&receiver, kept).unwrap();
    assert_eq!(state.outbox.find(0, &receiver, "news"), Some(undone.heir));
    state.outbox.disinherit(&undone);
    assert_eq!(state.outbox.find(0, &receiver, "news"), Some(former));
    assert!(state.outbox.get(undone.heir).is_none());
    let record = |stream: u32| state.outbox.get(stream).unwrap().record.clone();
    assert_eq!((record(former).second, record(kept).taken), (false, 0));
    let heir = store.stream_of_listener(&mut state, 0, &receiver, "news").unwrap();
    assert_eq!((state.pending(0), state.outbox.get(heir).unwrap().pending()), (1, 1));
    drop(state);
    drop(store);
    let store = open(dir.path());
    let state = store.lock();
    assert_eq!((state.outbox.find(0, &receiver, "news"), state.pending(0)), (Some(heir), 1));
}
