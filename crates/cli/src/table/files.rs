//! The subcommands of `pinnace files`, and their flags.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::milliseconds;

/// Exit codes of `pinnace files`.
pub const EXIT_CODES: &str = "Exit codes: 0 everything arrived; 1 some files failed, and standard error names them; \
    2 wrong arguments; 3 no server answers; 4 the server refuses; 5 no room on the disk; 130 and 143 ended by SIGINT \
    and SIGTERM.";

#[derive(Subcommand)]
pub enum Files {
    /// Serve folders. Runs until a signal
    Serve(FilesServe),
    /// Fetch a file, or a folder with all below it. What is here already and has the same size and time is not fetched
    #[command(after_help = EXIT_CODES)]
    Get(FilesGet),
    /// Upload a file, or a folder with all below it. What the server has with the same size and time is not sent
    #[command(after_help = EXIT_CODES)]
    Put(FilesPut),
    /// List the names below a path
    #[command(after_help = EXIT_CODES)]
    Ls(FilesLs),
}

#[derive(Args)]
pub struct FilesServe {
    /// Folder to serve, and its virtual path [default: / for a single folder, /NAME for several]
    #[arg(value_name = "DIR[=ALIAS]", required = true)]
    pub folders: Vec<OsString>,
    /// Endpoint to listen at. Can be repeated. Every process that reaches it can read all that is served
    #[arg(short, long, value_name = "ENDPOINT", default_value = "tcp://127.0.0.1:5670")]
    pub bind: Vec<String>,
    /// Let clients upload to the folders
    #[arg(short, long)]
    pub writable: bool,
    /// Print the endpoints on standard error, with their actual ports
    #[arg(short, long)]
    pub verbose: bool,
}

/// The flags of every client.
#[derive(Args)]
pub struct ServerArgs {
    /// Endpoint of the server
    #[arg(short, long, value_name = "ENDPOINT", default_value = "tcp://127.0.0.1:5670")]
    pub server: String,
    /// How long the server may take to answer, in milliseconds
    #[arg(long, value_name = "MS", default_value = "10000", value_parser = milliseconds)]
    pub timeout: Duration,
}

#[derive(Args)]
pub struct FilesGet {
    /// Virtual path of the file or folder
    #[arg(value_name = "PATH")]
    pub path: String,
    /// Name of the file here, or a folder that it goes into; for a folder, the one that gets its content [default: the
    /// last name of PATH, in the current folder]
    #[arg(value_name = "TO")]
    pub to: Option<PathBuf>,
    #[command(flatten)]
    pub server: ServerArgs,
    /// Verify what arrives, and keep nothing
    #[arg(long, conflicts_with = "to")]
    pub discard: bool,
    #[command(flatten)]
    pub output: ProgressArgs,
}

#[derive(Args)]
pub struct FilesPut {
    /// File or folder
    #[arg(value_name = "FROM")]
    pub from: PathBuf,
    /// Virtual path of the file, or of a folder that it goes into; for a folder, of the one that gets its content
    #[arg(value_name = "PATH")]
    pub path: String,
    #[command(flatten)]
    pub server: ServerArgs,
    #[command(flatten)]
    pub output: ProgressArgs,
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
    #[arg(value_name = "PATH", default_value = "/")]
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
