//! Shared code of the outer tests: a library with libzmq's C ABI loaded by path, a small safe wrapper over it,
//! endpoints for every transport, deadlines, raw-byte peers, and children that run this program again.
//!
//! The library comes from `PINNACE_LIB` (default: the one staged in the project's `target/stage/lib`), the
//! system's libzmq from `SYSTEM_LIBZMQ` (default: what `ldconfig -p` names). A process loads one of them.
//!
//! Every operation of [`Socket`] that could block has a deadline, so a broken library fails a test instead of hanging
//! it; [`deadline::within`] also bounds the whole test.

pub mod api;
pub mod certificate_files;
pub mod certificates;
pub mod child;
pub mod consts;
pub mod context;
pub mod deadline;
pub mod draft;
pub mod errno;
pub mod filler;
pub mod memory;
pub mod message;
pub mod middle;
pub mod monitor;
pub mod peer;
pub mod pgm;
pub mod pinnace;
pub mod poll;
pub mod poller;
pub mod process;
pub mod pubsub;
pub mod security;
pub mod socket;
pub mod transport;
pub mod wire;

pub use consts::*;
pub use context::Context;
pub use deadline::{PATIENCE_MS, until, within};
pub use errno::{Errno, Outcome};
pub use message::Message;
pub use monitor::Monitor;
pub use poller::Poller;
pub use socket::Socket;
pub use transport::Transport;

/// Defines one `#[test]` for each function and each transport: `over_transports!(a, b)` gives `tcp::a`, `ipc::a`,
/// `inproc::a`, `ws::a`; `over_transports!(a; wires b)` runs `b` only over the transports that go through the kernel.
/// The functions take the [`Transport`].
#[macro_export]
macro_rules! over_transports {
    ($($name:ident),* $(,)? $(; wires $($wire:ident),* $(,)?)?) => {
        $crate::over!(tcp, Tcp, $($name,)* $($($wire,)*)?);
        $crate::over!(ipc, Ipc, $($name,)* $($($wire,)*)?);
        $crate::over!(inproc, Inproc, $($name,)*);
        $crate::over!(ws, Ws, $($name,)* $($($wire,)*)?);
    };
}

/// As [`over_transports`], for functions that all need a kernel transport.
#[macro_export]
macro_rules! over_wires {
    ($($name:ident),* $(,)?) => {
        $crate::over!(tcp, Tcp, $($name,)*);
        $crate::over!(ipc, Ipc, $($name,)*);
    };
}

/// The tests of one transport for [`over_transports`].
#[macro_export]
macro_rules! over {
    ($module:ident, $transport:ident, $($name:ident,)*) => {
        mod $module {
            $(#[test]
            fn $name() {
                $crate::within($crate::deadline::test_limit_s(), || super::$name($crate::Transport::$transport));
            })*
        }
    };
}
