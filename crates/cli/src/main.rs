//! The command `pinnace`: sockets for shells and scripts.
//!
//! | module | what it is |
//! | --- | --- |
//! | `table` | single source of every command and flag: the parser, help, man pages, completions, `docs/cli.md` |
//! | `send`, `recv`, `proxy`, `forward`, `monitor`, `bench`, `keygen`, `pages` | one command each |
//! | `deliver` | the commands of guaranteed delivery |
//! | `files` | the commands of file transfer |
//! | `sockets` | the crate `pinnace` as the commands use it: waits that a signal ends, failures in words |
//! | `settings` | the flags of every socket, turned into options |
//! | `authentication` | the ZAP handler |
//! | `events` | names and values of monitor events |
//! | `secrets` | files with passwords, and options that must not be printed |
//! | `input`, `output` | bytes to messages and back |
//! | `outcome` | why a command ended, and the exit code that says so |
//! | `losses` | reports the messages that a sender has lost |
//!
//! One thread waits for everything at once (sockets, standard input, the closing of standard output, signals), so
//! that nothing blocks another. Guarantees: a bad argument, file or line gives one line on standard error; no
//! message larger than `--max` is held; the command ends only after its messages are delivered, or the exit code
//! reports the failure.

#![forbid(unsafe_code)]

mod authentication;
mod bench;
mod deliver;
mod events;
mod files;
mod forward;
mod input;
mod keygen;
mod losses;
mod monitor;
mod outcome;
mod output;
mod pages;
mod proxy;
mod recv;
mod secrets;
mod send;
mod settings;
mod signals;
mod sockets;
mod table;

use std::process::ExitCode;

use clap::Parser;

use outcome::Outcome;
use table::{Command, Pinnace};

fn main() -> ExitCode {
    // clap ends the process itself: with 2 for wrong arguments, with 0 after the help.
    let command = Pinnace::parse().command;
    let outcome = signals::handle_file_limit().and_then(|()| run(command));
    ExitCode::from(outcome::report(outcome))
}

fn run(command: Command) -> Outcome {
    match command {
        Command::Send(given) => send::run(&given),
        Command::Recv(given) => recv::run(&given),
        Command::Proxy(given) => proxy::run(&given),
        Command::Forward(given) => forward::run(&given),
        Command::Monitor(given) => monitor::run(&given),
        Command::Bench(given) => bench::run(&given),
        Command::Keygen(given) => keygen::run(&given),
        Command::Deliver { command } => deliver::run(&command),
        Command::Files { command } => files::run(&command),
        Command::Version => pages::version(),
        Command::Completions { shell } => pages::completions(shell),
        Command::Man { folder } => pages::man(folder.as_deref()),
        Command::Reference => pages::reference(),
    }
}
