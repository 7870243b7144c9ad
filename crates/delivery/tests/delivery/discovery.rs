//! Clients that find each other by a registry only, of each kind on this host.

use std::path::Path;
use std::time::Instant;

use pinnace_delivery::{Builder, Client, Error};

use crate::common::soon;

fn each(test: impl Fn(&Path, &str)) {
    for kind in ["dir", "sqlite"] {
        let dir = tempfile::tempdir().unwrap();
        test(dir.path(), &format!("{kind}://{}/registry", dir.path().display()));
    }
}

fn start(dir: &Path, registry: &str, name: &str, topic: &str) -> Client {
    Client::builder(name, topic).data_dir(dir.join(name)).registry(registry).start().unwrap()
}

/// Waits until a client knows `count` clients that listen on a topic.
fn wait_for(client: &Client, topic: &str, count: usize) {
    let deadline = soon().unwrap();
    while client.addresses_of(topic).len() != count {
        assert!(Instant::now() < deadline, "{:?} listen on {topic}", client.addresses_of(topic));
        std::thread::yield_now();
    }
}

fn take(client: &Client) -> Vec<u8> {
    let delivery = client.recv(soon()).unwrap();
    let body = delivery.body().to_vec();
    delivery.ack();
    body
}

#[test]
fn who_comes_later_gets_what_waited_for_it_and_then_the_rest() {
    each(|dir, registry| {
        let sender = start(dir, registry, "sender", "s");
        for number in 0..50_u8 {
            sender.send_to("news", &[number]).unwrap();
        }
        let receiver = start(dir, registry, "receiver", "news");
        for number in 50..100_u8 {
            sender.send_to("news", &[number]).unwrap();
        }
        for number in 0..100_u8 {
            assert_eq!(take(&receiver), [number]);
        }
        sender.wait_pending(0, soon()).unwrap();
    });
}

#[test]
fn many_to_many() {
    each(|dir, registry| {
        let names = ["a", "b", "c", "d"];
        let clients: Vec<Client> = names.iter().map(|name| start(dir, registry, name, "all")).collect();
        for client in &clients {
            wait_for(client, "all", 4);
        }
        for (client, name) in clients.iter().zip(names) {
            client.send_all("all", name.as_bytes()).unwrap();
        }
        for (client, name) in clients.iter().zip(names) {
            let mut heard: Vec<Vec<u8>> = (0..3).map(|_| take(client)).collect();
            heard.sort();
            let others: Vec<&[u8]> =
                names.iter().filter(|other| **other != name).map(|name| name.as_bytes()).collect();
            assert_eq!(heard, others);
        }
        for client in &clients {
            client.wait_pending(0, soon()).unwrap();
        }
    });
}

#[test]
fn subscriptions_come_and_go() {
    each(|dir, registry| {
        let (sender, receiver) = (start(dir, registry, "sender", "s"), start(dir, registry, "receiver", "r"));
        receiver.subscribe("news").unwrap();
        wait_for(&sender, "news", 1);
        sender.send_to("news", b"one").unwrap();
        assert_eq!(take(&receiver), b"one");
        receiver.unsubscribe("news").unwrap();
        wait_for(&sender, "news", 0);
        wait_for(&sender, "r", 1);
    });
}

#[test]
fn who_has_gone_is_waited_for_wherever_it_comes_again() {
    each(|dir, registry| {
        let (sender, receiver) = (start(dir, registry, "sender", "s"), start(dir, registry, "receiver", "r"));
        wait_for(&sender, "r", 1);
        sender.send_to("r", b"one").unwrap();
        assert_eq!(take(&receiver), b"one");
        drop(receiver);
        wait_for(&sender, "r", 0);
        sender.send_to("r", b"two").unwrap();
        // At another endpoint.
        let receiver = start(dir, registry, "receiver", "r");
        assert_eq!(take(&receiver), b"two");
        sender.wait_pending(0, soon()).unwrap();
    });
}

#[test]
fn a_name_is_one_client_s_in_a_registry() {
    each(|dir, registry| {
        let _first = start(dir, registry, "one", "t");
        let second = Client::builder("one", "t").data_dir(dir.join("elsewhere")).registry(registry).start();
        assert_eq!(second.err(), Some(Error::NameTaken));
    });
}

#[test]
fn a_registry_that_is_none_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let client = Client::builder("one", "t").data_dir(dir.path()).registry("carrier-pigeon://here").start();
    assert!(matches!(client.err(), Some(Error::Registry(_))));
}

/// Running clients register again, and those that start later find them.
#[test]
fn a_registry_that_was_removed_is_created_again() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("registry");
    let registry = format!("dir://{}", folder.display());
    let receiver = start(dir.path(), &registry, "receiver", "news");
    let sender = start(dir.path(), &registry, "sender", "s");
    wait_for(&sender, "news", 1);
    std::fs::remove_dir_all(&folder).unwrap();
    let deadline = soon().unwrap();
    while !folder.exists() {
        assert!(Instant::now() < deadline, "it is gone");
        std::thread::yield_now();
    }
    let late = start(dir.path(), &registry, "late", "l");
    wait_for(&late, "news", 1);
    wait_for(&late, "s", 1);
    late.send_to("news", b"found").unwrap();
    assert_eq!(take(&receiver), b"found");
}

/// A client that others would find in a registry for several hosts, and that they could not reach, does not start.
#[test]
fn endpoints_that_other_hosts_cannot_reach_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    // TEST-NET-1 (RFC 5737): no server is there.
    let builder = || Client::builder("one", "t").data_dir(dir.path()).registry("redis://192.0.2.1");
    let refused = |builder: Builder| match builder.start() {
        Err(Error::Setting(text)) => assert!(text.contains("several hosts"), "{text}"),
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("it has started"),
    };
    refused(builder());
    for endpoint in ["ipc://@one", "tcp://127.0.0.1:*", "tcp://*:5999", "tcp://0.0.0.0:5999"] {
        refused(builder().listen(endpoint));
    }
    refused(builder().listen("tcp://127.0.0.1:*").advertise("tcp://localhost:5999"));
    builder().listen("tcp://127.0.0.1:*").advertise("tcp://one.example:5999").start().unwrap();
}
