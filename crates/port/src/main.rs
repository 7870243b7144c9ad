//! The program pinnace-port.

#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use pinnace_port::{Failure, Program};

const USAGE: &str = "usage: pinnace-port [--linger MS]\n\
    Offers sockets over its standard input and output, to a program that speaks the protocol of docs/port.md.\n\
    --linger MS  how long messages are still sent after the end of the input [1000]";

fn linger(arguments: &[String]) -> Option<Duration> {
    match arguments {
        [] => Some(Duration::from_secs(1)),
        [flag, ms] if flag == "--linger" => ms.parse().ok().map(Duration::from_millis),
        _ => None,
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == ["--help"] {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let Some(linger) = linger(&arguments) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match run(linger) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pinnace-port: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(linger: Duration) -> Result<(), Failure> {
    let (input, output) = (rustix::stdio::stdin(), rustix::stdio::stdout());
    Program::new(rustix::io::dup(input)?, rustix::io::dup(output)?, linger)?.run()
}
