//! One test for each fault that was found, as small as shows it.

mod common;

use common::{Counted, drain, write};
use pinnace_ring::{Body, Intake, Limits, MORE, Verdict, queue};

const NO_LIMIT: Limits = Limits { messages: 0, ahead_bytes: 0 };

#[test]
fn a_consumer_dropped_inside_a_record_leaves_the_rest_to_be_freed() {
    let counted = Counted::default();
    let (mut tx, mut rx) = queue(NO_LIMIT);
    tx.push(0, &[0x80; 100]).unwrap();
    tx.commit();
    write(&mut rx, 50);
    tx.push_body(0, counted.body(300)).unwrap();
    tx.commit();
    drop(rx);
    drop(tx);
    assert_eq!(counted.alive(), 0);
}
