//! The rules of a transfer.

use std::ffi::{c_char, c_int, c_void};

use parking_lot::Mutex;
use pinnace_files::rules::{Pattern, Rules};
use pinnace_interface::TransferRules;

use super::owned::Objects;
use crate::call_error::{CallError, given, string, told_call};

static RULES: Objects<Mutex<TransferRules>> = Objects::new("rules");

/// The rules of a handle; null: the default.
pub(super) fn rules_of(handle: *const c_void) -> Result<Rules, CallError> {
    if handle.is_null() {
        return Ok(Rules::default());
    }
    Ok(RULES.get(handle)?.lock().rules())
}

/// Creates the default rules; NULL on an error.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_files_rules_new() -> *mut c_void {
    told_call(|| Ok(RULES.insert(Mutex::default())))
}

/// Sets one rule, given as text.
///
/// # Safety
/// Both must be null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_files_rules_set(
    handle: *mut c_void,
    key: *const c_char,
    value: *const c_char,
) -> c_int {
    told_call(|| {
        let chosen = RULES.get(handle)?;
        // SAFETY: the caller's promise.
        let (key, value) = unsafe { (given(key, "the rule")?, given(value, "the value")?) };
        chosen.lock().set(key.to_bytes(), value.to_bytes())?;
        Ok(0)
    })
}

/// # Safety
/// `pattern` must be null or a C string.
unsafe fn add(handle: *mut c_void, pattern: *const c_char, new: fn(&str) -> Pattern) -> c_int {
    told_call(|| {
        let chosen = RULES.get(handle)?;
        // SAFETY: the caller's promise.
        let pattern = new(unsafe { string(pattern, "the pattern") }?);
        chosen.lock().filter.push(pattern);
        Ok(0)
    })
}

/// Leaves out the names that match, unless an earlier pattern has matched.
///
/// # Safety
/// `pattern` must be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_files_rules_exclude(handle: *mut c_void, pattern: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { add(handle, pattern, Pattern::exclude) }
}

/// Keeps the names that match, unless an earlier pattern has matched.
///
/// # Safety
/// `pattern` must be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_files_rules_include(handle: *mut c_void, pattern: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { add(handle, pattern, Pattern::include) }
}

/// Destroys rules. Transfers that have begun with them are unaffected.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_files_rules_destroy(handle: *mut c_void) -> c_int {
    told_call(|| RULES.remove(handle).map(|_| 0))
}
