//! The guarantees of the `Registry` trait, tested over every implementation.

use std::time::{Duration, Instant};

use pinnace_delivery::Client;
use pinnace_delivery::registry::{self, Entry, Lasting, Member, RegistryError};

use crate::place::{LONG, Observer, Place, entry, id, is_taken, numbered, until, with_topics};

/// A lease short enough to expire during a test.
const SHORT: Duration = Duration::from_millis(300);

pub fn a_claim_is_seen_by_all(place: &Place) {
    let (mut one, mut other) = (place.open(), place.open());
    assert_eq!(other.members().unwrap().map(|members| members.len()), Some(0));
    one.claim(&with_topics(entry("one", 1), &["b", "a", "b"])).unwrap();
    other.claim(&with_topics(entry("other", 2), &["b"])).unwrap();
    let seen = one.members().unwrap().unwrap();
    assert_eq!(other.members().unwrap(), Some(seen.clone()));
    let member = seen.get("one").unwrap();
    assert_eq!((member.id, member.endpoint.as_str()), (Some(id(1)), "tcp://127.0.0.1:1"));
    assert_eq!(member.topics, ["a", "b"]);
    assert_eq!(seen.of_topic("b").map(|member| member.name.as_str()).collect::<Vec<_>>(), ["one", "other"]);
    assert_eq!(seen.addresses_of("a").collect::<Vec<_>>(), ["tcp://127.0.0.1:1"]);
    assert_eq!(seen.addresses_of("c").count(), 0);
}

pub fn a_name_is_one_client_s(place: &Place) {
    let (mut one, mut other) = (place.open(), place.open());
    one.claim(&entry("name", 1)).unwrap();
    assert!(is_taken(other.claim(&entry("name", 2))));
    assert!(is_taken(one.claim(&entry("name", 2))), "though the object is the same");
    other.claim(&entry("Name", 2)).unwrap();
    let members = other.members().unwrap().unwrap();
    assert_eq!(members.get("name").unwrap().id, Some(id(1)));
    assert_eq!(members.get("Name").unwrap().id, Some(id(2)));
}

pub fn the_same_client_claims_again(place: &Place) {
    let (mut one, mut observer) = (place.open(), place.observer());
    one.claim(&entry("one", 1)).unwrap();
    assert_eq!(observer.get("one").unwrap().topics, ["all", "one's"]);
    one.claim(&with_topics(entry("one", 1), &["all", "news"])).unwrap();
    until("the topics", || observer.get("one").is_some_and(|member| member.topics == ["all", "news"]));
    one.claim(&Entry { endpoint: "ipc://here".to_owned(), ..entry("one", 1) }).unwrap();
    until("the endpoint", || observer.get("one").is_some_and(|member| member.endpoint == "ipc://here"));
    // A claim from another object takes over the name.
    let mut another = place.open();
    another.claim(&with_topics(entry("one", 1), &[])).unwrap();
    one.renew("one", &id(1)).unwrap();
    drop(one);
    until("the other's topics", || observer.get("one").is_some_and(|member| member.topics.is_empty()));
    another.renew("one", &id(1)).unwrap();
}

pub fn a_name_given_back_is_free_at_once(place: &Place) {
    let (mut one, mut other) = (place.open(), place.observer());
    one.claim(&entry("name", 1)).unwrap();
    assert!(other.get("name").is_some());
    one.release("name", &id(1)).unwrap();
    until("the name to go", || other.get("name").is_none());
    assert_eq!(one.release("name", &id(1)), Ok(()), "there is nothing to give");
    assert_eq!(one.renew("name", &id(1)), Err(RegistryError::Lost));
    other.registry.claim(&entry("name", 2)).unwrap();
    assert_eq!(one.release("name", &id(1)), Err(RegistryError::Lost));
    assert!(is_taken(one.claim(&entry("name", 1))));
}

pub fn nobody_else_gives_a_name_back_or_renews_it(place: &Place) {
    let (mut one, mut other) = (place.open(), place.open());
    one.claim(&entry("name", 1)).unwrap();
    for registry in [&mut one, &mut other] {
        assert_eq!(registry.release("name", &id(2)), Err(RegistryError::Lost));
        assert_eq!(registry.renew("name", &id(2)), Err(RegistryError::Lost));
    }
    assert_eq!(place.observer().get("name").unwrap().id, Some(id(1)));
    one.renew("name", &id(1)).unwrap();
}

pub fn who_lost_the_name_hears_of_it(place: &Place) {
    let (mut one, mut other) = (place.open(), place.open());
    one.claim(&Entry { lease: SHORT, ..entry("name", 1) }).unwrap();
    place.lose("name");
    other.claim(&entry("name", 2)).unwrap();
    assert_eq!(one.renew("name", &id(1)), Err(RegistryError::Lost));
    assert_eq!(one.release("name", &id(1)), Err(RegistryError::Lost));
    assert!(is_taken(one.claim(&entry("name", 1))));
    assert_eq!(place.observer().get("name").unwrap().id, Some(id(2)));
    other.release("name", &id(2)).unwrap();
    one.claim(&entry("name", 1)).unwrap();
    one.renew("name", &id(1)).unwrap();
}

pub fn the_killed_leave(place: &Place) {
    let mut observer = place.observer();
    let mut child = place.child("hold", 0..3, SHORT * 3);
    observer.registry.claim(&entry("mine", 9)).unwrap();
    child.kill();
    until("the dead to leave", || observer.look().len() == 1);
    assert!(observer.get("mine").is_some());
    assert_eq!(away(&mut observer, "all"), ["client0", "client1", "client2"]);
    assert_eq!(away(&mut observer, "client1's"), ["client1"]);
    assert_eq!(place.observer().look(), observer.look(), "who has not seen them live knows of them");
    observer.registry.claim(&entry("client0", 8)).unwrap();
    until("the heir", || observer.get("client0").is_some_and(|member| member.id == Some(id(8))));
    assert_eq!(away(&mut observer, "all"), ["client1", "client2"]);
    observer.registry.release("client0", &id(8)).unwrap();
    until("the heir to go", || observer.get("client0").is_none());
    assert_eq!(away(&mut observer, "all"), ["client1", "client2"], "who gives a name back has gone");
}

/// The version of an entry outlives its client, and is no topic of it.
pub fn versions_stay(place: &Place) {
    let (mut one, mut observer) = (place.open(), place.observer());
    let mine = Entry { version: 41, ..with_topics(entry("mine", 1), &["b", "a"]) };
    one.claim(&mine).unwrap();
    until("the entry", || observer.get("mine").is_some());
    let member = observer.get("mine").unwrap();
    assert_eq!((member.version, &member.topics[..]), (41, &["a".to_owned(), "b".to_owned()][..]));
    one.claim(&Entry { version: 42, ..mine.clone() }).unwrap();
    until("the later entry", || observer.get("mine").is_some_and(|member| member.version == 42));
    one.release("mine", &id(1)).unwrap();
    until("the end", || observer.get("mine").is_none());
    let left = observer.look().away().next().cloned().unwrap();
    assert_eq!((left.version, left.topics), (42, Vec::new()));
    let unversioned = Entry { version: 0, ..mine };
    one.claim(&unversioned).unwrap();
    until("an entry of an earlier build", || observer.get("mine").is_some_and(|member| member.version == 0));
}

/// A client that gives its name back for a while still listens; one that is not durable does so only while it lives.
pub fn the_detached_still_listen(place: &Place) {
    let (mut one, mut observer) = (place.open(), place.observer());
    one.claim(&entry("durable", 1)).unwrap();
    one.claim(&Entry { lasting: Lasting::Transient, lease: SHORT, ..entry("transient", 2) }).unwrap();
    until("both", || observer.look().len() == 2);
    one.detach("durable", &id(1)).unwrap();
    until("it to be away", || observer.get("durable").is_none());
    assert_eq!(away(&mut observer, "all"), ["durable"]);
    assert_eq!(one.renew("durable", &id(1)), Err(RegistryError::Lost));
    assert_eq!(one.detach("durable", &id(3)), Ok(()), "no other client has it");
    // Its name is free, for another client too.
    one.claim(&Entry { lease: SHORT, ..entry("durable", 4) }).unwrap();
    assert_eq!(place.open().release("durable", &id(1)), Err(RegistryError::Lost));
    drop(one);
    until("both to die", || observer.look().away().count() == 2);
    assert_eq!(away(&mut observer, "all"), ["durable"]);
    let transient = observer.look().find("transient").unwrap();
    assert_eq!((transient.lasting, &transient.topics[..]), (Lasting::Transient, &[][..]));
}

/// A client that is gone for good is marked, whether the registry knows it or not, unless it lives.
pub fn the_forgotten_are_marked(place: &Place) {
    let (mut one, mut observer) = (place.open(), place.observer());
    one.claim(&entry("mine", 1)).unwrap();
    assert!(is_taken(registry::forget(&place.url(), "mine")));
    one.detach("mine", &id(1)).unwrap();
    for name in ["mine", "never known"] {
        registry::forget(&place.url(), name).unwrap();
        let is_marked = |member: &&Member| member.lasting == Lasting::Forgotten && member.topics.is_empty();
        until("the mark", || observer.look().away().filter(is_marked).any(|member| member.name == name));
        assert!(observer.look().find(name).unwrap().version > entry("mine", 1).version);
    }
    one.claim(&entry("mine", 1)).unwrap();
    until("it to be back", || observer.get("mine").is_some_and(|member| member.lasting == Lasting::Durable));
}

/// An orderly close keeps the subscription, as a kill does, unless the client is not durable.
pub fn a_closed_client_misses_nothing(place: &Place) {
    let dir = tempfile::tempdir().unwrap();
    let builder = |name: &str| {
        let own = Client::builder(name, &format!("{name}'s")).data_dir(dir.path().join(name));
        own.registry(&place.url()).lease(SHORT * 3)
    };
    let soon = || Some(Instant::now() + Duration::from_secs(30));
    let sender = builder("sender").start().unwrap();
    let durable = builder("durable").topics(&["all"]).start().unwrap();
    let transient = builder("transient").topics(&["all"]).durable(false).start().unwrap();
    durable.subscribe("more").unwrap();
    until("both", || sender.addresses_of("all").len() == 2 && sender.addresses_of("more").len() == 1);
    durable.close(soon()).unwrap();
    transient.close(soon()).unwrap();
    drop((durable, transient));
    until("both to go", || sender.addresses_of("all").is_empty());
    // The sender is new too: only the registry knows the receivers.
    drop(sender);
    let sender = builder("sender").data_dir(dir.path().join("another")).start().unwrap();
    assert_eq!(sender.send_all("all", b"one").unwrap(), 1);
    assert_eq!(sender.send_all("more", b"two").unwrap(), 1);
    let durable = builder("durable").start().unwrap();
    assert_eq!(durable.topics(), ["all", "durable's", "more"]);
    let mut got: Vec<Vec<u8>> = (0..2)
        .map(|_| {
            let delivery = durable.recv(soon()).unwrap();
            let body = delivery.body().to_vec();
            delivery.ack();
            body
        })
        .collect();
    got.sort();
    assert_eq!(got, [b"one", b"two"]);
    sender.wait_pending(0, soon()).unwrap();
    // What it unsubscribes from has ended.
    durable.unsubscribe("more").unwrap();
    until("the end of it", || sender.send_all("more", b"three").unwrap() == 0);
}

fn away(observer: &mut Observer, topic: &str) -> Vec<String> {
    observer.look().away_from(topic).map(|member| member.name.clone()).collect()
}

pub fn what_is_sent_to_all_waits_for_the_killed(place: &Place) {
    let dir = tempfile::tempdir().unwrap();
    let builder = |name: &str| {
        Client::builder(name, "all").data_dir(dir.path().join(name)).registry(&place.url()).lease(SHORT * 3)
    };
    place.child("hold", 0..2, SHORT).kill();
    let mut observer = place.observer();
    until("the dead to leave", || observer.look().is_empty());
    let (sender, live) = (builder("sender").start().unwrap(), builder("live").start().unwrap());
    until("the living", || sender.addresses_of("all").len() == 2);
    sender.send_all("all", b"one").unwrap();
    sender.send_to("all", b"two").unwrap();
    let soon = || Some(Instant::now() + Duration::from_secs(30));
    for body in [b"one", b"two"] {
        let delivery = live.recv(soon()).unwrap();
        assert_eq!(delivery.body(), body);
        delivery.ack();
    }
    sender.wait_pending(2, soon()).unwrap();
    let waiting = |sender: &Client| -> Vec<_> {
        let waiting = sender.pending_by_peer().into_iter().filter(|of| of.messages > 0);
        waiting.map(|of| (of.receiver.unwrap_or_default(), of.messages)).collect()
    };
    assert_eq!(waiting(&sender), [("client0".to_owned(), 1), ("client1".to_owned(), 1)]);
    // One of them returns and gets the message; the other is cleared.
    let first = builder("client0").durable(false).start().unwrap();
    let delivery = first.recv(soon()).unwrap();
    assert_eq!(delivery.body(), b"one");
    delivery.ack();
    sender.wait_pending(1, soon()).unwrap();
    assert_eq!(sender.clear_addresses("all").unwrap(), 1);
    until("it to be forgotten", || away(&mut observer, "all").is_empty());
    // One that is not durable is gone when it is closed, not away.
    drop(first);
    until("it to go", || sender.addresses_of("all").len() == 2);
    sender.send_all("all", b"three").unwrap();
    let delivery = live.recv(soon()).unwrap();
    assert_eq!(delivery.body(), b"three");
    delivery.ack();
    until("it to be handled", || waiting(&sender) == [("client1".to_owned(), 1)]);
}

/// The sender's own store knows its receivers, whatever the registry has lost.
pub fn a_registry_that_forgets_hides_no_receiver(place: &Place) {
    let dir = tempfile::tempdir().unwrap();
    let builder = |name: &str| {
        Client::builder(name, "all").data_dir(dir.path().join(name)).registry(&place.url()).lease(SHORT * 3)
    };
    let soon = || Some(Instant::now() + Duration::from_secs(30));
    let waiting = |sender: &Client| -> Vec<_> {
        let waiting = sender.pending_by_peer().into_iter().filter(|of| of.messages > 0);
        waiting.map(|of| (of.receiver.unwrap_or_default(), of.messages)).collect()
    };
    let mut receivers = place.child("hold", 0..2, LONG);
    let sender = builder("sender").start().unwrap();
    until("the receivers", || sender.addresses_of("all").len() == 3);
    sender.send_all("all", b"one").unwrap();
    receivers.kill();
    place.forget();
    let live = builder("live").start().unwrap();
    until("the living alone", || sender.addresses_of("all").len() == 2);
    sender.send_all("all", b"two").unwrap();
    // Nor does a start forget: the registry shows the sender one receiver, its store knows three.
    drop(sender);
    let sender = builder("sender").start().unwrap();
    until("the living", || sender.addresses_of("all").len() == 2);
    sender.send_all("all", b"three").unwrap();
    for body in [&b"two"[..], b"three"] {
        let delivery = live.recv(soon()).unwrap();
        assert_eq!(delivery.body(), body);
        delivery.ack();
    }
    let both = |messages| ["client0", "client1"].map(|name| (name.to_owned(), messages));
    until("the living to have them", || waiting(&sender) == both(3));
    let first = builder("client0").start().unwrap();
    for body in [&b"one"[..], b"two", b"three"] {
        let delivery = first.recv(soon()).unwrap();
        assert_eq!(delivery.body(), body);
        delivery.ack();
    }
    until("the first to have them", || waiting(&sender) == [("client1".to_owned(), 3)]);
    // One that has ended its subscription gets no more, also if its entry is forgotten later.
    first.unsubscribe("all").unwrap();
    drop(first);
    until("it to go", || sender.addresses_of("all").len() == 2);
    place.forget();
    until("the living again", || sender.addresses_of("all").len() == 2);
    sender.send_all("all", b"four").unwrap();
    live.recv(soon()).unwrap().ack();
    until("the living to have it", || waiting(&sender) == [("client1".to_owned(), 4)]);
}

/// A registry that comes back with what it held earlier shows a receiver as it was before it listened.
pub fn an_old_entry_hides_no_receiver(place: &Place) {
    let dir = tempfile::tempdir().unwrap();
    let mut registry = place.open();
    registry.claim(&numbered(1)).unwrap();
    let builder = Client::builder("sender", "results").data_dir(dir.path()).registry(&place.url());
    let sender = builder.lease(SHORT * 3).start().unwrap();
    until("the receiver", || sender.addresses_of("all").len() == 1);
    assert_eq!(sender.send_all("all", b"one").unwrap(), 1);
    let as_of = |version| Entry { version, ..with_topics(numbered(1), &["other"]) };
    registry.claim(&as_of(numbered(1).version - 1)).unwrap();
    until("the old entry", || sender.addresses_of("other").len() == 1);
    assert_eq!(sender.send_all("all", b"two").unwrap(), 1, "an old entry says nothing");
    registry.claim(&as_of(numbered(1).version + 1)).unwrap();
    until("the end", || sender.send_all("all", b"three").unwrap() == 0);
}

/// A receiver that is known but was sent nothing yet is not forgotten either.
pub fn one_that_begins_to_listen_is_known_from_then_on(place: &Place) {
    let dir = tempfile::tempdir().unwrap();
    let builder =
        |name: &str| Client::builder(name, "all").data_dir(dir.path().join(name)).registry(&place.url());
    let sender = builder("sender").lease(SHORT * 3).start().unwrap();
    sender.send_all("all", b"before the first listener").unwrap();
    let mut late = place.child("hold", 0..2, LONG);
    until("the late", || sender.addresses_of("all").len() == 3);
    late.kill();
    place.forget();
    until("it to be forgotten", || sender.addresses_of("all").len() == 1);
    sender.send_all("all", b"news").unwrap();
    let of = |name: &str| {
        let all = sender.pending_by_peer().into_iter();
        all.filter(|of| of.receiver.as_deref() == Some(name)).map(|of| of.messages).sum::<u64>()
    };
    assert!(of("client0") >= 1 && of("client1") >= 1, "{:?}", sender.pending_by_peer());
}

pub fn the_killed_come_back(place: &Place) {
    let mut observer = place.observer();
    let mut child = place.child("hold", 0..1, LONG);
    assert!(is_taken(observer.registry.claim(&entry("client0", 8))));
    child.kill();
    // The same client need not wait for its own lease to end.
    observer.registry.claim(&with_topics(numbered(0), &["back"])).unwrap();
    until("it to be back", || observer.get("client0").is_some_and(|member| member.topics == ["back"]));
}

pub fn nothing_new_is_said_once(place: &Place) {
    let (mut one, mut observer) = (place.open(), place.open());
    assert!(observer.members().unwrap().unwrap().is_empty());
    assert_eq!(observer.members().unwrap(), None);
    one.claim(&entry("one", 1)).unwrap();
    assert_eq!(observer.members().unwrap().unwrap().len(), 1);
    for _ in 0..1000 {
        one.renew("one", &id(1)).unwrap();
        assert_eq!(observer.members().unwrap(), None);
    }
    assert!(is_taken(observer.claim(&entry("one", 2))));
    assert_eq!(observer.members().unwrap(), None);
    observer.claim(&entry("two", 2)).unwrap();
    assert_eq!(observer.members().unwrap().unwrap().len(), 2, "its own name is news as well");
}

pub fn what_the_dead_left_is_cleared(place: &Place) {
    let mut observer = place.observer();
    let mut child = place.child("hold", 0..5, SHORT);
    child.kill();
    observer.registry.claim(&entry("mine", 9)).unwrap();
    until("the dead to leave", || observer.look().len() == 1);
    assert_eq!(away(&mut observer, "all").len(), 5);
    assert_eq!(observer.registry.clear("nobody's"), Ok(0));
    assert_eq!(observer.registry.clear("client3's"), Ok(1));
    assert_eq!(observer.registry.clear("all"), Ok(5));
    assert_eq!(observer.registry.clear("all"), Ok(0));
    until("the dead to be forgotten", || away(&mut observer, "all").is_empty());
    assert_eq!(away(&mut observer, "client0's"), ["client0"], "it listens on its other topics");
    assert_eq!(observer.look().addresses_of("all").collect::<Vec<_>>(), ["tcp://127.0.0.1:9"]);
    observer.registry.renew("mine", &id(9)).unwrap();
}

pub fn any_name_will_do(place: &Place) {
    let long = "x".repeat(254);
    let names = [
        "a/b",
        "/",
        "..",
        ".",
        "../..",
        ".lock",
        ".new",
        "%",
        "%2e",
        "~",
        "-",
        "\\",
        " ",
        "\n",
        "a\u{1}",
        "'\"; --",
        "ünï©öde \u{1f980}",
        "e\u{301}",
        "é",
        &format!("{long}a"),
        &format!("{long}b"),
        &"/".repeat(255),
        &format!("{}a", "/".repeat(254)),
        &format!("x{}", "ü".repeat(127)),
        ":memory:",
        "nul",
        "*",
    ];
    let (mut one, mut other) = (place.open(), place.open());
    for (number, name) in (0..).zip(names) {
        one.claim(&entry(name, number)).unwrap_or_else(|error| panic!("{name:?}: {error}"));
    }
    let members = other.members().unwrap().unwrap();
    assert_eq!(members.len(), names.len());
    for (number, name) in (0..).zip(names) {
        assert_eq!(members.get(name).unwrap().id, Some(id(number)), "{name:?}");
        assert!(is_taken(other.claim(&entry(name, 999))), "{name:?}");
        other.renew(name, &id(number)).unwrap();
        one.release(name, &id(number)).unwrap();
        other.claim(&with_topics(entry(name, 999), &[name])).unwrap();
    }
    let members = one.members().unwrap().unwrap();
    for name in names {
        assert_eq!(members.of_topic(name).map(|member| member.name.as_str()).collect::<Vec<_>>(), [name]);
    }
}

pub fn what_is_out_of_range_is_refused(place: &Place) {
    let mut registry = place.open();
    for name in ["", "a\0b", &"x".repeat(256)] {
        assert_eq!(registry.claim(&entry(name, 1)), Err(RegistryError::Name));
        assert_eq!(registry.renew(name, &id(1)), Err(RegistryError::Name));
        assert_eq!(registry.release(name, &id(1)), Err(RegistryError::Name));
    }
    for topic in ["a\0b", "\u{1}version 7", "\u{1}x", &"x".repeat(256)] {
        assert_eq!(registry.claim(&with_topics(entry("a", 1), &[topic])), Err(RegistryError::Topics));
    }
    assert_eq!(registry.claim(&with_topics(entry("a", 1), &["a"; 65_537])), Err(RegistryError::Topics));
    for endpoint in ["", "a\0b", &"x".repeat(1025)] {
        let entry = Entry { endpoint: endpoint.to_owned(), ..entry("a", 1) };
        assert_eq!(registry.claim(&entry), Err(RegistryError::Endpoint));
    }
    for lease in [Duration::ZERO, Duration::from_micros(999), Duration::from_secs(31 * 24 * 3600)] {
        assert_eq!(registry.claim(&Entry { lease, ..entry("a", 1) }), Err(RegistryError::Lease));
    }
    assert_eq!(registry.members().unwrap().unwrap().len(), 0);
}
