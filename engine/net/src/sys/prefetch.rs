//! Asks for memory before it is needed.

/// The memory of a value, without a hold on it: all that is done with it is to ask for it early.
#[derive(Clone, Copy)]
pub struct Lines {
    start: usize,
    bytes: usize,
}

/// Bytes that a processor fetches at once.
const LINE_BYTES: usize = 64;

impl Lines {
    /// Those of `value` itself, not of what it points to.
    pub fn of<T: ?Sized>(value: &T) -> Lines {
        Lines {
            start: std::ptr::from_ref(value).addr(),
            bytes: size_of_val(value),
        }
    }

    /// Has them brought closer, all at the same time, while the program goes on. A hint: the values are neither read
    /// nor changed, and memory that is gone meanwhile does no harm.
    pub fn fetch(self) {
        #[cfg(target_arch = "x86_64")]
        for offset in (0..self.bytes).step_by(LINE_BYTES) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let line = std::ptr::without_provenance::<i8>(self.start + offset);
            // SAFETY: the instruction reads nothing that the program can see and faults on no address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(line) };
        }
    }
}
