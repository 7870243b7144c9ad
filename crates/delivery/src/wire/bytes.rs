//! Integers and strings as bytes: LEB128 integers (as in DWARF 5, 7.6), and length-prefixed byte strings.

/// A cursor over bytes. A read that fails consumes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    pub fn new(bytes: &'a [u8]) -> Bytes<'a> {
        Bytes(bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes not read yet.
    pub fn rest(self) -> &'a [u8] {
        self.0
    }

    pub fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    /// An integer, which must be in its shortest form.
    pub fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for (index, &byte) in self.0.iter().take(10).enumerate() {
            let part = u64::from(byte & 0x7f);
            if index == 9 && byte > 1 {
                return None;
            }
            number |= part << (7 * index);
            if byte & 0x80 == 0 {
                if index > 0 && byte == 0 {
                    return None;
                }
                self.0 = &self.0[index + 1..];
                return Some(number);
            }
        }
        None
    }

    pub fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// Length-prefixed bytes.
    pub fn counted(&mut self) -> Option<&'a [u8]> {
        let mut ahead = *self;
        let len = ahead.number()?;
        let taken = ahead.take(usize::try_from(len).ok()?)?;
        *self = ahead;
        Some(taken)
    }

    /// Length-prefixed UTF-8 text of at most `most` bytes.
    pub fn text(&mut self, most: usize) -> Option<&'a str> {
        let mut ahead = *self;
        let text = std::str::from_utf8(ahead.counted()?).ok().filter(|text| text.len() <= most)?;
        *self = ahead;
        Some(text)
    }
}

/// The most bytes that one integer takes.
pub const NUMBER_MAX: usize = 10;

pub fn put_number(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

pub fn put_counted(to: &mut Vec<u8>, bytes: &[u8]) {
    put_number(to, bytes.len() as u64);
    to.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_come_back(numbers in prop::collection::vec((any::<u64>(), 0..64_u32), 0..9)) {
            let numbers: Vec<u64> = numbers.into_iter().map(|(number, by)| number >> by).collect();
            let mut bytes = Vec::new();
            for number in &numbers {
                put_number(&mut bytes, *number);
            }
            let mut from = Bytes::new(&bytes);
            for number in &numbers {
                prop_assert_eq!(from.number(), Some(*number));
            }
            prop_assert!(from.is_empty());
        }

        #[test]
        fn there_is_one_way_to_write_a_number(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
            let mut from = Bytes::new(&bytes);
            if let Some(number) = from.number() {
                let mut again = Vec::new();
                put_number(&mut again, number);
                prop_assert_eq!(&bytes[..bytes.len() - from.rest().len()], &again[..]);
            }
        }
    }
}
