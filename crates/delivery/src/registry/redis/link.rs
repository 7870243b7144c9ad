//! A connection to the server with a deadline for all I/O.
//!
//! The caller sets a deadline, and every read and write ends by then, however slowly the answer arrives. After an I/O
//! error the link must not be used again.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use redis::{ConnectionLike, Parser, RedisResult, Value, cmd};

use super::address::Address;
#[cfg(feature = "tls")]
use super::tls::Secured;

pub struct Link {
    stream: RedisStream,
    parser: Parser,
    db: i64,
    open: bool,
}

enum RedisStream {
    Plain(Timed),
    #[cfg(feature = "tls")]
    Tls(Box<Secured<Timed>>),
}

/// A stream with a deadline for reads and writes.
struct Timed {
    stream: TcpStream,
    deadline: Instant,
}

impl Link {
    /// Connects and authenticates. A host's addresses share the time.
    pub fn connect(address: &Address, deadline: Instant) -> RedisResult<Link> {
        let timed = Timed { stream: connect_to_any(&address.host, address.port, deadline)?, deadline };
        let stream = match &address.tls {
            None => RedisStream::Plain(timed),
            #[cfg(feature = "tls")]
            Some(tls) => RedisStream::Tls(Box::new(tls.secure(timed)?)),
            #[cfg(not(feature = "tls"))]
            Some(none) => match *none {},
        };
        let mut link = Link { stream, parser: Parser::new(), db: address.login.db(), open: true };
        if let Some(password) = address.login.password() {
            let mut auth = cmd("AUTH");
            auth.arg(address.login.username()).arg(password);
            auth.exec(&mut link)?;
        }
        if link.db != 0 {
            cmd("SELECT").arg(link.db).exec(&mut link)?;
        }
        Ok(link)
    }

    /// Sets the deadline of the following I/O.
    pub fn set_deadline(&mut self, deadline: Instant) {
        match &mut self.stream {
            RedisStream::Plain(timed) => timed.deadline = deadline,
            #[cfg(feature = "tls")]
            RedisStream::Tls(stream) => stream.sock.deadline = deadline,
        }
    }

    fn ask(&mut self, packed: &[u8]) -> io::Result<()> {
        match &mut self.stream {
            RedisStream::Plain(timed) => timed.write_all(packed),
            #[cfg(feature = "tls")]
            RedisStream::Tls(stream) => stream.write_all(packed).and_then(|()| stream.flush()),
        }
    }

    fn answer(&mut self) -> RedisResult<Value> {
        match &mut self.stream {
            RedisStream::Plain(timed) => self.parser.parse_value(timed),
            #[cfg(feature = "tls")]
            RedisStream::Tls(stream) => self.parser.parse_value(stream),
        }
    }
}

impl ConnectionLike for Link {
    fn req_packed_command(&mut self, packed: &[u8]) -> RedisResult<Value> {
        let answer = self.ask(packed).map_err(Into::into).and_then(|()| self.answer());
        self.open &= answer.is_ok();
        answer
    }

    fn req_packed_commands(&mut self, packed: &[u8], offset: usize, count: usize) -> RedisResult<Vec<Value>> {
        let answers: RedisResult<Vec<Value>> = self
            .ask(packed)
            .map_err(Into::into)
            .and_then(|()| (0..offset + count).map(|_| self.answer()).collect());
        self.open &= answers.is_ok();
        Ok(answers?.split_off(offset))
    }

    fn get_db(&self) -> i64 {
        self.db
    }

    fn check_connection(&mut self) -> bool {
        cmd("PING").exec(self).is_ok()
    }

    /// False after an error.
    fn is_open(&self) -> bool {
        self.open
    }
}

fn connect_to_any(host: &str, port: u16, deadline: Instant) -> io::Result<TcpStream> {
    let mut addresses: Vec<_> = (host, port).to_socket_addrs()?.collect();
    let mut error = io::Error::new(ErrorKind::NotFound, "the host name has no address");
    while !addresses.is_empty() {
        let share = left(deadline)? / addresses.len() as u32;
        match TcpStream::connect_timeout(&addresses.remove(0), share) {
            Ok(stream) => return stream.set_nodelay(true).map(|()| stream),
            Err(refused) => error = refused,
        }
    }
    Err(error)
}

/// The time left. Error: TimedOut, none.
fn left(deadline: Instant) -> io::Result<Duration> {
    match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(ErrorKind::TimedOut.into()),
        left => Ok(left),
    }
}

/// Maps the system's error for a timeout to TimedOut.
fn timed<T>(result: io::Result<T>) -> io::Result<T> {
    result.map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => ErrorKind::TimedOut.into(),
        _ => error,
    })
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(left(self.deadline)?))?;
        timed(self.stream.read(buffer))
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(left(self.deadline)?))?;
        timed(self.stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
