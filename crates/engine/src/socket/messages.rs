//! Sends and receives whole messages, so that several threads or tasks can share one socket: frames of different
//! messages are never mixed, and a call that gives up waiting has consumed nothing.

use pinnace_ring::Frame;

use super::{Core, Received, Socket};
use crate::error::{Error, Invalid};
use crate::pipe::Outgoing;
use crate::waiting::Wait;

impl Socket {
    /// Sends all frames of a message or none of them, even if other threads use the socket. Errors: Invalid without
    /// frames, State while another message is being sent frame by frame.
    pub fn send_message(self, frames: &mut [Outgoing<'_>], wait: impl Into<Wait>) -> Result<(), Error> {
        let wait = wait.into();
        let Some(last) = frames.len().checked_sub(1) else {
            return Err(Error::Invalid(Invalid::EmptyMessage));
        };
        self.sending(wait, |core| {
            if core.sending {
                return Err(Error::State);
            }
            let mut each = frames.iter_mut().enumerate();
            let sent = each.try_for_each(|(index, frame)| core.send(frame, index < last));
            if sent.is_err() {
                core.pattern.abort(&mut core.pipes);
                core.sending = false;
            }
            sent
        })
    }

    /// Receives a whole message into `sink`, which is called for each frame with the socket's lock held. The result
    /// describes the first frame.
    pub fn recv_message(
        self,
        wait: impl Into<Wait>,
        sink: &mut dyn FnMut(Frame<'_>),
    ) -> Result<Received, Error> {
        self.receiving(wait.into(), |core| core.recv_message(sink))
    }

    /// As `recv_message`, without label and peer.
    #[inline]
    pub fn recv_frames(self, wait: impl Into<Wait>, sink: &mut dyn FnMut(Frame<'_>)) -> Result<(), Error> {
        self.receiving(wait.into(), |core| {
            while core.recv(sink)? {}
            Ok(())
        })
    }
}

impl Core {
    fn recv_message(&mut self, sink: &mut dyn FnMut(Frame<'_>)) -> Result<Received, Error> {
        self.pipes.received.clear();
        let mut more = self.recv(sink)?;
        let received = Received { more: false, label: self.pipes.received.take(), about: self.pipes.about() };
        while more {
            // A queue publishes whole messages only, so the next frame is in it.
            more = self.recv(sink)?;
        }
        Ok(received)
    }
}
