//! Tests of every registry with many clients, or many at once.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pinnace_delivery::registry::Entry;

use crate::place::{LONG, Place, entry, id, is_taken, numbered, until, with_topics};

pub fn a_thousand_clients(place: &Place) {
    let mut observer = place.observer();
    // In several processes, because of the limit of descriptors per process.
    let mut children: Vec<_> =
        (0..4).map(|part| place.child("hold", part * 250..(part + 1) * 250, LONG)).collect();
    assert_eq!(observer.look().len(), 1000);
    assert_eq!(observer.look().addresses_of("all").count(), 1000);
    assert_eq!(observer.look().addresses_of("client777's").collect::<Vec<_>>(), ["tcp://127.0.0.1:777"]);
    assert!(is_taken(observer.registry.claim(&entry("client500", 5000))));
    children[0].kill();
    for number in 0..250 {
        observer.registry.claim(&with_topics(numbered(number), &["back"])).unwrap();
    }
    until("those that are back", || observer.look().of_topic("back").count() == 250);
    assert_eq!(observer.look().len(), 1000);
}

pub fn ten_thousand_topics(place: &Place) {
    let (mut one, mut observer) = (place.open(), place.observer());
    let topics: Vec<String> = (0..10_000).map(|number| format!("topic {number:05}")).collect();
    let me = Entry { topics: topics.clone(), ..entry("one", 1) };
    one.claim(&me).unwrap();
    observer.registry.claim(&with_topics(entry("two", 2), &["topic 09999"])).unwrap();
    assert_eq!(observer.get("one").unwrap().topics, topics);
    assert_eq!(observer.look().of_topic("topic 09999").count(), 2);
    one.claim(&Entry { topics: topics[..9999].to_vec(), ..me }).unwrap();
    until("the topic to go", || observer.look().of_topic("topic 09999").count() == 1);
}

pub fn of_many_at_once_one_has_the_name(place: &Place) {
    const THREADS: u32 = 8;
    drop(place.open());
    let start = Barrier::new(THREADS as usize);
    for round in 0..20 {
        let name = format!("name{round}");
        let won = std::thread::scope(|scope| {
            let claim = |number| {
                let mut registry = place.open();
                start.wait();
                let claimed = registry.claim(&entry(&name, number));
                // Keep the object until all have tried.
                start.wait();
                assert!(claimed.is_ok() || is_taken(claimed.clone()), "{claimed:?}");
                claimed.is_ok()
            };
            let claims: Vec<_> = (0..THREADS).map(|number| scope.spawn(move || claim(number))).collect();
            claims.into_iter().filter_map(|claim| claim.join().unwrap().then_some(())).count()
        });
        assert_eq!(won, 1);
    }
}

/// Runs `work` while other threads read continuously, and pass what they see to `check`.
fn watched(place: &Place, check: impl Fn(&pinnace_delivery::registry::Members) + Sync, work: impl FnOnce()) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                // A new object reads everything.
                while !over.load(Ordering::Relaxed) {
                    check(&place.open().members().unwrap().unwrap());
                }
            });
        }
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        over.store(true, Ordering::Relaxed);
        if let Err(panic) = done {
            std::panic::resume_unwind(panic);
        }
    });
}

pub fn readers_keep_nobody_from_claiming(place: &Place) {
    let mut registry = place.open();
    watched(
        place,
        |members| assert!(members.len() <= 1),
        || {
            for number in 0..300 {
                registry.claim(&entry("one", number)).unwrap();
                registry.renew("one", &id(number)).unwrap();
                registry.release("one", &id(number)).unwrap();
            }
        },
    );
}

pub fn a_client_that_changes_is_always_there_and_whole(place: &Place) {
    let mut registry = place.open();
    let sides = ["a", "b"].map(|side| {
        let topics: Vec<String> = (0..200).map(|number| format!("{side}{number:03}")).collect();
        Entry { topics, endpoint: format!("ipc://{side}"), ..entry("one", 1) }
    });
    registry.claim(&sides[0]).unwrap();
    let check = |members: &pinnace_delivery::registry::Members| {
        let one = members.get("one").expect("it is always there");
        assert!(
            sides.iter().any(|side| side.endpoint == one.endpoint && side.topics == one.topics),
            "{one:?}"
        );
    };
    watched(place, check, || {
        let over = Instant::now() + Duration::from_secs(2);
        for side in sides.iter().cycle().take_while(|_| Instant::now() < over) {
            registry.claim(side).unwrap();
        }
    });
}

pub fn killed_at_any_point(place: &Place) {
    let mut observer = place.observer();
    for round in 0..12 {
        let mut child = place.child("churn", 0..3, Duration::from_millis(200));
        // A delay that differs from round to round.
        for _ in 0..round * 7 {
            observer.look();
        }
        child.kill();
        for number in 0..3 {
            let heir = entry(&format!("client{number}"), 100 + number);
            until("the name to be free", || match observer.registry.claim(&heir) {
                taken if is_taken(taken.clone()) => false,
                claimed => {
                    claimed.unwrap();
                    true
                }
            });
            observer.registry.release(&heir.name, &heir.id).unwrap();
        }
    }
    until("an empty registry", || observer.look().is_empty());
}
