//! The connection between client and server: delays, cuts, and octets that change on their way.

use std::collections::VecDeque;
use std::time::Duration;

use pinnace_engine::Body;

use super::random::Random;
use crate::wire::{Change, Form, Headers, Message, Request};

/// What one side has granted, and what the other one has sent, in octets of content.
#[derive(Debug, Default, Clone, Copy)]
pub struct Credit {
    granted: u64,
    sent: u64,
    /// As the side that grants it sees it.
    announced: u64,
    arrived: u64,
}

/// Frames in one direction. `content` counts what they carry.
#[derive(Default)]
pub struct Direction {
    frames: VecDeque<(Duration, Body)>,
    last: Duration,
    /// Of the content that goes this way; the grants go the other way.
    pub credit: Credit,
    /// Octets of files.
    pub content: u64,
}

/// What a frame means for credit.
enum Meaning {
    Greeting,
    Grant(u64),
    Content(u64),
    Other,
}

fn meaning(frame: &[u8]) -> Meaning {
    match Message::read(frame) {
        Ok(Message::GREETING) => Meaning::Greeting,
        Ok(Message::Nom { credit, .. }) => Meaning::Grant(credit),
        Ok(Message::Cheezburger(burger)) => Meaning::Content(burger.chunk.len() as u64),
        _ => Meaning::Other,
    }
}

/// The octets of files in a frame.
fn file_octets(frame: &[u8]) -> u64 {
    match Message::read(frame) {
        Ok(Message::Cheezburger(burger)) if burger.operation == Change::Create => {
            match Headers::read(burger.headers).map(|headers| headers.form) {
                Ok(Form::Data | Form::Pack) => burger.chunk.len() as u64,
                _ => 0,
            }
        }
        _ => 0,
    }
}

pub struct Network {
    pub to_server: Direction,
    pub to_client: Direction,
    pub is_up: bool,
    /// Greetings on their way to the server.
    greetings: u64,
    /// The client has sent one on this connection.
    has_greeted: bool,
    pub delay: Duration,
    /// The largest windows of the client and of the server, and the largest chunk.
    pub windows: (u64, u64),
    pub chunk: u64,
}

impl Network {
    pub fn new(delay: Duration, windows: (u64, u64), chunk: u64) -> Network {
        let (to_server, to_client, greetings, has_greeted) = Default::default();
        Network { to_server, to_client, is_up: true, greetings, has_greeted, delay, windows, chunk }
    }

    /// All frames that are on their way are lost.
    pub fn cut(&mut self) {
        (self.is_up, self.greetings, self.has_greeted) = (false, 0, false);
        for direction in [&mut self.to_server, &mut self.to_client] {
            direction.frames.clear();
            direction.credit = Credit::default();
        }
    }

    /// Takes a frame of the client. Error: it sends more than it may, or grants too much.
    pub fn send_to_server(&mut self, now: Duration, frame: Body) -> Result<(), String> {
        match meaning(&frame) {
            // It begins again: both sides forget all credit.
            Meaning::Greeting => {
                (self.to_server.credit, self.to_client.credit) = Default::default();
                (self.greetings, self.has_greeted) = (self.greetings + 1, true);
            }
            Meaning::Grant(credit) => self.to_client.credit.announce(credit, self.windows.0 + self.chunk)?,
            Meaning::Content(len) if self.has_greeted => self.to_server.credit.spend(len, "client")?,
            // It was made for the connection before.
            Meaning::Content(_) | Meaning::Other => {}
        }
        self.to_server.push(now, self.delay, frame);
        Ok(())
    }

    /// As `send_to_server`, of the server. Until it has the client's last greeting, its frames do not count.
    pub fn send_to_client(&mut self, now: Duration, frame: Body) -> Result<(), String> {
        let of_now = self.greetings == 0;
        match meaning(&frame) {
            Meaning::Grant(credit) if of_now => {
                self.to_server.credit.announce(credit, self.windows.1 + self.chunk)?;
            }
            Meaning::Content(len) if of_now => self.to_client.credit.spend(len, "server")?,
            _ => {}
        }
        self.to_client.content += file_octets(&frame);
        self.to_client.push(now, self.delay, frame);
        Ok(())
    }

    /// The next frame that has arrived at the server.
    pub fn at_server(&mut self, now: Duration) -> Option<Body> {
        let frame = self.to_server.pop(now)?;
        match meaning(&frame) {
            Meaning::Greeting => self.greetings = self.greetings.saturating_sub(1),
            Meaning::Grant(credit) => self.to_client.credit.granted += credit,
            Meaning::Content(len) => self.to_server.credit.arrived += len,
            Meaning::Other => {}
        }
        Some(frame)
    }

    /// The next frame that has arrived at the client.
    pub fn at_client(&mut self, now: Duration) -> Option<Body> {
        let frame = self.to_client.pop(now)?;
        match meaning(&frame) {
            Meaning::Grant(credit) => self.to_server.credit.granted += credit,
            Meaning::Content(len) => self.to_client.credit.arrived += len,
            _ => {}
        }
        Some(frame)
    }

    /// Changes an octet of a chunk on its way to the client. False: none is on its way.
    pub fn corrupt(&mut self, random: &mut Random) -> bool {
        let Some((_, frame)) = self.to_client.frames.iter_mut().find(|(_, frame)| file_octets(frame) > 0)
        else {
            return false;
        };
        let mut octets = frame.to_vec();
        let content = file_octets(&octets);
        // A pack holds heads of entries too; those at its end are content.
        let at = octets.len() - 1 - random.below(content.min(16)) as usize;
        octets[at] ^= 1 << random.below(8);
        *frame = octets.into();
        true
    }

    /// When the next frame arrives.
    pub fn next(&self) -> Option<Duration> {
        let first = |direction: &Direction| direction.frames.front().map(|(at, _)| *at);
        first(&self.to_server).into_iter().chain(first(&self.to_client)).min()
    }
}

impl Direction {
    fn push(&mut self, now: Duration, delay: Duration, frame: Body) {
        self.last = self.last.max(now + delay);
        self.frames.push_back((self.last, frame));
    }

    fn pop(&mut self, now: Duration) -> Option<Body> {
        self.frames.pop_front_if(|(at, _)| *at <= now).map(|(_, frame)| frame)
    }
}

impl Credit {
    fn announce(&mut self, credit: u64, window: u64) -> Result<(), String> {
        self.announced += credit;
        match self.announced > self.arrived + window {
            true => Err(format!("more credit than the window of {window}: {self:?}")),
            false => Ok(()),
        }
    }

    fn spend(&mut self, len: u64, side: &str) -> Result<(), String> {
        self.sent += len;
        match self.sent > self.granted {
            true => Err(format!("the {side} has sent more than its credit: {self:?}")),
            false => Ok(()),
        }
    }
}

/// A frame in short, for the course of events.
pub fn shown(frame: &[u8]) -> String {
    match Message::read(frame) {
        Ok(Message::Cheezburger(burger)) => {
            let headers = Headers::read(burger.headers).unwrap_or_default();
            let name = String::from_utf8_lossy(burger.filename).into_owned();
            let (number, form, offset, len) =
                (headers.request.unwrap_or(0), headers.form, burger.offset, burger.chunk.len());
            let text = String::from_utf8_lossy(&headers.text).into_owned();
            format!("{form:?} of request {number}, {name}, {len} octets at {offset} {text}")
        }
        Ok(Message::Icanhaz { path, options, .. }) => match Request::read(path, options) {
            Some(Ok(request)) => {
                let Request { number, mode, names, ranges, .. } = &request;
                format!(
                    "{mode:?} {number} of {}, {} names, {ranges:?}",
                    String::from_utf8_lossy(path),
                    names.len()
                )
            }
            other => format!("{other:?}"),
        },
        other => format!("{other:?}"),
    }
}
