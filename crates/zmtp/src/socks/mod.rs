//! A SOCKS5 client (RFC 1928; user name and password by RFC 1929).
//!
//! The proxy is asked for a connection to a [`ProxyTarget`]. Once [`bound`](Client::bound) returns an address, the
//! stream is that connection, and the bytes that [`input`](Client::input) did not consume are the target's. No name
//! is resolved here: names are sent to the proxy. The client holds at most the proxy's longest reply, 262 bytes.
//!
//! ```
//! use pinnace_zmtp::socks::{Client, ProxyTarget};
//!
//! let mut client = Client::new(ProxyTarget::new("example.org", 5555), None)?;
//! assert_eq!(client.output(), b"\x05\x01\x00"); // version, one method: none
//! client.sent(3);
//! client.input(b"\x05\x00")?;
//! assert_eq!(client.output(), b"\x05\x01\x00\x03\x0bexample.org\x15\xb3");
//! let used = client.input(b"\x05\x00\x00\x01\x7f\x00\x00\x01\x1f\x90\xff")?;
//! assert_eq!((used, client.bound()), (10, Some(&ProxyTarget::new("127.0.0.1", 8080))));
//! # Ok::<(), pinnace_zmtp::socks::Error>(())
//! ```

mod error;

use std::fmt;
use std::net::IpAddr;

pub use error::{Error, Reply};
use pinnace_crypto::SecretBytes;

use crate::handshake::Output;

/// The maximum length of a host name, user name or password, in bytes.
pub const MAX_TEXT: usize = 255;

const VERSION: u8 = 5;
const AUTHENTICATION_VERSION: u8 = 1;
const CONNECT: u8 = 1;
const RESERVED: u8 = 0;
const NO_AUTHENTICATION: u8 = 0;
const USER_NAME: u8 = 2;
const NO_METHOD: u8 = 0xff;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// An endpoint of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyTarget {
    /// The host.
    pub host: Host,
    /// The port.
    pub port: u16,
}

/// A host by its address or by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// An address.
    Ip(IpAddr),
    /// A name of 1 to 255 bytes, which the proxy resolves.
    Name(Vec<u8>),
}

/// User name and password for the proxy.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// 1 to 255 bytes.
    pub user_name: Vec<u8>,
    /// 0 to 255 bytes. RFC 1929 requires at least one; libzmq sends an empty password if none is set, and proxies
    /// accept it.
    pub password: SecretBytes,
}

/// The state of one connection through a proxy.
pub struct Client {
    target: ProxyTarget,
    credentials: Option<Credentials>,
    progress: SocksProgress,
    /// The reply that is being read, from its first byte.
    unit: Vec<u8>,
    output: Output,
}

#[derive(Debug)]
enum SocksProgress {
    Method,
    Authentication,
    Connection,
    Done(ProxyTarget),
    Failed(Error),
}

impl ProxyTarget {
    /// From text: an IP address, if it parses as one (IPv6 with or without brackets); else a host name.
    pub fn new(host: &str, port: u16) -> ProxyTarget {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let host = bare.parse().map_or_else(|_| Host::Name(host.into()), Host::Ip);
        ProxyTarget { host, port }
    }

    /// Appends the target in the form of a request. The caller has checked the length of a name.
    fn append(&self, out: &mut Output) {
        match &self.host {
            Host::Ip(IpAddr::V4(ip)) => {
                out.raw(&[IPV4]);
                out.raw(&ip.octets());
            }
            Host::Ip(IpAddr::V6(ip)) => {
                out.raw(&[IPV6]);
                out.raw(&ip.octets());
            }
            Host::Name(name) => {
                out.raw(&[NAME]);
                append_text(name, out);
            }
        }
        out.raw(&self.port.to_be_bytes());
    }
}

impl Client {
    /// Starts; the first output is ready. With credentials, both methods are offered and the proxy chooses.
    ///
    /// # Errors
    /// [`Error::HostName`], [`Error::UserName`], [`Error::Password`]: invalid, so they cannot be sent.
    pub fn new(target: ProxyTarget, credentials: Option<Credentials>) -> Result<Client, Error> {
        let fits = |text: &[u8]| text.len() <= MAX_TEXT;
        match &target.host {
            Host::Name(name) if name.is_empty() || !fits(name) || name.contains(&0) => {
                return Err(Error::HostName);
            }
            _ => {}
        }
        if let Some(Credentials { user_name, password }) = &credentials {
            if user_name.is_empty() || !fits(user_name) {
                return Err(Error::UserName);
            }
            if !fits(password) {
                return Err(Error::Password);
            }
        }
        let methods: &[u8] =
            if credentials.is_some() { &[NO_AUTHENTICATION, USER_NAME] } else { &[NO_AUTHENTICATION] };
        let mut output = Output::default();
        output.raw(&[VERSION]);
        append_text(methods, &mut output);
        Ok(Client { target, credentials, progress: SocksProgress::Method, unit: Vec::new(), output })
    }

    /// Passes received bytes in and returns how many of them belong to the proxy's replies: all until the
    /// connection is established.
    ///
    /// # Errors
    /// There is no connection. The error is final, and every further call returns it.
    pub fn input(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        let mut used = 0;
        loop {
            match &self.progress {
                SocksProgress::Done(_) => return Ok(used),
                SocksProgress::Failed(error) => return Err(error.clone()),
                _ => {}
            }
            match self.advance() {
                Ok(true) => self.unit.clear(),
                Ok(false) => {
                    let Some(&byte) = bytes.get(used) else { return Ok(used) };
                    self.unit.push(byte);
                    used += 1;
                }
                Err(error) => self.progress = SocksProgress::Failed(error),
            }
        }
    }

    /// The bytes to be written, in order.
    pub fn output(&self) -> &[u8] {
        self.output.waiting()
    }

    /// Reports that the first `n` bytes of [`output`](Client::output) have been written.
    pub fn sent(&mut self, n: usize) {
        self.output.sent(n);
    }

    /// The address of the proxy's end of the connection, once the connection is established.
    pub fn bound(&self) -> Option<&ProxyTarget> {
        match &self.progress {
            SocksProgress::Done(bound) => Some(bound),
            _ => None,
        }
    }

    /// Advances to the next reply if this one is complete. Errors are reported at the first invalid byte.
    fn advance(&mut self) -> Result<bool, Error> {
        match (&self.progress, self.unit.as_slice()) {
            (SocksProgress::Authentication, &[version, ..]) if version != AUTHENTICATION_VERSION => {
                Err(Error::AuthenticationVersion(version))
            }
            (SocksProgress::Authentication, &[_, 0, ..]) => Ok(self.request_connection()),
            (SocksProgress::Authentication, &[_, status, ..]) => Err(Error::AuthenticationFailed(status)),
            (SocksProgress::Method | SocksProgress::Connection, &[version, ..]) if version != VERSION => {
                Err(Error::NotSocks5(version))
            }
            (SocksProgress::Method, &[_, method, ..]) => self.on_method(method),
            (SocksProgress::Connection, reply) => match parse_reply(reply)? {
                Some(bound) => {
                    self.progress = SocksProgress::Done(bound);
                    Ok(true)
                }
                None => Ok(false),
            },
            _ => Ok(false),
        }
    }

    fn on_method(&mut self, method: u8) -> Result<bool, Error> {
        match (method, &self.credentials) {
            (NO_AUTHENTICATION, _) => Ok(self.request_connection()),
            (USER_NAME, Some(credentials)) => {
                self.output.raw(&[AUTHENTICATION_VERSION]);
                append_text(&credentials.user_name, &mut self.output);
                append_text(&credentials.password, &mut self.output);
                self.progress = SocksProgress::Authentication;
                Ok(true)
            }
            (NO_METHOD, _) => Err(Error::NoAcceptableMethod),
            _ => Err(Error::UnofferedMethod(method)),
        }
    }

    fn request_connection(&mut self) -> bool {
        self.output.raw(&[VERSION, CONNECT, RESERVED]);
        self.target.append(&mut self.output);
        self.progress = SocksProgress::Connection;
        true
    }
}

/// The address in the reply to our request; `None` if it is incomplete. The reserved byte is not checked.
fn parse_reply(bytes: &[u8]) -> Result<Option<ProxyTarget>, Error> {
    let &[_, code, ref rest @ ..] = bytes else { return Ok(None) };
    if let Some(reply) = Reply::from_code(code) {
        return Err(Error::Refused(reply));
    }
    let &[_, kind, ref rest @ ..] = rest else { return Ok(None) };
    let found = match kind {
        IPV4 => rest.split_first_chunk::<4>().map(|(ip, port)| (Host::Ip(IpAddr::from(*ip)), port)),
        IPV6 => rest.split_first_chunk::<16>().map(|(ip, port)| (Host::Ip(IpAddr::from(*ip)), port)),
        NAME => rest
            .split_first()
            .and_then(|(&len, rest)| rest.split_at_checked(usize::from(len)))
            .map(|(name, port)| (Host::Name(name.to_vec()), port)),
        other => return Err(Error::AddressType(other)),
    };
    let Some((host, port)) = found else { return Ok(None) };
    Ok(port.first_chunk().map(|port| ProxyTarget { host, port: u16::from_be_bytes(*port) }))
}

/// Appends bytes with a length prefix.
fn append_text(text: &[u8], out: &mut Output) {
    out.raw(&[text.len() as u8]);
    out.raw(text);
}

impl fmt::Debug for Credentials {
    /// Omits the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials {{ user_name: \"{}\" }}", self.user_name.escape_ascii())
    }
}

impl fmt::Debug for Client {
    /// Omits the output, which may contain the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("target", &self.target).field("progress", &self.progress).finish()
    }
}
