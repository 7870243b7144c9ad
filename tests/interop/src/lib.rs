//! The tests are in `tests/interop`: against the system's libzmq, and against raw-byte peers.
