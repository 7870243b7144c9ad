//! Errors of guaranteed delivery as C sees them.

use std::ffi::c_char;

use pinnace_delivery::Error as DeliveryError;
use pinnace_interface::errno;

use crate::call_error::last_text;
pub(super) use crate::call_error::{CallError, caught, told_call as delivery_call};

impl From<DeliveryError> for CallError {
    fn from(error: DeliveryError) -> CallError {
        CallError::from(&error)
    }
}

impl From<&DeliveryError> for CallError {
    fn from(error: &DeliveryError) -> CallError {
        CallError::new(errno::of_delivery(error), error)
    }
}

/// The message of this thread's last failure of a function of clients, options or deliveries; empty before the first.
/// Valid until the thread's next failure.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_client_error() -> *const c_char {
    last_text()
}
