//! Options of servers and clients of file transfer.

use std::path::PathBuf;

use pinnace_cert::{KeyPair, PublicKey};
use pinnace_crypto::SecretBytes;
use pinnace_files::access::Right;
use pinnace_files::client::{Client, ClientBuilder};
use pinnace_files::error::Error;
use pinnace_files::server::{Server, ServerBuilder};

use crate::values::{DAY_MS, Key, Kind, Settings, TIME, TIME_OR_NONE, Unset};

/// The options of a server as set; they serve for any number of servers.
#[derive(Default)]
pub struct ServerOptions {
    /// Those of SERVER_KEYS.
    values: Settings,
    pub folders: Vec<Folder>,
    pub endpoints: Vec<String>,
    pub curve: Option<KeyPair>,
    pub keys: Vec<(String, PublicKey)>,
    pub passwords: Vec<(String, SecretBytes)>,
    pub grants: Vec<(String, String, Right)>,
}

/// A folder that is served.
pub struct Folder {
    pub alias: String,
    pub path: PathBuf,
    pub is_writable: bool,
}

/// All options, one per entry.
const SERVER_KEYS: &[Key<ServerBuilder>] = &[
    Key("domain", Kind::Text, |builder, value| builder.domain(value.text())),
    Key("workers", Kind::Number { least: 1, most: 1024 }, |builder, value| {
        builder.workers(value.number() as usize)
    }),
    Key("quiet_ms", TIME_OR_NONE, |builder, value| builder.quiet(value.time())),
    Key("rescan_ms", Kind::Number { least: 10, most: DAY_MS }, |builder, value| builder.rescan(value.time())),
    Key("part_age_ms", Kind::Number { least: 0, most: 3650 * DAY_MS }, |builder, value| {
        builder.part_age(value.time())
    }),
    Key("high_water_mark", Kind::Number { least: 0, most: i32::MAX as u64 }, |builder, value| {
        builder.high_water_mark(value.number() as u32)
    }),
];

impl ServerOptions {
    /// Sets one option, given as text.
    pub fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), Unset> {
        self.values.set(SERVER_KEYS, key, value)
    }

    pub fn builder(&self) -> Result<ServerBuilder, Error> {
        let mut builder = self.values.apply(SERVER_KEYS, Server::builder());
        for Folder { alias, path, is_writable } in &self.folders {
            builder = match is_writable {
                true => builder.writable_folder(alias, path)?,
                false => builder.folder(alias, path)?,
            };
        }
        if let Some(keys) = &self.curve {
            builder = builder.curve(keys);
        }
        builder = self.endpoints.iter().fold(builder, |builder, endpoint| builder.bind(endpoint));
        builder = self.keys.iter().fold(builder, |builder, (name, key)| builder.user_by_key(name, key));
        for (name, password) in &self.passwords {
            // It was checked when it was set.
            builder = builder.user_by_password(name, std::str::from_utf8(password).unwrap_or_default());
        }
        let grants = self.grants.iter();
        Ok(grants.fold(builder, |builder, (user, path, right)| builder.grant(user, path, *right)))
    }
}

/// The options of a client as set; they serve for any number of clients.
#[derive(Default)]
pub struct ClientOptions {
    pub endpoint: String,
    /// Those of CLIENT_KEYS.
    values: Settings,
    /// The client's keys, and the server's.
    pub curve: Option<(KeyPair, PublicKey)>,
    /// A user's name and password.
    pub password: Option<(String, SecretBytes)>,
}

/// All options, one per entry.
const CLIENT_KEYS: &[Key<ClientBuilder>] = &[
    Key("domain", Kind::Text, |builder, value| builder.domain(value.text())),
    Key("patience_ms", TIME, |builder, value| builder.patience(value.time())),
    Key("window_max", Kind::Number { least: 1 << 20, most: u64::MAX }, |builder, value| {
        builder.window_max(value.number())
    }),
    Key("chunk", Kind::Number { least: 1, most: 1 << 20 }, |builder, value| {
        builder.chunk(value.number() as u32)
    }),
    Key("limit_rate", Kind::Number { least: 0, most: u64::MAX }, |builder, value| match value.number() {
        0 => builder,
        rate => builder.limit_rate(rate),
    }),
    Key("part_age_ms", Kind::Number { least: 0, most: 3650 * DAY_MS }, |builder, value| {
        builder.part_age(value.time())
    }),
    Key("high_water_mark", Kind::Number { least: 0, most: i32::MAX as u64 }, |builder, value| {
        builder.high_water_mark(value.number() as u32)
    }),
];

impl ClientOptions {
    /// Of a client of the server at an endpoint.
    pub fn new(endpoint: &str) -> ClientOptions {
        ClientOptions { endpoint: endpoint.to_owned(), ..ClientOptions::default() }
    }

    /// Sets one option, given as text.
    pub fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), Unset> {
        self.values.set(CLIENT_KEYS, key, value)
    }

    pub fn builder(&self) -> ClientBuilder {
        let mut builder = self.values.apply(CLIENT_KEYS, Client::builder(&self.endpoint));
        if let Some((own, server)) = &self.curve {
            builder = builder.curve(own, server);
        }
        if let Some((user, password)) = &self.password {
            // It was checked when it was set.
            builder = builder.password(user, std::str::from_utf8(password).unwrap_or_default());
        }
        builder
    }
}
