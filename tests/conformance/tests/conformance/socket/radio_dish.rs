//! RADIO and DISH: groups joined and left, which messages reach which DISH, high-water marks, polling, a RADIO that
//! restarts.

use std::collections::BTreeSet;

use support::draft::settle;
use support::filler::{body, number_of, numbered};
use support::*;

over_transports!(
    sends_to_those_who_joined,
    matches_groups_whole,
    leaves_and_joins_again,
    keeps_groups_of_any_name_apart,
    joins_before_anybody_is_there,
    carries_every_size,
    radios_in_turn,
    drops_for_a_full_dish,
    waits_for_a_full_dish_where_nothing_may_be_dropped,
    is_readable_for_its_groups_alone,
    many_threads_share_a_radio_and_a_dish,
    is_served_from_the_connecting_side,
    a_proxy_passes_groups_on,
; wires tells_a_radio_that_comes_back, both_survive_heartbeats);

/// A RADIO, and a DISH that has joined these groups, which are in effect.
fn tuned(ctx: &Context, transport: Transport, groups: &[&str]) -> (Socket, Socket) {
    let (radio, dish) = transport.pair(ctx, RADIO, DISH);
    groups.iter().for_each(|group| dish.join_group(group).expect("join"));
    settle(&radio, &dish);
    (radio, dish)
}

#[track_caller]
fn tell(radio: &Socket, group: &str, text: &str) {
    assert_eq!(radio.send_group(group, text, 0), Ok(text.len()));
}

#[track_caller]
fn hears(dish: &Socket, group: &str, text: &str) {
    assert_eq!(dish.take_group(), (group.to_owned(), text.as_bytes().to_vec()));
}

fn sends_to_those_who_joined(transport: Transport) {
    let ctx = Context::new();
    let radio = ctx.socket(RADIO);
    let endpoint = transport.bind(&radio);
    let dishes: Vec<Socket> = (0..4).map(|_| ctx.socket(DISH)).collect();
    for (n, dish) in dishes.iter().enumerate() {
        dish.connect(&endpoint).expect("connect");
        dish.join_group("all").expect("join");
        dish.join_group(&format!("only {n}")).expect("join");
        settle(&radio, dish);
    }
    tell(&radio, "all", "1");
    tell(&radio, "nobody", "2");
    (0..4).for_each(|n| tell(&radio, &format!("only {n}"), "3"));
    tell(&radio, "all", "4");
    for (n, dish) in dishes.iter().enumerate() {
        hears(dish, "all", "1");
        hears(dish, &format!("only {n}"), "3");
        hears(dish, "all", "4");
        dish.expect_nothing();
    }
}

/// A group matches exactly, unlike a topic, which is a prefix.
fn matches_groups_whole(transport: Transport) {
    let ctx = Context::new();
    let (radio, dish) = tuned(&ctx, transport, &["TV", "T", "end"]);
    for group in ["TVs", "tv", "TV", "", "TV ", "T", "en", "end"] {
        tell(&radio, group, group);
    }
    for group in ["TV", "T", "end"] {
        hears(&dish, group, group);
    }
    dish.expect_nothing();
}

fn leaves_and_joins_again(transport: Transport) {
    let ctx = Context::new();
    let (radio, dish) = tuned(&ctx, transport, &["stays", "goes"]);
    for _ in 0..3 {
        tell(&radio, "goes", "1");
        hears(&dish, "goes", "1");
        dish.leave_group("goes").expect("leave");
        settle(&radio, &dish);
        tell(&radio, "goes", "2");
        tell(&radio, "stays", "3");
        hears(&dish, "stays", "3");
        dish.join_group("goes").expect("join");
        settle(&radio, &dish);
    }
    // A message in flight when the group is left is not delivered, even if poll has reported it.
    tell(&radio, "goes", "4");
    assert_eq!(poll::ready(&dish, POLLIN, deadline::PATIENCE_MS.into()), POLLIN);
    dish.leave_group("goes").expect("leave");
    assert_eq!(poll::ready(&dish, POLLIN, 0), 0);
    dish.expect_nothing();
}

/// Empty, the longest, and non-ASCII group names.
fn keeps_groups_of_any_name_apart(transport: Transport) {
    let ctx = Context::new();
    let longest = "x".repeat(255);
    let names = ["", longest.as_str(), &longest[1..], "grüße", "\u{1}", " "];
    let (radio, dish) = tuned(&ctx, transport, &names);
    for name in names {
        tell(&radio, name, "to");
    }
    for name in names {
        hears(&dish, name, "to");
    }
    radio.put("without a group, that is to the empty one");
    assert_eq!(dish.take_group().0, "");
}

fn joins_before_anybody_is_there(transport: Transport) {
    let ctx = Context::new();
    let (radio, dish) = (ctx.socket(RADIO), ctx.socket(DISH).with(RECONNECT_IVL, 10));
    let endpoint = transport.fresh();
    dish.join_group("early").expect("join");
    dish.connect(&endpoint).expect("connect");
    dish.join_group("later").expect("join");
    dish.join_group("never mind").expect("join");
    dish.leave_group("never mind").expect("leave");
    radio.bind(&endpoint).expect("bind");
    settle(&radio, &dish);
    for group in ["never mind", "later", "early"] {
        tell(&radio, group, group);
    }
    hears(&dish, "later", "later");
    hears(&dish, "early", "early");
}

fn carries_every_size(transport: Transport) {
    let ctx = Context::new();
    let (radio, first) = tuned(&ctx, transport, &["g"]);
    let second = ctx.socket(DISH);
    second.connect(&radio.endpoint()).expect("connect");
    second.join_group("g").expect("join");
    settle(&radio, &second);
    for (n, size) in [0, 1, 33, 255, 256, 1_023, 1_024, 40_000, 3_000_000].into_iter().enumerate() {
        let sent = body(n as u64, size);
        assert_eq!(radio.send_group("g", &sent, 0), Ok(size));
        for dish in [&first, &second] {
            assert_eq!(dish.take_group(), ("g".into(), sent.clone()));
        }
    }
}

fn radios_in_turn(transport: Transport) {
    let ctx = Context::new();
    let dish = ctx.socket(DISH);
    let endpoint = transport.bind(&dish);
    dish.join_group("g").expect("join");
    let radios: Vec<Socket> = (0..3).map(|_| ctx.socket(RADIO)).collect();
    for radio in &radios {
        radio.connect(&endpoint).expect("connect");
        settle(radio, &dish);
    }
    for n in 0..50 {
        (0..).zip(&radios).for_each(|(from, radio)| {
            radio.send_group("g", numbered(from * 1_000 + n, 20), 0).expect("send");
        });
    }
    let mut next = [0; 3];
    for _ in 0..150 {
        let number = number_of(&dish.take());
        assert_eq!(number % 1_000, next[number as usize / 1_000], "in order from each");
        next[number as usize / 1_000] += 1;
    }
}

/// A DISH at its high-water mark loses whole messages; the other DISH does not.
fn drops_for_a_full_dish(transport: Transport) {
    let ctx = Context::new();
    let radio = ctx.socket(RADIO).with(SNDHWM, 10);
    let endpoint = transport.bind(&radio);
    let (slow, quick) = (ctx.socket(DISH).with(RCVHWM, 10), ctx.socket(DISH).with(RCVHWM, 10));
    for dish in [&slow, &quick] {
        dish.connect(&endpoint).expect("connect");
        dish.join_group("g").expect("join");
        settle(&radio, dish);
    }
    const COUNT: u64 = 2_000;
    for n in 0..COUNT {
        assert_eq!(radio.send_group("g", numbered(n, 20_000), 0), Ok(20_000), "it never waits");
        assert_eq!(number_of(&quick.take()), n);
    }
    let mut heard = Vec::new();
    while poll::ready(&slow, POLLIN, 200) != 0 {
        heard.push(number_of(&slow.take()));
    }
    assert!(heard.is_sorted() && heard.first() == Some(&0), "in order");
    assert!((heard.len() as u64) < COUNT, "the mark holds");
}

fn waits_for_a_full_dish_where_nothing_may_be_dropped(transport: Transport) {
    let ctx = Context::new();
    let radio = ctx.socket(RADIO).with(SNDHWM, 5).with(XPUB_NODROP, 1);
    let dish = ctx.socket(DISH).with(RCVHWM, 5);
    transport.join(&radio, &dish);
    dish.join_group("g").expect("join");
    settle(&radio, &dish);
    const COUNT: u64 = 1_000;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (0..COUNT).for_each(|n| {
                radio.send_group("g", numbered(n, 20_000), 0).expect("send");
            })
        });
        (0..COUNT).for_each(|n| assert_eq!(number_of(&dish.take()), n));
    });
}

fn is_readable_for_its_groups_alone(transport: Transport) {
    let ctx = Context::new();
    let (radio, dish) = tuned(&ctx, transport, &["mine"]);
    let other = ctx.socket(DISH);
    other.connect(&radio.endpoint()).expect("connect");
    other.join_group("other").expect("join");
    settle(&radio, &other);
    assert_eq!(poll::ready(&dish, POLLIN, 0), 0);
    assert_eq!(dish.events() & POLLIN, 0);
    tell(&radio, "other", "x");
    tell(&radio, "mine", "y");
    assert_eq!(poll::ready(&dish, POLLIN, deadline::PATIENCE_MS.into()), POLLIN);
    assert_eq!(dish.events() & POLLIN, POLLIN);
    hears(&dish, "mine", "y");
    assert_eq!(poll::ready(&dish, POLLIN, 0), 0);
    hears(&other, "other", "x");
}

fn many_threads_share_a_radio_and_a_dish(transport: Transport) {
    const THREADS: u64 = 4;
    const EACH: u64 = 2_000;
    let ctx = Context::new();
    let radio = ctx.socket(RADIO).with(XPUB_NODROP, 1);
    let dish = ctx.socket(DISH);
    transport.join(&radio, &dish);
    (0..THREADS).for_each(|n| dish.join_group(&format!("{n}")).expect("join"));
    settle(&radio, &dish);
    let seen = std::sync::Mutex::new(BTreeSet::new());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (radio, dish, seen) = (&radio, &dish, &seen);
            scope.spawn(move || {
                for n in 0..EACH {
                    let number = thread * EACH + n;
                    radio.send_group(&format!("{thread}"), numbered(number, 30), 0).expect("send");
                }
            });
            scope.spawn(move || {
                for _ in 0..EACH {
                    let (group, message) = dish.take_group();
                    let number = number_of(&message);
                    assert_eq!(group, format!("{}", number / EACH), "the message's own group");
                    assert!(seen.lock().unwrap().insert(number));
                }
            });
            scope.spawn(move || {
                for _ in 0..200 {
                    let group = format!("passing {thread}");
                    dish.join_group(&group).expect("join");
                    dish.leave_group(&group).expect("leave");
                }
            });
        }
    });
    assert!(seen.into_inner().unwrap().into_iter().eq(0..THREADS * EACH));
}

fn is_served_from_the_connecting_side(transport: Transport) {
    let ctx = Context::new();
    let (dish, radio) = transport.pair(&ctx, DISH, RADIO);
    dish.join_group("g").expect("join");
    settle(&radio, &dish);
    tell(&radio, "g", "x");
    hears(&dish, "g", "x");
}

fn a_proxy_passes_groups_on(transport: Transport) {
    let ctx = Context::new();
    let (source, front) = tuned(&ctx, transport, &["a", "b"]);
    let (back, dish) = tuned(&ctx, transport, &["a", "b"]);
    std::thread::scope(|scope| {
        let proxy = scope.spawn(move || {
            // SAFETY: handles that live until the proxy ends.
            errno::check(unsafe { api::zmq_proxy(front.raw(), back.raw(), std::ptr::null_mut()) })
        });
        for n in 0..100 {
            tell(&source, ["a", "b"][n % 2], &format!("{n}"));
        }
        let mut heard = Vec::new();
        while heard.len() < 100 && poll::ready(&dish, POLLIN, deadline::PATIENCE_MS.into()) != 0 {
            heard.push(dish.take_group());
        }
        ctx.shutdown().expect("shutdown");
        assert_eq!(proxy.join().expect("no panic"), Err(Errno(ETERM)));
        let sent = (0..100).map(|n| (["a", "b"][n % 2].to_owned(), format!("{n}").into_bytes()));
        assert!(heard.into_iter().eq(sent));
    });
}

/// Groups that are still joined are joined again; groups left meanwhile are not.
fn tells_a_radio_that_comes_back(transport: Transport) {
    let ctx = Context::new();
    let dish = ctx.socket(DISH).with(RECONNECT_IVL, 10);
    let endpoint = transport.fresh();
    dish.connect(&endpoint).expect("connect");
    dish.join_group("stays").expect("join");
    for turn in 0..3 {
        dish.join_group(&format!("turn {turn}")).expect("join");
        let radio = ctx.socket(RADIO).with(LINGER, 0);
        until("the endpoint is free", || radio.bind(&endpoint).is_ok());
        settle(&radio, &dish);
        for group in 0..3 {
            tell(&radio, &format!("turn {group}"), "x");
        }
        tell(&radio, "stays", "y");
        hears(&dish, &format!("turn {turn}"), "x");
        hears(&dish, "stays", "y");
        radio.close().expect("close");
        dish.leave_group(&format!("turn {turn}")).expect("leave");
    }
}

/// libzmq's DISH mistakes a PING for half a message, and hangs up (its issue 3551).
fn both_survive_heartbeats(transport: Transport) {
    let ctx = Context::new();
    let radio = ctx.socket(RADIO).with(HEARTBEAT_IVL, 10);
    let dish = ctx.socket(DISH).with(HEARTBEAT_IVL, 10).with(RECONNECT_IVL, -1);
    transport.join(&radio, &dish);
    dish.join_group("g").expect("join");
    settle(&radio, &dish);
    for n in 0..10 {
        deadline::pass(std::time::Duration::from_millis(30));
        tell(&radio, "g", &format!("{n}"));
        hears(&dish, "g", &format!("{n}"));
    }
}

#[test]
fn groups_are_joined_once_and_left_once() {
    let ctx = Context::new();
    let dish = ctx.socket(DISH);
    let invalid = Err(Errno(libc::EINVAL));
    assert_eq!(dish.leave_group("g"), invalid, "not joined");
    assert_eq!(dish.join_group("g"), Ok(()));
    assert_eq!(dish.join_group("g"), invalid, "twice");
    assert_eq!(dish.leave_group("h"), invalid);
    assert_eq!(dish.leave_group("g"), Ok(()));
    assert_eq!(dish.leave_group("g"), invalid, "twice");
    let longest = "x".repeat(255);
    assert_eq!(dish.join_group(&longest), Ok(()));
    assert_eq!(dish.join_group(&format!("{longest}x")), invalid, "too long");
    assert_eq!(dish.leave_group(&format!("{longest}x")), invalid);
    assert_eq!(Message::new().set_group(&format!("{longest}x")), invalid);
    assert_eq!(Message::new().set_group(&longest), Ok(()));
    let gone = Socket::from_raw(std::ptr::null_mut());
    assert_eq!(gone.join_group("g"), Err(Errno(libc::ENOTSOCK)));
    assert_eq!(gone.leave_group("g"), Err(Errno(libc::ENOTSOCK)));
}
