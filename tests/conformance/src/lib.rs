//! The tests are in `tests/conformance`, one folder for each object of the ABI; the messaging tests run over every
//! transport.
