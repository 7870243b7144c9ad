//! Secrets leave no trace: after the socket and its context are closed, a secret key or password that was set as an
//! option is nowhere in the process's memory.
//!
//! libzmq 4.3.4 wipes no secrets and fails all but the first of these.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use support::certificate_files::Certificate;
use support::child::{self, Child};
use support::security::{Handler, Keys, Mechanism, Parties};
use support::*;

support::roles!(forgetful_client, forgetful_server, forgetful_certificate, forgetful_layers, remembering);

/// A secret's masked form, in which it reaches the child and is kept between uses.
fn veil(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| byte ^ 0x5A).collect()
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits = (0..text.len()).step_by(2);
    digits.map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal")).collect()
}

/// Unmasks the secret while `use_it` runs, and then wipes it.
fn unveil(veiled: &[u8], use_it: impl FnOnce(&[u8])) {
    let mut bytes = veil(veiled);
    use_it(&bytes);
    for byte in &mut bytes {
        // SAFETY: a byte of ours; volatile, so that the compiler keeps the write.
        unsafe { std::ptr::write_volatile(byte, 0) };
    }
}

/// How often this process's memory contains the secret, searched for without unmasking it. Any 16 consecutive bytes
/// of it count.
fn found(veiled: &[u8]) -> usize {
    let mut memory = File::open("/proc/self/mem").expect("our own memory");
    let maps = BufReader::new(File::open("/proc/self/maps").expect("our own maps"));
    let regions: Vec<(u64, u64)> =
        maps.lines().map_while(Result::ok).filter_map(|line| writable(&line)).collect();
    let mut chunk = vec![0u8; 1 << 20];
    let own = chunk.as_ptr() as u64..chunk.as_ptr() as u64 + chunk.len() as u64;
    let mut count = 0;
    for (start, end) in regions {
        let mut at = start;
        while at < end {
            let len = (end - at).min(chunk.len() as u64) as usize;
            let readable =
                memory.seek(SeekFrom::Start(at)).is_ok() && memory.read_exact(&mut chunk[..len]).is_ok();
            let is_own = own.start < at + len as u64 && at < own.end;
            if readable && !is_own {
                count += matches(&chunk[..len], veiled);
            }
            at += (len.saturating_sub(64)).max(1) as u64;
            if len < chunk.len() {
                break;
            }
        }
    }
    count
}

fn writable(line: &str) -> Option<(u64, u64)> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    (rest.starts_with("rw") && !rest.contains("[v")).then_some((number(start)?, number(end)?))
}

fn matches(haystack: &[u8], veiled: &[u8]) -> usize {
    let (head, tail) = (&veiled[..16], &veiled[veiled.len() - 16..]);
    let is =
        |window: &[u8], part: &[u8]| window.iter().zip(part).all(|(byte, veiled)| byte ^ 0x5A == *veiled);
    haystack.windows(16).filter(|window| is(window, head) || is(window, tail)).count()
}

/// Every form of a secret key: text and bytes.
fn forms(text: &str) -> Vec<Vec<u8>> {
    let (mut bytes, text) = ([0u8; 32], std::ffi::CString::new(text).expect("no NUL"));
    // SAFETY: a place of 32 bytes and a text of 40 letters.
    assert!(!unsafe { api::zmq_z85_decode(bytes.as_mut_ptr(), text.as_ptr()) }.is_null());
    vec![veil(text.as_bytes()), veil(&bytes)]
}

/// A secret that is set is found: otherwise a search without a hit would prove nothing.
fn remembering(args: &[String]) {
    let secret = from_hex(&args[0]);
    let ctx = Context::new();
    let socket = ctx.socket(PUSH);
    unveil(&secret, |shown| socket.set_bytes(PLAIN_PASSWORD, shown).expect("PLAIN_PASSWORD"));
    child::say(found(&secret));
}

/// A client with this masked option, and others that are not secret; it sends a message, closes, and searches.
fn forgetful_client(args: &[String]) {
    let mechanism = Mechanism::named(&args[0]);
    let (endpoint, server_key, secrets) = (&args[1], &args[2], &args[3..]);
    {
        let ctx = Context::new();
        let client = ctx.socket(DEALER);
        let (option, given) = match mechanism {
            Mechanism::Curve => (CURVE_SECRETKEY, from_hex(&secrets[0])),
            _ => (PLAIN_PASSWORD, from_hex(&secrets[0])),
        };
        if mechanism == Mechanism::Curve {
            client.set_bytes(CURVE_SERVERKEY, server_key.as_bytes()).expect("CURVE_SERVERKEY");
        } else {
            client.set_bytes(PLAIN_USERNAME, b"joe").expect("PLAIN_USERNAME");
        }
        unveil(&given, |shown| client.set_bytes(option, shown).expect("a secret"));
        client.connect(endpoint).expect("connect");
        client.put("hello");
        assert_eq!(client.take_text(), "hello yourself");
        client.close().expect("close");
        ctx.term().expect("term");
    }
    let counts: usize = secrets.iter().map(|secret| found(&from_hex(secret))).sum();
    child::say(counts);
}

/// A CURVE server with this key.
fn forgetful_server(args: &[String]) {
    {
        let ctx = Context::new();
        let server = ctx.socket(REP);
        server.set(CURVE_SERVER, 1).expect("CURVE_SERVER");
        unveil(&from_hex(&args[0]), |shown| {
            server.set_bytes(CURVE_SECRETKEY, shown).expect("CURVE_SECRETKEY")
        });
        child::say(Transport::Tcp.bind(&server));
        server.put(server.take());
        child::hear();
        server.close().expect("close");
        ctx.term().expect("term");
    }
    let counts: usize = args.iter().map(|secret| found(&from_hex(secret))).sum();
    child::say(counts);
}

/// Loads a certificate, saves it, and reads its keys.
fn forgetful_certificate(args: &[String]) {
    let (path, secrets) = (Path::new(&args[0]), &args[1..]);
    {
        let certificate = Certificate::load(path).expect("load");
        certificate.save(&path.with_extension("again")).expect("save");
        let ctx = Context::new();
        let socket = ctx.socket(PUSH);
        certificate.apply(&socket).expect("apply");
        socket.close().expect("close");
        ctx.term().expect("term");
    }
    let counts: usize = secrets.iter().map(|secret| found(&from_hex(secret))).sum();
    child::say(counts);
}

/// A password for a SOCKS proxy that does not reply to it, and an unused TLS key.
fn forgetful_layers(args: &[String]) {
    let (password, key) = (from_hex(&args[1]), from_hex(&args[2]));
    {
        let ctx = Context::new();
        let client = ctx.socket(PUSH);
        client.set_bytes(SOCKS_PROXY, args[0].as_bytes()).expect("SOCKS_PROXY");
        client.set_bytes(SOCKS_USERNAME, b"joe").expect("SOCKS_USERNAME");
        unveil(&password, |shown| client.set_bytes(SOCKS_PASSWORD, shown).expect("SOCKS_PASSWORD"));
        unveil(&key, |shown| client.set_bytes(WSS_KEY_PEM, shown).expect("WSS_KEY_PEM"));
        client.connect("tcp://far.away.invalid:1").expect("connect");
        child::hear();
        client.close().expect("close");
        ctx.term().expect("term");
    }
    child::say(found(&password) + found(&key));
}

#[test]
fn the_search_finds_what_is_there() {
    let mut child = Child::start("remembering", &[&to_hex(&veil(b"this passes for a secret of thirty-six"))]);
    assert_ne!(child.line(), "0");
    child.succeeds();
}

fn a_client_forgets(mechanism: Mechanism, secrets: &[String], parties: &Parties, transport: Transport) {
    let ctx = Context::new();
    let _handler = Handler::of(&ctx, "200");
    let (server, endpoint) = parties.bound(&ctx, DEALER, mechanism, transport);
    let mut args = vec![mechanism.name(), &endpoint, &parties.server.public];
    args.extend(secrets.iter().map(String::as_str));
    let mut child = Child::start("forgetful_client", &args);
    assert_eq!(server.take_text(), "hello");
    server.put("hello yourself");
    assert_eq!(child.line(), "0", "{mechanism:?}: copies of the secret after the end");
    child.succeeds();
}

#[test]
fn a_client_forgets_its_secret_key() {
    let parties = Parties::new();
    for transport in [Transport::Tcp, Transport::Ws] {
        let forms = forms(&parties.client.secret);
        let mut secrets: Vec<String> = forms.iter().map(|form| to_hex(form)).collect();
        a_client_forgets(Mechanism::Curve, &secrets, &parties, transport);
        secrets.reverse();
        a_client_forgets(Mechanism::Curve, &secrets, &parties, transport);
    }
}

#[test]
fn a_client_forgets_its_password() {
    let secrets = [to_hex(&veil(b"quite a long password that nobody knows"))];
    for transport in [Transport::Tcp, Transport::Ws] {
        a_client_forgets(Mechanism::Plain, &secrets, &Parties::new(), transport);
    }
}

#[test]
fn a_server_forgets_its_secret_key() {
    let keys = Keys::new();
    let mut secrets: Vec<String> = forms(&keys.secret).iter().map(|form| to_hex(form)).collect();
    for _ in 0..2 {
        let args: Vec<&str> = secrets.iter().map(String::as_str).collect();
        let mut child = Child::start("forgetful_server", &args);
        let ctx = Context::new();
        let mut parties = Parties::new();
        parties.server = keys.clone();
        let client = parties.client(&ctx, REQ, Mechanism::Curve);
        client.connect(&child.line()).expect("connect");
        client.put("hello");
        client.take();
        child.tell("end");
        assert_eq!(child.line(), "0", "copies of the key after the end");
        child.succeeds();
        secrets.reverse();
    }
}

#[test]
fn a_certificate_is_forgotten() {
    let keys = Keys::new();
    let path = PathBuf::from(transport::socket_path());
    let certificate = Certificate::new(Some((&keys.public, Some(&keys.secret)))).expect("a certificate");
    certificate.save(&path).expect("save");
    let mut secrets: Vec<String> = forms(&keys.secret).iter().map(|form| to_hex(form)).collect();
    for _ in 0..2 {
        let mut args = vec![path.to_str().expect("UTF-8")];
        args.extend(secrets.iter().map(String::as_str));
        let mut child = Child::start("forgetful_certificate", &args);
        assert_eq!(child.line(), "0", "copies of the key after the end");
        child.succeeds();
        secrets.reverse();
    }
}

#[test]
fn what_lies_below_zmtp_is_forgotten() {
    let proxy = TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = proxy.local_addr().expect("bound").to_string();
    let password = "quite a long password that no proxy takes";
    let secrets =
        [password, "a text that is set as if it were a key"].map(|text| to_hex(&veil(text.as_bytes())));
    let mut child = Child::start("forgetful_layers", &[&address, &secrets[0], &secrets[1]]);
    let (mut client, _) = proxy.accept().expect("a client");
    let mut greeting = [0; 4];
    client.read_exact(&mut greeting).expect("a greeting");
    assert_eq!(greeting, [5, 2, 0, 2], "with and without a password");
    client.write_all(&[5, 2]).expect("the method");
    let mut asked = vec![0; 1 + 1 + 3 + 1 + password.len()];
    client.read_exact(&mut asked).expect("name and password");
    assert_eq!(&asked[6..], password.as_bytes());
    child.tell("end");
    assert_eq!(child.line(), "0", "copies after the end");
    child.succeeds();
}
