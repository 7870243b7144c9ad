//! CURVE keys: zmq_curve_keypair(3), zmq_curve_public(3). Not there yet: ENOTSUP.

use std::ffi::{c_char, c_int};

use pinnace_engine::Error;

use crate::guard::guard;

#[unsafe(no_mangle)]
pub extern "C" fn zmq_curve_keypair(_public: *mut c_char, _secret: *mut c_char) -> c_int {
    guard(|| Err(Error::NotSupported))
}

#[unsafe(no_mangle)]
pub extern "C" fn zmq_curve_public(_public: *mut c_char, _secret: *const c_char) -> c_int {
    guard(|| Err(Error::NotSupported))
}
