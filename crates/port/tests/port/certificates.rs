//! Files of certificates through the pipes.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::client::{Client, bytes};

const KEY_PAIR: u16 = 30;
const LOAD: u16 = 31;
const SAVE: u16 = 32;

const ENOENT: u32 = 2;
const EEXIST: u32 = 17;
const EINVAL: u32 = 22;
const EBADMSG: u32 = 74;
const ENOKEY: u32 = 126;
const EKEYREJECTED: u32 = 129;

fn load(client: &mut Client, which: u8, file: &Path) -> Result<Vec<u8>, u32> {
    client.request(LOAD, &[&[which][..], &bytes(file.as_os_str().as_bytes())].concat())
}

fn save(client: &mut Client, which: u8, file: &Path, cert: &[u8]) -> Result<Vec<u8>, u32> {
    client.request(SAVE, &[&[which][..], &bytes(file.as_os_str().as_bytes()), cert].concat())
}

/// A certificate with new keys: both, and the public one alone.
fn certificates(client: &mut Client) -> (Vec<u8>, Vec<u8>) {
    let keys = client.request(KEY_PAIR, &[]).expect("keys");
    let metadata = [bytes(b"name"), bytes("Käthe".as_bytes())].concat();
    let both = [&keys[..32], &[1], &keys[32..], &metadata].concat();
    (both, [&keys[..32], &[0], &metadata].concat())
}

#[test]
fn a_certificate_is_saved_and_loaded() {
    let place = tempfile::tempdir().unwrap();
    let (file, secret) = (place.path().join("mine"), place.path().join("mine_secret"));
    let mut client = Client::start();
    let (both, public) = certificates(&mut client);
    save(&mut client, 0, &file, &both).expect("it is saved");
    assert_eq!(fs::metadata(&secret).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(load(&mut client, 0, &file), Ok(both.clone()));
    assert_eq!(load(&mut client, 1, &file), Ok(public.clone()));
    assert_eq!(load(&mut client, 2, &secret), Ok(both.clone()));
    assert_eq!(load(&mut client, 3, &secret), Ok(both.clone()));
    assert_eq!(load(&mut client, 3, &file), Ok(both.clone()));
    let (other, copy) = (place.path().join("other"), place.path().join("copy_secret"));
    save(&mut client, 1, &other, &both).expect("it is saved");
    assert_eq!(load(&mut client, 0, &other), Ok(public));
    save(&mut client, 2, &copy, &both).expect("it is saved");
    assert_eq!(load(&mut client, 2, &copy), Ok(both.clone()));
    assert_eq!(save(&mut client, 3, &file, &both), Err(EEXIST));
    assert_eq!(save(&mut client, 3, &place.path().join("new"), &both), Ok(vec![]));
}

#[test]
fn wrong_certificates_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("mine");
    let mut client = Client::start();
    let (both, public) = certificates(&mut client);
    let (others, _) = certificates(&mut client);
    assert_eq!(load(&mut client, 0, &file), Err(ENOENT));
    assert_eq!(load(&mut client, 4, &file), Err(EINVAL));
    assert_eq!(save(&mut client, 4, &file, &both), Err(EINVAL));
    assert_eq!(save(&mut client, 0, &file, &both[..64]), Err(EINVAL));
    assert_eq!(save(&mut client, 0, &file, &public), Err(ENOKEY));
    let mixed = [&both[..33], &others[33..]].concat();
    assert_eq!(save(&mut client, 0, &file, &mixed), Err(EKEYREJECTED));
    let unwritable = [&public[..33], &bytes(b"name"), &bytes(b"two\nlines")].concat();
    assert_eq!(save(&mut client, 1, &file, &unwritable), Err(EINVAL));
    assert_eq!(save(&mut client, 0, &place.path().join("none/mine"), &both), Err(ENOENT));
    fs::write(&file, "text").unwrap();
    assert_eq!(load(&mut client, 1, &file), Err(EBADMSG));
    save(&mut client, 1, &file, &public).expect("it is saved");
    assert_eq!(load(&mut client, 2, &file), Err(EKEYREJECTED), "it has no secret key");
}
