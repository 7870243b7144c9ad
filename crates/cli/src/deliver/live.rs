//! `pinnace deliver status --metrics`: the statistics of a running client, asked for over HTTP.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use serde_json::Value;

use super::columns::columns;
use super::peek::age;
use crate::outcome::{Failure, Outcome};
use crate::output::print;
use crate::table::deliver::Status;

/// How long connecting, and each read, may take. The server answers within 2 s, also if a callback hangs.
const TIMEOUT: Duration = Duration::from_secs(5);

pub fn run(given: &Status, address: &str) -> Outcome {
    let path = if given.prometheus { "/metrics" } else { "/statistics" };
    let content = get(address, path)?;
    if given.prometheus {
        return print(content.as_bytes());
    }
    let unreadable = || Failure::of(address, "the answer is not the statistics of a client");
    let all: Value = serde_json::from_str(&content).map_err(|_| unreadable())?;
    if given.json {
        return print(format!("{all}\n").as_bytes());
    }
    print(to_text(&all).ok_or_else(unreadable)?.as_bytes())
}

/// The content at a path of a server.
fn get(address: &str, path: &str) -> Outcome<String> {
    let address = address.strip_prefix("tcp://").unwrap_or(address);
    let address = if address.contains(':') { address.to_owned() } else { format!("127.0.0.1:{address}") };
    let failed = |error: std::io::Error| Failure::of(&address, error);
    let found = address.to_socket_addrs().map_err(failed)?.next();
    let found = found.ok_or_else(|| Failure::of(&address, "no such host"))?;
    let mut stream = TcpStream::connect_timeout(&found, TIMEOUT).map_err(failed)?;
    stream.set_read_timeout(Some(TIMEOUT)).map_err(failed)?;
    stream.set_write_timeout(Some(TIMEOUT)).map_err(failed)?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(failed)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(failed)?;
    match answer.split_once("\r\n\r\n") {
        Some((head, content)) if head.starts_with("HTTP/1.1 200 ") => Ok(content.to_owned()),
        _ => Err(Failure::of(&address, "it serves no statistics")),
    }
}

/// Tables of outgoing streams, incoming streams, and peers that were not admitted. A table without rows is left out.
/// None: a member is missing.
fn to_text(all: &Value) -> Option<String> {
    // An agent has several clients.
    let one = [all.clone()];
    let clients =
        all.get("clients").map_or(Some(&one[..]), |clients| clients.as_array().map(Vec::as_slice))?;
    let heads = [
        ["CLIENT", "TOPIC", "RECEIVER", "PENDING", "BYTES", "OLDEST", "SENT", "HANDLED", "STATE", "REASON"],
        [
            "CLIENT", "TOPIC", "SENDER", "WAITING", "IN HAND", "RECEIVED", "HANDLED", "FAILED", "GIVEN UP",
            "STATE",
        ],
        ["CLIENT", "NOT ADMITTED", "ATTEMPTS", "LAST", "REASON", "", "", "", "", ""],
    ];
    let mut tables = heads.map(|head| vec![head.map(str::to_owned).to_vec()]);
    for client in clients {
        let name = text(&client["client"]);
        for of in client["outgoing"].as_array()? {
            tables[0].push(row(&name, of, &OUTGOING));
        }
        for of in client["incoming"].as_array()? {
            tables[1].push(row(&name, of, &INCOMING));
        }
        for of in client["not_admitted"].as_array()? {
            tables[2].push(row(&name, of, &NOT_ADMITTED));
        }
    }
    tables[2].iter_mut().for_each(|row| row.truncate(5));
    let shown: Vec<String> = tables.iter().filter(|rows| rows.len() > 1).map(|rows| columns(rows)).collect();
    Some(if shown.is_empty() { columns(&tables[0]) } else { shown.join("\n") })
}

const OUTGOING: [&str; 9] = [
    "topic",
    "receiver",
    "pending",
    "pending_bytes",
    "oldest_age_ms",
    "sent",
    "acknowledged",
    "connection",
    "reason",
];
const INCOMING: [&str; 9] =
    ["topic", "sender", "waiting", "in_hand", "received", "acknowledged", "failed", "given_up", "connected"];
const NOT_ADMITTED: [&str; 4] = ["address", "attempts", "age_ms", "reason"];

fn row(client: &str, of: &Value, members: &[&str]) -> Vec<String> {
    let word = |member: &&str| match (*member, &of[*member]) {
        ("oldest_age_ms" | "age_ms", Value::Number(ms)) => age(ms.as_u64().unwrap_or_default()),
        ("connected", Value::Bool(connected)) => {
            (if *connected { "connected" } else { "not connected" }).to_owned()
        }
        (_, value) => text(value),
    };
    [client.to_owned()].into_iter().chain(members.iter().map(word)).collect()
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        value => value.to_string(),
    }
}
