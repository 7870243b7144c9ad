//! `pinnace deliver recv --exec`: a command for each message.
//!
//! The command reads the body from a file in memory that is complete before it starts. So it gets the whole body also
//! if this process is killed meanwhile: then the command goes on, and the message is delivered again.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use pinnace::delivery::Delivery;
use pinnace_sys::memory::sealed_file;

use super::recv::{TEXTS, texts};
use crate::outcome::{Failure, Outcome, say};

/// Passes a message to a command and waits for it. True if it has exited with 0.
pub fn run(command: &OsStr, delivery: &Delivery) -> Outcome<bool> {
    let body = match sealed_file(delivery.body()) {
        Ok(body) => body,
        Err(error) => {
            say(format_args!("the body cannot be passed on ({error}), {}", described(delivery)));
            return Ok(false);
        }
    };
    let failed = |error| Failure::of("sh", error);
    let mut child = Command::new("sh");
    describe(delivery, &mut child);
    let status = child.arg("-c").arg(command).stdin(Stdio::from(body)).status().map_err(failed)?;
    if !status.success() {
        say(format_args!("the command failed ({status}), {}", described(delivery)));
    }
    Ok(status.success())
}

/// Sets the variables of a command.
fn describe(delivery: &Delivery, child: &mut Command) {
    // Environment variables cannot contain NUL.
    let text = |text: &str| text.replace('\0', "");
    for (name, found) in TEXTS.iter().zip(texts(delivery)) {
        let variable = format!("DELIVERY_{}", name.to_uppercase());
        match found {
            Some(found) => child.env(variable, text(found)),
            // This process may itself be the command of a message.
            None => child.env_remove(variable),
        };
    }
    let cursor = delivery.cursor();
    child
        .env("DELIVERY_FROM", text(delivery.from()))
        .env("DELIVERY_TOPIC", text(delivery.topic()))
        .env("DELIVERY_NUMBER", cursor.number_text())
        .env("DELIVERY_CURSOR", format!("{}.{}", cursor.sender_text(), cursor.number_text()))
        .env("DELIVERY_ACCEPTED_MS", delivery.accepted_ms().to_string())
        .env("DELIVERY_BYTES", delivery.body().len().to_string())
        .env("DELIVERY_COUNT", delivery.deliveries().to_string());
}

/// Names a message in an error.
fn described(delivery: &Delivery) -> String {
    let (number, deliveries) = (delivery.cursor().number_text(), delivery.deliveries());
    let (from, topic) = (delivery.from(), delivery.topic());
    format!("for message {number} from {from} on {topic}; deliveries: {deliveries}")
}
