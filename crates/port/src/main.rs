//! The program pinnace-port.

#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use pinnace_port::{Failure, Log, Program};

const USAGE: &str = "usage: pinnace-port [--linger MS] [--log]\n\
    Offers sockets over its standard input and output, to a program that speaks the protocol of docs/port.md.\n\
    --linger MS  how long messages are still sent after the end of the input [1000]\n\
    --log        sends what goes to the standard error to the client instead";

struct Flags {
    linger: Duration,
    logs: bool,
}

/// None: they are wrong.
fn flags(mut arguments: impl Iterator<Item = String>) -> Option<Flags> {
    let mut flags = Flags { linger: Duration::from_secs(1), logs: false };
    while let Some(flag) = arguments.next() {
        match flag.as_str() {
            "--linger" => flags.linger = Duration::from_millis(arguments.next()?.parse().ok()?),
            "--log" => flags.logs = true,
            _ => return None,
        }
    }
    Some(flags)
}

fn main() -> ExitCode {
    if std::env::args().skip(1).eq(["--help"]) {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let Some(flags) = flags(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match run(&flags) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pinnace-port: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(flags: &Flags) -> Result<(), Failure> {
    let (input, output) =
        (rustix::io::dup(rustix::stdio::stdin())?, rustix::io::dup(rustix::stdio::stdout())?);
    let log = if flags.logs { Some(Log::take_over()?) } else { None };
    Program::new(input, output, flags.linger, log)?.run()
}
