//! Fault tests: killed and stopped processes, damaged and full disks, faulty networks, malicious peers, failing
//! handlers, large numbers of clients. In each, messages are numbered and their fate is checked; each reports its
//! result in one line. FAULTS=long runs more of everything.

mod attempts;
mod checker;
mod clocks;
mod common;
mod copies;
mod crowds;
mod damage;
mod handlers;
mod kills;
mod liars;
mod names;
mod network;
mod proxy;
mod retries;
#[path = "../registry/server.rs"]
#[allow(dead_code)]
mod server;
mod space;
mod together;
mod versions;

/// The role of this process if another run of these tests started it.
#[test]
fn role() {
    let Some((role, dir, run)) = common::role() else { return };
    match role.split_once(' ').unwrap_or((&role, "")) {
        ("sender", plan) => kills::send(&dir, run, plan.parse().unwrap()),
        ("receiver", plan) => kills::receive(&dir, run, plan.parse().unwrap()),
        ("crasher", _) => attempts::receive(&dir),
        ("idle", _) => crowds::idle(&dir),
        ("holder", _) => names::hold(&dir, run),
        ("retry-sender", _) => retries::send(&dir),
        ("worker", _) => together::work(&dir),
        ("clock-sender", _) => clocks::send(&dir),
        ("clock-receiver", _) => clocks::receive(&dir),
        (role, _) => panic!("there is no role {role}"),
    }
}
