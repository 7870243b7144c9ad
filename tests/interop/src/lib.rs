//! The tests live in `tests/interop`: with the system's libzmq, and with peers that speak raw bytes.
