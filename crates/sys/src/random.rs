//! Random bytes from the kernel (getrandom(2)).

use rustix::rand::{GetRandomFlags, getrandom};

use crate::Errno;

/// N random bytes, fit for keys.
pub fn bytes<const N: usize>() -> Result<[u8; N], Errno> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}
