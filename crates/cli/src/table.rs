//! Every command and every flag, once. From here come the parser, the help, the man pages, the completions and
//! `docs/cli.md`.

pub mod deliver;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

/// Sockets that carry whole messages, for shells and scripts.
///
/// It speaks ZeroMQ's protocol (ZMTP), so the other end may be any program on libzmq, or this command again.
#[derive(Parser)]
#[command(name = "pinnace", version, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Pinnace {
    #[command(subcommand)]
    pub command: Command,
}

pub const EXIT_CODES: &str = "Exit codes: 0 done; 1 the network, the peer or the input failed, or messages were \
    lost; 2 wrong arguments; 3 timed out; 130 and 143 ended by SIGINT and SIGTERM. proxy, forward and a monitor \
    without --count and --until have no other end than a signal: theirs is 0, and 1 where forward has lines that were \
    not delivered. A standard output that is closed ends recv and monitor with 0, but with 1 where --count or --until \
    was not reached, and so send, whose replies go there. Delivered means taken by the peer's kernel, or, by req, \
    answered; not that somebody has handled it. What pub, xpub and radio drop for slow subscribers \
    is said on standard error, and no failure.";

#[derive(Subcommand)]
pub enum Command {
    /// Send messages: from the command line, a file or standard input
    Send(Send),
    /// Receive messages and print them
    Recv(Recv),
    /// Pass messages on between two sockets, both ways
    Proxy(Proxy),
    /// Make messages of lines that come over TCP, and lines of the answers
    Forward(Forward),
    /// Print what happens to an endpoint's connections
    Monitor(Monitor),
    /// Measure throughput or latency
    Bench(Bench),
    /// Make a pair of CURVE keys
    Keygen(Keygen),
    /// Guaranteed delivery between named clients: at least once, with no service to run
    Deliver {
        #[command(subcommand)]
        command: deliver::Deliver,
    },
    /// Print the version, and libzmq's whose interface it is
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

/// What every command with a socket takes.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Socket")]
pub struct SocketArgs {
    /// Any socket option: libzmq's name without ZMQ_, in lower case. A value that is no text: hex:00ff
    #[arg(short, long = "option", value_name = "NAME=VALUE")]
    pub option: Vec<OsString>,
    /// High-water mark of both directions, in messages; 0 is none [default: 1000]
    #[arg(long, value_name = "MESSAGES")]
    pub hwm: Option<u32>,
    /// Use IPv6 too
    #[arg(long)]
    pub ipv6: bool,
    /// Our own CURVE certificate, with the secret key; needs --curve-server or --curve-server-key
    #[arg(long, value_name = "FILE", requires = "curve")]
    pub cert: Option<PathBuf>,
    /// Be the server in CURVE; needs --cert. Without --allow, whoever has the public key is let in
    #[arg(long, requires = "cert", group = "curve")]
    pub curve_server: bool,
    /// The CURVE server's public key, as Z85 or as its certificate file; without --cert ours is made up
    #[arg(long, value_name = "KEY|FILE", group = "curve")]
    pub curve_server_key: Option<String>,
    /// A client's public certificate, or a folder of them: nobody else is let in. May be given again
    #[arg(long, value_name = "FILE", requires = "curve_server")]
    pub allow: Vec<PathBuf>,
    /// Our name for PLAIN, which encrypts nothing: it does not go with CURVE
    #[arg(long, value_name = "NAME", requires = "password", conflicts_with_all = ["cert", "curve"])]
    pub plain_username: Option<String>,
    /// Our password for PLAIN; other users of the machine can see it
    #[arg(long, value_name = "PASSWORD", group = "password", requires = "plain_username",
        conflicts_with_all = ["cert", "curve", "plain_users"])]
    pub plain_password: Option<String>,
    /// A file with our password for PLAIN in its first line
    #[arg(long, value_name = "FILE", group = "password", requires = "plain_username",
        conflicts_with_all = ["cert", "curve", "plain_users"])]
    pub plain_password_file: Option<PathBuf>,
    /// Be the server in PLAIN; a file with NAME:PASSWORD in each line says who is let in
    #[arg(long, value_name = "FILE", conflicts_with_all = ["plain_username", "cert", "curve"])]
    pub plain_users: Option<PathBuf>,
    /// Say on standard error which endpoints are used; bound ones with their ports
    #[arg(short, long)]
    pub verbose: bool,
    /// At the end, print the socket's statistics on standard error: a line of JSON, or Prometheus' text format
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

/// How frames of a message are told apart in a line.
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
    /// A line of JSON a message: {"frames":[...]}, a frame that is no UTF-8 as {"base64":"..."}
    #[arg(long, group = "format")]
    pub json: bool,
    /// The bytes alone, nothing between frames and messages
    #[arg(long, group = "format")]
    pub raw: bool,
    /// Frames as hexadecimal digits
    #[arg(long, group = "format")]
    pub hex: bool,
    /// What stands between frames [default: tab]
    #[arg(long, value_name = "SEPARATOR", value_enum)]
    pub frames: Option<Separator>,
}

#[derive(Args)]
pub struct Send {
    /// Where to send to (anything with "://"; @ in front binds, > connects), and files to read; - is standard input
    #[arg(value_name = "ENDPOINT|FILE", required = true)]
    pub targets: Vec<OsString>,
    /// Socket type. req prints the reply to each message; of dgram the first frame is the address, of router the name
    /// of a peer, which is waited for
    #[arg(short = 't', long = "type", value_name = "TYPE", default_value = "push",
        value_parser = ["push", "pub", "xpub", "dealer", "req", "pair", "router", "client", "radio", "scatter",
            "peer", "channel", "dgram"])]
    pub socket_type: String,
    /// The group that radio sends to; of a message of --json that names one itself, that one
    #[arg(short, long, value_name = "GROUP")]
    pub group: Option<OsString>,
    /// Print a reply to each message, as req does
    #[arg(long)]
    pub await_reply: bool,
    /// Bind instead of connecting
    #[arg(short, long)]
    pub bind: bool,
    /// A message; may be given again. Without one the input is read, a message a line
    #[arg(short, long, value_name = "TEXT")]
    pub message: Vec<OsString>,
    /// Cut each message into frames, at tabs or at NULs
    #[arg(long, value_name = "SEPARATOR", value_enum, num_args = 0..=1, require_equals = true,
        default_missing_value = "tab")]
    pub frames: Option<Separator>,
    /// The whole of each input is one message
    #[arg(long, conflicts_with_all = ["json", "null"])]
    pub raw: bool,
    /// Each line of the input is a message as `recv --json` prints it
    #[arg(long, conflicts_with_all = ["frames", "null"])]
    pub json: bool,
    /// Messages of the input end with NUL, not with a line's end
    #[arg(short = '0', long)]
    pub null: bool,
    /// Stop after so many messages; those given by --message are sent again until then
    #[arg(short = 'n', long, value_name = "MESSAGES", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Pause between two messages
    #[arg(short, long, value_name = "MS", value_parser = milliseconds)]
    pub interval: Option<Duration>,
    /// First wait for so many peers; for pub and radio, for as many who have subscribed to the first message
    #[arg(short, long, value_name = "PEERS")]
    pub wait: Option<usize>,
    /// The longest wait for a peer, for room, and for a reply [default: for ever]
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub timeout: Option<Duration>,
    /// The longest wait for the delivery at the end [default: that of --timeout]
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub linger: Option<Duration>,
    /// The largest message that is read from the input
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
    /// Print the replies' bytes alone
    #[arg(long, group = "reply_format")]
    pub reply_raw: bool,
    /// Print the replies' frames as hexadecimal digits
    #[arg(long, group = "reply_format")]
    pub reply_hex: bool,
}

#[derive(Args)]
pub struct Recv {
    /// Where to receive from; @ in front binds, > connects. What lies at the path of an ipc endpoint is replaced by who
    /// binds
    #[arg(value_name = "ENDPOINT", required = true)]
    pub endpoints: Vec<String>,
    /// Socket type. rep answers each message, server, peer, channel and dgram where --reply or --echo says what
    #[arg(short = 't', long = "type", value_name = "TYPE", default_value = "pull",
        value_parser = ["pull", "sub", "xsub", "rep", "router", "dealer", "pair", "xpub", "server", "dish", "gather",
            "peer", "channel", "dgram"])]
    pub socket_type: String,
    /// Bind instead of connecting
    #[arg(short, long)]
    pub bind: bool,
    /// Messages that begin so; for sub and xsub. May be given again [default: all]
    #[arg(short, long, value_name = "TOPIC")]
    pub subscribe: Vec<OsString>,
    /// The group that dish joins. May be given again; --json tells of which group each message is
    #[arg(short, long, value_name = "GROUP")]
    pub group: Vec<OsString>,
    /// Stop after so many messages; what had come in beside them is lost, and counted on standard error
    #[arg(short = 'n', long, value_name = "MESSAGES", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// The longest wait for a message [default: for ever]
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub timeout: Option<Duration>,
    /// What is answered [default for rep: nothing, as an empty message]
    #[arg(long, value_name = "TEXT", conflicts_with = "echo")]
    pub reply: Option<OsString>,
    /// Answer with what was sent
    #[arg(long)]
    pub echo: bool,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub socket: SocketArgs,
}

#[derive(Args)]
pub struct Proxy {
    /// Where clients are; bound, unless > stands in front
    #[arg(value_name = "FRONT")]
    pub front: String,
    /// Where servers are; bound, unless > stands in front
    #[arg(value_name = "BACK")]
    pub back: String,
    /// Socket type of the front
    #[arg(long, value_name = "TYPE", default_value = "router", value_parser = PROXIED)]
    pub front_type: String,
    /// Socket type of the back [default: what goes with the front's]
    #[arg(long, value_name = "TYPE", value_parser = PROXIED)]
    pub back_type: Option<String>,
    /// Publish a copy of every message there (PUB, with the same options; bound, unless > stands in front)
    #[arg(long, value_name = "ENDPOINT")]
    pub capture: Option<String>,
    /// Statistics as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub socket: SocketArgs,
}

const PROXIED: [&str; 7] = ["router", "dealer", "xsub", "xpub", "pull", "push", "pair"];

#[derive(Args)]
pub struct Forward {
    /// Where to listen for lines; port 0 takes a free one, which is printed on standard error
    #[arg(value_name = "HOST:PORT")]
    pub listen: String,
    /// Where messages go
    #[arg(value_name = "ENDPOINT", required = true)]
    pub endpoints: Vec<String>,
    /// Socket type of each connection. dealer, req and pair bring answers back as lines, sub and pull bring lines alone
    #[arg(short = 't', long = "type", value_name = "TYPE", default_value = "push",
        value_parser = ["push", "pub", "dealer", "req", "pair", "sub", "pull"])]
    pub socket_type: String,
    /// Bind instead of connecting; then all connections share one socket, and only push and pub will do
    #[arg(short, long)]
    pub bind: bool,
    /// Messages keep their line's end
    #[arg(long)]
    pub keep_newline: bool,
    /// Messages that begin so, for sub. May be given again [default: all]
    #[arg(short, long, value_name = "TOPIC")]
    pub subscribe: Vec<OsString>,
    /// The longest line; who sends a longer one is cut off
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20)]
    pub max: usize,
    /// Connections at once; more have to wait
    #[arg(long, value_name = "CONNECTIONS", default_value_t = 1000)]
    pub connections: usize,
    /// How long answers are waited for when a connection sends no more, and messages delivered at the end
    #[arg(long, value_name = "MS", value_parser = milliseconds, default_value = "5000")]
    pub linger: Duration,
    #[command(flatten)]
    pub socket: SocketArgs,
}

#[derive(Args)]
pub struct Monitor {
    /// What to connect to; @ in front binds
    #[arg(value_name = "ENDPOINT", required = true)]
    pub endpoints: Vec<String>,
    /// Socket type; one that goes with the other end's, else the handshake fails. What is sent to it is thrown away;
    /// rep answers with nothing
    #[arg(short = 't', long = "type", value_name = "TYPE", default_value = "dealer",
        value_parser = ["push", "pull", "pub", "sub", "xpub", "xsub", "dealer", "router", "req", "rep", "pair",
            "client", "server", "radio", "dish", "scatter", "gather", "peer", "channel"])]
    pub socket_type: String,
    /// Bind instead of connecting
    #[arg(short, long)]
    pub bind: bool,
    /// Stop after so many events
    #[arg(short = 'n', long, value_name = "EVENTS", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Stop after this event
    #[arg(long, value_name = "EVENT", value_parser = crate::monitor::names())]
    pub until: Option<String>,
    /// The longest wait for the end that --count or --until says [default: for ever]
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub timeout: Option<Duration>,
    /// A line of JSON an event
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
    /// Be the end that binds; the other is another process, with --connect and the same numbers
    #[arg(long, value_name = "ENDPOINT", group = "end", required = true)]
    pub bind: Option<String>,
    /// Be the end that connects
    #[arg(long, value_name = "ENDPOINT", group = "end", required = true)]
    pub connect: Option<String>,
    /// Be both ends, as two threads [default endpoint: inproc://bench]
    #[arg(long = "self", value_name = "ENDPOINT", group = "end", required = true, num_args = 0..=1,
        default_missing_value = "inproc://bench")]
    pub both: Option<String>,
    /// Size of a message, at most 1073741824
    #[arg(long, value_name = "BYTES", default_value = "64", value_parser = size)]
    pub size: usize,
    /// How many messages, or round trips
    #[arg(long, value_name = "MESSAGES", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub count: u64,
    /// The longest wait for a message
    #[arg(long, value_name = "MS", value_parser = milliseconds, default_value = "60000")]
    pub timeout: Duration,
    /// One line of JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub socket: SocketArgs,
}

#[derive(Args)]
pub struct Keygen {
    /// Write certificates as CZMQ does: FILE for everybody, FILE_secret for us alone. Without it both keys are printed
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Put this into the certificates
    #[arg(long, value_name = "NAME=VALUE", requires = "file")]
    pub meta: Vec<String>,
    /// Replace files that are there
    #[arg(long, requires = "file")]
    pub force: bool,
}

/// The size of a message that is measured.
fn size(text: &str) -> Result<usize, String> {
    const MAX: usize = 1 << 30;
    let size = text.parse().ok().filter(|&size| size <= MAX);
    size.ok_or_else(|| format!("not a number of bytes up to {MAX}"))
}

/// How long a message may live, in milliseconds.
fn lifetime(text: &str) -> Result<Duration, String> {
    milliseconds(text).and_then(|time| match time.is_zero() {
        true => Err("a message lives for 1 ms at least".to_owned()),
        false => Ok(time),
    })
}

/// A time in milliseconds.
fn milliseconds(text: &str) -> Result<Duration, String> {
    let number: u32 = text.parse().map_err(|_| "not a number of milliseconds".to_owned())?;
    Ok(Duration::from_millis(number.into()))
}
