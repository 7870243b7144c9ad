//! Single source of every command and flag: the parser, the help, the man pages, the completions and `docs/cli.md`
//! are generated from it.

pub mod deliver;
pub mod files;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

/// Send and receive whole messages from shells and scripts.
///
/// It speaks ZeroMQ's protocol (ZMTP), so the peer can be any program that uses libzmq, or this command.
#[derive(Parser)]
#[command(name = "pinnace", version, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Pinnace {
    #[command(subcommand)]
    pub command: Command,
}

pub const EXIT_CODES: &str = "Exit codes: 0 done; 1 the network, the peer or the input failed, or messages were \
    lost; 2 wrong arguments; 3 timed out; 4 refused, and 5 no room on the disk (files); \
    130 and 143 ended by SIGINT and SIGTERM. proxy, forward, and monitor without \
    --count and --until run until a signal: they then exit with 0, but forward with 1 if lines were not delivered. If \
    standard output is closed, recv and monitor exit with 0, but with 1 if --count or --until was not reached; send, \
    which prints replies there, exits with 1. Delivered means accepted by the peer's kernel or, for req, answered; it \
    does not mean that the receiver has handled the message. Messages that pub, xpub and radio drop for slow \
    subscribers are reported on standard error, and are no failure.";

#[derive(Subcommand)]
pub enum Command {
    /// Send messages from the command line, files or standard input
    Send(Send),
    /// Receive messages and print them
    Recv(Recv),
    /// Forward messages between two sockets, in both directions
    Proxy(Proxy),
    /// Forward lines from TCP connections as messages, and answers as lines
    Forward(Forward),
    /// Print the events of a socket's connections
    Monitor(Monitor),
    /// Measure throughput or latency
    Bench(Bench),
    /// Generate a CURVE key pair
    Keygen(Keygen),
    /// Deliver messages between named clients at least once, without a broker
    Deliver {
        #[command(subcommand)]
        command: deliver::Deliver,
    },
    /// Transfer files and folders: verified, resumed where a transfer ended, with bounded memory
    Files {
        #[command(subcommand)]
        command: files::Files,
    },
    /// Print the version, and the libzmq version with the same C interface
    Version,
    /// Print a completion script for a shell
    #[command(hide = true)]
    Completions { shell: Shell },
    /// Print the man page, or write all of them into a folder
    #[command(hide = true)]
    Man { folder: Option<PathBuf> },
    /// Print this table as Markdown
    #[command(hide = true)]
    Reference,
}

/// The flags of every command with a socket.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Socket")]
pub struct SocketArgs {
    /// Set any socket option, by libzmq's name in lower case without ZMQ_. A binary value is written as hex:00ff
    #[arg(short, long = "option", value_name = "NAME=VALUE")]
    pub option: Vec<OsString>,
    /// High-water mark for each direction, in messages; 0 means no limit [default: 1000]
    #[arg(long, value_name = "MESSAGES")]
    pub hwm: Option<u32>,
    /// Use IPv6 as well as IPv4
    #[arg(long)]
    pub ipv6: bool,
    /// CURVE certificate of this side, with the secret key; requires --curve-server or --curve-server-key
    #[arg(long, value_name = "FILE", requires = "curve")]
    pub cert: Option<PathBuf>,
    /// Act as the CURVE server; requires --cert. Without --allow, every client that knows the public key is accepted
    #[arg(long, requires = "cert", group = "curve")]
    pub curve_server: bool,
    /// Public key of the CURVE server, as Z85 or as a certificate file; without --cert, this side generates its own
    /// keys
    #[arg(long, value_name = "KEY|FILE", group = "curve")]
    pub curve_server_key: Option<String>,
    /// Accept only clients with this public certificate, or with one from this folder. Can be repeated
    #[arg(long, value_name = "FILE", requires = "curve_server")]
    pub allow: Vec<PathBuf>,
    /// User name for PLAIN, which does not encrypt and cannot be combined with CURVE
    #[arg(long, value_name = "NAME", requires = "password", conflicts_with_all = ["cert", "curve"])]
    pub plain_username: Option<String>,
    /// Password for PLAIN; other users of this machine can see it
    #[arg(long, value_name = "PASSWORD", group = "password", requires = "plain_username",
        conflicts_with_all = ["cert", "curve", "plain_users"])]
    pub plain_password: Option<String>,
    /// File with the password for PLAIN in its first line
    #[arg(long, value_name = "FILE", group = "password", requires = "plain_username",
        conflicts_with_all = ["cert", "curve", "plain_users"])]
    pub plain_password_file: Option<PathBuf>,
    /// Act as the PLAIN server; each line of the file is NAME:PASSWORD of an accepted client
    #[arg(long, value_name = "FILE", conflicts_with_all = ["plain_username", "cert", "curve"])]
    pub plain_users: Option<PathBuf>,
    /// Print the endpoints in use on standard error, bound ones with their actual ports
    #[arg(short, long)]
    pub verbose: bool,
    /// At the end, print the socket's statistics on standard error, as a line of JSON or in Prometheus' text format
    #[arg(long, value_name = "FORMAT", value_enum, num_args = 0..=1, require_equals = true,
        default_missing_value = "json")]
    pub stats: Option<StatsFormat>,
}

/// How statistics are printed.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub enum StatsFormat {
    Json,
    Prometheus,
}

/// The separator between the frames of a message in a line.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub enum Separator {
    Tab,
    Nul,
}

impl Separator {
    pub fn byte(self) -> u8 {
        match self {
            Separator::Tab => b'\t',
            Separator::Nul => 0,
        }
    }
}

/// How received messages are printed. Without a flag: a line a message, frames separated by tabs.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Print each message as a line of JSON: {"frames":[...]}. A frame that is not UTF-8 is {"base64":"..."}
    #[arg(long, group = "format")]
    pub json: bool,
    /// Print only the bytes, with nothing between frames or messages
    #[arg(long, group = "format")]
    pub raw: bool,
    /// Print frames as hexadecimal digits
    #[arg(long, group = "format")]
    pub hex: bool,
    /// Separator between frames [default: tab]
    #[arg(long, value_name = "SEPARATOR", value_enum)]
    pub frames: Option<Separator>,
}

#[derive(Args)]
pub struct Send {
    /// Endpoints to send to (anything with "://"; the prefix @ binds, > connects), and files to read; - is standard
    /// input
    #[arg(value_name = "ENDPOINT|FILE", required = true)]
    pub targets: Vec<OsString>,
    /// Socket type. req prints the reply to each message. The first frame is the address for dgram, and for router the
    /// routing id of a peer; router waits for that peer
    #[arg(short = 't', long = "type", value_name = "TYPE", default_value = "push",
        value_parser = ["push", "pub", "xpub", "dealer", "req", "pair", "router", "client", "radio", "scatter",
            "peer", "channel", "dgram"])]
    pub socket_type: String,
    /// Group that radio sends to, unless a message of --json names its own
    #[arg(short, long, value_name = "GROUP")]
    pub group: Option<OsString>,
    /// Wait for a reply to each message and print it, as req does
    #[arg(long)]
    pub await_reply: bool,
    /// Bind instead of connecting
    #[arg(short, long)]
    pub bind: bool,
    /// Message to send; can be repeated. Without it, the input is read, one message per line
    #[arg(short, long, value_name = "TEXT")]
    pub message: Vec<OsString>,
    /// Split each message into frames at tabs or NULs
    #[arg(long, value_name = "SEPARATOR", value_enum, num_args = 0..=1, require_equals = true,
        default_missing_value = "tab")]
    pub frames: Option<Separator>,
    /// Send each whole input as one message
    #[arg(long, conflicts_with_all = ["json", "null"])]
    pub raw: bool,
    /// Read each line of the input as a message in the format of `recv --json`
    #[arg(long, conflicts_with_all = ["frames", "null"])]
    pub json: bool,
    /// Messages in the input end with NUL instead of a newline
    #[arg(short = '0', long)]
    pub null: bool,
    /// Stop after this many messages; those from --message are repeated until then
    #[arg(short = 'n', long, value_name = "MESSAGES", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Pause between messages
    #[arg(short, long, value_name = "MS", value_parser = milliseconds)]
    pub interval: Option<Duration>,
    /// First wait for this many peers; for pub and radio, for this many subscribers of the first message
    #[arg(short, long, value_name = "PEERS")]
    pub wait: Option<usize>,
    /// Maximum wait for a peer, for room in the queue, and for a reply [default: no limit]
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub timeout: Option<Duration>,
    /// Maximum wait for delivery at the end [default: the value of --timeout]
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub linger: Option<Duration>,
    /// Maximum size of a message that is read from the input
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20)]
    pub max: usize,
    #[command(flatten)]
    pub replies: ReplyArgs,
    #[command(flatten)]
    pub socket: SocketArgs,
}

/// How replies are printed.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Replies")]
pub struct ReplyArgs {
    /// Print replies as lines of JSON
    #[arg(long, group = "reply_format")]
    pub reply_json: bool,
    /// Print only the bytes of replies
    #[arg(long, group = "reply_format")]
    pub reply_raw: bool,
    /// Print the frames of replies as hexadecimal digits
    #[arg(long, group = "reply_format")]
    pub reply_hex: bool,
}

#[derive(Args)]
pub struct Recv {
    /// Endpoints to receive from; the prefix @ binds, > connects. Binding an ipc endpoint replaces what exists at its
    /// path
    #[arg(value_name = "ENDPOINT", required = true)]
    pub endpoints: Vec<String>,
    /// Socket type. rep answers each message; server, peer, channel and dgram answer only with --reply or --echo
    #[arg(short = 't', long = "type", value_name = "TYPE", default_value = "pull",
        value_parser = ["pull", "sub", "xsub", "rep", "router", "dealer", "pair", "xpub", "server", "dish", "gather",
            "peer", "channel", "dgram"])]
    pub socket_type: String,
    /// Bind instead of connecting
    #[arg(short, long)]
    pub bind: bool,
    /// Receive messages with this prefix; for sub and xsub. Can be repeated [default: all]
    #[arg(short, long, value_name = "TOPIC")]
    pub subscribe: Vec<OsString>,
    /// Group that dish joins. Can be repeated; --json prints the group of each message
    #[arg(short, long, value_name = "GROUP")]
    pub group: Vec<OsString>,
    /// Stop after this many messages. Further messages that have arrived are lost, and counted on standard error
    #[arg(short = 'n', long, value_name = "MESSAGES", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Maximum wait for a message [default: no limit]
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub timeout: Option<Duration>,
    /// Text of the answer [default for rep: an empty message]
    #[arg(long, value_name = "TEXT", conflicts_with = "echo")]
    pub reply: Option<OsString>,
    /// Answer with the received message
    #[arg(long)]
    pub echo: bool,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub socket: SocketArgs,
}

#[derive(Args)]
pub struct Proxy {
    /// Endpoint for clients; bound, or connected with the prefix >
    #[arg(value_name = "FRONT")]
    pub front: String,
    /// Endpoint for servers; bound, or connected with the prefix >
    #[arg(value_name = "BACK")]
    pub back: String,
    /// Socket type of the front
    #[arg(long, value_name = "TYPE", default_value = "router", value_parser = PROXIED)]
    pub front_type: String,
    /// Socket type of the back [default: the counterpart of the front's]
    #[arg(long, value_name = "TYPE", value_parser = PROXIED)]
    pub back_type: Option<String>,
    /// Publish a copy of every message at this endpoint (PUB, with the same options; bound, or connected with the
    /// prefix >)
    #[arg(long, value_name = "ENDPOINT")]
    pub capture: Option<String>,
    /// Print statistics as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub socket: SocketArgs,
}

const PROXIED: [&str; 7] = ["router", "dealer", "xsub", "xpub", "pull", "push", "pair"];

#[derive(Args)]
pub struct Forward {
    /// TCP address to accept clients on; port 0 selects a free port, which is printed on standard error
    #[arg(value_name = "HOST:PORT")]
    pub listen: String,
    /// Endpoints to exchange messages with
    #[arg(value_name = "ENDPOINT", required = true)]
    pub endpoints: Vec<String>,
    /// Socket type of each connection. dealer, req and pair also return answers as lines; sub and pull only send lines
    /// to the client
    #[arg(short = 't', long = "type", value_name = "TYPE", default_value = "push",
        value_parser = ["push", "pub", "dealer", "req", "pair", "sub", "pull"])]
    pub socket_type: String,
    /// Bind instead of connecting; all connections then share one socket, which must be push or pub
    #[arg(short, long)]
    pub bind: bool,
    /// Keep the newline at the end of each message
    #[arg(long)]
    pub keep_newline: bool,
    /// Receive messages with this prefix; for sub. Can be repeated [default: all]
    #[arg(short, long, value_name = "TOPIC")]
    pub subscribe: Vec<OsString>,
    /// Maximum length of a line; a client that sends a longer one is disconnected
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20)]
    pub max: usize,
    /// Maximum number of connections at a time; further clients wait
    #[arg(long, value_name = "CONNECTIONS", default_value_t = 1000)]
    pub connections: usize,
    /// Maximum wait for answers after a client has stopped sending, and for delivery at the end
    #[arg(long, value_name = "MS", value_parser = milliseconds, default_value = "5000")]
    pub linger: Duration,
    #[command(flatten)]
    pub socket: SocketArgs,
}

#[derive(Args)]
pub struct Monitor {
    /// Endpoints to connect to; the prefix @ binds
    #[arg(value_name = "ENDPOINT", required = true)]
    pub endpoints: Vec<String>,
    /// Socket type. The handshake fails unless it is compatible with the peer's. Received messages are discarded; rep
    /// answers with an empty message
    #[arg(short = 't', long = "type", value_name = "TYPE", default_value = "dealer",
        value_parser = ["push", "pull", "pub", "sub", "xpub", "xsub", "dealer", "router", "req", "rep", "pair",
            "client", "server", "radio", "dish", "scatter", "gather", "peer", "channel"])]
    pub socket_type: String,
    /// Bind instead of connecting
    #[arg(short, long)]
    pub bind: bool,
    /// Stop after this many events
    #[arg(short = 'n', long, value_name = "EVENTS", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Stop after this event
    #[arg(long, value_name = "EVENT", value_parser = crate::events::names())]
    pub until: Option<String>,
    /// Maximum wait until --count or --until is reached [default: no limit]
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub timeout: Option<Duration>,
    /// Print each event as a line of JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub socket: SocketArgs,
}

/// What is measured.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Throughput: the end that binds receives
    Thr,
    /// Latency: the end that binds answers
    Lat,
}

#[derive(Args)]
#[command(
    override_usage = "pinnace bench [OPTIONS] <--bind <ENDPOINT>|--connect <ENDPOINT>|--self [<ENDPOINT>]> <WHAT>"
)]
pub struct Bench {
    #[arg(value_name = "WHAT", value_enum)]
    pub measure: Measure,
    /// Run the binding end; the other end is another process, with --connect and the same --size and --count
    #[arg(long, value_name = "ENDPOINT", group = "end", required = true)]
    pub bind: Option<String>,
    /// Run the connecting end
    #[arg(long, value_name = "ENDPOINT", group = "end", required = true)]
    pub connect: Option<String>,
    /// Run both ends, as two threads [default endpoint: inproc://bench]
    #[arg(long = "self", value_name = "ENDPOINT", group = "end", required = true, num_args = 0..=1,
        default_missing_value = "inproc://bench")]
    pub both: Option<String>,
    /// Size of a message, at most 1073741824
    #[arg(long, value_name = "BYTES", default_value = "64", value_parser = size)]
    pub size: usize,
    /// Number of messages, or of round trips
    #[arg(long, value_name = "MESSAGES", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub count: u64,
    /// Maximum wait for a message
    #[arg(long, value_name = "MS", value_parser = milliseconds, default_value = "60000")]
    pub timeout: Duration,
    /// Print one line of JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub socket: SocketArgs,
}

#[derive(Args)]
pub struct Keygen {
    /// Write certificates in CZMQ's format: FILE is public, FILE_secret must stay private. Without it, both keys are
    /// printed
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Add this metadata to the certificates; can be repeated
    #[arg(long, value_name = "NAME=VALUE", requires = "file")]
    pub meta: Vec<String>,
    /// Overwrite existing files
    #[arg(long, requires = "file")]
    pub force: bool,
}

/// Parses a message size for `bench`.
fn size(text: &str) -> Result<usize, String> {
    const MAX: usize = 1 << 30;
    let size = text.parse().ok().filter(|&size| size <= MAX);
    size.ok_or_else(|| format!("must be a number of bytes, at most {MAX}"))
}

/// Parses the lifetime of a message, in milliseconds.
fn lifetime(text: &str) -> Result<Duration, String> {
    milliseconds(text).and_then(|time| match time.is_zero() {
        true => Err("must be at least 1 ms".to_owned()),
        false => Ok(time),
    })
}

/// Parses a time in milliseconds, or the word for one without limit.
fn milliseconds_or_forever(text: &str) -> Result<Duration, String> {
    match text {
        "forever" => Ok(Duration::MAX),
        _ => milliseconds(text).map_err(|_| "must be a number of milliseconds, or forever".to_owned()),
    }
}

/// Parses a time in milliseconds.
fn milliseconds(text: &str) -> Result<Duration, String> {
    let number: u32 = text.parse().map_err(|_| "must be a number of milliseconds".to_owned())?;
    Ok(Duration::from_millis(number.into()))
}
