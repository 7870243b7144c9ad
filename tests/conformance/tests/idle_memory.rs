//! Memory that two processes share is given back when its connection is idle. A process of its own, in which no other
//! test shares any.

use support::process::resident_of;
use support::*;

const MEMFD: &str = "/memfd:pinnace";

#[test]
fn an_idle_connection_gives_its_memory_back() {
    let ctx = Context::new();
    let (push, pull) = (ctx.socket(PUSH), ctx.socket(PULL));
    Transport::Ipc.join(&pull, &push);
    for size in [100_000, 20_000, 1_000] {
        for _ in 0..3 {
            // More than the ring and the arena hold, so that all of their pages are touched.
            let count = 8_000_000 / size;
            std::thread::scope(|scope| {
                scope.spawn(|| (0..count as u64).for_each(|number| push.put(filler::numbered(number, size))));
                filler::drain(&pull, 0, count as u64);
            });
        }
        let touched = resident_of(MEMFD);
        assert!(touched > 1_000_000, "{touched} bytes are in use while {size} bytes a message stream");
        until("it is given back", || resident_of(MEMFD) < 100_000);
    }
    push.put("still of use");
    pull.expect(&["still of use"]);
}
