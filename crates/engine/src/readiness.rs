//! What a socket or a descriptor can be ready for, as bits: those of zmq_poll(3).

/// A message can be received (ZMQ_POLLIN), or sent (ZMQ_POLLOUT).
pub const POLLIN: i16 = 1;
pub const POLLOUT: i16 = 2;
/// A descriptor has an error (ZMQ_POLLERR), or urgent data (ZMQ_POLLPRI).
pub const POLLERR: i16 = 4;
pub const POLLPRI: i16 = 8;
