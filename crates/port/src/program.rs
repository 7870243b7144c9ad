//! The program's loop: one thread, which reads what the client asks for, passes messages on in both directions, and
//! waits for whatever comes first.

use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::failure::Failure;
use crate::log::Log;
use crate::operations;
use crate::pipes::Input;
use crate::session::{Session, Source};
use crate::wire::{ClientPacket, HIGHEST_VERSION, LOWEST_VERSION, Malformed, ProgramPacket};

pub struct Program {
    input: Input,
    is_greeted: bool,
    session: Session,
    linger: Duration,
    log: Option<Log>,
}

impl Program {
    /// `linger`: how long messages are still sent after the end of the input. `log`: is told to the client.
    pub fn new(
        input: OwnedFd,
        output: OwnedFd,
        linger: Duration,
        log: Option<Log>,
    ) -> Result<Program, Failure> {
        let input = Input::new(input);
        let mut session = Session::new(input.descriptor(), output)?;
        session.output.put(ProgramPacket::Hello { release: env!("CARGO_PKG_VERSION") });
        if let Some(log) = &log {
            session.watch(log.descriptor())?;
        }
        Ok(Program { input, is_greeted: false, session, linger, log })
    }

    /// Runs until the client has closed its input and what waits is sent, or the linger is over.
    pub fn run(mut self) -> Result<(), Failure> {
        let outcome = catch_unwind(AssertUnwindSafe(|| self.turns())).unwrap_or(Err(Failure::Panic));
        if let Some(log) = self.log {
            self.session.tell(&log.give_back());
        }
        match &outcome {
            Ok(()) | Err(Failure::Pipe(_)) => {}
            Err(error) => self.session.output.put(ProgramPacket::Fatal { text: &error.to_string() }),
        }
        let _ = self.session.output.write_within(self.linger);
        self.session.end(self.linger);
        match outcome {
            // The client has closed its end of the output.
            Err(Failure::Pipe(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            outcome => outcome,
        }
    }

    fn turns(&mut self) -> Result<(), Failure> {
        loop {
            self.session.write()?;
            for (source, events) in self.session.wait()? {
                match source {
                    Source::Input if !self.read()? => return Ok(()),
                    Source::Input => {}
                    Source::Output => self.session.output.write()?,
                    Source::Log => {
                        let lines = self.log.iter().flat_map(Log::take).collect::<Vec<String>>();
                        self.session.tell(&lines);
                    }
                    Source::Answers => self.session.take_answers(),
                    Source::Delivery(number) => self.session.pass_on(number),
                    Source::Channel(number) => self.session.serve(number, events),
                }
            }
            self.session.work();
        }
    }

    /// Reads once, and handles all packets that have come. False: the client has closed its end.
    fn read(&mut self) -> Result<bool, Failure> {
        let is_open = self.input.read()?;
        while let Some(packet) = self.input.next()? {
            match ClientPacket::parse(packet)? {
                ClientPacket::Hello { version } => {
                    if std::mem::replace(&mut self.is_greeted, true) {
                        return Err(Malformed::Hello.into());
                    }
                    if !(LOWEST_VERSION..=HIGHEST_VERSION).contains(&version) {
                        return Err(Malformed::Version.into());
                    }
                }
                _ if !self.is_greeted => return Err(Malformed::Hello.into()),
                ClientPacket::Request { id, operation, arguments } => {
                    operations::handle(&mut self.session, id, operation, arguments)?;
                }
                ClientPacket::Send { channel, messages } => self.session.send(channel, messages, None)?,
                ClientPacket::SendPart { channel, part, content } => {
                    self.session.send_part(channel, part, content)?;
                }
                ClientPacket::Credit { channel, messages, octets } => {
                    self.session.grant(channel, messages, octets);
                }
                ClientPacket::Ping { number } => self.session.output.put(ProgramPacket::Pong { number }),
            }
        }
        Ok(is_open)
    }
}
