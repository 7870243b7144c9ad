//! Prefetches memory into the processor's cache.

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;

/// The processor itself prefetches the rest of a longer write.
const ROOM_MAX: usize = 2048;

/// Prefetches the first `bytes` bytes at `at`. It does not access them: any address is allowed.
#[inline(always)]
pub fn prefetch<T>(at: *const T, bytes: usize) {
    for offset in (0..bytes).step_by(LINE) {
        let line = at.cast::<i8>().wrapping_add(offset);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a hint, which faults at no address.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line);
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as above (PRFM).
        unsafe {
            std::arch::asm!("prfm pldl1keep, [{}]", in(reg) line, options(readonly, nostack, preserves_flags));
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let _ = line;
    }
}

/// Prefetches the memory behind the content of a buffer, where the next `bytes` bytes go: at most 2 KiB of it.
#[inline(always)]
pub fn prefetch_room(buffer: &Vec<u8>, bytes: usize) {
    let room = buffer.capacity() - buffer.len();
    prefetch(buffer.as_ptr().wrapping_add(buffer.len()), bytes.min(room).min(ROOM_MAX));
}
