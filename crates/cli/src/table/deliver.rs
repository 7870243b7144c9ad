//! The commands below `pinnace deliver`, and their flags.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use pinnace::delivery::LetterNumber;

use super::{lifetime, milliseconds};

#[derive(Subcommand)]
pub enum Deliver {
    /// Send messages to a topic. Done means that they are on this machine's disk, from where they arrive
    Send(Send),
    /// Receive what is sent to topics, print it, and acknowledge what is printed
    Recv(Recv),
    /// Print what the clients of stores have sent that is not handled, also while others have them open
    Status(Status),
    /// Print the dead letters that stores keep: messages that their receivers have given up
    DeadLetters(DeadLetters),
    /// Send dead letters again to the topic to which they were sent, and print their numbers
    Requeue(Requeue),
    /// Print who is there: names, topics and addresses
    Registry(Registry),
}

/// What every client takes.
#[derive(Args)]
#[command(next_help_heading = "Client")]
pub struct ClientArgs {
    /// Our name, which no other client has
    #[arg(long, value_name = "NAME")]
    pub name: String,
    /// Where clients know of each other: dir://PATH, sqlite://PATH, redis://HOST[:PORT][/DATABASE], or none [default: a
    /// directory of the user's]
    #[arg(long, value_name = "URL")]
    pub registry: Option<String>,
    /// The directory of our store [default: one of the user's, by our name]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Opens the store where it is damaged, without what is damaged: what lay there is lost
    #[arg(long)]
    pub skip_damage: bool,
    /// Where others reach us [default: a local socket, for processes of this host]; tcp://127.0.0.1:* is a free port
    #[arg(long, value_name = "ENDPOINT")]
    pub listen: Option<String>,
    /// Where others are told to reach us [default: where we listen]
    #[arg(long, value_name = "ENDPOINT")]
    pub advertise: Option<String>,
    /// Another client that is known beforehand, where it is, and what it listens on; may be given again
    #[arg(long = "peer", value_name = "NAME=ENDPOINT[,TOPIC...]", value_parser = peer)]
    pub peers: Vec<Peer>,
    /// Our CURVE certificate, with the secret key: all is encrypted, and we speak to those alone that --trust names
    #[arg(long, value_name = "FILE", requires = "trusted")]
    pub cert: Option<PathBuf>,
    /// The public key of another client, as Z85 or as its certificate file; may be given again
    #[arg(long = "trust", value_name = "NAME=KEY|FILE", value_parser = trusted, requires = "cert")]
    pub trusted: Vec<Trusted>,
}

/// A client that is known beforehand.
#[derive(Clone)]
pub struct Peer {
    pub name: String,
    pub endpoint: String,
    pub topics: Vec<String>,
}

/// A client's public key, as it is given.
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

fn trusted(text: &str) -> Result<Trusted, String> {
    named(text).map(|(name, key)| Trusted { name, key: key.to_owned() })
}

fn named(text: &str) -> Result<(String, &str), String> {
    let (name, rest) = text.split_once('=').ok_or("NAME= is wanted before it")?;
    Ok((name.to_owned(), rest))
}

/// When a message is on the disk.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Before the command ends with 0
    Sync,
    /// The same, but it is synced within 100 ms and not as soon as may be
    Interval,
    /// Never: the command waits until it is handled, as with --wait, and what is not by then is lost
    Memory,
}

#[derive(Args)]
pub struct Send {
    /// Where to send to
    #[arg(value_name = "TOPIC")]
    pub topic: String,
    /// A message each. Without one, or as - alone, standard input is read, a message a line
    #[arg(value_name = "BODY")]
    pub bodies: Vec<OsString>,
    /// A topic of our own, on which others may send to us [default: our name]
    #[arg(long = "topic", value_name = "OWN")]
    pub own: Option<String>,
    /// Send each message to all that listen on the topic, and not to one in turn
    #[arg(long)]
    pub all: bool,
    /// When a message is on the disk
    #[arg(long, value_name = "WHEN", value_enum, default_value = "sync")]
    pub durability: Durability,
    /// How long a message may live: it is not handled after that [default: for ever]
    #[arg(long, value_name = "MS", value_parser = lifetime)]
    pub ttl: Option<Duration>,
    /// The longest wait for room on the disk, and with --wait for the end of handling [default: for ever]
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub timeout: Option<Duration>,
    /// At the end, wait until all that waits on the topic is handled, or its --ttl over; one that is given up is a
    /// failure
    #[arg(long)]
    pub wait: bool,
    /// The whole of standard input is one message
    #[arg(long, conflicts_with = "null")]
    pub raw: bool,
    /// Messages of standard input end with NUL, not with a line's end
    #[arg(short = '0', long)]
    pub null: bool,
    /// The largest message that is read from standard input
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20)]
    pub max: usize,
    #[command(flatten)]
    pub client: ClientArgs,
}

#[derive(Args)]
pub struct Recv {
    /// What to listen on
    #[arg(value_name = "TOPIC", required = true)]
    pub topics: Vec<String>,
    /// Stop after so many messages
    #[arg(short = 'n', long, value_name = "MESSAGES", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// The longest wait for a message [default: for ever]
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub timeout: Option<Duration>,
    /// Give each message to a command of the shell's, on standard input, instead of printing it. It is acknowledged
    /// when the command ends with 0, and has failed otherwise. DELIVERY_FROM, DELIVERY_TOPIC, DELIVERY_ACCEPTED_MS and
    /// DELIVERY_COUNT tell of it
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["json", "raw", "null"])]
    pub exec: Option<OsString>,
    /// Give a message up that was delivered so often: its sender keeps it as a dead letter [default: never]
    #[arg(long, value_name = "DELIVERIES", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_deliveries: Option<u32>,
    /// A line of JSON a message: from, topic, accepted_ms (since 1970), deliveries, body (a body that is no UTF-8 as
    /// {"base64":"..."}), and dead, where it is a dead letter
    #[arg(long, group = "format")]
    pub json: bool,
    /// The bodies alone, nothing between them
    #[arg(long, group = "format")]
    pub raw: bool,
    /// Bodies end with NUL, not with a line's end
    #[arg(short = '0', long, group = "format")]
    pub null: bool,
    #[command(flatten)]
    pub client: ClientArgs,
}

#[derive(Args)]
pub struct Status {
    /// The directory of a store [default: all of the user's]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Print it again whenever it changes, until a signal comes
    #[arg(long)]
    pub watch: bool,
    /// A line of JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct DeadLetters {
    /// The directory of a store [default: all of the user's]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// A line of JSON a letter
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct Requeue {
    /// The number of a letter, as dead-letters prints it
    #[arg(value_name = "NUMBER", required_unless_present_any = ["all", "topics"])]
    pub numbers: Vec<LetterNumber>,
    /// All letters that were sent to this topic; may be given again
    #[arg(long = "topic", value_name = "TOPIC", conflicts_with = "numbers")]
    pub topics: Vec<String>,
    /// All letters of the client's
    #[arg(long, conflicts_with_all = ["numbers", "topics"])]
    pub all: bool,
    /// The longest wait for room on the disk, for each letter [default: for ever]
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub timeout: Option<Duration>,
    #[command(flatten)]
    pub client: ClientArgs,
}

#[derive(Args)]
pub struct Registry {
    /// dir://PATH, sqlite://PATH or redis://HOST[:PORT][/DATABASE] [default: a directory of the user's]
    #[arg(value_name = "URL")]
    pub url: Option<String>,
    /// Print them again whenever they change, until a signal comes
    #[arg(long)]
    pub watch: bool,
    /// A line of JSON
    #[arg(long)]
    pub json: bool,
    /// Clear away what the dead have left that listened on this topic, and print how many addresses that were
    #[arg(long, value_name = "TOPIC", conflicts_with_all = ["watch", "json"])]
    pub clear: Option<String>,
}
