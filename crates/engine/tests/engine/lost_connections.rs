//! Messages on a connection that is lost, tested with raw TCP peers.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use pinnace_engine::{Body, Context, Outgoing, Reason, SocketType};

const PUSH: SocketType = SocketType::Push;
const RECONNECT_IVL: i32 = 18;
const LINGER: i32 = 17;

/// Accepts a connection and shakes hands as a PULL of ZMTP 3.1; reads time out.
fn accept(listener: &TcpListener) -> TcpStream {
    let (mut peer, _) = listener.accept().expect("somebody connects");
    peer.set_read_timeout(Some(Duration::from_secs(20))).expect("a deadline");
    let mut greeting = [0; 64];
    greeting[..12].copy_from_slice(&[0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 3, 1]);
    greeting[12..16].copy_from_slice(b"NULL");
    peer.write_all(&greeting).expect("a greeting is taken");
    peer.write_all(b"\x04\x1a\x05READY\x0bSocket-Type\0\0\0\x04PULL").expect("READY is taken");
    read(&mut peer, 64);
    let head = read(&mut peer, 2);
    read(&mut peer, head[1].into());
    peer
}

fn read(peer: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    peer.read_exact(&mut bytes).expect("bytes come");
    bytes
}

/// A body that was written completely is no longer in memory. If the connection is lost later in its message, the
/// message cannot be sent again: it is dropped and counted.
#[test]
fn a_message_that_cannot_begin_again_is_counted() -> Result<(), pinnace_engine::Error> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let context = Context::new()?;
    let push = context.socket(PUSH)?;
    push.set_option(RECONNECT_IVL, &10i32.to_ne_bytes())?;
    push.set_option(LINGER, &0i32.to_ne_bytes())?;
    push.connect(&format!("tcp://{}", listener.local_addr().expect("bound")))?;
    push.send(Outgoing::Body(Body::from(vec![1; 1 << 20])), true, true)?;
    push.send(Outgoing::Body(Body::from(vec![2; 64 << 20])), false, true)?;
    push.send(Outgoing::Bytes(b"behind"), false, true)?;
    let mut first = accept(&listener);
    assert_eq!(push.drops()?.total(), 0);
    // Part of the second body has arrived, so the first was written and dropped.
    read(&mut first, 4 << 20);
    drop(first);
    let mut second = accept(&listener);
    assert_eq!(read(&mut second, 8), b"\0\x06behind");
    assert_eq!(push.drops()?.of(Reason::Cut), 1);
    push.close()?;
    context.terminate()
}
