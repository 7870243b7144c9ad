//! The conformance suites live in `tests/`, one file a subject; each pattern's runs over every transport.
