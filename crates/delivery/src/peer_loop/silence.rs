//! Why a peer does not answer: told by what becomes of the attempts to connect to it.

use std::fmt;
use std::time::{Duration, Instant};

use super::network::Attempts;
use super::peer::{AnswerState, Peer};
use crate::environment::now;
use crate::statistics::ReceiverState;

/// How long a peer that the registry lists as alive may take to answer before it is reported to our client: with
/// evidence of the reason, and without. A peer that restarts needs a moment.
const EVIDENCE_AFTER: Duration = Duration::from_secs(2);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(4);

/// Between two looks at the attempts for a peer that was reported. Longer than the longest pause between two attempts.
const CHECK_EVERY: Duration = Duration::from_secs(2);

/// Why a peer does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silence {
    /// Nothing listens on its endpoint, or there is no route to it.
    Refused,
    /// The network drops the connection, or its process is stopped.
    Unanswered,
    /// The handshake fails: its CURVE key is another one, or one side does not use CURVE.
    Handshake,
    /// It does not know the CURVE key of this client.
    NotAdmitted,
}

impl Silence {
    /// The reason that attempts show.
    fn of(attempts: &Attempts) -> Silence {
        match attempts {
            Attempts { not_admitted: 1.., .. } => Silence::NotAdmitted,
            // Once may be the end of its process.
            Attempts { failed: 1.., .. } | Attempts { broken: 2.., .. } => Silence::Handshake,
            Attempts { refused: 1.., .. } => Silence::Refused,
            _ => Silence::Unanswered,
        }
    }

    pub(super) fn state(self) -> ReceiverState {
        match self {
            Silence::Unanswered => ReceiverState::Unanswered,
            Silence::Refused | Silence::Handshake | Silence::NotAdmitted => ReceiverState::Refused,
        }
    }
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Silence::Refused => "nothing listens there, or there is no route to it",
            Silence::Unanswered => "the network drops the connection, or its process is stopped",
            Silence::Handshake => {
                "the handshake fails: its CURVE key is another one, or one side does not use CURVE"
            }
            Silence::NotAdmitted => "it does not know the CURVE key of this client",
        })
    }
}

impl Peer {
    /// An answer is expected from now on.
    pub fn await_answer(&mut self) {
        (self.answer, self.attempts, self.other) =
            (AnswerState::AwaitedSince(now()), self.link.attempts(), None);
        self.check_at = Some(now() + EVIDENCE_AFTER);
    }

    /// It has answered, or is not to be waited for.
    pub fn set_answer(&mut self, answer: AnswerState) {
        (self.answer, self.check_at, self.other) = (answer, None, None);
    }

    /// When `check_silence` is due.
    pub fn check_at(&self) -> Option<Instant> {
        self.check_at
    }

    /// Looks at the attempts since the last look. Returns the reason of the silence if it is to be reported: the first
    /// time, and when two looks have shown another one.
    pub fn check_silence(&mut self) -> Option<Silence> {
        let attempts = self.link.attempts();
        let seen = Silence::of(&attempts.since(&self.attempts));
        let is_news = match self.answer {
            AnswerState::AwaitedSince(since) => {
                let timeout = since + ANSWER_TIMEOUT;
                if seen == Silence::Unanswered && now() < timeout {
                    self.check_at = Some(timeout);
                    return None;
                }
                true
            }
            AnswerState::Silent(before) if seen == before => {
                self.other = None;
                false
            }
            AnswerState::Silent(_) => self.other.replace(seen) == Some(seen),
            AnswerState::Answered | AnswerState::NotExpected => {
                self.check_at = None;
                return None;
            }
        };
        (self.attempts, self.check_at) = (attempts, Some(now() + CHECK_EVERY));
        if is_news {
            (self.answer, self.other) = (AnswerState::Silent(seen), None);
        }
        is_news.then_some(seen)
    }
}
