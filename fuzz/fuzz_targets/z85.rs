//! Keys as text and as bytes, converted both ways.

use pinnace_zmtp::z85;

pub fn run(data: &[u8]) {
    if let Some(key) = data.first_chunk::<32>() {
        assert_eq!(z85::decode_key(&z85::encode_key(key)), Some(*key));
    }
    match z85::decode_key(data) {
        Some(key) => assert_eq!(&z85::encode_key(&key)[..], data),
        None => {
            let mut kept = [0x5A; 32];
            assert_eq!(z85::decode_key_into(data, &mut kept), None);
        }
    }
    if let Some(text) = data.first_chunk::<5>()
        && let Some(group) = z85::decode(*text)
    {
        assert_eq!(&z85::encode(group), text);
    }
}
