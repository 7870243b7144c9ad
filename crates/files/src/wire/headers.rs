//! The headers of CHEEZBURGER: attributes and digests of files, and replies to requests.
//!
//! Other clients ignore them.

use super::hash::HashWriter;
use super::request::{decimal, signed};
use super::{Hash, Kind, Owner};
use crate::names::{name_of, value_of};

/// The octets of a chaining value or digest of BLAKE3.
pub const DIGEST: usize = blake3::OUT_LEN;

/// What a chunk holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// Octets of the file.
    #[default]
    Data,
    /// Nothing: a file begins, and the headers have its attributes.
    Begin,
    /// The values of blocks of a file, from the offset of the first one on; and the file's attributes.
    Values,
    /// Whole small files, as entries with content.
    Pack,
    /// Entries without content.
    List,
    /// Nothing: of a request that follows a path, all that was there is listed.
    Listed,
    /// Nothing: the header `from` has the path by which the file or directory was known.
    Moved,
    /// Nothing: the file has the size and time that the client knows.
    Unchanged,
    /// Nothing: of a dry run of an upload, the server would make or replace the path; with the operation `Delete`, it
    /// would remove it.
    Planned,
    /// Nothing: the request is complete.
    End,
    /// Nothing: the request, or the file that is named, failed.
    Failed,
}

impl Form {
    const NAMES: [(&'static [u8], Form); 11] = [
        (b"data", Form::Data),
        (b"begin", Form::Begin),
        (b"values", Form::Values),
        (b"pack", Form::Pack),
        (b"list", Form::List),
        (b"listed", Form::Listed),
        (b"moved", Form::Moved),
        (b"unchanged", Form::Unchanged),
        (b"planned", Form::Planned),
        (b"end", Form::End),
        (b"failed", Form::Failed),
    ];
}

/// The headers that this implementation knows. Fields that are None or empty are not sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Headers {
    /// The request that this replies to.
    pub request: Option<u32>,
    pub form: Form,
    pub kind: Option<Kind>,
    /// Octets of the file.
    pub size: Option<u64>,
    /// Nanoseconds since 1970; negative before.
    pub mtime_ns: Option<i64>,
    /// Permission bits.
    pub mode: Option<u32>,
    /// Names the version of the file, for the server that gave it.
    pub tag: Vec<u8>,
    /// BLAKE3 of the whole file.
    pub digest: Option<[u8; DIGEST]>,
    /// The chaining values of the groups that end in the chunk.
    pub groups: Vec<u8>,
    /// Of a compressed chunk: the octets that it unpacks to.
    pub zstd: Option<u64>,
    /// Of a frame without content: so many octets from its offset on are zeros.
    pub zeros: Option<u64>,
    /// Of entries: each is followed by what else is known.
    pub extra: bool,
    /// User and group, by number.
    pub owner: Option<Owner>,
    /// Extended attributes, as entries have them.
    pub xattrs: Option<Vec<u8>>,
    /// Of the answer to a greeting: the domain of the server, which is the client's.
    pub domain: Vec<u8>,
    /// Of a file or directory that was moved: its path before.
    pub from: Vec<u8>,
    /// A name of `error::Code`, and an explanation.
    pub error: Vec<u8>,
    pub text: Vec<u8>,
    /// Of a complete request: its files, and their octets.
    pub files: Option<u64>,
    pub bytes: Option<u64>,
}

impl Headers {
    pub fn write(&self) -> HashWriter {
        let mut hash = HashWriter::default();
        let mut put = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                hash.put(name.as_bytes(), value.as_bytes());
            }
        };
        put("request", self.request.map(|number| number.to_string()));
        put("size", self.size.map(|size| size.to_string()));
        put("mtime", self.mtime_ns.map(|mtime| mtime.to_string()));
        put("mode", self.mode.map(|mode| format!("{mode:o}")));
        put("files", self.files.map(|files| files.to_string()));
        put("owner", self.owner.map(|(user, group)| format!("{user}:{group}")));
        put("zeros", self.zeros.map(|len| len.to_string()));
        put("zstd", self.zstd.map(|len| len.to_string()));
        put("bytes", self.bytes.map(|bytes| bytes.to_string()));
        if self.form != Form::Data
            && let Some(name) = name_of(&Form::NAMES, self.form)
        {
            hash.put(b"form", name);
        }
        if let Some(xattrs) = &self.xattrs {
            hash.put(b"xattrs", xattrs);
        }
        if self.extra {
            hash.put(b"extra", b"1");
        }
        if let Some(kind) = self.kind {
            hash.put(b"kind", kind.name());
        }
        if let Some(digest) = &self.digest {
            hash.put(b"digest", digest);
        }
        let octets = [
            ("tag", &self.tag),
            ("domain", &self.domain),
            ("from", &self.from),
            ("error", &self.error),
            ("text", &self.text),
            ("groups", &self.groups),
        ];
        for (name, value) in octets.iter().filter(|(_, value)| !value.is_empty()) {
            hash.put(name.as_bytes(), value);
        }
        hash
    }

    /// Reads the headers. Error: which one is invalid.
    pub fn read(hash: Hash<'_>) -> Result<Headers, &'static str> {
        let mut headers = Headers::default();
        for (name, value) in hash.iter() {
            match name {
                b"request" => headers.request = Some(decimal(value).ok_or("request")?),
                b"form" => {
                    headers.form = value_of(&Form::NAMES, value).ok_or("form")?;
                }
                b"kind" => headers.kind = Some(Kind::of_name(value).ok_or("kind")?),
                b"size" => headers.size = Some(decimal(value).ok_or("size")?),
                b"mtime" => headers.mtime_ns = Some(signed(value).ok_or("mtime")?),
                b"mode" => headers.mode = Some(octal(value).ok_or("mode")?),
                b"tag" => headers.tag = value.to_vec(),
                b"digest" => headers.digest = Some(value.try_into().map_err(|_| "digest")?),
                b"groups" if value.len() % DIGEST == 0 => headers.groups = value.to_vec(),
                b"groups" => return Err("groups"),
                b"zstd" => headers.zstd = Some(decimal(value).ok_or("zstd")?),
                b"zeros" => headers.zeros = Some(decimal(value).ok_or("zeros")?),
                b"extra" => headers.extra = true,
                b"owner" => headers.owner = Some(owner(value).ok_or("owner")?),
                b"xattrs" => headers.xattrs = Some(value.to_vec()),
                b"domain" => headers.domain = value.to_vec(),
                b"from" => headers.from = value.to_vec(),
                b"error" => headers.error = value.to_vec(),
                b"text" => headers.text = value.to_vec(),
                b"files" => headers.files = Some(decimal(value).ok_or("files")?),
                b"bytes" => headers.bytes = Some(decimal(value).ok_or("bytes")?),
                _ => {}
            }
        }
        Ok(headers)
    }
}

/// Two numbers.
fn owner(text: &[u8]) -> Option<Owner> {
    let colon = text.iter().position(|octet| *octet == b':')?;
    Some((decimal(&text[..colon])?, decimal(&text[colon + 1..])?))
}

/// Permission bits in octal.
fn octal(text: &[u8]) -> Option<u32> {
    let is_octal = !text.is_empty() && text.iter().all(|digit| (b'0'..=b'7').contains(digit));
    is_octal
        .then(|| u32::from_str_radix(std::str::from_utf8(text).ok()?, 8).ok())?
        .filter(|mode| *mode <= 0o7777)
}
