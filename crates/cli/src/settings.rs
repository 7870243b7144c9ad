//! Turns the flags of every socket into options; binds and connects endpoints.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use pinnace::certificate::Certificate;
use pinnace::{Access, Error, KeyPair, OptionKind, OptionSpec, SocketType, find_option, prometheus, z85};
use pinnace_crypto::{PublicKey, SecretBytes};

use crate::authentication::Authenticator;
use crate::outcome::{Failure, Outcome, say};
use crate::secrets;
use crate::sockets::{Context, Socket, endpoint_failure};
use crate::table::{SocketArgs, StatsFormat};

/// The largest file with a password, in bytes.
const PASSWORD_FILE_MAX: usize = 64 << 10;

/// Transports with CURVE and PLAIN. Over any other peers are not authenticated and nothing is encrypted.
const GUARDED: [&str; 7] = ["tcp", "ipc", "ws", "wss", "tls+tcp", "vsock", "tipc"];

/// A context with the ZAP handler that the flags require. Error: the flags ask for security that one of `endpoints`
/// cannot provide.
pub fn context(given: &SocketArgs, endpoints: &[impl AsRef<str>]) -> Outcome<Context> {
    context_for(given, endpoints, None)
}

/// As [`context`], for this many sockets; `None` uses the context's default limit.
pub fn context_for(
    given: &SocketArgs,
    endpoints: &[impl AsRef<str>],
    sockets: Option<usize>,
) -> Outcome<Context> {
    if asks_for_security(given) {
        endpoints.iter().try_for_each(|endpoint| check_security_support(endpoint.as_ref()))?;
    }
    let authenticator = Authenticator::load(given)?;
    let context = Context::new(sockets, authenticator.is_some())?;
    if let Some(authenticator) = authenticator {
        authenticator.watch(&context)?;
    }
    Ok(context)
}

/// A socket with its options set.
pub fn socket(context: &Context, socket_type: SocketType, given: &SocketArgs) -> Outcome<Socket> {
    let socket = Socket::new(context, socket_type)?;
    prepare(&socket, given)?;
    Ok(socket)
}

/// Sets a socket's options.
pub fn prepare(socket: &Socket, given: &SocketArgs) -> Outcome {
    if given.ipv6 {
        set(socket, "ipv6", b"1")?;
    }
    if let Some(hwm) = given.hwm {
        set(socket, "sndhwm", hwm.to_string().as_bytes())?;
        set(socket, "rcvhwm", hwm.to_string().as_bytes())?;
    }
    secure(socket, given)?;
    for option in &given.option {
        let bytes = option.as_bytes();
        let at = bytes.iter().position(|&byte| byte == b'=');
        let at = at.ok_or_else(|| Failure::usage(format!("-o {}: must be NAME=VALUE", option.display())))?;
        set(socket, &String::from_utf8_lossy(&bytes[..at]), &bytes[at + 1..])?;
    }
    Ok(())
}

/// Whether a flag or an option concerns CURVE or PLAIN.
fn asks_for_security(given: &SocketArgs) -> bool {
    let is_about = |option: &OsString| {
        let name = option.as_bytes().split(|&byte| byte == b'=').next().unwrap_or_default();
        let found = find_option(&String::from_utf8_lossy(name));
        found.is_ok_and(|found| ["CURVE_", "PLAIN_"].iter().any(|start| found.name.starts_with(start)))
    };
    given.cert.is_some()
        || given.curve_server_key.is_some()
        || given.plain_username.is_some()
        || given.plain_users.is_some()
        || given.option.iter().any(is_about)
}

/// Checks that keys and passwords have an effect at this endpoint.
fn check_security_support(endpoint: &str) -> Outcome {
    let transport = split_prefix(endpoint).1.split("://").next().unwrap_or_default();
    match GUARDED.contains(&transport) {
        true => Ok(()),
        false => Err(Failure::usage(format!("{endpoint}: {transport} supports neither CURVE nor PLAIN"))),
    }
}

/// Subscribes to `topics`, or to everything if there are none.
pub fn subscribe(socket: &Socket, topics: &[impl AsRef<OsStr>]) -> Outcome {
    let topics: Vec<&[u8]> = topics.iter().map(|topic| topic.as_ref().as_bytes()).collect();
    let topics = if topics.is_empty() { vec![&b""[..]] } else { topics };
    let mut each = topics.into_iter();
    each.try_for_each(|topic| socket.0.subscribe(topic)).map_err(|error| Failure::of("subscribing", error))
}

fn secure(socket: &Socket, given: &SocketArgs) -> Outcome {
    if let Some(key) = &given.curve_server_key {
        set(socket, "curve_serverkey", z85::encode_key(&public_key(key)?).as_bytes())?;
    }
    let keys = match &given.cert {
        Some(file) => Some(own_keys(file)?),
        None if given.curve_server_key.is_some() => {
            Some(KeyPair::generate().map_err(|error| Failure::of("generating keys", error))?)
        }
        None => None,
    };
    if let Some(keys) = keys {
        socket.0.set_curve_keys(&keys).map_err(|error| Failure::of("setting the CURVE keys", error))?;
    }
    if given.curve_server {
        set(socket, "curve_server", b"1")?;
    }
    if given.plain_users.is_some() {
        set(socket, "plain_server", b"1")?;
    }
    if let Some(name) = &given.plain_username {
        set(socket, "plain_username", name.as_bytes())?;
        match (&given.plain_password, &given.plain_password_file) {
            (Some(password), _) => set(socket, "plain_password", password.as_bytes())?,
            (None, Some(file)) => {
                let text = secrets::read(file, PASSWORD_FILE_MAX)?;
                set(socket, "plain_password", secrets::first_line(&text))?;
            }
            (None, None) => {}
        }
    }
    Ok(())
}

/// The keys of our own certificate.
pub fn own_keys(file: &Path) -> Outcome<KeyPair> {
    let certificate = Certificate::load_secret(file).map_err(|error| Failure::of(file.display(), error))?;
    // A certificate that was loaded as secret has its secret key.
    certificate
        .keys()
        .cloned()
        .ok_or_else(|| Failure::of(file.display(), "the certificate has no secret key"))
}

/// A public key, given as Z85 or as a certificate file.
pub fn public_key(text: &str) -> Outcome<PublicKey> {
    match z85::decode_key(text) {
        Some(key) => Ok(key),
        None => Certificate::load_public(text)
            .map(|certificate| *certificate.public_key())
            .map_err(|error| Failure::of(text, error)),
    }
}

fn find(name: &str) -> Outcome<&'static OptionSpec> {
    let found = find_option(name).map_err(|_| Failure::usage(format!("unknown socket option {name}")))?;
    match found.access {
        Access::Get => Err(Failure::usage(format!("the socket option {name} is read-only"))),
        Access::Both | Access::Set => Ok(found),
    }
}

/// Sets an option from its text.
pub fn set(socket: &Socket, name: &str, text: &[u8]) -> Outcome {
    let spec = find(name)?;
    let socket_type = socket.0.socket_type();
    if !spec.types.is_empty() && !spec.types.contains(&socket_type) {
        return Err(Failure::usage(format!("{name}: not an option of {} sockets", socket_type.name())));
    }
    let shown = if spec.is_secret() { "its value".into() } else { String::from_utf8_lossy(text) };
    let wrong = |why: &str| Failure::usage(format!("{name}={shown}: {why}"));
    let number = || -> Outcome<i128> {
        let digits = std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok());
        digits.ok_or_else(|| wrong("must be a number"))
    };
    let beyond = |_| wrong("out of range");
    let set = |value: i64| socket.0.set_option(name, value);
    let outcome = match spec.kind {
        OptionKind::Int { .. } => set(i32::try_from(number()?).map_err(beyond)?.into()),
        OptionKind::Int64 { .. } => set(i64::try_from(number()?).map_err(beyond)?),
        // The set of bits is reinterpreted, not converted.
        OptionKind::Bits { .. } => set(u64::try_from(number()?).map_err(beyond)?.cast_signed()),
        // The value may be secret, so no copy is made that would not be wiped.
        OptionKind::Text { .. } | OptionKind::Bytes { .. } | OptionKind::Key => {
            match text.strip_prefix(b"hex:") {
                Some(digits) => {
                    let bytes = from_hex(digits);
                    let bytes = bytes
                        .ok_or_else(|| wrong("must be an even number of hexadecimal digits after hex:"))?;
                    socket.0.engine().set_option(spec.number, &bytes)
                }
                None => socket.0.engine().set_option(spec.number, text),
            }
        }
    };
    outcome.map_err(|error| match error {
        Error::Invalid(_) => wrong(&format!("not a valid value{}", range(spec.kind))),
        error => wrong(&error.to_string()),
    })
}

/// The valid range of an option, in words.
fn range(kind: OptionKind) -> String {
    match kind {
        OptionKind::Int { min, max: i32::MAX, .. } => format!(" ({min} or more)"),
        OptionKind::Int { min, max, .. } => format!(" ({min} to {max})"),
        OptionKind::Text { max } if max < usize::MAX => format!(" (at most {max} bytes)"),
        OptionKind::Bytes { min, max } if max < usize::MAX => format!(" ({min} to {max} bytes)"),
        OptionKind::Key => " (40 characters of Z85)".to_owned(),
        _ => String::new(),
    }
}

fn from_hex(digits: &[u8]) -> Option<SecretBytes> {
    let value = |digit: u8| (digit as char).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let mut bytes = SecretBytes::zeroed(pairs.len());
    for (byte, &[high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = value(high)? << 4 | value(low)?;
    }
    Some(bytes)
}

/// Binds or connects: according to the endpoint's prefix (`@` or `>`), else to `bind`. For a PEER that connects,
/// returns the peer's routing id.
pub fn attach(socket: &Socket, endpoint: &str, bind: bool, verbose: bool) -> Outcome<Option<u32>> {
    let (signed, endpoint) = split_prefix(endpoint);
    if signed.unwrap_or(bind) {
        let actual = socket.bind(endpoint)?;
        if verbose {
            say(format!("bound to {actual}"));
        }
        return Ok(None);
    }
    let peer = socket.connect(endpoint)?;
    if verbose {
        say(format!("connecting to {endpoint}"));
    }
    Ok(peer)
}

/// Checks whether `attach` would accept an endpoint, without attaching. Sets ZMQ_AFFINITY so that no I/O thread may
/// serve the socket; the engine checks that last, after all other errors. The socket cannot be attached afterwards.
pub fn check(socket: &Socket, endpoint: &str) -> Outcome {
    const NO_THREAD: u64 = 1 << 63; // Our contexts have one I/O thread, so bit 63 selects none.
    set(socket, "affinity", NO_THREAD.to_string().as_bytes())?;
    let (signed, endpoint) = split_prefix(endpoint);
    match signed {
        Some(true) => socket.0.bind(endpoint).map(drop),
        _ => socket.0.connect(endpoint),
    }
    .or_else(|error| if error == Error::NoThread { Ok(()) } else { Err(endpoint_failure(endpoint, error)) })
}

/// Whether the endpoint's prefix (`@` binds, `>` connects), if any, binds; and the endpoint without the prefix.
fn split_prefix(endpoint: &str) -> (Option<bool>, &str) {
    match endpoint.as_bytes().first() {
        Some(b'@') => (Some(true), &endpoint[1..]),
        Some(b'>') => (Some(false), &endpoint[1..]),
        _ => (None, endpoint),
    }
}

/// Prints the sockets' statistics, each with its name, on standard error, if requested.
pub fn print_stats(given: &SocketArgs, sockets: &[(&str, &Socket)]) {
    let Some(format) = given.stats else { return };
    let all: Vec<_> =
        sockets.iter().filter_map(|(name, socket)| Some((*name, socket.stats().ok()?))).collect();
    match format {
        StatsFormat::Json => all.iter().for_each(|(_, stats)| eprintln_quietly(&stats.to_json())),
        StatsFormat::Prometheus => {
            eprintln_quietly(prometheus(all.iter().map(|(name, stats)| (*name, stats))).trim_end());
        }
    }
}

/// Prints a line on standard error unchanged, in one write.
pub fn eprintln_quietly(line: &str) {
    use std::io::Write;
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}
