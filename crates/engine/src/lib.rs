//! The engine: contexts, sockets, patterns and transports, with libzmq's semantics.
//!
//! | module | what it is |
//! | --- | --- |
//! | `context` | a context: its sockets, I/O threads and inproc names; its termination |
//! | `socket` | a socket behind one lock, with a handle that any thread may use |
//! | `patterns`, `routing` | PUSH, ROUTER and the other socket types, which select the pipe of a message; their parts |
//! | `pipe`, `mailbox`, `ownership` | a socket's pipe ends; how threads reach it; which one polls its connections |
//! | `link` | a connection after its handshake, moving bytes between kernel and queues |
//! | `waiting` | how callers wait and sleep |
//! | `io` | the I/O thread as other threads see it: commands, poller, tokens |
//! | `reactor` | the I/O thread: listening, connecting, handshakes, and what callers leave unwritten |
//! | `inproc` | names of a context, and pipes between its sockets |
//! | `transports` | tcp, ipc, ws, wss, tls+tcp, udp, vsock, tipc, pgm, epgm |
//!
//! It guarantees that no call aborts the process, that no lock is held while a thread waits, and that the messages
//! that a socket accepted before an orderly close are sent. It has no `unsafe` code: that is in `pinnace-ring` and
//! `pinnace-sys`.
//!
//! ```
//! use pinnace_engine::{Context, Outgoing, SocketType};
//! let context = Context::new()?;
//! let (push, pull) = (context.socket(SocketType::Push)?, context.socket(SocketType::Pull)?);
//! pull.bind("inproc://example")?;
//! push.connect("inproc://example")?;
//! push.send(Outgoing::Bytes(b"hello"), false, true)?;
//! let mut text = Vec::new();
//! pull.recv(true, &mut |frame| text.extend_from_slice(frame.data()))?;
//! assert_eq!(text, b"hello");
//! push.close()?;
//! pull.close()?;
//! context.terminate()?;
//! # Ok::<(), pinnace_engine::Error>(())
//! ```

#![forbid(unsafe_code)]

mod authorization;
mod context;
mod context_options;
mod drops;
mod endpoint;
mod error;
mod events;
#[cfg(fuzzing)]
pub mod fuzzing;
mod inproc;
mod io;
mod label;
mod link;
mod mailbox;
mod medium;
mod monitor;
mod options;
mod ownership;
mod patterns;
mod peer;
mod pipe;
mod poll;
mod poller;
mod queue;
mod reactor;
mod readiness;
mod routing;
mod socket;
mod socket_kind;
mod spin;
mod stats;
mod table;
mod transports;
mod waiting;
mod zap_handler;

pub use context::{Context, Leftover};
pub use context_options::{Row as ContextOption, TABLE as CONTEXT_OPTIONS};
pub use drops::{Drops, Reason};
pub use endpoint::check_endpoint;
pub use error::{EFSM, EMTHREAD, ENOCOMPATPROTO, ETERM, Error, Invalid};
pub use events::Events;
pub use label::Label;
pub use mailbox::WakerPlace;
pub use medium::{FallbackReason, Medium};
pub use options::{Access, OptionKind, OptionSpec, Options, TABLE as OPTIONS, When};
pub use peer::About;
pub use pinnace_crypto::{KeyPair, Secret, SecretKey};
pub use pinnace_ring::{Body, Frame, MORE, prefetch, prefetch_room};
pub use pinnace_sys::poll::SignalMask;
pub use pinnace_sys::sleep::{Uncancelled, sleep_cancellably};
pub use pinnace_zmtp::{SocketType, z85};
pub use pipe::{Outgoing, Traffic};
pub use poll::{PollItem, PollSource, poll};
pub use poller::{PollTarget, Poller, PollerEvent};
pub use readiness::{POLLERR, POLLIN, POLLOUT, POLLPRI};
pub use socket::{LevelFd, Received, Socket, SocketSlot};
pub use stats::{Family, PeerStats, Stats, prometheus};
pub use transports::{has_pgm, kernel_has_tipc, kernel_has_vsock};
pub use waiting::{Wait, pending_sleep};
pub use zap_handler::{AdmissionRequest, handle_zap};
