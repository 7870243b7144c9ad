//! Z85 (RFC 32): binary as text, four bytes as five characters.
//!
//! ```
//! use pinnace_zmtp::z85;
//! assert_eq!(z85::encode([0x86, 0x4F, 0xD2, 0x6F]), *b"Hello");
//! assert_eq!(z85::decode(*b"Hello"), Some([0x86, 0x4F, 0xD2, 0x6F]));
//! ```

/// The digits, ordered by value (RFC 32).
const DIGITS: &[u8; 85] =
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

/// The value of each digit; 255 if the byte is not a digit.
const VALUES: [u8; 256] = {
    let mut values = [255; 256];
    let mut value = 0;
    while value < DIGITS.len() {
        values[DIGITS[value] as usize] = value as u8;
        value += 1;
    }
    values
};

/// Length in characters of a 32-byte key as text.
pub const KEY_TEXT: usize = 40;

/// Four bytes as five characters.
pub fn encode(group: [u8; 4]) -> [u8; 5] {
    let mut number = u32::from_be_bytes(group);
    let mut text = [0; 5];
    for digit in text.iter_mut().rev() {
        *digit = DIGITS[(number % 85) as usize];
        number /= 85;
    }
    text
}

/// Five characters as four bytes. `None` if a character is not a digit, or the number exceeds 32 bits.
pub fn decode(text: [u8; 5]) -> Option<[u8; 4]> {
    let mut number = 0_u64;
    for digit in text {
        let value = VALUES[usize::from(digit)];
        if value == 255 {
            return None;
        }
        number = number * 85 + u64::from(value);
    }
    u32::try_from(number).ok().map(u32::to_be_bytes)
}

/// A key as text.
pub fn encode_key(key: &[u8; 32]) -> [u8; KEY_TEXT] {
    let mut text = [0; KEY_TEXT];
    encode_key_into(key, &mut text);
    text
}

/// As [`encode_key`], for secret keys: writes directly to `text` and leaves no copy elsewhere.
pub fn encode_key_into(key: &[u8; 32], text: &mut [u8; KEY_TEXT]) {
    for (to, group) in text.as_chunks_mut::<5>().0.iter_mut().zip(key.as_chunks::<4>().0) {
        *to = encode(*group);
    }
}

/// Parses a key. `None` if the text is not a valid key.
pub fn decode_key(text: &[u8]) -> Option<[u8; 32]> {
    let mut key = [0; 32];
    decode_key_into(text, &mut key)?;
    Some(key)
}

/// As [`decode_key`], for secret keys: writes directly to `key` and leaves no copy elsewhere. If it returns `None`,
/// `key` may be partly written.
pub fn decode_key_into(text: &[u8], key: &mut [u8; 32]) -> Option<()> {
    let groups = <&[u8; KEY_TEXT]>::try_from(text).ok()?.as_chunks::<5>().0;
    for (to, group) in key.as_chunks_mut::<4>().0.iter_mut().zip(groups) {
        *to = decode(*group)?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_digit_and_both_ends() {
        for group in [[0; 4], [255; 4], [1, 2, 3, 4]] {
            assert_eq!(decode(encode(group)), Some(group));
        }
        assert_eq!(encode([0; 4]), *b"00000");
        assert_eq!(encode([255; 4]), *b"%nSc0");
        assert_eq!(decode(*b"%nSc1"), None, "above 32 bits");
        assert_eq!(decode(*b"#####"), None);
        assert_eq!(decode(*b"ab,de"), None, "no digit");
    }

    /// These two are from zmq_curve(7).
    #[test]
    fn keys_both_ways() {
        let text = b"rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7";
        let key = decode_key(text).unwrap();
        assert_eq!(key[..4], [0x54, 0xFC, 0xBA, 0x24]);
        assert_eq!(&encode_key(&key), text);
        for wrong in [&text[..39], b"", b"rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf,"] {
            assert_eq!(decode_key(wrong), None);
        }
    }
}
