//! Fault tests of file transfer, with the built command: killed processes, full disks, sources that change, clocks that
//! jump, transfers that meet, malicious peers, large numbers of files and clients, bad links. Each reports its figures
//! in one line. FAULTS=long runs more of everything.

mod changes;
mod clocks;
#[path = "../cli/common/mod.rs"]
#[allow(dead_code, reason = "these tests need its folders only")]
mod common;
mod crowds;
mod kills;
mod liars;
mod links;
mod process;
mod proxy;
mod space;
mod support;
mod together;
