//! The command `pinnace`: sockets for shells and scripts.
//!
//! | module | what it is |
//! | --- | --- |
//! | `table` | every command and flag, once: the parser, the help, the man pages, the completions, `docs/cli.md` |
//! | `send`, `recv`, `proxy`, `forward`, `monitor`, `bench`, `keygen`, `pages` | a command each |
//! | `deliver` | the commands of guaranteed delivery |
//! | `face` | the crate `pinnace` as the commands see it: waits that a signal ends, failures in words |
//! | `settings` | flags that every socket takes, put into options |
//! | `guests` | who is let in |
//! | `secrets` | files with passwords, and what is not to be printed |
//! | `input`, `output` | bytes to messages and back |
//! | `outcome` | why a command ended, and the exit code that says so |
//! | `losses` | what a sender has lost, in words |
//!
//! One thread waits for everything at once (sockets, standard input, standard output's end, signals), so that
//! nothing is ever stuck. What it guarantees: a bad argument, file or line gives one line on standard error; no
//! message is held that is larger than `--max`; what was sent is delivered before the command ends, or the exit
//! code tells.

#![forbid(unsafe_code)]

mod bench;
mod deliver;
mod face;
mod forward;
mod guests;
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
mod table;

use std::process::ExitCode;

use clap::Parser;

use outcome::Outcome;
use table::{Command, Pinnace};

fn main() -> ExitCode {
    // clap ends the process itself: 2 where the arguments are wrong, 0 after the help.
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
        Command::Version => pages::version(),
        Command::Completions { shell } => pages::completions(shell),
        Command::Man { folder } => pages::man(folder.as_deref()),
        Command::Reference => pages::reference(),
    }
}
