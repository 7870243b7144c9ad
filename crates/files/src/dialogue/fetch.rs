//! Fetches a file or a tree.

mod operation;

use std::collections::HashMap;

use super::Event;
use super::events::{EventSender, Naming, Reporter};
use super::in_use::InUse;
use super::names::{NAMES_MAX, WantedNames};
use super::operation::{Asks, Reply};
use super::packed::Unpacker;
use crate::clock;
use crate::error::{Code, FileError};
use crate::rules::Rules;
use crate::transfer::arrivals::{Arrivals, News, Wanted};
use crate::transfer::codec;
use crate::transfer::digest::{Digest, GROUP};
use crate::transfer::holes::{ZEROS_MAX, values, zeros};
use crate::transfer::incoming::Announced;
use crate::transfer::place::Place;
use crate::transfer::selection::Selection;
use crate::tree::Kind;
use crate::wire::{Change, Cheezburger, Entries, Form, Headers, Mode, Request};

/// How often a file is fetched again that changes meanwhile.
const CHANGES_MAX: u32 = 3;

/// A fetch that is under way.
pub struct Fetch {
    path: Vec<u8>,
    /// What changes later is fetched too, until the fetch is cancelled.
    follows: bool,
    is_dry: bool,
    /// Files are compared by their content.
    checksum: bool,
    /// How files are to be sent.
    how: Rules,
    unpacker: Unpacker,
    /// The request for the names has not ended.
    is_listing: bool,
    /// The source has listed all, and `Event::Current` was not told yet.
    is_listed: bool,
    arrivals: Arrivals,
    names: WantedNames,
    /// The requests that have not ended.
    open: usize,
    /// How often a file was another version than before.
    changed: HashMap<Vec<u8>, u32>,
    in_use: InUse,
    /// What the source has just moved away: its removal is told too, and was told as a move.
    moved_from: Option<Vec<u8>>,
    reporter: Reporter,
}

impl Fetch {
    /// `path`: with a slash at its end, the directory's content goes to the place; without, the directory goes there by
    /// its name.
    pub fn new(path: &[u8], place: Place, selection: Selection, events: EventSender) -> Fetch {
        let (follows, is_listing, is_listed, names, open) = Default::default();
        let (changed, in_use, moved_from) = Default::default();
        let (path, is_dry, checksum) = (path.to_vec(), selection.rules.dry_run, selection.rules.checksum);
        let place = place.by(&selection.rules);
        let Rules { sparse, hard_links, owner, xattrs, .. } = selection.rules;
        let compress = selection.rules.compress && codec::IS_BUILT_IN;
        let (how, unpacker) = (
            Rules { compress, sparse, hard_links, owner, xattrs, ..Rules::default() },
            Unpacker::new(compress),
        );
        let (arrivals, reporter) = (Arrivals::new(&path, place, selection), Reporter::new(events));
        Fetch {
            path,
            follows,
            is_dry,
            checksum,
            how,
            unpacker,
            is_listing,
            is_listed,
            arrivals,
            names,
            open,
            changed,
            in_use,
            moved_from,
            reporter,
        }
    }

    /// As `new`, for a directory that is followed until the fetch is cancelled.
    pub fn following(path: &[u8], place: Place, selection: Selection, events: EventSender) -> Fetch {
        Fetch { follows: true, ..Fetch::new(path, place, selection, events) }
    }

    /// Tells paths by other names than the source's.
    pub fn named(mut self, naming: Naming) -> Fetch {
        self.reporter.naming = Some(Box::new(naming));
        self
    }

    fn finished(&mut self, name: &[u8], size: u64, digest: Digest) {
        self.reporter.report.files += 1;
        self.reporter.report.bytes += size;
        self.in_use.forget(name);
        self.changed.remove(name);
        self.reporter.tell(Event::Finished { path: self.reporter.name(name), size, digest });
    }

    fn ask(&mut self, asks: &mut Asks, request: Request) {
        self.open += 1;
        asks.ask(Request { rules: self.how.clone(), ..request });
    }

    fn ask_for(&mut self, asks: &mut Asks, filename: &[u8], wanted: Wanted) {
        let request = |mode| Request::new(0, mode, filename);
        self.ask(
            asks,
            match wanted {
                Wanted::Whole => request(Mode::Fetch),
                Wanted::Values => request(Mode::Values),
                Wanted::Parts { ranges, tag } => Request { ranges, tag, ..request(Mode::Fetch) },
            },
        );
    }

    fn on_begin(&mut self, reply: &Reply<'_>, asks: &mut Asks) -> Result<(), FileError> {
        let (headers, filename) = (reply.headers, reply.burger.filename);
        if headers.kind == Some(Kind::Directory) {
            self.reporter.naming.iter_mut().for_each(|naming| naming.is_directory = true);
            self.arrivals.begin_listing(filename)?;
            (self.is_listing, self.is_listed) = (true, false);
            if !self.follows {
                let digests = self.checksum;
                self.ask(asks, Request { digests, ..Request::new(0, Mode::List, &self.path.clone()) });
            }
            return Ok(());
        }
        if self.is_unwanted(reply, asks) {
            return Ok(());
        }
        if let Err(error) = self.arrivals.begin_file(filename, Announced::by(headers), headers) {
            asks.skip_rest(reply);
            return Err(error);
        }
        self.in_use.forget(filename);
        self.reporter
            .tell(Event::Begun { path: self.reporter.name(filename), size: headers.size.unwrap_or(0) });
        Ok(())
    }

    /// Ends a request for a file that stays as it is here. Of a tree, what to fetch was decided when it was listed; but
    /// another transfer may have fetched it meanwhile.
    fn is_unwanted(&mut self, reply: &Reply<'_>, asks: &mut Asks) -> bool {
        let (headers, filename) = (reply.headers, reply.burger.filename);
        let (size, mtime_ns) = (headers.size.unwrap_or(0), headers.mtime_ns.unwrap_or(0));
        let is_decided = filename != self.path && !self.in_use.has(filename);
        let is_wanted = is_decided || self.arrivals.replaces(filename, size, mtime_ns);
        if is_wanted && !self.is_dry {
            return false;
        }
        self.in_use.forget(filename);
        if filename != self.path {
            asks.skip_rest(reply);
            return true;
        }
        headers.request.into_iter().for_each(|number| asks.cancel(number));
        self.open = self.open.saturating_sub(1);
        let is_compared = self.checksum && self.arrivals.known(filename).is_some_and(|own| own.size == size);
        if is_wanted && is_compared {
            // The entry has the digest.
            self.ask(asks, Request { digests: true, ..Request::new(0, Mode::List, filename) });
        } else if is_wanted {
            self.plan(filename, false);
        }
        true
    }

    /// The values of blocks of a file that differs from the one here.
    fn on_values(&mut self, reply: &Reply<'_>, asks: &mut Asks) -> Result<(), FileError> {
        if reply.burger.offset == 0 && self.is_unwanted(reply, asks) {
            return Ok(());
        }
        let wanted = self.arrivals.compare(&reply.burger, Announced::by(reply.headers))?;
        wanted.into_iter().for_each(|wanted| self.ask_for(asks, reply.burger.filename, wanted));
        Ok(())
    }

    fn plan(&mut self, filename: &[u8], removal: bool) {
        self.reporter.tell(Event::Planned { path: self.reporter.name(filename), removal });
    }

    /// Zeros that are told by their length are written as if they had been sent. Returns the settled octets.
    fn on_zeros(&mut self, reply: &Reply<'_>, len: u64, asks: &mut Asks) -> u64 {
        let Reply { burger, headers, .. } = reply;
        let is_valid = burger.chunk.is_empty() && burger.offset.is_multiple_of(GROUP) && len > 0;
        let end = burger.offset.checked_add(len).filter(|_| is_valid && self.how.sparse);
        let Some(end) = end else {
            let error = FileError::new(Code::Invalid, "zeros that are invalid or were not asked for");
            return self.fail_chunk(reply, asks, error);
        };
        if len > ZEROS_MAX {
            return self.fail_chunk(reply, asks, FileError::new(Code::Limit, format!("{len} zeros at once")));
        }
        let mut settled = 0;
        for (offset, chunk) in zeros(burger.offset, len) {
            // Zeros of a file that failed here are still on their way.
            let Some(size) = self.arrivals.size_of(burger.filename) else { break };
            let eof = burger.eof && offset + chunk.len() as u64 == end;
            let burger = Cheezburger { offset, chunk, eof, ..*burger };
            let headers = Headers { groups: values(offset, chunk, size), ..(*headers).clone() };
            self.unpacker.owe(chunk.len() as u64);
            settled += self.on_data(&Reply { burger, headers: &headers, ..*reply }, asks);
        }
        settled
    }

    /// Returns the settled octets.
    fn on_data(&mut self, reply: &Reply<'_>, asks: &mut Asks) -> u64 {
        let (filename, bytes) = (reply.burger.filename, reply.burger.chunk.len() as u64);
        let (settled, news) = self.arrivals.write(&reply.burger, reply.headers);
        if !matches!(news, News::Ignored | News::Failed(_)) {
            self.reporter.tell(Event::Progress { bytes });
        }
        match news {
            News::Written | News::Ignored => {}
            News::Finished { size, digest } => self.finished(filename, size, digest),
            News::Wanted(wanted) => self.ask_for(asks, filename, wanted),
            News::Failed(error) => {
                asks.skip_rest(reply);
                self.reporter.fail(filename, error);
            }
        }
        settled
    }

    fn on_failed(&mut self, reply: &Reply<'_>, asks: &mut Asks, settled: &mut u64) -> Result<(), FileError> {
        let (filename, error) = (reply.burger.filename, reply.failure());
        let other_version = self.arrivals.want_other_version(filename);
        *settled += self.arrivals.give_up(filename);
        self.in_use.forget(filename);
        if self.arrivals.miss(filename, error.code) {
            return Ok(());
        }
        if error.code == Code::NotFound && self.follows && filename != self.path {
            // It was removed since it was listed, which is told too.
            return Ok(());
        }
        if error.code != Code::Changed {
            return Err(error);
        }
        let attempts = self.changed.entry(filename.to_vec()).or_insert(0);
        *attempts += 1;
        if *attempts > CHANGES_MAX {
            return Err(error);
        }
        self.ask_for(asks, filename, other_version);
        Ok(())
    }

    fn on_list(&mut self, reply: &Reply<'_>, asks: &mut Asks) -> Result<(), FileError> {
        self.moved_from = None;
        for entry in Entries::of_list(reply.burger.chunk).with_extra(reply.headers.extra) {
            let entry = entry.map_err(|error| FileError::new(Code::Invalid, error.to_string()))?;
            if entry.name.is_empty() && self.is_dry && !self.is_listing {
                // It is the path itself, which is a file.
                if self.arrivals.replaces_by_content(&self.path, &entry) {
                    self.plan(&self.path.clone(), false);
                }
                continue;
            }
            match self.arrivals.place_entry(&entry) {
                Ok((None, true)) if self.is_dry => {
                    let filename = self.arrivals.filename_of(entry.name);
                    self.plan(&filename, false);
                }
                Ok((None, _)) => {}
                Ok((Some(Wanted::Whole), _)) => self.names.add(entry.name),
                Ok((Some(wanted), _)) => self.ask_for(asks, &self.arrivals.filename_of(entry.name), wanted),
                Err(error) => self.retry_or_fail(&self.arrivals.filename_of(entry.name), error),
            }
        }
        Ok(())
    }

    /// Asks for files once there are `least` names.
    fn ask_names(&mut self, asks: &mut Asks, least: usize) {
        while let Some(names) = self.names.take(least) {
            self.ask(asks, Request { names, ..Request::new(0, Mode::Fetch, &self.path.clone()) });
        }
    }

    fn on_pack(&mut self, reply: &Reply<'_>) -> Result<(), FileError> {
        let (mut bytes, mut results) = (0, Vec::new());
        let keep = |name: &[u8], result| results.push((name.to_vec(), result));
        let outcome = self.arrivals.write_pack(reply.burger.chunk, reply.headers.extra, keep);
        for (name, result) in results {
            let filename = self.arrivals.filename_of(&name);
            match result {
                Ok((size, digest)) => {
                    bytes += size;
                    self.finished(&filename, size, digest);
                }
                Err(error) => self.retry_or_fail(&filename, error),
            }
        }
        self.reporter.tell(Event::Progress { bytes });
        outcome
    }

    /// All names are known.
    fn on_listed(&mut self) -> Result<(), FileError> {
        (self.is_listing, self.is_listed) = (false, true);
        let (reporter, is_dry) = (&self.reporter, self.is_dry);
        self.arrivals.end_listing(|path| {
            let path = reporter.name(path);
            reporter.tell(match is_dry {
                true => Event::Planned { path, removal: true },
                false => Event::Removed { path, here: true },
            });
        })
    }

    /// The source has removed a path. If that is the path of the request, all that is here stays.
    fn on_removed(&mut self, filename: &[u8], settled: &mut u64) -> Result<(), FileError> {
        *settled += self.arrivals.give_up(filename);
        let here = filename != self.path && self.arrivals.remove(filename)?;
        if here && self.is_dry {
            self.plan(filename, true);
            return Ok(());
        }
        if !here && self.moved_from.take().is_some_and(|from| from == filename) {
            return Ok(());
        }
        self.reporter.tell(Event::Removed { path: self.reporter.name(filename), here });
        Ok(())
    }

    fn on_moved(&mut self, from: &[u8], to: &[u8]) -> Result<(), FileError> {
        let here = self.arrivals.rename(from, to)?;
        self.moved_from = Some(from.to_vec());
        self.reporter.tell(Event::Moved { from: self.reporter.name(from), to: self.reporter.name(to), here });
        Ok(())
    }

    /// Nothing is on its way: makes the further names of files, and asks for those that must be fetched. True: there
    /// are some.
    fn make_links(&mut self, asks: &mut Asks) -> bool {
        let (reporter, is_dry) = (&self.reporter, self.is_dry);
        let wanted = self.arrivals.make_links(|path, first| {
            reporter.tell(match is_dry {
                true => Event::Planned { path: reporter.name(path), removal: false },
                false => Event::Linked { path: reporter.name(path), first: reporter.name(first) },
            });
        });
        if is_dry {
            wanted.iter().for_each(|path| self.plan(&self.arrivals.filename_of(path.as_bytes()), false));
            return false;
        }
        wanted.iter().for_each(|path| self.names.add(path.as_bytes()));
        self.ask_names(asks, 1);
        self.open > usize::from(self.follows)
    }

    /// Nothing is on its way: sets the attributes of directories. Returns the settled octets.
    fn rest(&mut self) -> u64 {
        let (mut failed, mut settled) = (Vec::new(), 0);
        let report = |name: &[u8], error| failed.push((name.to_vec(), error));
        match self.open {
            0 => settled = self.arrivals.end(report),
            _ => self.arrivals.set_directories(report),
        }
        failed.into_iter().for_each(|(name, error)| self.reporter.fail(&name, error));
        if self.open == 0 {
            self.reporter.end();
        } else if std::mem::take(&mut self.is_listed) {
            self.reporter.tell(Event::Current);
        }
        settled
    }

    /// A chunk cannot be unpacked: its file fails, or its pack. Returns the settled octets.
    fn fail_chunk(&mut self, reply: &Reply<'_>, asks: &mut Asks, error: FileError) -> u64 {
        let filename = reply.burger.filename;
        asks.skip_rest(reply);
        self.reporter.fail(filename, error);
        self.arrivals.give_up(filename) + reply.burger.chunk.len() as u64
    }

    /// Handles a reply whose chunk is plain. Returns the settled octets.
    fn handle(&mut self, reply: &Reply<'_>, asks: &mut Asks) -> u64 {
        let mut settled = reply.burger.chunk.len() as u64;
        let (filename, headers) = (reply.burger.filename, reply.headers);
        let outcome = match headers.form {
            Form::Data if reply.burger.operation == Change::Delete => self.on_removed(filename, &mut settled),
            Form::Begin => self.on_begin(reply, asks),
            Form::Data => {
                settled = match headers.zeros {
                    Some(len) => self.on_zeros(reply, len, asks),
                    None => self.on_data(reply, asks),
                };
                Ok(())
            }
            Form::List => self.on_list(reply, asks),
            Form::Listed => self.on_listed(),
            Form::Moved => self.on_moved(&headers.from, filename),
            Form::Values => self.on_values(reply, asks),
            Form::Pack => self.on_pack(reply),
            Form::Failed => self.on_failed(reply, asks, &mut settled),
            Form::Unchanged | Form::Planned => Ok(()),
            Form::End => {
                self.open = self.open.saturating_sub(1);
                Ok(())
            }
        };
        match outcome {
            Ok(()) => {}
            Err(error) if headers.form == Form::Failed => self.reporter.fail_there(filename, error),
            Err(error) => self.retry_or_fail(filename, error),
        }
        self.ask_names(asks, if self.is_listing { NAMES_MAX } else { 1 });
        settled + self.rest_if_done(asks)
    }

    /// A file that another transfer writes is tried again later; others have failed.
    fn retry_or_fail(&mut self, filename: &[u8], error: FileError) {
        if error.code != Code::InUse || !self.in_use.wait(filename, clock::now()) {
            self.in_use.forget(filename);
            self.reporter.fail(filename, error);
        }
    }

    /// Tries a file again that another transfer wrote.
    fn retry(&mut self, filename: &[u8], asks: &mut Asks) {
        match self.arrivals.want(filename, None) {
            Ok(wanted) => self.ask_for(asks, filename, wanted),
            Err(error) => self.retry_or_fail(filename, error),
        }
    }

    /// Ends what is to be done when nothing is on its way. Returns the settled octets.
    fn rest_if_done(&mut self, asks: &mut Asks) -> u64 {
        // The request that follows the path does not end.
        let is_open = self.open > 1 || (self.open == 1 && (!self.follows || self.is_listing));
        if is_open || self.in_use.due().is_some() || self.make_links(asks) {
            return 0;
        }
        self.rest()
    }
}
