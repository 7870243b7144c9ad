//! The subcommands of `pinnace deliver`, and their flags.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use pinnace::delivery::LetterNumber;

use super::{lifetime, milliseconds, milliseconds_or_forever};

#[derive(Subcommand)]
pub enum Deliver {
    /// Send messages to a topic. Success means that they are on this machine's disk and will be delivered from there
    Send(Box<DeliverSend>),
    /// Receive messages from topics, print them, and acknowledge those that were printed
    Recv(DeliverRecv),
    /// Print the messages in stores that are not handled yet, even while other processes have the stores open
    Status(Status),
    /// Print the dead letters in stores: messages that their receivers have given up
    DeadLetters(DeadLetters),
    /// Print the messages of a client that are not handled yet, even while other processes have its store open
    Peek(Peek),
    /// Drop pending messages of a client: they are not sent any more. Print how many there were
    Clear(Clear),
    /// Send dead letters again to their original topics, and print their numbers
    // It receives nothing.
    #[command(mut_arg("listen", |arg| arg.hide(true)), mut_arg("advertise", |arg| arg.hide(true)))]
    Requeue(Requeue),
    /// Send what is pending in stores that no process has open, and give a store back when its owner starts. Runs until
    /// a signal
    Run(AgentRun),
    /// Print the registered clients: names, addresses and topics
    Registry(Registry),
    /// End the subscriptions of a client that is gone for good: other clients drop what they keep for it alone
    Forget(Forget),
}

/// The flags of every client.
#[derive(Args)]
#[command(next_help_heading = "Client")]
pub struct ClientArgs {
    /// Name of this client; must be unique
    #[arg(long, value_name = "NAME")]
    pub name: String,
    /// Registry in which clients find each other: dir://PATH, sqlite://PATH, redis://HOST[:PORT][/DATABASE], or none
    /// [default: a directory of the user]
    #[arg(long, value_name = "URL")]
    pub registry: Option<String>,
    /// Directory of this client's store [default: one of the user's, named after the client]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Maximum bytes of the store's files, at least 4194304; 0: no limit [default: a tenth of the file system, at most
    /// 4 GiB]
    #[arg(long, value_name = "BYTES")]
    pub disk_limit: Option<u64>,
    /// Open a damaged store without its damaged parts; the messages in them are lost
    #[arg(long)]
    pub skip_damage: bool,
    /// End the subscriptions with this process; by default messages sent to all are kept for the client while it is
    /// away
    #[arg(long)]
    pub transient: bool,
    /// Wait while another process has the store open, for this many seconds [default: without limit]. Without this
    /// flag, that is an error at once
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, value_parser = seconds)]
    pub wait_store: Option<Option<Duration>>,
    /// Endpoint on which other clients reach this one [default: a local socket, for processes of this host];
    /// tcp://127.0.0.1:* selects a free port
    #[arg(long, value_name = "ENDPOINT")]
    pub listen: Option<String>,
    /// Endpoint that is announced to other clients [default: that of --listen]
    #[arg(long, value_name = "ENDPOINT")]
    pub advertise: Option<String>,
    /// Serve the client's statistics over HTTP, to all that can connect: a port of 127.0.0.1, or ADDRESS:PORT. GET
    /// /metrics is for Prometheus, GET /statistics is JSON
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<String>,
    /// Another client that is known in advance: its name, endpoint and topics; can be repeated
    #[arg(long = "peer", value_name = "NAME=ENDPOINT[,TOPIC...]", value_parser = peer)]
    pub peers: Vec<Peer>,
    /// CURVE certificate of this client, with the secret key: all traffic is encrypted, and only clients named by
    /// --trust can exchange messages with this one
    #[arg(long, value_name = "FILE", requires = "trusted")]
    pub cert: Option<PathBuf>,
    /// Public key of another client, as Z85 or as a certificate file; can be repeated
    #[arg(long = "trust", value_name = "NAME=KEY|FILE", value_parser = trusted, requires = "cert")]
    pub trusted: Vec<Trusted>,
}

/// Parses a time in seconds.
fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.parse().ok().and_then(|number| Duration::try_from_secs_f64(number).ok());
    number.ok_or_else(|| "must be a number of seconds, such as 5 or 0.5".to_owned())
}

/// A client that is configured in advance.
#[derive(Clone)]
pub struct Peer {
    pub name: String,
    pub endpoint: String,
    pub topics: Vec<String>,
}

/// Another client's public key, as given on the command line.
#[derive(Clone)]
pub struct Trusted {
    pub name: String,
    pub key: String,
}

fn peer(text: &str) -> Result<Peer, String> {
    let (name, rest) = named(text)?;
    let mut words = rest.split(',').map(str::to_owned);
    let endpoint = words.next().unwrap_or_default();
    Ok(Peer { name, endpoint, topics: words.collect() })
}

pub fn trusted(text: &str) -> Result<Trusted, String> {
    named(text).map(|(name, key)| Trusted { name, key: key.to_owned() })
}

/// A header, as given on the command line.
#[derive(Clone)]
pub struct Header {
    pub key: String,
    pub value: Vec<u8>,
}

fn header(text: OsString) -> Result<Header, String> {
    let bytes = text.as_bytes();
    let at = bytes.iter().position(|byte| *byte == b'=').ok_or("must be KEY=VALUE")?;
    let key = String::from_utf8(bytes[..at].to_vec()).map_err(|_| "the key must be UTF-8")?;
    Ok(Header { key, value: bytes[at + 1..].to_vec() })
}

fn named(text: &str) -> Result<(String, &str), String> {
    let (name, rest) = text.split_once('=').ok_or("must begin with NAME=")?;
    Ok((name.to_owned(), rest))
}

/// When a message is on the disk.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Before the command exits with 0
    Sync,
    /// The same, but the disk is synced within 100 ms, not as soon as possible
    Interval,
    /// Never: the command waits until messages are handled, as with --wait; those not handled by then are lost
    Memory,
}

#[derive(Args)]
pub struct DeliverSend {
    /// Topic to send to
    #[arg(value_name = "TOPIC")]
    pub topic: String,
    /// Messages to send. Without any, or with a single -, standard input is read, one message per line
    #[arg(value_name = "BODY")]
    pub bodies: Vec<OsString>,
    /// This client's own topic, on which others can send to it [default: its name]
    #[arg(long = "topic", value_name = "OWN")]
    pub own: Option<String>,
    /// Another topic that each message is sent to; can be repeated. A failure may leave a message sent to the topics
    /// before it only
    #[arg(long, value_name = "TOPIC")]
    pub also: Vec<String>,
    /// Send each message to all clients that listen on the topic, not to the first that is free
    #[arg(long)]
    pub all: bool,
    /// When a message is on the disk
    #[arg(long, value_name = "WHEN", value_enum, default_value = "sync")]
    pub durability: Durability,
    /// Time to live of a message; it is not handled after that [default: no limit]
    #[arg(long, value_name = "MS", value_parser = lifetime)]
    pub ttl: Option<Duration>,
    /// Keep messages that expire, by this machine's clock or by the receiver's, as dead letters
    #[arg(long)]
    pub dead_letter_expired: bool,
    /// Id of the message; only for one message, that is one BODY or --raw. If this client has sent one with this id on
    /// this topic within the last 2 minutes (--deduplicate-for), the message is not stored again
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// How long the id of a message counts; 0: not at all; forever: as long as it is one of the client's newest
    #[arg(long, value_name = "MS", value_parser = milliseconds_or_forever, default_value = "120000")]
    pub deduplicate_for: Duration,
    /// Content type of the messages, such as application/json
    #[arg(long, value_name = "TYPE")]
    pub content_type: Option<String>,
    /// Trace context of the messages (W3C), such as 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
    #[arg(long, value_name = "TRACEPARENT")]
    pub traceparent: Option<String>,
    /// Vendors' part of the trace context
    #[arg(long, value_name = "TRACESTATE", requires = "traceparent")]
    pub tracestate: Option<String>,
    /// Ordering key of the messages, 1 to 255 bytes: those with the same key go to the same client while it lives, in
    /// order; --all ignores it
    #[arg(long, value_name = "KEY")]
    pub ordering_key: Option<String>,
    /// Header of the messages; can be repeated, with distinct keys
    #[arg(long = "header", value_name = "KEY=VALUE", value_parser = OsStringValueParser::new().try_map(header))]
    pub headers: Vec<Header>,
    /// Maximum wait for space on the disk and, with --wait, until messages are handled [default: no limit]
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub timeout: Option<Duration>,
    /// At the end, wait until all pending messages of the topic are handled or their --ttl has expired; a message that
    /// is given up is a failure
    #[arg(long)]
    pub wait: bool,
    /// Send the whole of standard input as one message
    #[arg(long, conflicts_with = "null")]
    pub raw: bool,
    /// Messages on standard input end with NUL instead of a newline
    #[arg(short = '0', long)]
    pub null: bool,
    /// Maximum size of a message that is read from standard input
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20)]
    pub max: usize,
    #[command(flatten)]
    pub client: ClientArgs,
}

#[derive(Args)]
pub struct DeliverRecv {
    /// Topics to listen on
    #[arg(value_name = "TOPIC", required = true)]
    pub topics: Vec<String>,
    /// Stop after this many messages
    #[arg(short = 'n', long, value_name = "MESSAGES", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Maximum wait for a message [default: no limit]
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub timeout: Option<Duration>,
    /// Run a shell command for each message, with the whole body as a file on its standard input, instead of printing
    /// it. The message is acknowledged if the command exits with 0, and has failed otherwise. These variables describe
    /// it: DELIVERY_FROM; DELIVERY_TOPIC; DELIVERY_NUMBER, as `peek` shows it; DELIVERY_CURSOR, the same for each
    /// delivery of the message and for no other message; DELIVERY_ACCEPTED_MS, since 1970; DELIVERY_BYTES, of the body;
    /// DELIVERY_COUNT, of deliveries; and if it has them DELIVERY_ID, DELIVERY_CONTENT_TYPE, DELIVERY_TRACEPARENT,
    /// DELIVERY_TRACESTATE and DELIVERY_ORDERING_KEY
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["json", "raw", "null"])]
    pub exec: Option<OsString>,
    /// Give a message up after this many deliveries, also over crashes; its sender keeps it as a dead letter
    /// [default: never]
    #[arg(long, value_name = "DELIVERIES", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_deliveries: Option<u32>,
    /// Print each message as a line of JSON: from, topic, accepted_ms (since 1970), deliveries, body ({"base64":"..."}
    /// if it is not UTF-8); if it has them, id, content_type, traceparent, tracestate, ordering_key and headers (an
    /// object); and for a dead letter, dead
    #[arg(long, group = "format")]
    pub json: bool,
    /// Print only the bodies, with nothing between them
    #[arg(long, group = "format")]
    pub raw: bool,
    /// End each body with NUL instead of a newline
    #[arg(short = '0', long, group = "format")]
    pub null: bool,
    #[command(flatten)]
    pub client: ClientArgs,
}

#[derive(Args)]
pub struct Status {
    /// Directory of a store [default: all stores of the user]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Print again after every change, until a signal arrives
    #[arg(long)]
    pub watch: bool,
    /// Print a line of JSON
    #[arg(long)]
    pub json: bool,
    /// Print the numbers in Prometheus' text format, for the textfile collector of node_exporter
    #[arg(long, conflicts_with_all = ["json", "watch"])]
    pub prometheus: bool,
    /// Ask a running client instead, which serves its statistics at this address (--metrics of send, recv and run):
    /// also the state of its connections with the reason, what it receives, and counters
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["data_dir", "watch"])]
    pub metrics: Option<String>,
}

#[derive(Args)]
pub struct DeadLetters {
    /// Directory of a store [default: all stores of the user]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Print each letter as a line of JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct Peek {
    /// Name of the client
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Directory of the client's store [default: one of the user's, named after the client]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Only messages on this topic; can be repeated
    #[arg(long = "topic", value_name = "TOPIC")]
    pub topics: Vec<String>,
    /// Only messages for this receiver; can be repeated
    #[arg(long = "receiver", value_name = "NAME")]
    pub receivers: Vec<String>,
    /// Print at most this many messages, those accepted first; how many more there are is reported on standard error
    #[arg(short = 'n', long, value_name = "MESSAGES", default_value_t = 100)]
    pub count: usize,
    /// Print at most this many bytes of each body; without --hex and --json at most 40 characters are printed
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    pub bytes: usize,
    /// Print bodies in hexadecimal
    #[arg(long)]
    pub hex: bool,
    /// Print each message as a line of JSON: number, topic, receiver (null: the first that listens), accepted_ms (since
    /// 1970), ttl_ms, bytes (size of the body), body ({"base64":"..."} if it is not UTF-8) and, for a dead letter, dead
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct Clear {
    /// Name of the client
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Drop the messages on this topic
    #[arg(long, value_name = "TOPIC")]
    pub topic: String,
    /// Drop only those for this receiver [default: all, also those that wait for the first receiver]
    #[arg(long, value_name = "NAME")]
    pub receiver: Option<String>,
    /// Directory of the client's store [default: one of the user's, named after the client]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Open a damaged store without its damaged parts; the messages in them are lost
    #[arg(long)]
    pub skip_damage: bool,
    /// Wait while another process has the store open, for this many seconds [default: without limit]. Without this
    /// flag, that is an error at once
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, value_parser = seconds)]
    pub wait_store: Option<Option<Duration>>,
}

#[derive(Args)]
#[command(group = ArgGroup::new("letters").args(["numbers", "topics", "all"]).required(true))]
pub struct Requeue {
    /// Numbers of letters, as dead-letters prints them
    #[arg(value_name = "NUMBER")]
    pub numbers: Vec<LetterNumber>,
    /// Send all letters again that were sent to this topic; can be repeated
    #[arg(long = "topic", value_name = "TOPIC")]
    pub topics: Vec<String>,
    /// Send all letters of the client again
    #[arg(long)]
    pub all: bool,
    /// At the end, wait until all pending messages of these letters' topics are handled, with those sent again; a
    /// message that is given up is a failure
    #[arg(long)]
    pub wait: bool,
    /// Maximum wait for space on the disk, for each letter, and with --wait until messages are handled [default: no
    /// limit]
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub timeout: Option<Duration>,
    #[command(flatten)]
    pub client: ClientArgs,
}

#[derive(Args)]
pub struct Forget {
    /// Name of the client
    #[arg(value_name = "NAME")]
    pub name: String,
    /// dir://PATH, sqlite://PATH or redis://HOST[:PORT][/DATABASE] [default: a directory of the user]
    #[arg(long, value_name = "URL")]
    pub registry: Option<String>,
}

#[derive(Args)]
pub struct Registry {
    /// dir://PATH, sqlite://PATH or redis://HOST[:PORT][/DATABASE] [default: a directory of the user]
    #[arg(value_name = "URL")]
    pub url: Option<String>,
    /// Print again after every change, until a signal arrives
    #[arg(long)]
    pub watch: bool,
    /// Print a line of JSON
    #[arg(long)]
    pub json: bool,
    /// End the subscriptions of this topic by dead clients, and print how many there were
    #[arg(long, value_name = "TOPIC", conflicts_with_all = ["watch", "json"])]
    pub clear: Option<String>,
}

#[derive(Args)]
pub struct AgentRun {
    /// Directory whose entries are stores; can be repeated [default: the user's]
    #[arg(long = "dir", value_name = "DIR")]
    pub folders: Vec<PathBuf>,
    /// CURVE certificate of a client, with the secret key, which stores do not hold; can be repeated
    #[arg(long = "cert", value_name = "FILE")]
    pub certs: Vec<PathBuf>,
    /// Address of a registry with its password, which stores do not hold:
    /// redis://[USER]:PASSWORD@HOST[:PORT][/DATABASE]. Used for stores whose registry has the same address without the
    /// password; can be repeated
    #[arg(long = "registry", value_name = "URL")]
    pub registries: Vec<String>,
    /// File with such an address in each line, so that it is in no list of processes; can be repeated
    #[arg(long = "registry-file", value_name = "FILE")]
    pub registry_files: Vec<PathBuf>,
    /// Serve the statistics of the clients whose stores are open over HTTP, to all that can connect: a port of
    /// 127.0.0.1, or ADDRESS:PORT. GET /metrics is for Prometheus, GET /statistics is JSON
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<String>,
    /// Have at most this many stores open at once; while others wait, one without progress is closed
    #[arg(long, value_name = "STORES", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
    pub most_open: u32,
}
