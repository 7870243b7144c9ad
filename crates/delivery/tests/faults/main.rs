//! Bad days: processes that are killed or stopped, disks that rot or are full, networks that lie, handlers that fail,
//! crowds. On each, messages are numbered and what became of them is checked; each says in a line what it came to. With
//! FAULTS=long there is more of everything.

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
#[path = "../registry/server.rs"]
#[allow(dead_code)]
mod server;
mod space;

/// What this process is when another run of these tests started it.
#[test]
fn role() {
    let Some((role, dir, run)) = common::role() else { return };
    match role.split_once(' ').unwrap_or((&role, "")) {
        ("sender", plan) => kills::send(&dir, run, plan.parse().unwrap()),
        ("receiver", plan) => kills::receive(&dir, run, plan.parse().unwrap()),
        ("holder", _) => names::hold(&dir, run),
        ("clock-sender", _) => clocks::send(&dir),
        ("clock-receiver", _) => clocks::receive(&dir),
        (role, _) => panic!("there is no role {role}"),
    }
}
