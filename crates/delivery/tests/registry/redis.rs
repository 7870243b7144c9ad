//! Specific to a server: it may be absent, hang, lose its data, or belong to another application.

use std::io::{ErrorKind, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use pinnace_delivery::registry::{Entry, Registry, RegistryError, open};
use redis::cmd;

use crate::place::{entry, id, is_taken, until, with_topics};
use crate::server::Server;

fn is_unreachable<T>(result: &Result<T, RegistryError>) -> bool {
    matches!(result, Err(RegistryError::Unreachable(_)))
}

/// Makes every call, and returns the longest time of one.
pub fn all_unreachable(registry: &mut dyn Registry) -> Duration {
    let mut longest = Duration::ZERO;
    let mut timed = |is_so: &mut dyn FnMut() -> bool| {
        let begin = Instant::now();
        assert!(is_so());
        longest = longest.max(begin.elapsed());
    };
    timed(&mut || is_unreachable(&registry.claim(&entry("one", 1))));
    timed(&mut || is_unreachable(&registry.renew("one", &id(1))));
    timed(&mut || is_unreachable(&registry.members()));
    timed(&mut || is_unreachable(&registry.clear("all")));
    timed(&mut || is_unreachable(&registry.release("one", &id(1))));
    longest
}

#[test]
fn a_server_that_is_absent_and_then_there() {
    let mut server = Server::absent(&[]);
    let mut registry = open(&server.url()).unwrap();
    assert!(all_unreachable(&mut *registry) < Duration::from_secs(1));
    server.revive();
    until("the server", || registry.claim(&entry("one", 1)).is_ok());
    assert_eq!(registry.members().unwrap().unwrap().len(), 1);
    // The client reconnects after a brief outage without an error.
    server.kill();
    server.revive();
    assert_eq!(registry.renew("one", &id(1)), Err(RegistryError::Lost));
    assert_eq!(registry.members().unwrap().unwrap().len(), 0);
    registry.claim(&entry("one", 1)).unwrap();
    assert_eq!(registry.members().unwrap().unwrap().len(), 1);
}

#[test]
fn a_server_that_hangs() {
    let server = Server::start();
    let mut registry = server_registry(&server);
    registry.claim(&entry("one", 1)).unwrap();
    server.hang();
    assert!(all_unreachable(&mut *registry) < Duration::from_secs(5));
    server.go_on();
    until("an answer", || registry.renew("one", &id(1)).is_ok());
}

fn server_registry(server: &Server) -> Box<dyn Registry> {
    open(&server.url()).unwrap()
}

#[test]
fn a_server_that_forgets() {
    let server = Server::start();
    let (mut one, mut observer) = (server_registry(&server), server_registry(&server));
    one.claim(&entry("one", 1)).unwrap();
    assert_eq!(observer.members().unwrap().unwrap().len(), 1);
    cmd("FLUSHALL").exec(&mut server.connect()).unwrap();
    assert_eq!(observer.members().unwrap().unwrap().len(), 0);
    assert_eq!(one.renew("one", &id(1)), Err(RegistryError::Lost));
    one.claim(&entry("one", 1)).unwrap();
    assert_eq!(observer.members().unwrap().unwrap().len(), 1);
    // Even if the same number of changes has been made since.
    cmd("FLUSHALL").exec(&mut server.connect()).unwrap();
    one.claim(&entry("other", 2)).unwrap();
    assert!(observer.members().unwrap().unwrap().get("other").is_some());
}

#[test]
fn many_are_renewed_at_once() {
    let server = Server::start();
    let mut registry = server_registry(&server);
    let entries: Vec<Entry> = (0..1000).map(|number| entry(&format!("client{number}"), number)).collect();
    entries.iter().for_each(|entry| registry.claim(entry).unwrap());
    registry.release("client500", &id(500)).unwrap();
    let held: Vec<_> = entries.iter().map(|entry| (entry.name.as_str(), &entry.id)).collect();
    let begin = Instant::now();
    let renewed = registry.renew_all(&held);
    println!("1000 renewals in {:?}", begin.elapsed());
    for (number, renewed) in renewed.into_iter().enumerate() {
        assert_eq!(renewed, if number == 500 { Err(RegistryError::Lost) } else { Ok(()) });
    }
}

#[test]
fn what_somebody_else_has_there() {
    let server = Server::start();
    let (mut registry, mut theirs) = (server_registry(&server), server.connect());
    let own = with_topics(entry("one", 1), &["", "a"]);
    registry.claim(&own).unwrap();
    for (key, name, value) in [
        ("clients", "odd", "no client"),
        ("clients", "short", "0011 5 tcp://x"),
        ("clients", "late", "00000000000000000000000000000001 99999999999999999999999 tcp://x"),
        ("clients", "untopical", "00000000000000000000000000000001 1000 tcp://x"),
        ("topics", "odd", "\0"),
        ("topics", "short", "\0"),
        ("topics", "late", "\0"),
        ("topics", "nobody", "\0all\0"),
    ] {
        cmd("HSET").arg(format!("{{pinnace}}:{key}")).arg(name).arg(value).exec(&mut theirs).unwrap();
    }
    for name in [&b"odd"[..], b"short", b"late", b"untopical", b"bare", b"\xff\xfe", b""] {
        cmd("ZADD").arg("{pinnace}:leases").arg("inf").arg(name).exec(&mut theirs).unwrap();
    }
    cmd("SET").arg("{pinnace}:version").arg("what").exec(&mut theirs).unwrap();
    let members = registry.members().unwrap().unwrap();
    assert_eq!(members.iter().collect::<Vec<_>>(), [&own.to_member()]);
    assert!(is_taken(registry.claim(&entry("odd", 5))));
    assert_eq!(registry.renew("odd", &id(5)), Err(RegistryError::Lost));
    registry.claim(&entry("bare", 5)).unwrap();
    assert_eq!(registry.members().unwrap().unwrap().len(), 2);
    for key in ["clients", "topics", "leases", "version"] {
        let key = format!("{{pinnace}}:{key}");
        cmd("DEL").arg(&key).exec(&mut theirs).unwrap();
        cmd("LPUSH").arg(&key).arg("what").exec(&mut theirs).unwrap();
        let claimed = registry.claim(&entry("two", 2));
        assert!(matches!(claimed, Err(RegistryError::Damaged(_))), "{key}: {claimed:?}");
        cmd("DEL").arg(&key).exec(&mut theirs).unwrap();
        registry.claim(&entry("two", 2)).unwrap();
        registry.members().unwrap().unwrap();
    }
}

#[test]
fn who_is_let_in() {
    let mut server = Server::absent(&["--requirepass", "secret"]);
    server.revive_unseen();
    let with = |login: &str| open(&format!("redis://{login}127.0.0.1:{}/3", server.port())).unwrap();
    until("the server", || with(":secret@").members().is_ok());
    for login in ["", ":wrong-one@", "nobody:wrong-one@"] {
        // Without a password the server answers a large command, as that of a claim, in other words.
        for refused in [with(login).members().map(drop), with(login).claim(&entry("one", 1))] {
            match refused {
                Err(RegistryError::Io { kind: ErrorKind::PermissionDenied, text }) => {
                    assert!(text.contains("127.0.0.1") && !text.contains("wrong-one"), "{text}");
                    assert_eq!(
                        text.contains("\"NOAUTH\": the server requires a password"),
                        login.is_empty(),
                        "{text}"
                    );
                }
                other => panic!("{other:?}"),
            }
        }
    }
    with("default:secret@").claim(&entry("one", 1)).unwrap();
    assert_eq!(with(":secret@").members().unwrap().unwrap().len(), 1);
    // A user with the minimal rights.
    let mut theirs = server.connect();
    cmd("AUTH").arg("secret").exec(&mut theirs).unwrap();
    let mut user = cmd("ACL");
    user.arg(&[
        "SETUSER",
        "pinnace",
        "on",
        ">a:b@c/d%",
        "~{pinnace}:*",
        "+select",
        "+evalsha",
        "+script|load",
    ]);
    user.arg(&["+time", "+get", "+set", "+hget", "+hset", "+hdel", "+hgetall"]);
    user.arg(&["+zadd", "+zrem", "+zscore", "+zcount", "+zrangebyscore"]).exec(&mut theirs).unwrap();
    cmd("SCRIPT").arg("FLUSH").exec(&mut theirs).unwrap();
    let mut registry = with("pinnace:a%3Ab%40c%2Fd%25@");
    registry.claim(&entry("two", 2)).unwrap();
    registry.renew("two", &id(2)).unwrap();
    assert_eq!(registry.members().unwrap().unwrap().len(), 2);
    assert_eq!(registry.clear("all"), Ok(0));
    registry.release("two", &id(2)).unwrap();
}

#[test]
fn in_the_clear_where_nobody_speaks_tls_or_redis() {
    let server = Server::start();
    let refused = open(&format!("rediss://127.0.0.1:{}", server.port())).unwrap().members();
    assert!(matches!(&refused, Err(RegistryError::Io { .. } | RegistryError::Unreachable(_))), "{refused:?}");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = std::thread::spawn(move || {
        listener.accept().unwrap().0.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    });
    let foreign = open(&format!("redis://127.0.0.1:{port}")).unwrap().members();
    assert!(
        matches!(&foreign, Err(RegistryError::Foreign(_) | RegistryError::Unreachable(_))),
        "{foreign:?}"
    );
    answer.join().unwrap();
}
