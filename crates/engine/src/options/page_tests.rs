//! Checks that docs/compatibility.md and the headers agree with the tables. `PINNACE_PAGE=write cargo test -p
//! pinnace-engine page` updates the page's columns of facts and keeps its columns of status and test.

use std::path::{Path, PathBuf};

use pinnace_zmtp::SocketType;

use super::spec::Store;
use super::*;
use crate::context_options;

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn type_and_range(kind: OptionKind) -> (&'static str, String) {
    let room = |min: usize, max: usize| match (min, max) {
        (_, usize::MAX) => "any".to_owned(),
        (0, max) => format!("up to {max} bytes"),
        (min, max) => format!("{min} to {max} bytes"),
    };
    match kind {
        OptionKind::Int { min, max, .. } => ("int", range(min, max)),
        OptionKind::Int64 { min, .. } => ("int64_t", format!("{min} and more")),
        OptionKind::Bits { .. } => ("uint64_t", "any".into()),
        OptionKind::Text { max } => ("text", room(0, max)),
        OptionKind::Bytes { min, max } => ("bytes", room(min, max)),
        OptionKind::Key => ("key", "32 bytes, or 40 characters of Z85".into()),
    }
}

fn range(min: i32, max: i32) -> String {
    match (min, max) {
        (i32::MIN, i32::MAX) => "any".into(),
        (min, i32::MAX) => format!("{min} and more"),
        (min, max) => format!("{min} to {max}"),
    }
}

fn default(kind: OptionKind) -> String {
    match kind {
        OptionKind::Int { default, .. } => default.to_string(),
        OptionKind::Int64 { default, .. } => default.to_string(),
        OptionKind::Bits { default } => default.to_string(),
        OptionKind::Text { .. } | OptionKind::Bytes { .. } => "empty".into(),
        OptionKind::Key => "zeros".into(),
    }
}

/// The name in C; our own options have their own prefix.
fn c_name(name: &str) -> String {
    if name.starts_with("PINNACE_") { name.into() } else { format!("ZMQ_{name}") }
}

/// The page's facts about a socket option.
fn socket_option(row: &OptionSpec) -> String {
    let (kind, range) = type_and_range(row.kind);
    let access = match row.access {
        Access::Both => "set, get",
        Access::Set => "set",
        Access::Get => "get",
    };
    // A read-only option has no default, and nothing takes effect.
    let (range, default, when) = match (row.access, row.when) {
        (Access::Get, _) => ("".into(), "".into(), ""),
        (_, When::Link) => (range, default(row.kind), "bind, connect"),
        (_, When::Now) => (range, default(row.kind), "at once"),
    };
    let types: Vec<&str> = row.types.iter().map(|kind| kind.name()).collect();
    let types = if types.is_empty() { "all".into() } else { types.join(", ") };
    format!(
        "| {} | `{}` | {kind} | {range} | {default} | {access} | {when} | {types} |",
        row.number,
        c_name(row.name)
    )
}

fn context_option(row: &context_options::Row) -> String {
    let default = row.get.map(|get| get(&Default::default()).to_string()).unwrap_or_default();
    let (range, access) = match (row.get, row.set) {
        (Some(_), Some(_)) => (range(row.min, row.max), "set, get"),
        (None, _) => (range(row.min, row.max), "set"),
        (_, None) => (String::new(), "get"),
    };
    format!("| {} | `{}` | {range} | {default} | {access} |", row.number, c_name(row.name))
}

fn socket_type(kind: &SocketType) -> String {
    format!("| {} | `ZMQ_{}` |", *kind as u8, kind.name())
}

/// The lines of the page, with the rows of this section updated.
fn updated(page: &str, section: &str, facts: &[String]) -> String {
    let heading = format!("## {section}\n");
    let start = page.find(&heading).unwrap_or_else(|| panic!("no section {section}")) + heading.len();
    let len = page[start..].find("\n#").map_or(page.len() - start, |end| end + 1);
    let (old, mut body) = (&page[start..start + len], String::new());
    let is_row = |line: &&str| line.starts_with("| ") && line.as_bytes()[2].is_ascii_digit();
    let columns = facts[0].matches('|').count();
    let key = |line: &str| line.split('|').take(3).collect::<String>();
    old.lines().take_while(|line| !is_row(line)).for_each(|line| body += &format!("{line}\n"));
    for fact in facts {
        let kept = old.lines().filter(is_row).find(|line| key(line) == key(fact));
        let kept = kept.map(|line| line.splitn(columns + 1, '|').last().unwrap_or_default());
        body += &format!("{fact}{}\n", kept.unwrap_or("  |  |"));
    }
    old.lines()
        .skip_while(|line| !is_row(line))
        .skip_while(is_row)
        .for_each(|line| body += &format!("{line}\n"));
    format!("{}{body}{}", &page[..start], &page[start + len..])
}

#[test]
fn the_page_says_what_the_tables_say() {
    let path = project().join("docs/compatibility.md");
    let page = std::fs::read_to_string(&path).expect("docs/compatibility.md");
    let types: Vec<_> = SocketType::ALL.iter().map(socket_type).collect();
    let options: Vec<_> = TABLE.iter().map(socket_option).collect();
    let of_contexts: Vec<_> = context_options::TABLE.iter().map(context_option).collect();
    let mut fresh = updated(&page, "Socket types", &types);
    fresh = updated(&fresh, "Socket options", &options);
    fresh = updated(&fresh, "Context options", &of_contexts);
    if std::env::var_os("PINNACE_PAGE").is_some_and(|wish| wish == "write") {
        std::fs::write(&path, &fresh).expect("docs/compatibility.md");
    } else {
        let stale = page.lines().zip(fresh.lines()).find(|(old, new)| old != new);
        assert_eq!(stale, None, "PINNACE_PAGE=write cargo test -p pinnace-engine page");
        assert_eq!(page.len(), fresh.len(), "PINNACE_PAGE=write cargo test -p pinnace-engine page");
    }
    for row in TABLE.iter().filter(|row| matches!(row.store, Store::Absent)) {
        let line =
            fresh.lines().find(|line| line.starts_with(&format!("| {} | `ZMQ_{}`", row.number, row.name)));
        assert!(line.is_some_and(|line| line.contains("| absent")), "{} is absent", row.name);
    }
}

#[test]
fn the_headers_have_the_tables_numbers() {
    let include = project().join("crates/capi/include");
    let read = |name| std::fs::read_to_string(include.join(name)).expect("a header");
    let headers = read("zmq.h") + &read("zmq_draft.h") + &read("pinnace.h");
    let defined = |name: &str| {
        let mut numbers = headers.lines().filter_map(|line| {
            let (found, rest) = line.strip_prefix("#define ")?.split_once(' ')?;
            (found == name).then(|| rest.split_whitespace().next())?
        });
        numbers.next().and_then(|number| number.parse::<i32>().ok())
    };
    let options = TABLE.iter().map(|row| (row.name, row.number));
    let of_contexts = context_options::TABLE.iter().map(|row| (row.name, row.number));
    let types = SocketType::ALL.iter().map(|kind| (kind.name(), *kind as i32));
    for (name, number) in options.chain(of_contexts).chain(types) {
        assert_eq!(defined(&c_name(name)), Some(number), "{name}");
    }
}
