//! The program's own code and constants in memory.

use std::ffi::{c_int, c_void};

/// Lets go of the pages of the program's code and constants. Most of those that are there after the start were only
/// needed by it: reading configurations, making regular expressions and TLS settings. The kernel brings back those
/// that are used, from its own copy of the file.
pub fn let_go() {
    // SAFETY: the callback gets no data and keeps nothing that it is shown.
    unsafe { libc::dl_iterate_phdr(Some(let_go_of), std::ptr::null_mut()) };
}

/// Sees the first object, which is the program; those after it are libraries.
///
/// # Safety
/// `info` must be what the linker gives to the callback of `dl_iterate_phdr`.
unsafe extern "C" fn let_go_of(
    info: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    _data: *mut c_void,
) -> c_int {
    // SAFETY: the linker's table is valid while the callback runs.
    let (base, headers) = unsafe {
        let info = &*info;
        let headers = std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
        (info.dlpi_addr as usize, headers)
    };
    for header in headers {
        let is_loaded = header.p_type == libc::PT_LOAD;
        // What can be written, or could before it was relocated, differs from the file.
        if !is_loaded || header.p_flags & libc::PF_W != 0 {
            continue;
        }
        let start = (base + header.p_vaddr as usize).next_multiple_of(PAGE_BYTES_MAX);
        let end = base + header.p_vaddr as usize + header.p_memsz as usize;
        let bytes = end.saturating_sub(start) / PAGE_BYTES_MAX * PAGE_BYTES_MAX;
        // SAFETY: whole pages of a mapping of a file that nobody can have changed: reading them again gives the same.
        // A failure leaves them where they are.
        unsafe { libc::madvise(start as *mut c_void, bytes, libc::MADV_DONTNEED) };
    }
    1
}

/// Pages are no larger on any machine; whole ones of this size are whole ones of theirs.
const PAGE_BYTES_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_goes_on_after_it_let_go_of_its_code() {
        let before = format!("{:?}", [1.5_f64, 2.0]);
        let_go();
        assert_eq!(format!("{:?}", [1.5_f64, 2.0]), before);
    }
}
