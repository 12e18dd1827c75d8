//! Time zones known to the system, by name.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use sluice_template::Zone;

/// The zone called `name`, with its offset at `seconds`; `None` if the system does not know it.
pub fn find(name: &str, seconds: i64) -> Option<Zone> {
    match name {
        // Servers use UTC; pages can name another zone.
        "" | "UTC" | "Local" => return Some(Zone::UTC),
        _ => {}
    }
    let zone = TimeZone::get(name).ok()?;
    let info = zone.to_offset_info(Timestamp::from_second(seconds).ok()?);
    Some(Zone::new(info.offset().seconds(), info.abbreviation()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_not_paths() {
        assert_eq!(find("UTC", 0), Some(Zone::UTC));
        for name in ["../../etc/passwd", "/etc/passwd", "No/Where", "a\0b"] {
            assert_eq!(find(name, 0), None, "{name}");
        }
    }
}
