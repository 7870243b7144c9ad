//! STREAM where it differs from libzmq: size limits, and transports without bytes.

use std::io::Write;
use std::net::TcpStream;

use pinnace_engine::{Context, Error, SocketType};

const ROUTER: SocketType = SocketType::Router;
const STREAM: SocketType = SocketType::Stream;
const MAXMSGSIZE: i32 = 22;
const LAST_ENDPOINT: i32 = 32;
const ROUTER_RAW: i32 = 41;

/// No message is larger than ZMQ_MAXMSGSIZE: larger reads are split.
#[test]
fn bytes_are_cut_to_the_largest_message() -> Result<(), Error> {
    let context = Context::new()?;
    let stream = context.socket(STREAM)?;
    stream.set_option(MAXMSGSIZE, &100i64.to_ne_bytes())?;
    stream.bind("tcp://127.0.0.1:*")?;
    let mut endpoint = [0; 64];
    let len = stream.get_option(LAST_ENDPOINT, &mut endpoint)?;
    let address = std::str::from_utf8(&endpoint["tcp://".len()..len - 1]).expect("text");
    let mut peer = TcpStream::connect(address).expect("connect");
    peer.write_all(&[7; 1_050]).expect("it reads");
    let (mut bytes, mut messages) = (0, 0);
    while bytes < 1_050 {
        assert!(stream.recv(true, &mut |_| ())?, "a name, and more");
        stream.recv(true, &mut |frame| {
            assert!(frame.data().len() <= 100);
            bytes += frame.data().len();
            messages += 1;
        })?;
    }
    assert!(messages >= 12, "the news of the peer, and eleven pieces");
    stream.close()?;
    context.terminate()
}

#[test]
fn sockets_of_a_process_have_no_bytes_to_exchange() -> Result<(), Error> {
    let context = Context::new()?;
    let (stream, router) = (context.socket(STREAM)?, context.socket(ROUTER)?);
    router.set_option(ROUTER_RAW, &1i32.to_ne_bytes())?;
    for socket in [stream, router] {
        assert_eq!(socket.bind("inproc://raw"), Err(Error::TransportForType));
        assert_eq!(socket.connect("inproc://raw"), Err(Error::TransportForType));
        socket.close()?;
    }
    context.terminate()
}
