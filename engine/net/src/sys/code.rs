//! The program's own code and constants in memory.

use std::ffi::{c_int, c_void};

/// Releases the memory pages of the program's code and constants. Most pages resident after startup were only needed
/// for it: parsing configurations, compiling regular expressions, building TLS settings. The kernel reloads pages in
/// use from its page cache.
pub fn let_go() {
    // SAFETY: the callback takes no data and does not retain its arguments.
    unsafe { libc::dl_iterate_phdr(Some(let_go_of), std::ptr::null_mut()) };
}

/// Called with the first object, which is the program; later ones are libraries.
///
/// # Safety
/// `info` must be the pointer that `dl_iterate_phdr` passes to its callback.
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
        // Segments that are writable, or were before relocation, differ from the file.
        if !is_loaded || header.p_flags & libc::PF_W != 0 {
            continue;
        }
        let start = (base + header.p_vaddr as usize).next_multiple_of(PAGE_BYTES_MAX);
        let end = base + header.p_vaddr as usize + header.p_memsz as usize;
        let bytes = end.saturating_sub(start) / PAGE_BYTES_MAX * PAGE_BYTES_MAX;
        // SAFETY: whole pages of a file mapping that cannot have been modified: reading them again gives the same
        // bytes. On failure the pages stay resident.
        unsafe { libc::madvise(start as *mut c_void, bytes, libc::MADV_DONTNEED) };
    }
    1
}

/// The largest page size of any machine; a whole page of this size consists of whole smaller pages.
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
