//! Waiting until subscriptions have arrived, without sleeping.
//!
//! Subscriptions travel in order. When a subscriber adds one more, unique topic and receives a message of it, all its
//! earlier subscriptions are in effect.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::consts::*;
use crate::poll::ready;
use crate::{Errno, Socket, deadline};

/// Publishes until the subscriber has seen that its subscriptions so far are in effect at this publisher. The
/// subscriber drops other messages that it receives meanwhile.
#[track_caller]
pub fn settle(publisher: &Socket, subscriber: &Socket) {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let topic = format!("~settle-{}-", COUNT.fetch_add(1, Ordering::Relaxed));
    subscriber.set_bytes(SUBSCRIBE, topic.as_bytes()).expect("SUBSCRIBE");
    let mut sent = 0;
    let seen = deadline::until_some("the subscription arrives", || {
        sent += 1;
        publisher.put(format!("{topic}{sent}"));
        take_within(subscriber, 10).filter(|message| message.starts_with(topic.as_bytes()))
    });
    // Later probes are still under way: read up to the last.
    let last = format!("{topic}{sent}").into_bytes();
    let mut current = seen;
    while current != last {
        current = subscriber.rx().swap_remove(0);
    }
    subscriber.set_bytes(UNSUBSCRIBE, topic.as_bytes()).expect("UNSUBSCRIBE");
}

fn take_within(subscriber: &Socket, timeout_ms: i64) -> Option<Vec<u8>> {
    if ready(subscriber, POLLIN, timeout_ms) == 0 {
        return None;
    }
    match subscriber.recv_parts(DONTWAIT) {
        Ok(mut parts) => Some(parts.swap_remove(0)),
        Err(Errno(libc::EAGAIN)) => None,
        Err(error) => panic!("receive: {error:?}"),
    }
}
