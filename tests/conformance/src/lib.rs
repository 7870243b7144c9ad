//! The tests live in `tests/conformance`, a folder for each object of the ABI; those of messaging run over every
//! transport.
