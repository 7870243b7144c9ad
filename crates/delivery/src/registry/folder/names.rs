//! Maps a client's name to a file name that every file system accepts, without collisions.

use crate::wire::NAME_MAX;

/// The longest file name, in bytes (NAME_MAX of limits.h).
const FILE_NAME_MAX: usize = 255;

/// Letters, digits, `-` and `_` stand for themselves; any other byte becomes `%` and two digits. A result that is too
/// long becomes `~` and a hash. No result begins with a dot: such files are the folder's own.
///
/// The hash has 128 bits. Two long names with the same hash could not be present at once; neither would get the other's
/// place, because a file also contains its name.
pub fn file_name(name: &str) -> String {
    let safe = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let mut file = String::with_capacity(3 * NAME_MAX);
    for byte in name.bytes() {
        match safe(byte) {
            true => file.push(char::from(byte)),
            false => file.push_str(&format!("%{byte:02x}")),
        }
    }
    if file.len() > FILE_NAME_MAX { format!("~{:032x}", hash(name.as_bytes())) } else { file }
}

/// FNV-1a of 128 bits (draft-eastlake-fnv).
fn hash(bytes: &[u8]) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_as_files() {
        assert_eq!(file_name("a-B_9"), "a-B_9");
        assert_eq!(file_name(".."), "%2e%2e");
        assert_eq!(file_name("a/ü"), "a%2f%c3%bc");
        assert_eq!(file_name(&"a".repeat(255)), "a".repeat(255));
        assert_eq!(file_name(&"/".repeat(85)).len(), 255);
        assert_eq!(file_name(&"/".repeat(86)).len(), 33);
    }

    #[test]
    fn the_hash_is_fnv() {
        assert_eq!(hash(b""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(hash(b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
    }

    proptest! {
        #[test]
        fn every_name_has_its_own(one in ".{1,200}", other in ".{1,200}") {
            let (file, another) = (file_name(&one), file_name(&other));
            prop_assert!(!file.is_empty() && file.len() <= FILE_NAME_MAX);
            prop_assert!(!file.starts_with('.') && !file.contains(['/', '\0']));
            prop_assert_eq!(one == other, file == another);
        }
    }
}
