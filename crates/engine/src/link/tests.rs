//! Tests of a link over a scripted stream: input in any pieces, partial writes, and each way a connection ends.

use pinnace_sys::Errno;
use pinnace_sys::poll::Ready;
use pinnace_zmtp::SocketType;

use super::scripted::Read;
use crate::error::Error;
use crate::reactor::scripted::{Rig, body, command, message};

const PAIR: SocketType = SocketType::Pair;
const RCVHWM: i32 = 24;
const MAXMSGSIZE: i32 = 22;
/// Sizes with short and long headers, and bodies in the queue's segments and outside them.
const SIZES: [usize; 8] = [0, 1, 255, 256, 5_000, 70_000, 300_000, 3];

fn all_sizes() -> Vec<u8> {
    SIZES.iter().flat_map(|&len| message(&body(len))).collect()
}

fn pieces(bytes: &[u8], len: usize) -> impl Iterator<Item = Read> {
    bytes.chunks(len).flat_map(|piece| [Read::Nothing, Read::Bytes(piece.to_vec())])
}

/// Reads and receives until a message of each size has arrived.
fn read_all(rig: &Rig) -> Vec<Vec<u8>> {
    let mut received = Vec::new();
    for _ in 0..2 * all_sizes().len() {
        rig.link.read();
        match rig.recv() {
            Ok(body) => received.push(body),
            Err(Error::WouldBlock) if received.len() == SIZES.len() => return received,
            Err(Error::WouldBlock) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    panic!("only {} messages came", received.len());
}

#[test]
fn frames_may_come_in_any_pieces() {
    for len in [7, 64, 1_000, 65_536, usize::MAX] {
        let rig = Rig::new(PAIR);
        let bytes = all_sizes();
        rig.script.reads(pieces(&bytes, len.min(bytes.len())));
        let expected: Vec<Vec<u8>> = SIZES.iter().map(|&len| body(len)).collect();
        assert!(read_all(&rig) == expected, "in pieces of {len} bytes");
    }
}

#[test]
fn a_header_may_come_byte_by_byte() {
    let rig = Rig::new(PAIR);
    let bytes = [message(&body(300)), message(b""), message(b"x")].concat();
    rig.script.reads(pieces(&bytes, 1));
    let mut received = Vec::new();
    for _ in 0..3 * bytes.len() {
        rig.link.read();
        received.extend(rig.recv());
    }
    assert_eq!(received, [body(300), Vec::new(), b"x".to_vec()]);
}

#[test]
fn a_write_may_take_any_part() {
    for (len, largest) in
        [(1, 256), (2, 5_000), (9, 5_000), (64, 70_000), (1_000, 300_000), (65_536, 300_000)]
    {
        let rig = Rig::new(PAIR);
        let sizes = SIZES.into_iter().filter(|&size| size <= largest);
        let expected: Vec<u8> = sizes.clone().flat_map(|size| message(&body(size))).collect();
        // Every third write takes nothing.
        let pattern = [Ok(len), Ok(len), Err(Errno::AGAIN)];
        rig.script.writes(pattern.into_iter().cycle().take(2 * expected.len() / len + 100));
        sizes.for_each(|size| rig.send(&body(size)).unwrap());
        let mut written = Vec::new();
        for _ in 0..expected.len() {
            rig.link.serve(&Ready { token: 0, readable: false, writable: true, ended: false });
            rig.link.flush();
            written.extend(rig.script.take_written());
            if written.len() >= expected.len() {
                break;
            }
        }
        assert!(written == expected, "{len} bytes at a time: {} written", written.len());
    }
}

#[test]
fn a_full_socket_blocks_and_goes_on_when_the_poll_set_says_so() {
    let rig = Rig::new(PAIR);
    rig.script.writes([Ok(3), Err(Errno::AGAIN)]);
    rig.send(b"hello").unwrap();
    rig.link.flush();
    assert!(rig.link.is_blocked());
    assert_eq!(rig.script.take_written(), message(b"hello")[..3]);
    rig.link.serve(&Ready { token: 0, readable: false, writable: true, ended: false });
    assert!(!rig.link.is_blocked());
    assert_eq!(rig.script.take_written(), message(b"hello")[3..]);
}

#[test]
fn a_full_queue_stops_reading_and_loses_nothing() {
    let rig = Rig::with(PAIR, |socket| socket.set_option(RCVHWM, &2i32.to_ne_bytes()).unwrap());
    let all: Vec<u8> = (0..100u8).flat_map(|number| message(&[number; 1_000])).collect();
    rig.script.reads(pieces(&all, 10_000));
    rig.link.read();
    rig.link.read();
    let mut received = Vec::new();
    for _ in 0..1_000 {
        received.extend(rig.recv());
        rig.link.read();
    }
    assert!(received.into_iter().eq((0..100u8).map(|number| vec![number; 1_000])));
}

#[test]
fn a_ping_is_answered() {
    let rig = Rig::new(PAIR);
    rig.script.reads([Read::Bytes(command(b"PING", b"\0\x0Acontext"))]);
    rig.link.read();
    rig.link.flush();
    assert_eq!(rig.script.take_written(), command(b"PONG", b"context"));
}

#[test]
fn each_end_of_a_connection_is_told_once_and_keeps_what_came_before() {
    for end in [Read::End, Read::Fails(Errno::CONNRESET), Read::Bytes(vec![0xFF; 9])] {
        let mut rig = Rig::new(PAIR);
        rig.script.reads([Read::Bytes(message(b"the last")), end.clone()]);
        rig.link.read();
        rig.link.read();
        assert!(rig.link.is_broken(), "{end:?}");
        rig.turn();
        assert_eq!(rig.recv().unwrap(), b"the last", "{end:?}");
        assert_eq!((rig.recv(), rig.peers()), (Err(Error::WouldBlock), 0), "{end:?}");
    }
}

#[test]
fn a_frame_that_is_too_large_ends_the_connection() {
    let mut rig = Rig::with(PAIR, |socket| socket.set_option(MAXMSGSIZE, &100i64.to_ne_bytes()).unwrap());
    rig.script.reads([Read::Bytes([message(&body(100)), message(&body(101)), message(b"x")].concat())]);
    rig.link.read();
    assert!(rig.link.is_broken());
    rig.turn();
    assert_eq!(rig.recv().unwrap(), body(100));
    assert_eq!((rig.recv(), rig.peers()), (Err(Error::WouldBlock), 0));
}

#[test]
fn what_a_lost_connection_cut_begins_anew() {
    let rig = Rig::new(PAIR);
    rig.script.writes([Ok(4), Err(Errno::PIPE)]);
    rig.send(b"cut in the middle").unwrap();
    rig.link.flush();
    let mut ends = rig.link.dismantle().expect("its queues");
    let mut left = Vec::new();
    ends.outgoing.queue.pop(|frame| {
        left.resize(frame.copy_to(&mut []), 0);
        frame.copy_to(&mut left);
    });
    assert_eq!(left, b"cut in the middle");
}
