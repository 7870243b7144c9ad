//! Entries of a tree, many to a chunk: its names and attributes, and the content of small files.
//!
//! ```text
//! entry   = kind:1 name-len:2 name size:8 mtime:8 mode:2 target-len:2 target digest:32 content-len:4 content
//! ```
//!
//! If the frame has the header `extra`, each entry is followed by what else is known of it:
//!
//! ```text
//! extra   = len:4 *( tag:1 len:4 value )
//! tag     = 1, the first listed name of a file that has several; 2, a later one, and the value is the first;
//!           3, user:4 group:4; 4, extended attributes as `tree` encodes them
//! ```
//!
//! Other tags are ignored. `digest` and `content` are present in packs only, and for files only; `size` is then the
//! content's.

use super::read::Reader;
use super::{DecodeError, NAME_MAX, put_longstr};
use crate::names::{name_of, value_of};
use crate::wire::headers::DIGEST;

/// What a name of a tree stands for. The numbers are those of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    File = 1,
    Directory = 2,
    Link = 3,
}

impl Kind {
    const NAMES: [(&'static [u8], Kind); 3] =
        [(b"file", Kind::File), (b"directory", Kind::Directory), (b"link", Kind::Link)];

    pub(super) fn name(self) -> &'static [u8] {
        name_of(&Kind::NAMES, self).unwrap_or_default()
    }

    pub(super) fn of_name(name: &[u8]) -> Option<Kind> {
        value_of(&Kind::NAMES, name)
    }

    fn of_number(number: u8) -> Option<Kind> {
        Kind::NAMES.iter().map(|(_, kind)| *kind).find(|kind| *kind as u8 == number)
    }
}

/// User and group, by number.
pub type Owner = (u32, u32);

/// Attributes that are sent if they are asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MoreAttributes {
    pub owner: Option<Owner>,
    /// Encoded.
    pub xattrs: Option<Vec<u8>>,
}

/// A name of a tree with its attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    pub kind: Kind,
    /// Relative to the path of the request, with slashes; empty: the path itself.
    pub name: &'a [u8],
    pub size: u64,
    pub mtime_ns: i64,
    pub mode: u32,
    /// Where a link leads; of a file that is listed with digests, its digest.
    pub target: &'a [u8],
    /// Of a file in a pack: BLAKE3 of its content, and the content.
    pub content: Option<(&'a [u8; DIGEST], &'a [u8])>,
    pub extra: Extra<'a>,
}

/// What is known of a name if it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extra<'a> {
    pub link: HardLink<'a>,
    pub owner: Option<Owner>,
    /// Encoded.
    pub xattrs: Option<&'a [u8]>,
}

impl<'a> Extra<'a> {
    /// Of a name whose attributes are these.
    pub fn of(more: &'a MoreAttributes) -> Extra<'a> {
        Extra { link: HardLink::None, owner: more.owner, xattrs: more.xattrs.as_deref() }
    }
}

/// Whether a file has several names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HardLink<'a> {
    /// Nothing is known of other names.
    #[default]
    None,
    /// It is the first name that is listed of a file that has several.
    First,
    /// The file was listed by this name, which is relative as the entry's.
    Later(&'a [u8]),
}

/// The tags of `Extra`.
const FIRST: u8 = 1;
const LATER: u8 = 2;
const OWNER: u8 = 3;
const XATTRS: u8 = 4;

/// Appends an entry. Error: a name or target is longer than `NAME_MAX`.
pub fn put_entry(into: &mut Vec<u8>, entry: &Entry<'_>) -> Result<(), &'static str> {
    if entry.name.len() > NAME_MAX || entry.target.len() > NAME_MAX {
        return Err("a name longer than 4096 octets");
    }
    into.push(entry.kind as u8);
    into.extend_from_slice(&(entry.name.len() as u16).to_be_bytes());
    into.extend_from_slice(entry.name);
    into.extend_from_slice(&entry.size.to_be_bytes());
    into.extend_from_slice(&entry.mtime_ns.to_be_bytes());
    into.extend_from_slice(&((entry.mode & 0o7777) as u16).to_be_bytes());
    into.extend_from_slice(&(entry.target.len() as u16).to_be_bytes());
    into.extend_from_slice(entry.target);
    if let Some((digest, content)) = entry.content {
        into.extend_from_slice(digest);
        into.extend_from_slice(&(content.len() as u32).to_be_bytes());
        into.extend_from_slice(content);
    }
    Ok(())
}

/// Appends an entry of a frame with the header `extra`. Error: that of `put_entry`.
pub fn put_entry_with_extra(into: &mut Vec<u8>, entry: &Entry<'_>) -> Result<(), &'static str> {
    put_entry(into, entry)?;
    let at = into.len();
    into.extend_from_slice(&[0; 4]);
    let mut put = |tag, value: &[u8]| {
        into.push(tag);
        put_longstr(into, value);
    };
    match entry.extra.link {
        HardLink::None => {}
        HardLink::First => put(FIRST, b""),
        HardLink::Later(first) => put(LATER, first),
    }
    if let Some((user, group)) = entry.extra.owner {
        put(OWNER, &[user.to_be_bytes(), group.to_be_bytes()].concat());
    }
    if let Some(xattrs) = entry.extra.xattrs {
        put(XATTRS, xattrs);
    }
    let len = (into.len() - at - 4) as u32;
    into[at..at + 4].copy_from_slice(&len.to_be_bytes());
    Ok(())
}

/// Reads the entries of a chunk; ends after an error.
pub struct Entries<'a> {
    reader: Reader<'a>,
    is_pack: bool,
    has_extra: bool,
}

impl<'a> Entries<'a> {
    pub fn of_list(chunk: &'a [u8]) -> Entries<'a> {
        Entries { reader: Reader::new(chunk), is_pack: false, has_extra: false }
    }

    pub fn of_pack(chunk: &'a [u8]) -> Entries<'a> {
        Entries { reader: Reader::new(chunk), is_pack: true, has_extra: false }
    }

    /// `has_extra`: the frame has the header `extra`.
    pub fn with_extra(self, has_extra: bool) -> Entries<'a> {
        Entries { has_extra, ..self }
    }

    fn read(&mut self) -> Result<Entry<'a>, DecodeError> {
        let kind = Kind::of_number(self.reader.u8()?).ok_or(DecodeError::Malformed("unknown kind"))?;
        let name = self.name()?;
        let (size, mtime_ns) = (self.reader.u64()?, self.reader.i64()?);
        let mode = u32::from(self.reader.u16()?);
        if mode > 0o7777 {
            return Err(DecodeError::Malformed("an invalid mode"));
        }
        let target = self.name()?;
        let content = match self.is_pack && kind == Kind::File {
            true => Some((self.digest()?, self.reader.longstr()?)),
            false => None,
        };
        if content.is_some_and(|(_, content)| content.len() as u64 != size) {
            return Err(DecodeError::Malformed("a size that is not the content's"));
        }
        let extra = if self.has_extra { read_extra(self.reader.longstr()?)? } else { Extra::default() };
        Ok(Entry { kind, name, size, mtime_ns, mode, target, content, extra })
    }

    fn name(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = usize::from(self.reader.u16()?);
        match len <= NAME_MAX {
            true => self.reader.take(len),
            false => Err(DecodeError::Malformed("a name longer than 4096 octets")),
        }
    }

    fn digest(&mut self) -> Result<&'a [u8; DIGEST], DecodeError> {
        self.reader.take(DIGEST)?.try_into().map_err(|_| DecodeError::Malformed("cut short"))
    }
}

fn read_owner(octets: &[u8]) -> Result<Owner, DecodeError> {
    let mut reader = Reader::new(octets);
    let mut id = || Ok(u32::from_be_bytes(reader.take(4)?.try_into().unwrap_or_default()));
    Ok((id()?, id()?))
}

fn read_extra(octets: &[u8]) -> Result<Extra<'_>, DecodeError> {
    let (mut reader, mut extra) = (Reader::new(octets), Extra::default());
    while !reader.is_empty() {
        match (reader.u8()?, reader.longstr()?) {
            (FIRST, _) => extra.link = HardLink::First,
            (LATER, first) if first.len() <= NAME_MAX => extra.link = HardLink::Later(first),
            (OWNER, owner) => extra.owner = Some(read_owner(owner)?),
            (XATTRS, xattrs) => extra.xattrs = Some(xattrs),
            (LATER, _) => return Err(DecodeError::Malformed("a name longer than 4096 octets")),
            _ => {}
        }
    }
    Ok(extra)
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let read = self.read();
        if read.is_err() {
            self.reader = Reader::new(&[]);
        }
        Some(read)
    }
}
