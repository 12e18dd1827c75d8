//! The source location and the stack trace of an entry. Few logs show them. `encode` formats them.

use std::backtrace::Backtrace;
use std::panic::Location;

use super::Level;
use super::limits::LOG_STACK_BYTES_MAX;

/// Whether a log shows source locations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionSlots {
    /// Whether the source location is shown.
    pub caller: bool,
    /// The minimum level for stack traces; `None` for no stack traces. Creating one takes about a millisecond.
    pub stack_from: Option<Level>,
}

impl ConnectionSlots {
    /// The stack trace of the caller, if entries of `level` show it: one or two lines per frame, innermost first.
    pub(super) fn stack(self, level: Level) -> Option<String> {
        self.stack_from.filter(|from| level >= *from)?;
        let mut text = Backtrace::force_capture().to_string();
        if text.len() > LOG_STACK_BYTES_MAX {
            text.truncate(text.floor_char_boundary(LOG_STACK_BYTES_MAX));
        }
        Some(text)
    }
}

/// `folder/file.rs:12`: as short as callers in Caddy's logs, and sufficient to find the line.
pub(super) fn short(place: &Location<'_>) -> String {
    let path = place.file().replace('\\', "/");
    // The parent folder of `src` has the name of the package.
    let from = match path.rfind("/src/") {
        Some(at) => path[..at].rfind('/').map_or(0, |slash| slash + 1),
        None => 0,
    };
    let short = path[from..].replacen("/src/", "/", 1);
    format!("{short}:{}", place.line())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_package_file_and_line() {
        let text = short(Location::caller());
        let (file, line) = text.rsplit_once(':').expect("a line");
        assert_eq!(file, "observe/log/place.rs");
        assert!(line.parse::<u32>().is_ok_and(|line| line > 40), "{text}");
    }

    #[test]
    fn a_stack_is_shown_from_its_level_on_and_is_bounded() {
        let places = ConnectionSlots {
            caller: false,
            stack_from: Some(Level::Error),
        };
        assert_eq!(places.stack(Level::Warn), None);
        let stack = places.stack(Level::Error).expect("a stack");
        assert!(stack.contains("place::tests"), "{stack}");
        assert!(stack.len() <= LOG_STACK_BYTES_MAX);
        assert_eq!(ConnectionSlots::default().stack(Level::Error), None);
    }
}
