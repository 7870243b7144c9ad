//! ZMTP over WebSocket: ZWS 2.0 (ZeroMQ RFC 45) on RFC 6455.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Upgrade`] | the HTTP/1.1 request and its answer, either side |
//! | [`Handshake::over_ws`](crate::Handshake::over_ws) | what then takes the place of ZMTP's handshake |
//! | [`Decoder`] | a stream of WebSocket frames into a stream of ZMTP frames; answers pings and closes |
//! | [`Encoder`] | a ZMTP frame into a WebSocket message |
//! | [`frame`] | WebSocket's own frame headers and masks |
//!
//! A connection goes through them in this order. Between decoder and encoder all frames are those of
//! [`crate::frame`], so that whoever handles ZMTP over tcp handles it here: each ZWS message, a flag byte and a body,
//! is one frame. There is no greeting; the subprotocol that both agreed on says what comes first:
//!
//! | [`Subprotocol`] | first | then |
//! | --- | --- | --- |
//! | `ZWS2.0/NULL`, `/PLAIN`, `/CURVE` | the mechanism's commands | messages |
//! | `ZWS2.0` | one message each way: the routing id | messages; there are no commands |
//!
//! The peer's version is reported as 3.0, or as 2.0 where there is no mechanism. That is how such peers are to be
//! treated: RFC 45 builds on ZMTP 3.0 and 2.0, and subscriptions always travel as messages. (libzmq drops SUBSCRIBE
//! commands that come over WebSocket.) Heartbeats are WebSocket's pings, which the decoder answers, and never PING.
//!
//! What libzmq refuses and is taken here: a `Connection` header with several tokens in an answer, another reason
//! phrase than "Switching Protocols", messages in fragments. What libzmq takes and is refused: a wrong
//! `Sec-WebSocket-Accept`, versions other than 13, reserved bits.
//!
//! ```
//! use pinnace_zmtp::{Config, Handshake, SocketType, ws::{Decoder, Encoder, Limits, Role, Target, Upgrade}};
//!
//! let (push, pull) = (Config::new(SocketType::Push), Config::new(SocketType::Pull));
//! // The 16 and the 32 bytes are random ones.
//! let mut client = Upgrade::client(&Target { host: "example.org:5555", path: "/" }, (&push).into(), &[1; 16])?;
//! let mut server = Upgrade::server((&pull).into());
//! server.input(client.output())?;
//! client.input(server.output())?;
//!
//! let (c, s) = (Role::Client { seed: [2; 32] }, Role::Server);
//! let (mut encoder, mut decoder) = (Encoder::new(&c), Decoder::new(&s, Limits::default()));
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
pub use decoder::{Decoder, Limits, Status};
pub use encoder::{Body, Encoder, Role};
pub use error::{Error, Violation};
pub use http::{MAX_HEAD, MAX_HEADERS, MAX_LINE};
pub use server::Request;
pub use upgrade::{Offer, Subprotocol, Upgrade};

/// The flag byte of a ZWS message: more frames of this message follow.
const MORE: u8 = 1;
/// The flag byte of a ZWS message: a command.
const COMMAND: u8 = 2;
