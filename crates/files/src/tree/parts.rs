//! The names of parts: files that a transfer writes beside the place of another one.
//!
//! A name has a check of itself, so that no file of a user is taken for a part, and left out or removed:
//!
//! ```text
//! part    = "." stem "." check ".part"
//! blocks  = part ".blocks"
//! stem    = the file's name, or its BLAKE3 in hexadecimal digits if the name is too long
//! check   = the first 4 octets of BLAKE3 over "pinnace part " stem, in hexadecimal digits
//! ```

const PART: &[u8] = b".part";
const BLOCKS: &[u8] = b".blocks";

/// The most octets of a name, as Linux has it (NAME_MAX of limits.h).
const NAME_MAX: usize = 255;

/// The name of a file's part.
pub fn part_name(name: &[u8]) -> Vec<u8> {
    let part = with_check(name);
    match part.len() + BLOCKS.len() <= NAME_MAX {
        true => part,
        false => with_check(blake3::hash(name).to_hex().as_bytes()),
    }
}

/// The name of the file that tells which blocks a part has.
pub fn blocks_name(name: &[u8]) -> Vec<u8> {
    [&part_name(name), BLOCKS].concat()
}

/// The name of a hard link before it gets its own. A transfer may be writing the part of the name meanwhile.
pub fn link_name(name: &[u8]) -> Vec<u8> {
    part_name(format!("{}.link", blake3::hash(name).to_hex()).as_bytes())
}

/// The part that a name of either kind belongs to.
pub fn part_of(name: &[u8]) -> &[u8] {
    name.strip_suffix(BLOCKS).unwrap_or(name)
}

/// Returns true if it is the name of a part, or of the record of its blocks.
pub fn is_part(name: &[u8]) -> bool {
    let inner = part_of(name).strip_suffix(PART).and_then(|inner| inner.strip_prefix(b"."));
    let Some(inner) = inner else { return false };
    let stem = inner.iter().rposition(|octet| *octet == b'.').map(|dot| &inner[..dot]);
    stem.is_some_and(|stem| with_check(stem) == part_of(name))
}

fn with_check(stem: &[u8]) -> Vec<u8> {
    let check = blake3::hash(&[b"pinnace part ", stem].concat()).to_hex();
    [b".", stem, b".", &check.as_bytes()[..8], PART].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_parts_are_taken_for_parts() {
        for len in 1..=NAME_MAX {
            let name = vec![b'a'; len];
            for part in [part_name(&name), blocks_name(&name), link_name(&name)] {
                assert!(is_part(&part) && part.len() <= NAME_MAX, "{len}");
                assert!(!is_part(&part[1..]) && !is_part(&[b".", &part[..]].concat()));
            }
            assert_eq!(part_of(&blocks_name(&name)), part_name(&name), "{len}");
        }
        for name in [".a.part", ".a.part.blocks", ".part", "..part", ".a.00000000.part", "a", ".", ""] {
            assert!(!is_part(name.as_bytes()), "{name}");
        }
        // Other versions find it.
        assert_eq!(String::from_utf8(part_name(b"a")).unwrap(), ".a.507716cd.part");
    }
}
