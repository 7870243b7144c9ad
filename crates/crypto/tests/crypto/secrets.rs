//! Weak keys, changed boxes, and secrets that must not be printed.

use pinnace_crypto::{BoxKey, Forged, KeyPair, Secret, SecretBytes, equal, random};

#[test]
fn boxes_stay_shut_for_everybody_else() {
    let (alice, bob, eve) =
        (KeyPair::generate().unwrap(), KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let nonce = [1; 24];
    let sealed = BoxKey::shared(&bob.public, &alice.secret).unwrap().seal(&nonce, b"hello");
    let key = BoxKey::shared(&alice.public, &bob.secret).unwrap();
    assert_eq!(*key.open(&nonce, &sealed).unwrap(), *b"hello");
    assert_eq!(key.open(&[2; 24], &sealed), Err(Forged));
    assert_eq!(BoxKey::shared(&alice.public, &eve.secret).unwrap().open(&nonce, &sealed), Err(Forged));
    for len in 0..sealed.len() {
        assert_eq!(key.open(&nonce, &sealed[..len]), Err(Forged), "{len} bytes");
    }
    for bit in 0..sealed.len() * 8 {
        let mut changed = sealed.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(key.open(&nonce, &changed), Err(Forged), "bit {bit}");
    }
}

/// RFC 7748, section 6.1: an all-zero shared secret must be rejected.
#[test]
fn weak_points_are_refused() {
    let ours = KeyPair::generate().unwrap();
    let one = std::array::from_fn(|index| u8::from(index == 0));
    for weak in [[0; 32], one] {
        assert!(BoxKey::shared(&weak, &ours.secret).is_err());
    }
}

#[test]
fn secrets_are_not_shown() {
    let pair = KeyPair::from_secret(Secret::copy_of(&[0xab; 32]));
    let key = BoxKey::shared(&pair.public, &pair.secret).unwrap();
    let shown = format!("{:?} {key:?} {:?}", pair.secret, SecretBytes::from(&b"password"[..]));
    assert_eq!(shown, "Secret<32> BoxKey(Secret<32>) SecretBytes(8 bytes)");
    assert!(!format!("{pair:?}").contains("171, 171"));
}

#[test]
fn equality_is_of_all_bytes() {
    assert!(equal(b"", b"") && equal(b"abc", b"abc"));
    assert!(!equal(b"abc", b"abd") && !equal(b"abc", b"ab") && !equal(b"xbc", b"abc") && !equal(b"", b"a"));
    assert_eq!(Secret::copy_of(&[1; 4]), Secret::copy_of(&[1; 4]));
    assert_ne!(Secret::copy_of(&[1; 4]), Secret::copy_of(&[1, 1, 1, 2]));
}

#[test]
fn random_bytes_differ() {
    let (mut a, mut b) = ([0; 32], [0; 32]);
    random(&mut a).unwrap();
    random(&mut b).unwrap();
    assert!(a != b && a != [0; 32]);
    assert_ne!(KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
}

#[test]
fn secret_bytes_grow_and_are_emptied() {
    let mut bytes = SecretBytes::new();
    let mut expected = Vec::new();
    for n in 0..200_u8 {
        bytes.extend_from_slice(&vec![n; n.into()]);
        expected.extend_from_slice(&vec![n; n.into()]);
        assert_eq!(*bytes, expected[..]);
    }
    bytes.clear();
    assert!(bytes.is_empty());
    bytes.extend_from_slice(b"again");
    assert_eq!(bytes, SecretBytes::from(&b"again"[..]));
}
