//! The version of the protocol that a peer speaks, and what it can do beyond it: a set of features, one bit each.
//!
//! Both are in the number `version` of a hello and a welcome, which keep their fields: an earlier build reads no longer
//! hello and does not answer it, but refuses one with a number other than 1 by its version. Each side sends all its
//! features. One is used on a connection only if both sides have it; unknown bits are ignored.

/// The bits of the number that hold the version; the features are above them.
const VERSION_BITS: u32 = 8;
/// The highest version that this build speaks.
const LAST: u64 = 2;

/// The first version, which has no features.
pub const FIRST_VERSION: u64 = 1;
/// The version in which a sender begins, with all features of this build.
pub const VERSION: u64 = LAST | Features::ALL.0 << VERSION_BITS;

/// A set of features. A further one takes the lowest free bit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Features(u64);

impl Features {
    pub const NONE: Features = Features(0);
    /// A block of properties may precede the body of a message.
    pub const PROPERTIES: Features = Features(1);
    /// Several receivers share a stream.
    pub const SHARED: Features = Features(2);
    /// A receiver tells the sender which messages have expired by its clock ([`Verdict::Expired`](super::Verdict)).
    pub const EXPIRED: Features = Features(4);
    /// All features of this build.
    pub const ALL: Features = Features(Features::PROPERTIES.0 | Features::SHARED.0 | Features::EXPIRED.0);

    /// Those that this build and the peer have in common, by the number in the peer's frame.
    pub fn common_with(version: u64) -> Features {
        match version {
            FIRST_VERSION => Features::NONE,
            _ => Features(version >> VERSION_BITS & Features::ALL.0),
        }
    }

    pub fn has(self, feature: Features) -> bool {
        self.0 & feature.0 == feature.0
    }
}

/// The number with which a receiver answers a hello: of the same version. None: it does not speak that version.
pub fn answer_to(version: u64) -> Option<u64> {
    match version & ((1 << VERSION_BITS) - 1) {
        FIRST_VERSION => (version == FIRST_VERSION).then_some(FIRST_VERSION),
        LAST => Some(VERSION),
        _ => None,
    }
}

/// Returns true if the version is above those of this build, so that a hello may have further fields.
pub fn is_later(version: u64) -> bool {
    version & ((1 << VERSION_BITS) - 1) > LAST
}
