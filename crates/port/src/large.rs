//! A received message that is larger than a packet. Its frames stay where the socket has put them until their turn.

use std::collections::VecDeque;

use pinnace_engine::{Body, Frame};

use crate::answers;
use crate::wire::{Messages, begin_part, end_packet, frame_header};

/// The octets of a part, but for the last. Packets of other channels come between the parts.
const PART: usize = 256 * 1024;

/// A frame that is as large is freed by a thread. The system takes 100 ms for 1 GiB.
const FREED_ASIDE: usize = 64 << 20;

#[derive(Debug)]
pub struct Large {
    frames: VecDeque<Body>,
    /// What was delivered of the first frame and its header.
    delivered: usize,
    /// What is left of the message, with the headers.
    left: usize,
}

impl Large {
    /// A message that begins with these encoded frames, whatever the last of them says of more.
    pub fn of(octets: &[u8]) -> Large {
        let mut frames = Vec::new();
        let left = Messages::checked(octets).next(&mut frames);
        let copy = |frame: &&[u8]| Body::from(frame.to_vec());
        Large { frames: frames.iter().map(copy).collect(), delivered: 0, left }
    }

    /// Adds a frame, whose header is this long.
    pub fn push(&mut self, header: usize, frame: Frame<'_>) {
        let body = match frame {
            Frame::Body { body, .. } => body.take().unwrap_or_else(|| Body::from(Vec::new())),
            Frame::Bytes { data, .. } => Body::from(data.to_vec()),
        };
        self.left += header + body.len();
        self.frames.push_back(body);
    }

    /// Puts a frame before the others.
    pub fn push_first(&mut self, header: usize, content: Vec<u8>) {
        self.left += header + content.len();
        self.frames.push_front(Body::from(content));
    }

    /// What is left of the message, with the headers.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Appends the next part as a packet.
    pub fn deliver_part(&mut self, number: u32, to: &mut Vec<u8>) {
        let length = self.left.min(PART);
        self.left -= length;
        let at = begin_part(to, number, self.left == 0);
        let end = to.len() + length;
        while to.len() < end
            && let Some(frame) = self.frames.front()
        {
            // Frames that are too long were refused.
            let header = frame_header(frame.len(), self.frames.len() > 1).unwrap_or_default();
            let size = header.len() + frame.len();
            let of_header = &header[self.delivered.min(header.len())..];
            let of_header = &of_header[..of_header.len().min(end - to.len())];
            to.extend_from_slice(of_header);
            self.delivered += of_header.len();
            let of_frame = &frame[self.delivered.saturating_sub(header.len())..];
            let of_frame = &of_frame[..of_frame.len().min(end - to.len())];
            to.extend_from_slice(of_frame);
            self.delivered += of_frame.len();
            if self.delivered == size {
                self.delivered = 0;
                self.frames.pop_front().into_iter().for_each(free);
            }
        }
        end_packet(to, at);
    }
}

fn free(frame: Body) {
    if frame.len() >= FREED_ASIDE {
        // Without a thread it is freed here.
        let _ = answers::start("port-free", move || drop(frame));
    }
}
