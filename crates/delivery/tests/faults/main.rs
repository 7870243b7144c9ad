//! Bad days: processes that are killed or stopped, disks that rot or are full, networks that lie, handlers that fail,
//! crowds. On each, messages are numbered and what became of them is checked; each says in a line what it came to. With
//! FAULTS=long there is more of everything.

mod checker;
mod common;
mod damage;
mod handlers;
mod kills;
mod network;
mod proxy;

/// What this process is when another run of these tests started it.
#[test]
fn role() {
    let Some((role, dir, run)) = common::role() else { return };
    match role.split_once(' ').unwrap_or((&role, "")) {
        ("sender", plan) => kills::send(&dir, run, plan.parse().unwrap()),
        ("receiver", plan) => kills::receive(&dir, run, plan.parse().unwrap()),
        (role, _) => panic!("there is no role {role}"),
    }
}
