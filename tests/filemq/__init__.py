"""A second implementation of FileMQ v2, written from the protocol and not from the crate that it tests."""
