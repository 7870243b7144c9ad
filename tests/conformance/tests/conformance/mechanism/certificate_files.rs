//! CURVE certificate files, and directories of them, through the C API: it reads what it writes, and an invalid
//! certificate reports why.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use support::certificate_files::{Certificate, Store, last_error};
use support::security::Keys;
use support::transport::scratch;
use support::*;

const EBADMSG: Errno = Errno(libc::EBADMSG);
const EINVAL: Errno = Errno(libc::EINVAL);
const ENOENT: Errno = Errno(libc::ENOENT);
const ENOKEY: Errno = Errno(libc::ENOKEY);
const EKEYREJECTED: Errno = Errno(libc::EKEYREJECTED);

/// A new directory of this test.
fn folder(name: &str) -> PathBuf {
    let path = scratch().join(name);
    fs::create_dir_all(&path).expect("a folder");
    path
}

fn secret_of(path: &std::path::Path) -> PathBuf {
    path.with_file_name(format!("{}_secret", path.file_name().expect("a name").display()))
}

#[test]
fn what_was_saved_is_loaded() {
    let at = folder("saved").join("server");
    let own = Certificate::new(None).expect("new keys");
    own.set_meta("name", "our server").expect("a value");
    own.save(&at).expect("both files");
    let both = Certificate::load(&at).expect("both keys");
    assert_eq!((both.public(), both.secret()), (own.public(), own.secret()));
    assert_eq!(both.meta("name").as_deref(), Ok("our server"));
    assert_eq!(both.meta("mail"), Err(ENOENT));
    let public = Certificate::load_public(&at).expect("the public key");
    assert_eq!((public.public(), public.secret()), (own.public(), Err(ENOKEY)));
    assert_eq!(public.save(&at), Err(ENOKEY), "there is nothing secret to be saved");
    let mode = |path: &PathBuf| fs::metadata(path).expect("a file").permissions().mode() & 0o777;
    assert_eq!(mode(&secret_of(&at)), 0o600, "its owner's alone");
    let alone = at.with_file_name("alone");
    public.save_public(&alone).expect("one file");
    assert_eq!(Certificate::load(&alone).expect("the public one").secret(), Err(ENOKEY));
    own.save_secret(&alone).expect("one file");
    assert_eq!(Certificate::load_secret(&alone).expect("both keys").secret(), own.secret());
}

#[test]
fn keys_that_are_there_become_a_certificate() {
    let keys = Keys::new();
    let other = Keys::new();
    let both = Certificate::new(Some((&keys.public, Some(&keys.secret)))).expect("both keys");
    assert_eq!(both.secret().as_deref(), Ok(keys.secret.as_str()));
    let public = Certificate::new(Some((&keys.public, None))).expect("a public key");
    assert_eq!((public.public().as_deref(), public.secret()), (Ok(keys.public.as_str()), Err(ENOKEY)));
    let mixed = Certificate::new(Some((&keys.public, Some(&other.secret))));
    assert_eq!(mixed.err(), Some(EKEYREJECTED));
    assert_eq!(Certificate::new(Some(("no key", None))).err(), Some(EINVAL));
}

#[test]
fn what_is_no_certificate_says_why() {
    let at = folder("wrong").join("file");
    let keys = Keys::new();
    let cases = [
        ("curve\n    public-key = \"open".to_owned(), EBADMSG, "line 2 is not a valid line of a certificate"),
        ("metadata\n    name = \"x\"\n".to_owned(), EBADMSG, "the certificate has no valid public key"),
        (
            format!("curve\n    public-key = \"{}\"\n", &keys.public[1..]),
            EBADMSG,
            "the certificate has no valid public key",
        ),
        ("#".repeat(70_000), EBADMSG, "not a certificate: too large, or not text"),
    ];
    for (text, error, words) in cases {
        fs::write(&at, text).expect("a file");
        assert_eq!(Certificate::load(&at).err(), Some(error), "{words}");
        assert_eq!(last_error(), format!("{}: {words}", at.display()));
    }
    fs::write(&at, format!("curve\n    public-key = \"{}\"\n", keys.public)).expect("a file");
    assert_eq!(Certificate::load_secret(&at).err(), Some(EKEYREJECTED));
    assert!(last_error().ends_with("the certificate has no secret key that matches its public key"));
    let nowhere = at.with_file_name("nowhere");
    assert_eq!(Certificate::load(&nowhere).err(), Some(ENOENT));
    assert!(last_error().starts_with(&nowhere.display().to_string()), "{}", last_error());
    let own = Certificate::new(None).expect("new keys");
    assert_eq!(own.save(&nowhere.join("below")), Err(ENOENT));
    for (name, value) in [("a name", "x"), ("name", "two\nlines"), ("name", "both \" and '")] {
        assert_eq!(own.set_meta(name, value), Err(EINVAL));
    }
    // A failure of another kind has its own text, and not that of the previous failure.
    assert_eq!(own.save(&nowhere.join("below")), Err(ENOENT));
    assert_eq!(own.meta("nothing").err(), Some(ENOENT));
    assert!(!last_error().is_empty() && !last_error().contains("nowhere"), "{}", last_error());
    std::thread::spawn(|| assert_eq!(last_error(), "")).join().expect("each thread has its own words");
}

#[test]
fn a_store_knows_whose_key_it_is() {
    let at = folder("store");
    fs::create_dir_all(at.join("more")).expect("a folder");
    let friends: Vec<_> = (0..3).map(|_| Certificate::new(None).expect("new keys")).collect();
    for (index, friend) in friends.iter().enumerate() {
        friend.set_meta("number", &index.to_string()).expect("a value");
        friend
            .save(&at.join(if index == 2 { "more/last".into() } else { index.to_string() }))
            .expect("files");
    }
    fs::write(at.join("wrong"), "= 1").expect("a file");
    let store = Store::load(&at).expect("a store");
    assert_eq!(store.size(), Ok(3));
    for (index, friend) in friends.iter().enumerate() {
        let key = friend.public().expect("a key");
        let found = store.find(key.as_bytes()).expect("known");
        assert_eq!(found.meta("number"), Ok(index.to_string()));
        assert_eq!(found.secret(), Err(ENOKEY), "a store has public certificates");
        found.save_public(&at.join("copy")).expect("what was found is a certificate");
    }
    assert_eq!(store.find(Keys::new().public.as_bytes()).err(), Some(ENOENT));
    assert_eq!(store.find(&[7; 32]).err(), Some(ENOENT), "as ZAP has it");
    assert_eq!(store.find(b"no key").err(), Some(EINVAL));
    let refused = store.refused(0).expect("one");
    assert_eq!(
        refused,
        format!("{}: line 1 is not a valid line of a certificate", at.join("wrong").display())
    );
    assert_eq!(store.refused(1), Err(ENOENT));
    assert_eq!(Store::load(&at.join("nowhere")).err(), Some(ENOENT));
}

#[test]
fn sockets_speak_with_the_keys_of_certificates() {
    let at = folder("applied");
    let (server, client) = (Certificate::new(None).expect("keys"), Certificate::new(None).expect("keys"));
    server.save(&at.join("server")).expect("files");
    let ctx = Context::new();
    let (pull, push) = (ctx.socket(PULL).with(CURVE_SERVER, 1), ctx.socket(PUSH));
    Certificate::load(&at.join("server")).expect("both keys").apply(&pull).expect("a socket");
    client.apply(&push).expect("a socket");
    let known = Certificate::load_public(&at.join("server")).expect("the public key");
    assert_eq!(known.apply(&push), Err(ENOKEY));
    push.set_bytes(CURVE_SERVERKEY, known.public().expect("a key").as_bytes()).expect("CURVE_SERVERKEY");
    push.connect(&Transport::Tcp.bind(&pull)).expect("connect");
    push.put("sealed");
    assert_eq!(pull.take_text(), "sealed");
    pull.close().expect("close");
    let pair = ctx.socket(PAIR);
    let raw = pair.raw();
    pair.close().expect("close");
    assert_eq!(client.apply(&std::mem::ManuallyDrop::new(Socket::from_raw(raw))), Err(Errno(libc::ENOTSOCK)));
}

#[test]
fn handles_live_once() {
    let (cert, at) = (Certificate::new(None).expect("keys"), folder("once"));
    cert.destroy().expect("the first time");
    assert_eq!(cert.destroy(), Err(Errno(libc::EFAULT)));
    assert_eq!(cert.public(), Err(Errno(libc::EFAULT)));
    let store = Store::load(&at).expect("an empty store");
    assert_eq!(store.size(), Ok(0));
    store.destroy().expect("the first time");
    assert_eq!(store.size(), Err(Errno(libc::EFAULT)));
}
