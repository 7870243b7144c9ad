//! A hand-written CURVE over the pure-Rust crate `crypto_box`: a client and a server that can misbehave at every
//! step.
use crypto_box::aead::Aead;
use crypto_box::{PublicKey, SalsaBox, SecretKey};

use super::secure::{client_keys, server_keys};
use super::{cat, frame, property};

/// The deviation of a misbehaving peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    Nothing,
    /// In HELLO.
    HelloName,
    HelloShort,
    HelloLong,
    HelloVersion,
    HelloBox,
    HelloForAnotherServer,
    HelloKeyOfZeros,
    HelloTwice,
    InitiateFirst,
    /// In INITIATE.
    InitiateName,
    InitiateShort,
    CookieNonce,
    CookieBox,
    CookieOfAnother,
    InitiateBox,
    InitiateNumber,
    InitiateByAnotherTransient,
    VouchBox,
    VouchByAnother,
    VouchForAnotherTransient,
    VouchForAnotherServer,
    InitiateMetadata,
    InitiateNoMetadata,
    /// In WELCOME.
    WelcomeName,
    WelcomeShort,
    WelcomeLong,
    WelcomeNonce,
    WelcomeBox,
    WelcomeByAnotherServer,
    ReadyFirst,
    WelcomeTwice,
    /// In READY.
    ReadyName,
    ReadyShort,
    ReadyNumber,
    ReadyBox,
    ReadyByLongTermKey,
    ReadyMetadata,
    ErrorShort,
    ErrorReason,
}

pub fn secret(seed: u8) -> SecretKey {
    SecretKey::from([seed; 32])
}

fn public(seed: u8) -> [u8; 32] {
    *secret(seed).public_key().as_bytes()
}

/// The misbehaving peers' transient keys, and a third party's.
const CLIENT_TRANSIENT: u8 = 33;
const SERVER_TRANSIENT: u8 = 44;
const STRANGER: u8 = 55;

pub fn seal(theirs: &[u8; 32], ours: &SecretKey, nonce: [&[u8]; 2], message: &[u8]) -> Vec<u8> {
    let nonce: [u8; 24] = nonce.concat().try_into().unwrap();
    SalsaBox::new(&PublicKey::from(*theirs), ours).encrypt(&nonce.into(), message).unwrap()
}

fn open(theirs: &[u8; 32], ours: &SecretKey, nonce: [&[u8]; 2], sealed: &[u8]) -> Vec<u8> {
    let nonce: [u8; 24] = nonce.concat().try_into().unwrap();
    SalsaBox::new(&PublicKey::from(*theirs), ours).decrypt(&nonce.into(), sealed).expect("an honest box")
}

fn number(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

fn flip(bytes: &mut [u8], at: usize, really: bool) {
    bytes[at] ^= u8::from(really);
}

fn metadata(broken: bool) -> Vec<u8> {
    let mut metadata = property("Socket-Type", b"DEALER");
    metadata.truncate(metadata.len() - usize::from(broken));
    metadata
}

/// HELLO's body.
fn hello(lie: Lie) -> Vec<u8> {
    let server = if lie == Lie::HelloForAnotherServer { public(STRANGER) } else { server_keys().public };
    let mut transient = public(CLIENT_TRANSIENT);
    let sealed = seal(&server, &secret(CLIENT_TRANSIENT), [b"CurveZMQHELLO---", &number(1)], &[0; 64]);
    if lie == Lie::HelloKeyOfZeros {
        transient = [0; 32];
    }
    let mut body = cat(&[b"\x05HELLO\x01\x00", &[0; 72], &transient, &number(1), &sealed]);
    flip(&mut body, 5, lie == Lie::HelloName);
    flip(&mut body, 7, lie == Lie::HelloVersion);
    flip(&mut body, 199, lie == Lie::HelloBox);
    match lie {
        Lie::HelloShort => body.truncate(199),
        Lie::HelloLong => body.push(0),
        _ => {}
    }
    body
}

/// The content of WELCOME: S' and the cookie.
fn opened_welcome(welcome: &[u8]) -> Vec<u8> {
    assert_eq!((welcome.len(), &welcome[..8]), (168, &b"\x07WELCOME"[..]));
    let (nonce, sealed) = welcome[8..].split_at(16);
    open(&server_keys().public, &secret(CLIENT_TRANSIENT), [b"WELCOME-", nonce], sealed)
}

/// INITIATE's body. `foreign` is the WELCOME of another connection.
fn initiate(lie: Lie, welcome: &[u8], foreign: &[u8]) -> Vec<u8> {
    let told = opened_welcome(welcome);
    let (server_transient, cookie) = told.split_first_chunk::<32>().unwrap();
    let mut cookie = cookie.to_vec();
    if lie == Lie::CookieOfAnother {
        cookie = opened_welcome(foreign)[32..].to_vec();
    }
    flip(&mut cookie, 0, lie == Lie::CookieNonce);
    flip(&mut cookie, 95, lie == Lie::CookieBox);

    let vouched = if lie == Lie::VouchForAnotherTransient { STRANGER } else { CLIENT_TRANSIENT };
    let server = if lie == Lie::VouchForAnotherServer { public(STRANGER) } else { server_keys().public };
    let by =
        if lie == Lie::VouchByAnother { secret(STRANGER) } else { SecretKey::from(*client_keys().secret) };
    let mut vouch = seal(server_transient, &by, [b"VOUCH---", &[7; 16]], &cat(&[&public(vouched), &server]));
    flip(&mut vouch, 79, lie == Lie::VouchBox);

    let mut told = cat(&[&client_keys().public, &[7; 16], &vouch]);
    if lie != Lie::InitiateNoMetadata {
        told.extend(metadata(lie == Lie::InitiateMetadata));
    }
    let by = if lie == Lie::InitiateByAnotherTransient { STRANGER } else { CLIENT_TRANSIENT };
    let sealed = seal(server_transient, &secret(by), [b"CurveZMQINITIATE", &number(2)], &told);
    let mut body = cat(&[b"\x08INITIATE", &cookie, &number(2), &sealed]);
    flip(&mut body, 8, lie == Lie::InitiateName);
    flip(&mut body, 112, lie == Lie::InitiateNumber);
    let last = body.len() - 1;
    flip(&mut body, last, lie == Lie::InitiateBox);
    if lie == Lie::InitiateShort {
        body.truncate(256);
    }
    body
}

/// Acts as a client after the greetings; `exchange` sends bytes and returns the body of the reply frame, if any.
/// `foreign` is as above.
pub fn lie_as_client(lie: Lie, foreign: &[u8], mut exchange: impl FnMut(&[u8]) -> Option<Vec<u8>>) {
    if lie == Lie::InitiateFirst {
        exchange(&frame(4, &cat(&[b"\x08INITIATE", &[0; 300]])));
        return;
    }
    let Some(welcome) = exchange(&frame(4, &hello(lie))) else { return };
    if lie == Lie::HelloTwice {
        exchange(&frame(4, &hello(lie)));
        return;
    }
    exchange(&frame(4, &initiate(lie, &welcome, foreign)));
}

/// The WELCOME that an honest client receives.
pub fn honest_welcome(mut exchange: impl FnMut(&[u8]) -> Option<Vec<u8>>) -> Vec<u8> {
    exchange(&frame(4, &hello(Lie::Nothing))).expect("a WELCOME")
}

/// WELCOME's body.
fn welcome(lie: Lie, client: &[u8; 32]) -> Vec<u8> {
    let by = if lie == Lie::WelcomeByAnotherServer {
        secret(STRANGER)
    } else {
        SecretKey::from(*server_keys().secret)
    };
    let told = cat(&[&public(SERVER_TRANSIENT), &[8; 96]]);
    let sealed = seal(client, &by, [b"WELCOME-", &[9; 16]], &told);
    let mut body = cat(&[b"\x07WELCOME", &[9; 16], &sealed]);
    flip(&mut body, 7, lie == Lie::WelcomeName);
    flip(&mut body, 8, lie == Lie::WelcomeNonce);
    flip(&mut body, 167, lie == Lie::WelcomeBox);
    match lie {
        Lie::WelcomeShort => body.truncate(167),
        Lie::WelcomeLong => body.push(0),
        _ => {}
    }
    body
}

/// READY's body.
fn ready(lie: Lie, client: &[u8; 32]) -> Vec<u8> {
    let by = if lie == Lie::ReadyByLongTermKey {
        SecretKey::from(*server_keys().secret)
    } else {
        secret(SERVER_TRANSIENT)
    };
    let sealed = seal(client, &by, [b"CurveZMQREADY---", &number(1)], &metadata(lie == Lie::ReadyMetadata));
    let mut body = cat(&[b"\x05READY", &number(1), &sealed]);
    flip(&mut body, 5, lie == Lie::ReadyName);
    flip(&mut body, 13, lie == Lie::ReadyNumber);
    let last = body.len() - 1;
    flip(&mut body, last, lie == Lie::ReadyBox);
    if lie == Lie::ReadyShort {
        body.truncate(29);
    }
    body
}

/// Acts as a server after the greetings and the client's HELLO; `exchange` is as above.
pub fn lie_as_server(lie: Lie, hello: &[u8], mut exchange: impl FnMut(&[u8]) -> Option<Vec<u8>>) {
    assert_eq!((hello.len(), &hello[..6]), (200, &b"\x05HELLO"[..]));
    let client = hello[80..].first_chunk().unwrap();
    let signature = open(
        client,
        &SecretKey::from(*server_keys().secret),
        [b"CurveZMQHELLO---", &hello[112..120]],
        &hello[120..],
    );
    assert_eq!(signature, [0; 64]);
    if lie == Lie::ReadyFirst {
        exchange(&frame(4, &ready(lie, client)));
        return;
    }
    let Some(initiate) = exchange(&frame(4, &welcome(lie, client))) else { return };
    check_initiate(&initiate, client);
    let body = match lie {
        Lie::WelcomeTwice => welcome(lie, client),
        Lie::ErrorShort => b"\x05ERROR".to_vec(),
        Lie::ErrorReason => b"\x05ERROR\x04400".to_vec(),
        _ => ready(lie, client),
    };
    exchange(&frame(4, &body));
}

/// Checks an honest INITIATE: the cookie, and a complete vouch.
fn check_initiate(initiate: &[u8], client: &[u8; 32]) {
    assert_eq!((&initiate[..9], &initiate[9..105]), (&b"\x08INITIATE"[..], &[8; 96][..]));
    let ours = secret(SERVER_TRANSIENT);
    let told = open(client, &ours, [b"CurveZMQINITIATE", &initiate[105..113]], &initiate[113..]);
    assert_eq!(told[..32], client_keys().public);
    let vouch = open(&client_keys().public, &ours, [b"VOUCH---", &told[32..48]], &told[48..128]);
    assert_eq!(vouch, cat(&[client, &server_keys().public]));
    assert!(told[128..].starts_with(&property("Socket-Type", b"DEALER")), "{told:?}");
}
