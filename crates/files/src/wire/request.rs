//! A request: a subscription of this implementation, with what RFC 35 has no field for, as options of ICANHAZ.
//!
//! Other servers ignore the options and take the request as a subscription to its path.

use super::hash::HashWriter;
use super::{Hash, Message};
use crate::names::{name_of, value_of};
use crate::rules::{Deletion, Existing, Pattern, Rules};

/// The option that marks a request, and its value.
const EXTENSION: &[u8] = b"pinnace";
const EXTENSION_VERSION: &[u8] = b"1";

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Files as they are now; then the request ends.
    Fetch,
    /// The values of a file's blocks; then the request ends.
    Values,
    /// The names and attributes below a path; then the request ends.
    List,
    /// As `List`; then what changes below the path is told, until the request is cancelled.
    Follow,
    /// The request of the same number ends.
    Cancel,
    /// The request of the same number goes on without the file of this path.
    Skip,
    /// Nothing, but `source` is offered: the server fetches it to the path.
    Upload,
    /// Nothing: the server ends it at once. So a client knows which of its greetings the server has answered.
    Greet,
}

impl Mode {
    const NAMES: [(&'static [u8], Mode); 8] = [
        (b"fetch", Mode::Fetch),
        (b"values", Mode::Values),
        (b"list", Mode::List),
        (b"follow", Mode::Follow),
        (b"cancel", Mode::Cancel),
        (b"skip", Mode::Skip),
        (b"greet", Mode::Greet),
        (b"upload", Mode::Upload),
    ];

    fn name(self) -> &'static [u8] {
        name_of(&Mode::NAMES, self).unwrap_or_default()
    }

    fn of_name(name: &[u8]) -> Option<Mode> {
        value_of(&Mode::NAMES, name)
    }
}

/// A request. Empty fields are not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The client's number for it; replies carry the number.
    pub number: u32,
    pub mode: Mode,
    /// A virtual path, which begins with a slash.
    pub path: Vec<u8>,
    /// Names below the path, if only these are asked for.
    pub names: Vec<Vec<u8>>,
    /// The most octets of a chunk; 0: the server chooses.
    pub chunk: u32,
    /// The parts of the file that are asked for, as offsets: first, and end (exclusive). Empty: all.
    pub ranges: Vec<(u64, u64)>,
    /// The version of the file that the ranges belong to.
    pub tag: Vec<u8>,
    /// Size and time of the file that the client has: if the server's has the same, it is not sent.
    pub known: Option<(u64, i64)>,
    /// For `List` and `Follow`: each entry of a file has its digest as the target.
    pub digests: bool,
    /// For `Greet`: the domain that the client wants to reach; empty: none.
    pub domain: Vec<u8>,
    /// For `Upload`: the virtual path at which the client offers the file or folder.
    pub source: Vec<u8>,
    /// For `Upload`: what the server leaves out, replaces and removes. For others: how files are sent.
    pub rules: Rules,
}

impl Request {
    pub fn new(number: u32, mode: Mode, path: &[u8]) -> Request {
        Request {
            number,
            mode,
            path: path.to_vec(),
            names: Vec::new(),
            chunk: 0,
            ranges: Vec::new(),
            tag: Vec::new(),
            known: None,
            digests: false,
            domain: Vec::new(),
            source: Vec::new(),
            rules: Rules::default(),
        }
    }

    /// Its frame.
    pub fn to_frame(&self) -> Vec<u8> {
        let mut options = HashWriter::default();
        options.put(EXTENSION, EXTENSION_VERSION);
        options.put(b"request", self.number.to_string().as_bytes());
        options.put(b"mode", self.mode.name());
        if !self.names.is_empty() {
            options.put(b"names", &self.names.join(&0));
        }
        if self.chunk > 0 {
            options.put(b"chunk", self.chunk.to_string().as_bytes());
        }
        if !self.ranges.is_empty() {
            let ranges: Vec<String> =
                self.ranges.iter().map(|(first, end)| format!("{first}-{end}")).collect();
            options.put(b"ranges", ranges.join(",").as_bytes());
        }
        for (name, value) in [(&b"tag"[..], &self.tag), (b"source", &self.source), (b"domain", &self.domain)]
        {
            if !value.is_empty() {
                options.put(name, value);
            }
        }
        if let Some((size, mtime_ns)) = self.known {
            options.put(b"known", format!("{size}:{mtime_ns}").as_bytes());
        }
        self.put_rules(&mut options);
        Message::Icanhaz { path: &self.path, options: options.hash(), cache: Hash::EMPTY }.to_frame()
    }

    /// Reads the options of ICANHAZ. None: it is no request but a subscription of RFC 35. Error: what is wrong.
    pub fn read(path: &[u8], options: Hash<'_>) -> Option<Result<Request, &'static str>> {
        options.get("pinnace")?;
        Some(Request::read_options(path, options))
    }

    fn read_options(path: &[u8], options: Hash<'_>) -> Result<Request, &'static str> {
        let number = options.get("request").and_then(decimal).ok_or("a request without a number")?;
        let mode = options.get("mode").and_then(Mode::of_name).ok_or("a request of an unknown mode")?;
        let mut request = Request::new(number, mode, path);
        for (name, value) in options.iter() {
            match name {
                b"names" => request.names = value.split(|octet| *octet == 0).map(<[u8]>::to_vec).collect(),
                b"chunk" => request.chunk = decimal(value).ok_or("an invalid size of chunks")?,
                b"ranges" => request.ranges = ranges(value).ok_or("invalid ranges")?,
                b"tag" => request.tag = value.to_vec(),
                b"domain" => request.domain = value.to_vec(),
                b"digests" => request.digests = true,
                b"source" => request.source = value.to_vec(),
                b"known" => request.known = Some(known(value).ok_or("an invalid size and time")?),
                _ => request.read_rule(name, value)?,
            }
        }
        Ok(request)
    }

    fn put_rules(&self, options: &mut HashWriter) {
        let Rules {
            filter,
            existing,
            checksum,
            whole_files,
            deletion,
            fsync,
            dry_run,
            compress,
            sparse,
            hard_links,
            owner,
            xattrs,
        } = &self.rules;
        if !filter.is_empty() {
            let sign = |pattern: &Pattern| if pattern.includes { "+" } else { "-" };
            let rules: Vec<String> = filter.iter().map(|of| format!("{}{}", sign(of), of.text)).collect();
            options.put(b"filter", rules.join("\0").as_bytes());
        }
        if let Some(name) = name_of(&EXISTING, *existing).filter(|_| *existing != Existing::Different) {
            options.put(b"existing", name);
        }
        if let Some(Deletion { most, force }) = deletion {
            options.put(b"delete", most.map_or_else(|| "all".to_owned(), |most| most.to_string()).as_bytes());
            if *force {
                options.put(b"delete-force", b"1");
            }
        }
        if *compress {
            options.put(b"compress", ZSTD);
        }
        let flags = [
            (&b"fsync"[..], *fsync),
            (b"dry-run", *dry_run),
            (b"checksum", *checksum),
            (b"whole-files", *whole_files),
            (b"sparse", *sparse),
            (b"hard-links", *hard_links),
            (b"owner", *owner),
            (b"xattrs", *xattrs),
            (b"digests", self.digests),
        ];
        for (name, is_set) in flags {
            if is_set {
                options.put(name, b"1");
            }
        }
    }

    fn read_rule(&mut self, name: &[u8], value: &[u8]) -> Result<(), &'static str> {
        let rules = &mut self.rules;
        match name {
            b"filter" => {
                for rule in value.split(|octet| *octet == 0) {
                    let text = std::str::from_utf8(rule).map_err(|_| "a pattern that is not UTF-8")?;
                    rules.filter.push(match (text.strip_prefix('+'), text.strip_prefix('-')) {
                        (Some(text), _) => Pattern::include(text),
                        (None, Some(text)) => Pattern::exclude(text),
                        (None, None) => return Err("an invalid pattern"),
                    });
                }
            }
            b"existing" => rules.existing = value_of(&EXISTING, value).ok_or("an unknown rule")?,
            b"delete" if value == b"all" => drop(rules.deletion.get_or_insert_default()),
            b"delete" => {
                let most = decimal(value).ok_or("an invalid number of files")?;
                rules.deletion.get_or_insert_default().most = Some(most);
            }
            b"delete-force" => rules.deletion.get_or_insert_default().force = true,
            b"fsync" => rules.fsync = true,
            b"dry-run" => rules.dry_run = true,
            b"checksum" => rules.checksum = true,
            // Of other methods nothing is known: chunks go as they are.
            b"compress" => rules.compress = value == ZSTD,
            b"sparse" => rules.sparse = true,
            b"owner" => rules.owner = true,
            b"xattrs" => rules.xattrs = true,
            b"hard-links" => rules.hard_links = true,
            b"whole-files" => rules.whole_files = true,
            _ => {}
        }
        Ok(())
    }
}

/// A method of compression.
const ZSTD: &[u8] = b"zstd";

const EXISTING: [(&[u8], Existing); 3] = [
    (b"different", Existing::Different),
    (b"not-newer", Existing::NotNewer),
    (b"nothing", Existing::Nothing),
];

/// A size and a time.
fn known(text: &[u8]) -> Option<(u64, i64)> {
    let colon = text.iter().position(|octet| *octet == b':')?;
    Some((decimal(&text[..colon])?, signed(&text[colon + 1..])?))
}

/// A decimal number: digits only.
pub(super) fn decimal<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    is_number.then(|| std::str::from_utf8(text).ok()?.parse().ok())?
}

/// A decimal number, perhaps with a minus sign.
pub(super) fn signed(text: &[u8]) -> Option<i64> {
    match text.strip_prefix(b"-") {
        Some(digits) => decimal::<i64>(digits).map(|number| -number),
        None => decimal(text),
    }
}

/// Ranges in increasing order, none of them empty.
fn ranges(text: &[u8]) -> Option<Vec<(u64, u64)>> {
    let mut ranges = Vec::new();
    let mut least = 0;
    for range in text.split(|octet| *octet == b',') {
        let dash = range.iter().position(|octet| *octet == b'-')?;
        let (first, end): (u64, u64) = (decimal(&range[..dash])?, decimal(&range[dash + 1..])?);
        if first < least || end <= first {
            return None;
        }
        least = end;
        ranges.push((first, end));
    }
    Some(ranges)
}
