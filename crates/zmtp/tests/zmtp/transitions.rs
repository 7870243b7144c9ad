//! The complete matrix: the effect of every kind of input in every handshake state of a PULL socket.
//!
//! A cell shows how many bytes are sent (`+n`), then whether the handshake waits for more, has found its peer (and
//! how many bytes it left to the caller), or has failed and why.

use crate::common::{SIGNATURE, cat, drain, frame, greeting, handshake, ready, ready_with};
use pinnace_zmtp::{Error, SocketType};

/// Each state, and the bytes that lead to it.
fn states() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("start", vec![]),
        ("FF", vec![0xff]),
        ("signature", SIGNATURE.to_vec()),
        ("revision 0", cat(&[SIGNATURE, &[0]])),
        ("revision 1", cat(&[SIGNATURE, &[1]])),
        ("revision 3", cat(&[SIGNATURE, &[3]])),
        ("1.0 identity", vec![3]),
        ("1.0 long identity", b"\xff\0\0\0\0\0\0\0\x03\0".to_vec()),
        ("1.0 after type", cat(&[SIGNATURE, &[0, 8]])),
        ("2.0 after type", cat(&[SIGNATURE, &[1, 8]])),
        ("3.0 greeted", greeting(0, "NULL")),
        ("3.1 greeted", greeting(1, "NULL")),
        ("3.1 READY begun", cat(&[&greeting(1, "NULL"), &ready("PUSH")[..9]])),
        ("1.0 done", vec![1, 0]),
        ("3.1 done", cat(&[&greeting(1, "NULL"), &ready("PUSH")])),
    ]
}

fn inputs() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("00", vec![0]),
        ("01", vec![1]),
        ("02", vec![2]),
        ("03", vec![3]),
        ("08", vec![8]),
        ("FF", vec![0xff]),
        ("signature", SIGNATURE.to_vec()),
        ("00 00", vec![0, 0]),
        ("01 00", vec![1, 0]),
        ("message", frame(0, b"hello")),
        ("READY", ready("PUSH")),
        ("READY as PUB", ready("PUB")),
        ("READY, zero id", ready_with(&crate::common::property("Identity", b"\0abc"))),
        ("ERROR", frame(4, b"\x05ERROR\x03400")),
        ("PING", frame(4, b"\x04PING\0\0")),
        ("empty command", frame(4, b"")),
        ("READY, more", cat(&[&[5], &ready("PUSH")[1..]])),
        ("huge command", b"\x06\0\0\0\0\x80\0\0\0".to_vec()),
        ("endless command", b"\x06\xff\xff\xff\xff\xff\xff\xff\xff".to_vec()),
    ]
}

fn cell(prefix: &[u8], input: &[u8]) -> String {
    let mut pull = handshake(SocketType::Pull, b"");
    assert_eq!(pull.input(prefix), Ok(prefix.len()));
    drain(&mut pull);
    let result = pull.input(input);
    let sent = match pull.output().len() {
        0 => String::new(),
        n => format!("+{n} "),
    };
    sent + &match (result, pull.peer()) {
        (Err(error), _) => variant(&error),
        (Ok(used), Some(peer)) => format!("peer {}, {} left", peer.version, input.len() - used),
        (Ok(used), None) => {
            assert_eq!(used, input.len());
            "wait".to_string()
        }
    }
}

/// The name of the variant inside an error.
fn variant(error: &Error) -> String {
    let debug = match error {
        Error::PeerMisbehaved(inner) => format!("{inner:?}"),
        Error::PeerIncompatible(inner) => format!("Incompatible{inner:?}"),
        Error::PeerRefused { .. } => "PeerRefused".to_string(),
        other => format!("{other:?}"),
    };
    debug.split([' ', '{']).next().unwrap().to_string()
}

#[test]
fn every_input_in_every_state() {
    let mut matrix = String::new();
    for (state, prefix) in states() {
        matrix += &format!("{state}\n");
        for (input, bytes) in inputs() {
            matrix += &format!("    {input:<16} {}\n", cell(&prefix, &bytes));
        }
    }
    let expected = include_str!("transitions.txt");
    assert!(matrix == expected, "the matrix is not transitions.txt but:\n{matrix}");
}
