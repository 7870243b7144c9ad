//! The program's loop: one thread, which reads what the client asks for, passes messages on in both directions, and
//! waits for whatever comes first.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use pinnace_engine::Error;

use crate::log::Log;
use crate::pipes::Input;
use crate::session::{Session, Source};
use crate::wire::{ClientPacket, HIGHEST_VERSION, LOWEST_VERSION, Malformed, ProgramPacket};

/// Why the program ended, unless the client has closed its input.
#[derive(Debug)]
pub enum Failure {
    /// The client has violated the protocol.
    Protocol(Malformed),
    /// A pipe cannot be used.
    Pipe(io::Error),
    /// The engine cannot be used.
    Engine(Error),
    /// A defect of the program.
    Panic,
}

impl From<Malformed> for Failure {
    fn from(error: Malformed) -> Failure {
        Failure::Protocol(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Pipe(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Engine(error)
    }
}

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
                packet => self.session.handle(packet)?,
            }
        }
        Ok(is_open)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Protocol(error) => write!(f, "protocol: {error}"),
            Failure::Pipe(error) => write!(f, "pipe: {error}"),
            Failure::Engine(error) => write!(f, "engine: {error}"),
            Failure::Panic => f.write_str("a defect; it is in the log"),
        }
    }
}

impl std::error::Error for Failure {}

impl From<rustix::io::Errno> for Failure {
    fn from(errno: rustix::io::Errno) -> Failure {
        Failure::Pipe(errno.into())
    }
}
