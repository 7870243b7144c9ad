//! The driver of the Rust face of file transfer: commands.py describes each command.

use std::collections::HashMap;
use std::fmt::Write;
use std::io::BufRead;
use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::{Duration, Instant};

use futures::StreamExt;
use pinnace::certificate::Certificate;
use pinnace::files::access::Right;
use pinnace::files::client::{Client, ClientBuilder, Event, Listed, Report, Transfer};
use pinnace::files::error::{Code, Error, FileError};
use pinnace::files::rules::{Deletion, Existing, Pattern, Rules};
use pinnace::files::server::{Server, ServerBuilder};
use pinnace::files::tree::Kind;
use pinnace::z85;

const SOON_MS: u64 = 20_000;
const EAGAIN: i32 = 11;
const EINVAL: i32 = 22;
const ECANCELED: i32 = 125;

/// What the suite receives for an error: a number and a text.
struct Refused(i32, String);

fn errno_of(code: Code) -> i32 {
    match code {
        Code::NotFound => 2,
        Code::Denied => 13,
        Code::InUse => 16,
        Code::NotPlain => 40,
        Code::Changed => 116,
        Code::NoRoom => 28,
        Code::Disk => 5,
        Code::Limit => 7,
        Code::Invalid => EINVAL,
        Code::Corrupt => 74,
        Code::Unknown => 121,
    }
}

fn number_of(error: &Error) -> i32 {
    match error {
        Error::File { error, .. } => errno_of(error.code),
        Error::NoServer(_) => 113,
        Error::Refused(_) => 13,
        Error::Socket(error) => error.errno(),
        Error::Users => EINVAL,
        Error::Cancelled => ECANCELED,
        _ => 71,
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused(number_of(&error), error.to_string())
    }
}

type Answer = Result<String, Refused>;

/// A transfer, and what it has come to.
struct UnderWay {
    transfer: Transfer,
    end: Option<Result<Report, Refused>>,
}

#[derive(Default)]
struct Driver {
    servers: HashMap<String, Server>,
    clients: HashMap<String, Client>,
    transfers: HashMap<String, UnderWay>,
}

fn cut(text: &str, mark: char) -> (&str, &str) {
    text.split_once(mark).unwrap_or_else(|| panic!("{text} has no {mark}"))
}

fn number(word: &str) -> u64 {
    word.parse().unwrap_or_else(|_| panic!("{word} is no number"))
}

fn ms(word: &str) -> Duration {
    Duration::from_millis(number(word))
}

fn own(file: &str) -> Certificate {
    Certificate::load_own(Path::new(file)).expect("a certificate")
}

fn public(file: &str) -> Certificate {
    Certificate::load_public(Path::new(file)).expect("a certificate")
}

fn with_server_option(builder: ServerBuilder, option: &str) -> Result<ServerBuilder, Error> {
    let (key, value) = cut(option, '=');
    let parts = || cut(value, '@');
    Ok(match key {
        "folder" => return builder.folder(parts().0, Path::new(parts().1)),
        "writable" => return builder.writable_folder(parts().0, Path::new(parts().1)),
        "bind" => builder.bind(value),
        "cert" => builder.curve(own(value).keys().expect("a secret key")),
        "user" => builder.user_by_key(parts().0, public(parts().1).public_key()),
        "key" => builder.user_by_key(parts().0, &z85::decode_key(parts().1).expect("a public key")),
        "password" => builder.user_by_password(parts().0, parts().1),
        "grant" => {
            let (path, right) = cut(parts().1, '@');
            builder.grant(parts().0, path, if right == "write" { Right::Write } else { Right::Read })
        }
        "workers" => builder.workers(number(value) as usize),
        "quiet_ms" => builder.quiet(ms(value)),
        "rescan_ms" => builder.rescan(ms(value)),
        "part_age_ms" => builder.part_age(ms(value)),
        "high_water_mark" => builder.high_water_mark(number(value) as u32),
        "domain" => builder.domain(value),
        _ => panic!("no option {option}"),
    })
}

fn with_client_option(builder: ClientBuilder, option: &str) -> ClientBuilder {
    let (key, value) = cut(option, '=');
    let parts = || cut(value, '@');
    match key {
        "cert" => builder.curve(own(parts().0).keys().expect("a secret key"), public(parts().1).public_key()),
        "curve" => {
            let server = z85::decode_key(parts().1).expect("a public key");
            builder.curve(own(parts().0).keys().expect("a secret key"), &server)
        }
        "password" => builder.password(parts().0, parts().1),
        "domain" => builder.domain(value),
        "patience_ms" => builder.patience(ms(value)),
        "window_max" => builder.window_max(number(value)),
        "chunk" => builder.chunk(number(value) as u32),
        "limit_rate" => builder.limit_rate(number(value)),
        "part_age_ms" => builder.part_age(ms(value)),
        "high_water_mark" => builder.high_water_mark(number(value) as u32),
        _ => panic!("no option {option}"),
    }
}

fn rules_of(words: &[&str]) -> Rules {
    let mut rules = Rules::default();
    for word in words {
        let (key, value) = cut(word, '=');
        let deletion = rules.deletion.unwrap_or_default();
        match key {
            "exclude" => rules.filter.push(Pattern::exclude(value)),
            "include" => rules.filter.push(Pattern::include(value)),
            "existing" if value == "nothing" => rules.existing = Existing::Nothing,
            "existing" => rules.existing = Existing::NotNewer,
            "checksum" => rules.checksum = value == "1",
            "whole_files" => rules.whole_files = value == "1",
            "deletion" => rules.deletion = Some(deletion),
            "deletion_most" => {
                rules.deletion = Some(Deletion { most: Some(number(value)), ..deletion });
            }
            "deletion_force" => rules.deletion = Some(Deletion { force: value == "1", ..deletion }),
            "fsync" => rules.fsync = value == "1",
            "dry_run" => rules.dry_run = value == "1",
            _ => panic!("no rule {word}"),
        }
    }
    rules
}

fn kind_of(event: &Event) -> &'static str {
    match event {
        Event::Listed(_) => "listed",
        Event::Begun { .. } => "begun",
        Event::Progress { .. } => "progress",
        Event::Finished { .. } => "finished",
        Event::Removed { .. } => "removed",
        Event::Moved { .. } => "moved",
        Event::Planned { .. } => "planned",
        Event::Current => "current",
        Event::Failed { .. } => "failed",
        Event::Ended(_) => "ended",
        Event::Aborted(_) => "aborted",
        Event::Linked { .. } => "linked",
        Event::Lost(_) => "lost",
        _ => "unknown",
    }
}

fn word(text: &[u8]) -> String {
    if text.is_empty() { "-".to_owned() } else { String::from_utf8_lossy(text).into_owned() }
}

fn values_of(event: &Event) -> String {
    match event {
        Event::Listed(Listed { kind, name, size, mtime_ns, mode, target }) => {
            let kind = match kind {
                Kind::File => "file",
                Kind::Directory => "directory",
                Kind::Link => "link",
            };
            format!("{} {kind} {size} {mode:o} {mtime_ns} {}", word(name), word(target))
        }
        Event::Begun { path, size } => format!("{path} {size}"),
        Event::Progress { bytes } => bytes.to_string(),
        Event::Finished { path, size, digest } => {
            let mut digits = String::new();
            digest.iter().for_each(|octet| write!(digits, "{octet:02x}").expect("a text takes all"));
            format!("{path} {size} {digits}")
        }
        Event::Removed { path, here } => format!("{path} {}", u8::from(*here)),
        Event::Moved { from, to, here } => format!("{from} {to} {}", u8::from(*here)),
        Event::Planned { path, removal } => format!("{path} {}", u8::from(*removal)),
        Event::Failed { path, error } => format!("{path} {} {}", errno_of(error.code), u8::from(error.here)),
        Event::Ended(report) => format!("{} {} {}", report.files, report.bytes, report.failed.len()),
        Event::Linked { path, first } => format!("{path} {first}"),
        Event::Aborted(error) | Event::Lost(error) => number_of(error).to_string(),
        _ => String::new(),
    }
}

impl UnderWay {
    /// Keeps what the transfer has come to.
    fn note(&mut self, event: &Event) {
        match event {
            Event::Ended(report) => self.end = Some(Ok(report.clone())),
            Event::Aborted(error) => self.end = Some(Err(Refused(number_of(error), error.to_string()))),
            _ => {}
        }
    }

    fn next(&mut self, time: Duration) -> Result<Option<Event>, Refused> {
        match self.transfer.next_event_within(time) {
            Ok(event) => {
                self.note(&event);
                Ok(Some(event))
            }
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => Err(Refused(EAGAIN, "timeout".to_owned())),
        }
    }

    fn wait(&mut self, time: Duration) -> Answer {
        let until = Instant::now() + time;
        while self.end.is_none() && self.next(until.saturating_duration_since(Instant::now()))?.is_some() {}
        match &self.end {
            Some(Ok(Report { files, bytes, failed, .. })) => {
                let told = |(path, error): &(String, FileError)| {
                    format!("{path}:{}:{}", errno_of(error.code), u8::from(error.here))
                };
                let failed: Vec<String> = failed.iter().map(told).collect();
                Ok(format!("report {files} {bytes} {} {}", failed.len(), failed.join(" ")))
            }
            Some(Err(Refused(number, words))) => Err(Refused(*number, words.clone())),
            None => Err(Refused(ECANCELED, "over".to_owned())),
        }
    }
}

fn kinds<'a>(events: impl Iterator<Item = &'a Event>) -> String {
    let kinds = events.map(kind_of).filter(|kind| *kind != "progress");
    format!("events {}", kinds.collect::<Vec<_>>().join(" "))
}

impl Driver {
    fn serve(&mut self, server: &str, options: &[&str]) -> Answer {
        let builder = options.iter().try_fold(Server::builder(), |to, option| with_server_option(to, option));
        let started = builder?.start()?;
        let answer = format!("endpoints {}", started.endpoints().join(" "));
        self.servers.insert(server.to_owned(), started);
        Ok(answer)
    }

    fn begin(&mut self, words: &[&str]) {
        let client = &self.clients[words[2]];
        let transfer = match *words {
            ["get", _, _, path, to, ref rules @ ..] => client.get_by(path, Path::new(to), rules_of(rules)),
            ["put", _, _, from, path, ref rules @ ..] => {
                client.put_by(Path::new(from), path, rules_of(rules))
            }
            ["follow", _, _, path, to, ref rules @ ..] => client.follow(path, Path::new(to), rules_of(rules)),
            ["list", _, _, path] => client.list(path),
            ["discard", _, _, path] => client.discard(path),
            _ => panic!("no transfer {words:?}"),
        };
        self.transfers.insert(words[1].to_owned(), UnderWay { transfer, end: None });
    }

    fn transfer(&mut self, word: &str) -> &mut UnderWay {
        self.transfers.get_mut(word).unwrap_or_else(|| panic!("no transfer {word}"))
    }

    fn obey(&mut self, words: &[&str]) -> Answer {
        match *words {
            ["serve", server, ref options @ ..] => return self.serve(server, options),
            ["sent", server] => return Ok(format!("number {}", self.servers[server].sent_bytes())),
            ["stop", server] => drop(self.servers.remove(server)),
            ["connect", client, endpoint, ref options @ ..] => {
                let builder = Client::builder(endpoint);
                let connected = options.iter().fold(builder, |to, option| with_client_option(to, option));
                self.clients.insert(client.to_owned(), connected.connect()?);
            }
            ["disconnect", client] => drop(self.clients.remove(client)),
            ["get" | "put" | "follow" | "list" | "discard", ..] => self.begin(words),
            ["next", transfer, time] => {
                return Ok(match self.transfer(transfer).next(ms(time))? {
                    Some(event) => format!("event {} {}", kind_of(&event), values_of(&event)),
                    None => "over".to_owned(),
                });
            }
            ["events", transfer] => {
                let events: Vec<Event> = self.transfer(transfer).transfer.into_iter().collect();
                return Ok(kinds(events.iter()));
            }
            ["async", transfer] => {
                let stream = &mut self.transfer(transfer).transfer;
                let events: Vec<Event> = pollster::block_on(stream.collect());
                return Ok(kinds(events.iter()));
            }
            ["wait", transfer] => return self.transfer(transfer).wait(Duration::from_millis(SOON_MS)),
            ["wait", transfer, time] => return self.transfer(transfer).wait(ms(time)),
            ["interrupt", transfer] => {
                let transfer = self.transfer(transfer);
                let cancel = thread::spawn(transfer.transfer.canceller());
                let outcome = transfer.wait(Duration::from_millis(SOON_MS));
                cancel.join().expect("cancelling does not panic");
                return outcome;
            }
            ["cancel", transfer] => self.transfer(transfer).transfer.cancel(),
            ["close", transfer] => {
                self.transfers.remove(transfer).into_iter().for_each(|ended| ended.transfer.cancel());
            }
            _ => panic!("no command {words:?}"),
        }
        Ok("ok".to_owned())
    }
}

fn main() {
    let mut driver = Driver::default();
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("commands are text");
        let words: Vec<&str> = line.split_whitespace().collect();
        match driver.obey(&words) {
            Ok(said) => println!("{said}"),
            Err(Refused(number, words)) => println!("error {number} {words}"),
        }
    }
}
