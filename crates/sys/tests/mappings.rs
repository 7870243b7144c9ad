//! The limit on shared memory per process. Runs in a process of its own: while it runs, no other test could
//! map any.

use pinnace_sys::memory::{MAPPINGS, Memory, Refused};

#[test]
fn a_process_has_so_many_pieces_and_no_more() {
    const LEN: usize = 4096;
    let mut all: Vec<Memory> = (0..MAPPINGS - 1).map(|_| Memory::create(LEN).expect("memory").0).collect();
    let (last, fd) = Memory::create(LEN).expect("the last one");
    assert_eq!(Memory::create(LEN).err(), Some(Refused::TooManyMappings));
    assert_eq!(Memory::open(&fd, |_| true).err(), Some(Refused::TooManyMappings), "a peer's counts, too");
    drop(last);
    all.push(Memory::open(&fd, |_| true).expect("in the place of the last"));
    assert_eq!(Memory::create(LEN).err(), Some(Refused::TooManyMappings));
    drop(all);
    assert!(Memory::create(LEN).is_ok());
}
