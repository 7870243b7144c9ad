//! Notices that a socket has not read: superseded ones are removed, undeliverable ones are answered.

use pinnace_ring::{COMMAND, MORE};
use pinnace_zmtp::subscription;

use super::Notice;
use crate::pipe::{Far, Pipe, PipeId};
use crate::socket_kind::IncomingUse;

/// From this many unread notices, ZAP requests of our own (`zap`) that no handshake waits for any more are
/// withdrawn. Below it a busy handler gets to see them; above it a handler that never reads does not accumulate
/// them.
const ZAP_REQUESTS_MAX: usize = 4096;

/// Drains the unread input of a pipe, unless the application receives it. Returns how many unwanted messages it had;
/// commands and subscriptions do not count.
pub(super) fn drop_unwanted(pipe: &mut Pipe, incoming: IncomingUse) -> u64 {
    if incoming == IncomingUse::Received {
        return 0;
    }
    let (mut left, mut messages, mut inside) = (Vec::new(), 0, false);
    let mut look = |frame: pinnace_ring::Frame<'_>| {
        let first = !std::mem::replace(&mut inside, frame.flags() & MORE != 0);
        let is_subscription =
            incoming == IncomingUse::Subscriptions && subscription::from_message(frame.data()).is_some();
        messages += u64::from(first && frame.flags() & COMMAND == 0 && !is_subscription);
    };
    while pipe.rx.queue.pop_leaving(|body| left.push(body), &mut look).is_some() {}
    messages
}

/// Removes the unread notices that the loss of a pipe's connection, or the pipe's end, makes obsolete. Otherwise the
/// list of an idle socket would grow with every connection that comes and goes. The last of several connections is
/// kept, because it identifies the sender of the messages in the pipe. All notices of a pipe are removed if the pipe
/// was attached and has ended since the socket last read its notices, and has brought no message that the application
/// receives (`IncomingUse`), or if it is a ZAP request of our own whose handshake has ended.
#[cold]
pub(super) fn remove_superseded(
    list: &mut Vec<Notice>,
    id: PipeId,
    ended: bool,
    incoming: IncomingUse,
) -> Vec<Notice> {
    let is_received = incoming == IncomingUse::Received;
    let is_full = list.len() >= ZAP_REQUESTS_MAX;
    let is_withdrawn = |far: &Far| is_full && matches!(far, Far::Socket { mailbox, .. } if mailbox.internal);
    let brought_nothing = |notice: &mut Notice| match notice {
        Notice::Attach(other, pipe) => {
            *other == id && (!is_received || is_withdrawn(&pipe.far) || !pipe.has_come_in())
        }
        _ => false,
    };
    let vanishes = ended && list.iter_mut().any(brought_nothing);
    let is_up = |notice: &Notice| matches!(notice, Notice::Up(other, ..) if *other == id);
    let first_up = list.iter().position(is_up).unwrap_or(0);
    let before_last = first_up..list.iter().rposition(is_up).unwrap_or(0);
    let (mut readable, mut writable, mut lend, mut next) = (false, false, false, 0);
    let overtaken = list.extract_if(.., |notice| {
        next += 1;
        notice.pipe() == Some(id)
            && (vanishes
                || match notice {
                    Notice::Up(..) | Notice::Down(_) => before_last.contains(&(next - 1)),
                    Notice::Readable(_) => std::mem::replace(&mut readable, true),
                    Notice::Writable(_) => std::mem::replace(&mut writable, true),
                    Notice::SwitchedToMemory(_) => std::mem::replace(&mut lend, true),
                    _ => false,
                })
    });
    overtaken.collect()
}

/// Disposes of a notice that its socket never reads: a new inproc peer must learn that the socket is closed.
pub(super) fn undeliverable(notice: Notice) {
    match notice {
        Notice::Attach(_, pipe) => {
            let Pipe { tx, rx, far, .. } = *pipe;
            drop((tx, rx)); // The sender finds that its messages have no reader any more.
            if let Far::Socket { mailbox, pipe } = far {
                mailbox.post(Notice::Ended(pipe));
            }
        }
        Notice::InprocBound(_, bound) => bound.mailbox.post(Notice::Ended(bound.pipe)),
        _ => {}
    }
}
