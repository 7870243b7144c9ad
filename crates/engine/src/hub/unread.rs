//! Mail that its socket has not read, and what becomes of it.

use pinnace_ring::{COMMAND, MORE};
use pinnace_zmtp::subscription;

use super::Mail;
use crate::pipe::{Far, Pipe, PipeId};

/// Pieces of unread mail from which on a question of our own (`zap`) that nobody waits for any more is withdrawn: a
/// handler that is busy gets to see it, and one that never looks does not keep all of them.
const QUESTIONS_MAX: usize = 4096;

/// What becomes of what a socket's peers send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Incoming {
    /// The application receives it, or is told of it.
    #[default]
    Received,
    /// It is subscriptions, or groups, which end with the peer; else nobody wants it (PUB, RADIO).
    Wishes,
    /// Nobody wants it (PUSH, SCATTER).
    Unwanted,
}

/// Takes out of a pipe what came in and is not received; returns how many messages that were that nobody wanted.
pub(super) fn drop_unwanted(pipe: &mut Pipe, incoming: Incoming) -> u64 {
    if incoming == Incoming::Received {
        return 0;
    }
    let (mut left, mut messages, mut inside) = (Vec::new(), 0, false);
    let mut look = |frame: pinnace_ring::Frame<'_>| {
        let first = !std::mem::replace(&mut inside, frame.flags() & MORE != 0);
        let is_wish = incoming == Incoming::Wishes && subscription::from_message(frame.data()).is_some();
        messages += u64::from(first && frame.flags() & COMMAND == 0 && !is_wish);
    };
    while pipe.rx.pop_leaving(|body| left.push(body), &mut look).is_some() {}
    messages
}

/// Takes out of the unread mail what the loss of a pipe's connection, or its end, makes superfluous: else
/// the mail of a socket that nobody uses would grow with every connection that comes and goes. Of several
/// connections the last is kept, because it tells whose messages are in the pipe. All of a pipe's mail goes
/// where the pipe has come, ended, and brought nothing, or nothing that is received (`Incoming`), or a question of our
/// own (`zap`) that nobody waits for any more.
#[cold]
pub(super) fn take_overtaken(list: &mut Vec<Mail>, id: PipeId, ended: bool, incoming: Incoming) -> Vec<Mail> {
    let is_received = incoming == Incoming::Received;
    let is_full = list.len() >= QUESTIONS_MAX;
    let is_withdrawn = |far: &Far| is_full && matches!(far, Far::Socket { hub, .. } if hub.internal);
    let brought_nothing = |mail: &mut Mail| match mail {
        Mail::Attach(other, pipe) => {
            *other == id && (!is_received || is_withdrawn(&pipe.far) || !pipe.has_come_in())
        }
        _ => false,
    };
    let vanishes = ended && list.iter_mut().any(brought_nothing);
    let is_up = |mail: &Mail| matches!(mail, Mail::Up(other, ..) if *other == id);
    let first_up = list.iter().position(is_up).unwrap_or(0);
    let before_last = first_up..list.iter().rposition(is_up).unwrap_or(0);
    let (mut readable, mut writable, mut lend, mut next) = (false, false, false, 0);
    let overtaken = list.extract_if(.., |mail| {
        next += 1;
        mail.pipe() == Some(id)
            && (vanishes
                || match mail {
                    Mail::Up(..) | Mail::Down(_) => before_last.contains(&(next - 1)),
                    Mail::Readable(_) => std::mem::replace(&mut readable, true),
                    Mail::Writable(_) => std::mem::replace(&mut writable, true),
                    Mail::Lend(_) => std::mem::replace(&mut lend, true),
                    _ => false,
                })
    });
    overtaken.collect()
}

/// Mail that its socket never reads: a new inproc peer has to be told that nobody is there.
pub(super) fn undeliverable(mail: Mail) {
    match mail {
        Mail::Attach(_, pipe) => {
            let Pipe { tx, rx, far, .. } = *pipe;
            drop((tx, rx)); // What was sent into it has nobody to read it any more, and its sender finds that.
            if let Far::Socket { hub, pipe } = far {
                hub.post(Mail::Ended(pipe));
            }
        }
        Mail::Bound(_, bound) => bound.hub.post(Mail::Ended(bound.pipe)),
        _ => {}
    }
}
