//! The wire form of a subscription and its cancellation.
//!
//! A peer of ZMTP 3.1 gets a SUBSCRIBE or CANCEL command (RFC 37, "The Publish-Subscribe Pattern"). An older peer
//! gets a message of one frame, `01 topic` or `00 topic` (RFC 15, "Publish-Subscribe"), in the framing of its
//! version. libzmq accepts both forms from any peer, and passes both to an XPUB's application in the message form.
//!
//! RFC 37 counts subscriptions, but libzmq's publishers keep a set for each peer, and its subscribers send one
//! CANCEL after many equal subscriptions. So a publisher must keep a set too. That is the caller's task.
//!
//! ```
//! use pinnace_zmtp::{Version, subscription};
//!
//! let mut out = Vec::new();
//! subscription::encode(Version::V3_1, true, b"weather.", &mut out);
//! assert_eq!(out, b"\x04\x12\x09SUBSCRIBEweather.");
//! assert_eq!(subscription::from_message(b"\x01weather."), Some((true, &b"weather."[..])));
//! ```

use crate::{Version, command, frame, v1};

const SUBSCRIBE: u8 = 1;
const CANCEL: u8 = 0;

/// Appends the whole frame that sends a subscription (`subscribe`) or its cancellation to a peer of `version`.
pub fn encode(version: Version, subscribe: bool, topic: &[u8], out: &mut Vec<u8>) {
    let prefix = [if subscribe { SUBSCRIBE } else { CANCEL }];
    match version {
        Version::V1_0 => v1::append(0, &[&prefix, topic], out),
        Version::V2_0 | Version::V3_0 => frame::append(0, &[&prefix, topic], out),
        Version::V3_1 if subscribe => command::encode_subscribe(topic, out),
        Version::V3_1 => command::encode_cancel(topic, out),
    }
}

/// Parses the message form: whether it subscribes, and the topic. `None` if the message is not a subscription.
pub fn from_message(body: &[u8]) -> Option<(bool, &[u8])> {
    match body {
        [SUBSCRIBE, topic @ ..] => Some((true, topic)),
        [CANCEL, topic @ ..] => Some((false, topic)),
        _ => None,
    }
}
