//! The subcommands of `pinnace files`, and their flags.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, Subcommand};
use pinnace::files::rules::Pattern;
use pinnace::files::tree::TreePath;

use super::deliver::{Trusted, trusted};
use super::milliseconds;

/// Exit codes of `pinnace files`.
pub const EXIT_CODES: &str = "Exit codes: 0 everything arrived, or is the same; 1 some files failed or differ, and the \
    output names them; 2 wrong arguments; 3 no server answers; 4 refused as a whole: the server does not admit this \
    client, or the path itself is forbidden by the server, the file system or a rule, or something is in its way; 5 no \
    room on the disk; 130 and 143 ended by SIGINT and SIGTERM.";

/// Where a server listens, and where clients expect it.
pub const ENDPOINT: &str = "tcp://127.0.0.1:5670";

#[derive(Subcommand)]
pub enum Files {
    /// Serve folders. Runs until a signal
    #[command(
        after_help = "Exit codes: 0 ended by a signal; 1 it cannot listen at the endpoint; 2 wrong arguments."
    )]
    Serve(FilesServe),
    /// Fetch a file, or a folder with all below it. What is here already and has the same size and time is not fetched
    #[command(after_help = EXIT_CODES)]
    Get(FilesGet),
    /// Upload a file, or a folder with all below it. What the server has with the same size and time is not sent
    #[command(after_help = EXIT_CODES)]
    Put(FilesPut),
    /// Make a folder here the same as the server's: as get, and files that the server does not have are removed
    #[command(after_help = EXIT_CODES)]
    Sync(FilesSync),
    /// Compare a file or folder here with the server's by content, and print the names that differ (exit code 1)
    #[command(after_help = EXIT_CODES)]
    Verify(FilesVerify),
    /// Fetch a folder, and then each change in it, until a signal
    #[command(after_help = EXIT_CODES)]
    Watch(FilesWatch),
    /// List the names below a path
    #[command(after_help = EXIT_CODES)]
    Ls(FilesLs),
}

#[derive(Args)]
pub struct FilesServe {
    /// Folder to serve, and its virtual path [default: / for a single folder, /NAME for several]
    #[arg(value_name = "DIR[=ALIAS]", required = true)]
    pub folders: Vec<OsString>,
    /// Endpoint to listen at. Can be repeated. Without --cert or --passwords, every process that reaches it is a client
    /// [default: tcp://127.0.0.1:5670, for clients of this host, which is printed]
    #[arg(short, long, value_name = "ENDPOINT")]
    pub bind: Vec<String>,
    /// Let clients upload to the folders
    #[arg(short, long)]
    pub writable: bool,
    /// CURVE certificate of the server, with the secret key: all traffic is encrypted. Without --trust, every client
    /// that knows the public key is admitted
    #[arg(long, value_name = "FILE", conflicts_with = "passwords")]
    pub cert: Option<PathBuf>,
    /// User with a public key, as Z85 or as a certificate file. Can be repeated
    #[arg(long = "trust", value_name = "NAME=KEY|FILE", value_parser = trusted, requires = "cert")]
    pub trusted: Vec<Trusted>,
    /// File of users and passwords, NAME:PASSWORD in each line (PLAIN: clients send them in clear)
    #[arg(long, value_name = "FILE")]
    pub passwords: Option<PathBuf>,
    /// Let a user, or * for anybody, read a virtual path and all below it. Can be repeated. With the first --read or
    /// --write, nobody has a right that is not given
    #[arg(long = "read", value_name = "NAME=PATH", value_parser = named_path)]
    pub readers: Vec<(String, String)>,
    /// Let a user, or * for anybody, upload to a virtual path and all below it, if --writable is given. Can be repeated
    #[arg(long = "write", value_name = "NAME=PATH", value_parser = named_path, requires = "writable")]
    pub writers: Vec<(String, String)>,
    /// Serve only clients that name this domain. It protects from mistakes, not from attackers
    #[arg(long, value_name = "NAME")]
    pub domain: Option<String>,
    /// Print the endpoints on standard error, with their actual ports
    #[arg(short, long)]
    pub verbose: bool,
}

/// The flags of every client.
#[derive(Args)]
pub struct ServerArgs {
    /// Endpoint of the server
    #[arg(short, long, value_name = "ENDPOINT", default_value = ENDPOINT)]
    pub server: String,
    /// How long the server may take to answer, in milliseconds, at least 1
    #[arg(long, value_name = "MS", default_value = "10000", value_parser = patience)]
    pub timeout: Duration,
    /// The most bytes a second in each direction; K, M and G stand for 1024, 1024^2 and 1024^3
    #[arg(long, value_name = "BYTES", value_parser = rate)]
    pub limit_rate: Option<u64>,
    /// CURVE certificate of this client, with the secret key
    #[arg(long, value_name = "FILE", requires = "server_key")]
    pub cert: Option<PathBuf>,
    /// Public key of the server, as Z85 or as a certificate file
    #[arg(long, value_name = "KEY|FILE", requires = "cert")]
    pub server_key: Option<String>,
    /// User's name (PLAIN: name and password are sent in clear)
    #[arg(long, value_name = "NAME", requires = "password_file", conflicts_with = "cert")]
    pub user: Option<String>,
    /// File with the user's password in its first line
    #[arg(long, value_name = "FILE", requires = "user")]
    pub password_file: Option<PathBuf>,
    /// Domain that the server must have
    #[arg(long, value_name = "NAME")]
    pub domain: Option<String>,
}

fn rate(text: &str) -> Result<u64, String> {
    let at = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let factor = match &text[at..] {
        "" => Some(1),
        "K" => Some(1 << 10),
        "M" => Some(1 << 20),
        "G" => Some(1_u64 << 30),
        _ => None,
    };
    let number =
        text[..at].parse::<u64>().ok().zip(factor).and_then(|(number, factor)| number.checked_mul(factor));
    number
        .filter(|number| *number > 0)
        .ok_or_else(|| "must be a number of bytes, such as 500K or 10M".to_owned())
}

fn virtual_path(text: &str) -> Result<String, String> {
    let Some(inner) = text.strip_prefix('/') else {
        return Err(format!("a virtual path of the server begins with a slash, as in /{text}"));
    };
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    TreePath::parse(inner.as_bytes()).map(|_| text.to_owned()).map_err(|error| error.text)
}

/// How long the server may take.
fn patience(text: &str) -> Result<Duration, String> {
    let time = milliseconds(text)?;
    if time.is_zero() {
        return Err("must be at least 1: in no time, no server answers".to_owned());
    }
    Ok(time)
}

fn named_path(text: &str) -> Result<(String, String), String> {
    let (name, path) = text.split_once('=').ok_or("must be NAME=PATH")?;
    Ok((name.to_owned(), virtual_path(path)?))
}

#[derive(Args)]
pub struct FilesGet {
    /// Virtual path of the file or folder. With a slash at its end, the content of the folder goes to TO; without,
    /// the folder goes into TO by its name
    #[arg(value_name = "PATH", value_parser = virtual_path)]
    pub path: String,
    /// Name of the file here, or a folder; - is standard output, to which a single file is written
    #[arg(value_name = "TO", default_value = ".")]
    pub to: PathBuf,
    #[command(flatten)]
    pub server: ServerArgs,
    /// Verify what arrives, and keep nothing
    #[arg(long)]
    pub discard: bool,
    #[command(flatten)]
    pub rules: RulesArgs,
    #[command(flatten)]
    pub output: ProgressArgs,
}

#[derive(Args)]
pub struct FilesPut {
    /// File or folder. With a slash at its end, the content of the folder goes to PATH; without, the folder goes into
    /// PATH by its name. - is standard input: it becomes the file PATH once it has ended, and is kept in TMPDIR until
    /// then
    #[arg(value_name = "FROM")]
    pub from: PathBuf,
    /// Virtual path of the file, or of a folder. Missing folders above it are made
    #[arg(value_name = "PATH", value_parser = virtual_path)]
    pub path: String,
    #[command(flatten)]
    pub server: ServerArgs,
    #[command(flatten)]
    pub rules: RulesArgs,
    #[command(flatten)]
    pub deletion: DeletionArgs,
    #[command(flatten)]
    pub output: ProgressArgs,
}

#[derive(Args)]
pub struct FilesSync {
    /// Virtual path of the folder. With a slash at its end, TO becomes the same; without, the folder of its name in
    /// TO
    #[arg(value_name = "PATH", value_parser = virtual_path)]
    pub path: String,
    /// Folder here
    #[arg(value_name = "TO")]
    pub to: PathBuf,
    #[command(flatten)]
    pub server: ServerArgs,
    #[command(flatten)]
    pub rules: RulesArgs,
    #[command(flatten)]
    pub limits: DeletionLimits,
    #[command(flatten)]
    pub output: ProgressArgs,
}

#[derive(Args)]
pub struct FilesVerify {
    /// Virtual path of the file or folder, as for get
    #[arg(value_name = "PATH", value_parser = virtual_path)]
    pub path: String,
    /// File or folder here
    #[arg(value_name = "TO", default_value = ".")]
    pub to: PathBuf,
    #[command(flatten)]
    pub server: ServerArgs,
    #[command(flatten)]
    pub patterns: Patterns,
    #[command(flatten)]
    pub output: ProgressArgs,
}

#[derive(Args)]
pub struct FilesWatch {
    /// Virtual path of the folder, which may come later. With a slash at its end, its content goes to TO; without,
    /// the folder goes into TO by its name
    #[arg(value_name = "PATH", value_parser = virtual_path)]
    pub path: String,
    /// Folder here
    #[arg(value_name = "TO", default_value = ".")]
    pub to: PathBuf,
    #[command(flatten)]
    pub server: ServerArgs,
    #[command(flatten)]
    pub rules: RulesArgs,
    #[command(flatten)]
    pub deletion: DeletionArgs,
    #[command(flatten)]
    pub output: ProgressArgs,
}

/// Which names are left out, and which files are replaced.
#[derive(Args)]
pub struct RulesArgs {
    #[command(flatten)]
    pub patterns: Patterns,
    /// Do not replace files that are newer than the source's
    #[arg(short, long)]
    pub update: bool,
    /// Do not replace any files
    #[arg(long, conflicts_with = "update")]
    pub ignore_existing: bool,
    /// Compare files of the same size by their content, whatever their times: both sides read them
    #[arg(short, long)]
    pub checksum: bool,
    /// Fetch large files that differ as a whole, and not only the blocks that differ
    #[arg(short = 'W', long)]
    pub whole_file: bool,
    /// Compress what shrinks by it (Zstandard): for links that are slower than about 1 Gbit/s
    #[arg(short = 'z', long)]
    pub compress: bool,
    /// Do not send holes of large files, and make holes of zeros
    #[arg(short = 'S', long)]
    pub sparse: bool,
    /// Send files that have several names once, and keep these names as hard links
    #[arg(short = 'H', long)]
    pub hard_links: bool,
    /// Keep users and groups, by their numbers. What may not be set fails
    #[arg(short, long)]
    pub owner: bool,
    /// Keep extended attributes of the namespace user., at most 64 KiB of each file
    #[arg(short = 'X', long)]
    pub xattrs: bool,
    /// Print the changes that would be made, and make none
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Give a file its name when its octets are on the disk
    #[arg(long)]
    pub fsync: bool,
}

/// Whether files and folders are removed.
#[derive(Args)]
pub struct DeletionArgs {
    /// Remove files and folders that the source does not have
    #[arg(long)]
    pub delete: bool,
    #[command(flatten)]
    pub limits: DeletionLimits,
}

/// How much is removed.
#[derive(Args)]
pub struct DeletionLimits {
    /// Remove at most so many files and folders, and none of a listing or folder that has more
    #[arg(long, value_name = "N")]
    pub max_delete: Option<u64>,
    /// Remove everything if the source is empty
    #[arg(long)]
    pub force: bool,
}

/// The patterns of --include and --exclude, in the order of the command line.
pub struct Patterns(pub Vec<Pattern>);

impl FromArgMatches for Patterns {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Patterns, clap::Error> {
        let mut found = Vec::new();
        for (name, new) in
            [("include", Pattern::include as fn(&str) -> Pattern), ("exclude", Pattern::exclude)]
        {
            let texts = matches.get_many::<String>(name).into_iter().flatten();
            found.extend(matches.indices_of(name).into_iter().flatten().zip(texts.map(|text| new(text))));
        }
        found.sort_by_key(|(at, _)| *at);
        Ok(Patterns(found.into_iter().map(|(_, pattern)| pattern).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Patterns::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Patterns {
    fn augment_args(command: Command) -> Command {
        let of =
            |name, help| Arg::new(name).long(name).value_name("PATTERN").action(ArgAction::Append).help(help);
        command
            .arg(of(
                "exclude",
                "Leave out names that match, with all below them. Can be repeated: of --include and --exclude, the \
                 first pattern that matches counts",
            ))
            .arg(of("include", "Do not leave out names that match, whatever later patterns say"))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Patterns::augment_args(command)
    }
}

/// What is printed meanwhile.
#[derive(Args)]
pub struct ProgressArgs {
    /// Print what happens as lines of JSON on standard output
    #[arg(long)]
    pub json: bool,
    /// Print no progress
    #[arg(short, long)]
    pub quiet: bool,
}

#[derive(Args)]
pub struct FilesLs {
    /// Virtual path
    #[arg(value_name = "PATH", default_value = "/", value_parser = virtual_path)]
    pub path: String,
    #[command(flatten)]
    pub server: ServerArgs,
    /// Print kind, permissions, size and time of each name too
    #[arg(short, long)]
    pub long: bool,
    /// Print lines of JSON
    #[arg(long, conflicts_with = "long")]
    pub json: bool,
}
