//! Compares our boxes with those of the pure-Rust crates `crypto_box` and `crypto_secretbox`.

use crypto_box::SalsaBox;
use crypto_box::aead::Aead;
use crypto_secretbox::{KeyInit, XSalsa20Poly1305};
use pinnace_crypto::{BoxKey, Forged, KeyPair, Secret, StreamKey};
use proptest::prelude::*;

fn pair(seed: u8) -> KeyPair {
    KeyPair::from_secret(Secret::copy_of(&[seed; 32]))
}

fn theirs(public: &[u8; 32], secret: &[u8; 32]) -> SalsaBox {
    SalsaBox::new(&crypto_box::PublicKey::from(*public), &crypto_box::SecretKey::from(*secret))
}

#[test]
fn public_keys_are_the_same() {
    for seed in 0..=255 {
        let ours = pair(seed);
        let oracle = crypto_box::SecretKey::from([seed; 32]).public_key();
        assert_eq!(&ours.public, oracle.as_bytes());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn boxes_are_the_same(
        a: [u8; 32], b: [u8; 32], nonce: [u8; 24], message in prop::collection::vec(any::<u8>(), 0..700),
    ) {
        let (a, b) = (KeyPair::from_secret(Secret::copy_of(&a)), KeyPair::from_secret(Secret::copy_of(&b)));
        let sealed = BoxKey::shared(&b.public, &a.secret).unwrap().seal(&nonce, &message);
        let oracle = theirs(&a.public, &b.secret);
        prop_assert_eq!(&oracle.encrypt(&nonce.into(), &message[..]).unwrap(), &sealed);
        let opened = BoxKey::shared(&a.public, &b.secret).unwrap().open(&nonce, &sealed);
        prop_assert_eq!(&*opened.unwrap(), &message[..]);
    }

    #[test]
    fn symmetric_boxes_are_the_same(
        key: [u8; 32], nonce: [u8; 24], message in prop::collection::vec(any::<u8>(), 0..700),
    ) {
        let sealed = BoxKey::symmetric(Secret::copy_of(&key)).seal(&nonce, &message);
        let oracle = XSalsa20Poly1305::new(&key.into());
        prop_assert_eq!(oracle.encrypt(&nonce.into(), &message[..]).unwrap(), sealed);
    }

    #[test]
    fn streams_make_the_same_boxes(
        key: [u8; 32], nonce: [u8; 24], head: [u8; 16], first: u8,
        rest in prop::collection::vec(any::<u8>(), 0..1500), before in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let stream = StreamKey::new(&BoxKey::symmetric(Secret::copy_of(&key)), nonce.first_chunk().unwrap());
        let tail = nonce.last_chunk().unwrap();
        let mut out = before.clone();
        stream.seal(tail, &head, first, &rest, &mut out).unwrap();
        let message = [&[first], &rest[..]].concat();
        let boxed = XSalsa20Poly1305::new(&key.into()).encrypt(&nonce.into(), &message[..]).unwrap();
        prop_assert_eq!(&out, &[&before, &head[..], &boxed].concat());

        let (tag, ciphertext) = out[before.len() + 16..].split_first_chunk_mut().unwrap();
        let sealed = ciphertext.to_vec();
        stream.open(tail, tag, ciphertext).unwrap();
        prop_assert_eq!(&ciphertext[..], &message[..]);

        // Flip single bits: the box must not open, and the ciphertext must be unchanged.
        for bit in [0, 7, sealed.len() * 8 - 1, sealed.len() * 4] {
            let mut changed = sealed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let kept = changed.clone();
            prop_assert_eq!(stream.open(tail, tag, &mut changed), Err(Forged));
            prop_assert_eq!(changed, kept);
        }
        for bit in 0..128 {
            let mut tag = *tag;
            tag[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(stream.open(tail, &tag, &mut sealed.clone()), Err(Forged));
        }
    }
}

/// All lengths around Salsa20's block boundaries, and the sizes at which libsodium switches its code.
#[test]
fn streams_of_every_length() {
    let key = [3; 32];
    let stream = StreamKey::new(&BoxKey::symmetric(Secret::copy_of(&key)), &[5; 16]);
    let oracle = XSalsa20Poly1305::new(&key.into());
    let mut nonce = [5; 24];
    for len in (0..1200).chain([4095, 4096, 65_535, 100_000]) {
        let rest: Vec<u8> = (0..len).map(|n: usize| (n * 7) as u8).collect();
        nonce[16..].copy_from_slice(&(len as u64).to_be_bytes());
        let mut out = Vec::new();
        stream.seal(nonce.last_chunk().unwrap(), &[1; 16], 9, &rest, &mut out).unwrap();
        let message = [&[9], &rest[..]].concat();
        assert_eq!(out[16..], oracle.encrypt(&nonce.into(), &message[..]).unwrap(), "{len} bytes");
        let (tag, ciphertext) = out[16..].split_first_chunk_mut().unwrap();
        stream.open(nonce.last_chunk().unwrap(), tag, ciphertext).unwrap();
        assert_eq!(ciphertext, message, "{len} bytes");
    }
}
