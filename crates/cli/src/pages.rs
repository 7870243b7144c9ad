//! Generated from the table of flags: the version, completions, man pages, and the reference in Markdown.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, Command, CommandFactory};
use clap_complete::Shell;

use crate::outcome::{Failure, Outcome};
use crate::output::print;
use crate::table::{EXIT_CODES, Pinnace};

/// The libzmq version with the C interface that the library implements.
const LIBZMQ: &str = "4.3.5";

pub fn version() -> Outcome {
    print(format!("pinnace {} (libzmq {LIBZMQ})\n", env!("CARGO_PKG_VERSION")).as_bytes())
}

/// The command without hidden parts.
fn shown() -> Command {
    let mut command = Pinnace::command().disable_help_subcommand(true);
    command.build();
    command
}

pub fn completions(shell: Shell) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Pinnace::command(), "pinnace", &mut script);
    print(&script)
}

pub fn man(folder: Option<&Path>) -> Outcome {
    if let Some(folder) = folder {
        let failed = |error| Failure::of(folder.display(), error);
        std::fs::create_dir_all(folder).map_err(failed)?;
        return clap_mangen::generate_to(shown(), folder).map_err(failed);
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(shown()).render(&mut page).map_err(|error| Failure::of_output(&error))?;
    print(&page)
}

/// Prints `docs/cli.md`.
pub fn reference() -> Outcome {
    let mut page =
        "# The command pinnace\n\nGenerated from the command's table of flags by `pinnace reference`.\n\n"
            .to_owned();
    let command = shown();
    let _ = writeln!(page, "{}\n\n{EXIT_CODES}", text(command.get_long_about()));
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        section(&mut page, command, "");
    }
    print(page.as_bytes())
}

/// A command, or a subcommand of `above`.
fn section(page: &mut String, command: &Command, above: &str) {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let name = format!("{above}{}", command.get_name());
    let _ = writeln!(page, "\n## {name}\n\n{}.\n\n    {usage}", text(command.get_about()));
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        section(page, below, &format!("{name} "));
    }
    let arguments: Vec<&Arg> =
        command.get_arguments().filter(|arg| arg.get_id() != "help" && !arg.is_hide_set()).collect();
    if arguments.is_empty() {
        return;
    }
    let _ = writeln!(page, "\n| argument | what it does |\n| --- | --- |");
    for argument in arguments {
        let _ = writeln!(page, "| `{}` | {} |", cell(&flag(argument)), cell(&explained(argument)));
    }
}

fn text(styled: Option<&clap::builder::StyledStr>) -> String {
    styled.map(ToString::to_string).unwrap_or_default()
}

/// The argument as on the command line.
fn flag(argument: &Arg) -> String {
    let values = argument.get_value_names().unwrap_or_default().join(" ");
    let names = match (argument.get_short(), argument.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long}"),
        (None, Some(long)) => format!("--{long}"),
        (Some(short), None) => format!("-{short}"),
        (None, None) => return values,
    };
    let may_be_alone = argument.get_num_args().is_some_and(|count| count.min_values() == 0);
    match argument.get_action().takes_values() {
        true if argument.is_require_equals_set() => format!("{names}[={values}]"),
        true if may_be_alone => format!("{names} [{values}]"),
        true => format!("{names} {values}"),
        false => names,
    }
}

fn explained(argument: &Arg) -> String {
    let mut line = text(argument.get_help());
    let values: Vec<_> =
        argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    if !values.is_empty() && argument.get_action().takes_values() {
        let _ = write!(line, " [{}]", values.join(", "));
    }
    let defaults = argument.get_default_values();
    if !defaults.is_empty() && argument.get_action().takes_values() {
        let defaults: Vec<_> = defaults.iter().map(|value| value.to_string_lossy()).collect();
        let _ = write!(line, " [default: {}]", defaults.join(" "));
    }
    line
}

/// A bar would end the table cell, so it is escaped.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
