//! Initialization of libsodium, with our random source.

use std::ffi::{c_char, c_void};
use std::sync::Once;

use libsodium_sys as ffi;

static START: Once = Once::new();

/// Initializes libsodium, which chooses the fastest code for this processor. Its functions also work without this, only
/// more slowly, so a failed initialization is not an error. Called when keys are made, not for every message.
pub(crate) fn start() {
    START.call_once(|| {
        // SAFETY: no other libsodium function runs before this; SOURCE is a static.
        unsafe {
            ffi::randombytes_set_implementation(&raw const SOURCE);
            ffi::sodium_init();
        }
    });
}

/// sodium_init asks for random bytes (a canary for its allocator, which we do not use). libsodium's own source would
/// abort the process if the kernel has no randomness; this one does not.
static SOURCE: ffi::randombytes_implementation = ffi::randombytes_implementation {
    implementation_name: Some(source_name),
    random: Some(source_random),
    stir: None,
    uniform: None,
    buf: Some(source_fill),
    close: None,
};

unsafe extern "C" fn source_name() -> *const c_char {
    c"pinnace".as_ptr()
}

unsafe extern "C" fn source_random() -> u32 {
    let mut bytes = [0; 4];
    let _ = getrandom::fill(&mut bytes);
    u32::from_ne_bytes(bytes)
}

unsafe extern "C" fn source_fill(at: *mut c_void, len: usize) {
    if len > 0 {
        // SAFETY: libsodium passes a writable buffer of this length.
        let bytes = unsafe { std::slice::from_raw_parts_mut(at.cast::<u8>(), len) };
        let _ = getrandom::fill(bytes);
    }
}
