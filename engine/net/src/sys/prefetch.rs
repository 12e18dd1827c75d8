//! Prefetches memory into the CPU caches.

/// The memory of a value, without borrowing it: the only operation is prefetching.
#[derive(Clone, Copy)]
pub struct Lines {
    start: usize,
    bytes: usize,
}

/// Size of a cache line in bytes.
const LINE_BYTES: usize = 64;

impl Lines {
    /// The memory of `value` itself, not of what it points to.
    pub fn of<T: ?Sized>(value: &T) -> Lines {
        Lines {
            start: std::ptr::from_ref(value).addr(),
            bytes: size_of_val(value),
        }
    }

    /// Prefetches all cache lines in parallel while the program continues. A hint: the values are neither read nor
    /// changed, and memory that was freed meanwhile does no harm.
    pub fn fetch(self) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let mut line = std::ptr::without_provenance::<i8>(self.start);
            for _ in 0..self.bytes.div_ceil(LINE_BYTES) {
                // SAFETY: the instruction has no visible effect and faults on no address.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(line) };
                line = line.wrapping_add(LINE_BYTES);
            }
        }
    }
}
