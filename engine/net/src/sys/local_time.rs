//! The system's time zone. Formatting times is left to the callers.

use std::mem::MaybeUninit;

/// The offset of the system's time zone at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalOffset {
    /// Seconds that local time is ahead of UTC.
    pub seconds: i32,
    /// The zone's short name, such as `CET`.
    pub name: String,
}

impl LocalOffset {
    /// No offset.
    pub fn utc() -> LocalOffset {
        LocalOffset {
            seconds: 0,
            name: "UTC".to_owned(),
        }
    }
}

/// The system's time zone (`TZ`, else `/etc/localtime`) at this moment; UTC if it is unknown.
pub fn local_offset(unix_seconds: u64) -> LocalOffset {
    let Ok(time) = libc::time_t::try_from(unix_seconds) else {
        return LocalOffset::utc();
    };
    let mut parts = MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both pointers are valid for the call; `localtime_r` writes the second and retains neither.
    let done = unsafe { libc::localtime_r(&raw const time, parts.as_mut_ptr()) };
    if done.is_null() {
        return LocalOffset::utc();
    }
    // SAFETY: the call succeeded, so the structure is initialized; it was zeroed before.
    let parts = unsafe { parts.assume_init() };
    let name = if parts.tm_zone.is_null() {
        String::new()
    } else {
        // SAFETY: the C library keeps zone names for the life of the process, terminated by NUL.
        let name = unsafe { std::ffi::CStr::from_ptr(parts.tm_zone) };
        name.to_string_lossy().into_owned()
    };
    LocalOffset {
        seconds: i32::try_from(parts.tm_gmtoff).unwrap_or(0),
        name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_is_one_that_exists() {
        let offset = local_offset(1_795_295_096);
        assert!(offset.seconds.abs() <= 14 * 3600, "{offset:?}");
        assert!(!offset.name.is_empty());
    }
}
