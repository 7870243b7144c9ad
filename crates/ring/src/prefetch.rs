//! Prefetches memory into the processor's cache.

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;

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
