//! A command's body: its parsed parts lie within it, and re-encoding a known command gives the same bytes.

use pinnace_zmtp::command::{self, Command};
use pinnace_zmtp::{Error, frame, metadata, subscription};

pub fn run(body: &[u8]) {
    let _ = subscription::from_message(body);
    let mut out = Vec::new();
    let command = match command::parse(body) {
        Ok(command) => command,
        Err(error) => return assert!(matches!(error, Error::PeerMisbehaved(_)) && error.reply().is_none()),
    };
    match command {
        Command::Ping { ttl_ds, context } => command::encode_ping(ttl_ds, context, &mut out),
        Command::Pong { context } => command::encode_pong(context, &mut out),
        Command::Subscribe(topic) => command::encode_subscribe(topic, &mut out),
        Command::Cancel(topic) => command::encode_cancel(topic, &mut out),
        // These are encoded without a frame header.
        Command::Join(group) | Command::Leave(group) => {
            command::append_group(matches!(command, Command::Join(_)), group, &mut out);
            return assert_eq!(out, body);
        }
        Command::Error { reason } => command::encode_error(reason, &mut out),
        Command::Ready(properties) => {
            let _ = metadata::parse(properties, 8);
            command::encode_ready(properties, &mut out);
        }
        Command::Unknown { name, body: data } => {
            assert!(!name.is_empty());
            return assert_eq!(1 + name.len() + data.len(), body.len());
        }
    }
    let header = frame::parse(&out).expect("a whole header");
    assert_eq!(command::parse(&out[header.header_len..]), Ok(command));
}
