//! The loads of the benchmark of guaranteed delivery on our side. Each prints one line of key=value pairs. Times are
//! by CLOCK_MONOTONIC, which all processes of a machine share.
//!
//! delivery-load cycles dir=D size=N count=N cycles=N pause_ms=N mode=sync|interval|memory
//! delivery-load run dir=D size=N count=N mode=M          all messages at once, without pauses
//! delivery-load shared dir=D size=N count=N workers=N mode=M  messages to one, which several workers share
//! delivery-load plain size=N count=N cycles=N pause_ms=N PUSH and PULL, without any guarantee
//! delivery-load single dir=D size=N blocks=N block=N receiver=yes|no
//! delivery-load disk dir=D bytes=N writes=N              write and fdatasync(2), as the log does
//! delivery-load recovery dir=D size=N count=N cold=yes|no  delivery of pending messages after the sender was killed
//! delivery-load queue dir=D size=N count=N               the sender's memory, with the receiver stopped

mod cycles;
mod disk;
mod memory;
mod peer;
mod pipeline;
mod plain;
mod recovery;
mod run;
mod shared;
mod single;
mod words;

use std::error::Error;

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    match std::env::args().nth(1).as_deref() {
        Some("cycles") => cycles::main(),
        Some("run") => run::main(),
        Some("shared") => shared::main(),
        Some("plain") => plain::main(),
        Some("single") => single::main(),
        Some("disk") => disk::main(),
        Some("recovery") => recovery::main(),
        Some("queue") => memory::main(),
        Some("receiver") => peer::receiver(),
        Some("worker") => shared::worker(),
        Some("puller") => plain::puller(),
        Some("fill") => recovery::fill(),
        Some("reopen") => recovery::reopen(),
        _ => Err("cycles, run, shared, plain, single, disk, recovery or queue; and key=value...".into()),
    }
}
