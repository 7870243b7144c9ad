//! The interoperation suites live in `tests/`: with the system's libzmq, and with peers that speak raw bytes.
