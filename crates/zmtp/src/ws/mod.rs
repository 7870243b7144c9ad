//! ZMTP over WebSocket: ZWS 2.0 (ZeroMQ RFC 45) on RFC 6455.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Upgrade`] | the HTTP/1.1 request and its answer, either side |
//! | [`Handshake::over_ws`](crate::Handshake::over_ws) | replaces ZMTP's handshake |
//! | [`Decoder`] | translates a stream of WebSocket frames into ZMTP frames; answers pings and closes |
//! | [`Encoder`] | translates a ZMTP frame into a WebSocket message |
//! | [`frame`] | WebSocket's own frame headers and masks |
//!
//! A connection uses them in this order. Between decoder and encoder all frames are those of [`crate::frame`], so
//! the code for ZMTP over tcp works unchanged: each ZWS message, a flag byte and a body, is one frame. There is no
//! greeting; the negotiated subprotocol defines the first messages:
//!
//! | [`Subprotocol`] | first | then |
//! | --- | --- | --- |
//! | `ZWS2.0/NULL`, `/PLAIN`, `/CURVE` | the mechanism's commands | messages |
//! | `ZWS2.0` | one message each way: the routing id | messages; there are no commands |
//!
//! The peer's version is reported as 3.0, or as 2.0 if there is no mechanism. Treat peers accordingly: RFC 45
//! builds on ZMTP 3.0 and 2.0, and subscriptions are always messages. (libzmq drops SUBSCRIBE commands over
//! WebSocket.) Heartbeats are WebSocket pings, which the decoder answers, and never PING commands.
//!
//! Accepted here but not by libzmq: a `Connection` header with several tokens in a response, a reason phrase other
//! than "Switching Protocols", fragmented messages. Accepted by libzmq but not here: a wrong
//! `Sec-WebSocket-Accept`, versions other than 13, reserved bits.
//!
//! ```
//! use pinnace_zmtp::{Config, Handshake, SocketType, ws::{Decoder, DecoderLimits, Encoder, Role, Target, Upgrade}};
//!
//! let (push, pull) = (Config::new(SocketType::Push), Config::new(SocketType::Pull));
//! // The 16 and the 32 bytes are random ones.
//! let mut client = Upgrade::client(&Target { host: "example.org:5555", path: "/" }, (&push).into(), &[1; 16])?;
//! let mut server = Upgrade::server((&pull).into());
//! server.input(client.output())?;
//! client.input(server.output())?;
//!
//! let (c, s) = (Role::Client { seed: [2; 32] }, Role::Server);
//! let (mut encoder, mut decoder) = (Encoder::new(&c), Decoder::new(&s, DecoderLimits::default()));
//! let mut push = Handshake::over_ws(push, client.subprotocol().unwrap());
//! let mut pull = Handshake::over_ws(pull, server.subprotocol().unwrap());
//! let (mut wire, mut frames, mut replies) = (Vec::new(), Vec::new(), Vec::new());
//! encoder.encode_frames(push.output(), &mut wire); // READY
//! encoder.encode(0, b"hello", &mut wire);
//!
//! decoder.translate(&wire, &mut frames, &mut replies)?;
//! let used = pull.input(&frames).unwrap();
//! assert_eq!(pull.peer().unwrap().socket_type, Some(SocketType::Push));
//! assert_eq!(frames[used..], *b"\0\x05hello");
//! # Ok::<(), pinnace_zmtp::ws::Error>(())
//! ```

mod client;
mod close;
mod decoder;
mod encoder;
mod error;
pub mod frame;
mod http;
mod server;
mod upgrade;

pub use client::Target;
pub use close::Close;
pub use decoder::{Decoder, DecoderLimits, Status};
pub use encoder::{Body, Encoder, Role};
pub use error::{Error, Violation};
pub use http::{MAX_HEAD, MAX_HEADERS, MAX_LINE};
pub use server::Request;
pub use upgrade::{Offer, Subprotocol, Upgrade};

/// Flag byte of a ZWS message: more frames of this message follow.
const MORE: u8 = 1;
/// Flag byte of a ZWS message: a command.
const COMMAND: u8 = 2;
