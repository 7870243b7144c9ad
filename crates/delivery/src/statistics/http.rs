//! Serves statistics over HTTP/1.1 (RFC 9112): `GET /metrics` for Prometheus, `GET /statistics` as JSON.
//!
//! One thread answers one request at a time, and closes the connection. A request has at most 8 KiB, and a connection
//! lasts at most a second; others wait in the kernel's queue meanwhile. There is no authentication. Requests are parsed
//! by httparse; servers from crates wait for a slow client without limit, or bring a runtime of their own.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use pinnace_engine::PollTarget;
use pinnace_eventloop::{EventLoop, Handle, Interest, Next, Task};

use crate::Error;

/// The most bytes of a request with its headers, and the most headers.
const REQUEST_MAX: usize = 8 << 10;
const HEADERS_MAX: usize = 32;
/// How long a connection may take.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(1);
/// The pause after a connection could not be accepted, for lack of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const TEXT: &str = "text/plain; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
const JSON: &str = "application/json";

/// What is served.
pub trait Source: Send + 'static {
    fn json(&self) -> String;
    fn prometheus(&self) -> String;
}

/// A running server, which ends when it is dropped.
pub struct StatisticsServer {
    address: SocketAddr,
    _handle: Handle<Serving>,
}

impl StatisticsServer {
    /// Listens on an address (`address_of`). Errors: Setting, Metrics.
    pub fn start(text: &str, source: impl Source) -> Result<StatisticsServer, Error> {
        let address = address_of(text)?;
        let failed = |error: io::Error| Error::Metrics { address: address.to_string(), kind: error.kind() };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        let slot = EventLoop::start("pinnace-metrics").map_err(Error::Endpoint)?.slot();
        let interest = slot.interest();
        interest.add(target(&listener), ()).map_err(Error::Endpoint)?;
        let source = Box::new(source);
        let handle = slot.run(Serving { listener, interest, source, resume_at: None });
        Ok(StatisticsServer { address: bound, _handle: handle })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// The address of `PORT` (on 127.0.0.1), `ADDRESS:PORT` or `tcp://ADDRESS:PORT`. `*` or 0 is a free port, as an address
/// `*` is all of IPv4. Error: Setting.
fn address_of(text: &str) -> Result<SocketAddr, Error> {
    const EXPECTED: Error =
        Error::Setting("metrics must be a port, or an IP address and a port, such as 127.0.0.1:9411");
    let text = text.strip_prefix("tcp://").unwrap_or(text);
    let (host, port) = text.rsplit_once(':').unwrap_or(("127.0.0.1", text));
    let port = if port == "*" { Ok(0) } else { port.parse() };
    let host = match host {
        "*" => Ok(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        "localhost" => Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        host => match host.strip_prefix('[') {
            Some(host) => host.strip_suffix(']').unwrap_or_default().parse(),
            // IPv6 addresses are in brackets.
            None => host.parse::<Ipv4Addr>().map(IpAddr::V4),
        },
    };
    match (host, port) {
        (Ok(host), Ok(port)) => Ok(SocketAddr::new(host, port)),
        _ => Err(EXPECTED),
    }
}

fn target(listener: &TcpListener) -> PollTarget {
    PollTarget::Fd(listener.as_raw_fd())
}

struct Serving {
    listener: TcpListener,
    interest: Interest<()>,
    source: Box<dyn Source>,
    /// When connections are accepted again, after one could not be.
    resume_at: Option<Instant>,
}

impl Task for Serving {
    type Token = ();
    type Command = ();

    fn on_ready(&mut self, (): ()) {
        match self.listener.accept() {
            Ok((stream, _)) => {
                // A client that is gone or slow gets no answer.
                let _ = Exchange::new(stream).and_then(|mut connection| connection.serve(&*self.source));
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
            Err(_) => {
                let _ = self.interest.remove(target(&self.listener));
                self.resume_at = Some(Instant::now() + ACCEPT_PAUSE);
            }
        }
    }

    fn on_command(&mut self, (): ()) {}

    fn work(&mut self) -> Next {
        if self.resume_at.is_some_and(|at| at <= Instant::now()) {
            self.resume_at =
                self.interest.add(target(&self.listener), ()).is_err().then(|| Instant::now() + ACCEPT_PAUSE);
        }
        Next::Wait(self.resume_at)
    }
}

/// A connection with one request.
struct Exchange {
    stream: TcpStream,
    deadline: Instant,
}

/// An answer: status, type of the content, and the content.
struct Answer {
    status: &'static str,
    kind: &'static str,
    content: String,
}

impl Answer {
    fn failure(status: &'static str) -> Answer {
        Answer { status, kind: TEXT, content: format!("{status}\n") }
    }
}

impl Exchange {
    fn new(stream: TcpStream) -> io::Result<Exchange> {
        stream.set_nonblocking(false)?;
        Ok(Exchange { stream, deadline: Instant::now() + CONNECTION_TIMEOUT })
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }

    fn serve(&mut self, source: &dyn Source) -> io::Result<()> {
        let (answer, with_content) = match self.request()? {
            Ok((method, path)) => (answer_to(&method, &path, source), method != "HEAD"),
            Err(answer) => (answer, true),
        };
        let Answer { status, kind, content } = answer;
        let mut text = format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n");
        let _ = write!(text, "Content-Length: {}\r\nConnection: close\r\n", content.len());
        if status.starts_with("405") {
            text.push_str("Allow: GET, HEAD\r\n");
        }
        text.push_str("\r\n");
        if with_content {
            text.push_str(&content);
        }
        self.write(text.as_bytes())?;
        self.stream.shutdown(Shutdown::Write)?;
        self.read_rest()
    }

    /// Reads a request: its method and path. The inner error is the answer to a request that is not served.
    fn request(&mut self) -> io::Result<Result<(String, String), Answer>> {
        let mut bytes = Vec::new();
        loop {
            let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
            let mut request = httparse::Request::new(&mut headers);
            match request.parse(&bytes) {
                Ok(httparse::Status::Complete(_)) => {
                    let path = request.path.unwrap_or_default().split('?').next().unwrap_or_default();
                    return Ok(Ok((request.method.unwrap_or_default().to_owned(), path.to_owned())));
                }
                Ok(httparse::Status::Partial) if bytes.len() < REQUEST_MAX => {}
                Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
                    return Ok(Err(Answer::failure("431 Request Header Fields Too Large")));
                }
                Err(_) => return Ok(Err(Answer::failure("400 Bad Request"))),
            }
            let mut room = [0; 1024];
            self.stream.set_read_timeout(self.left()?)?;
            match self.stream.read(&mut room)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                count => bytes.extend_from_slice(&room[..count]),
            }
        }
    }

    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.stream.set_write_timeout(self.left()?)?;
            match self.stream.write(bytes)? {
                0 => return Err(ErrorKind::WriteZero.into()),
                count => bytes = &bytes[count..],
            }
        }
        Ok(())
    }

    /// Reads until the client closes: closing with unread input would reset the connection, and the client might lose
    /// the answer.
    fn read_rest(&mut self) -> io::Result<()> {
        let mut room = [0; 1024];
        loop {
            self.stream.set_read_timeout(self.left()?)?;
            if self.stream.read(&mut room)? == 0 {
                return Ok(());
            }
        }
    }
}

fn answer_to(method: &str, path: &str, source: &dyn Source) -> Answer {
    let (kind, content): (_, fn(&_) -> String) = match path {
        "/metrics" => (PROMETHEUS, Source::prometheus),
        "/statistics" => (JSON, Source::json),
        _ => return Answer::failure("404 Not Found"),
    };
    match method {
        "GET" | "HEAD" => Answer { status: "200 OK", kind, content: content(source) },
        _ => Answer::failure("405 Method Not Allowed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_loopback_unless_they_say_otherwise() {
        let address = |text: &str| address_of(text).map(|address| address.to_string());
        assert_eq!(address("9411").unwrap(), "127.0.0.1:9411");
        assert_eq!(address("*").unwrap(), "127.0.0.1:0");
        assert_eq!(address("localhost:0").unwrap(), "127.0.0.1:0");
        assert_eq!(address("tcp://10.0.0.1:9411").unwrap(), "10.0.0.1:9411");
        assert_eq!(address("*:9411").unwrap(), "0.0.0.0:9411");
        assert_eq!(address("[::1]:9411").unwrap(), "[::1]:9411");
        for text in
            ["", "host:1", "127.0.0.1", "127.0.0.1:65536", "::1:9411", "[::1:9411", "-1", "127.0.0.1:"]
        {
            assert!(matches!(address_of(text), Err(Error::Setting(_))), "{text}");
        }
    }
}
