//! Where in the program an entry was made: the place in the source, and the functions that led there. Few logs show
//! either. How they stand in a line is left to `encode`.

use std::backtrace::Backtrace;
use std::panic::Location;

use super::Level;
use super::limits::LOG_STACK_BYTES_MAX;

/// What a log shows of where its entries were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Whether the place in the source is shown.
    pub caller: bool,
    /// The level from which the functions that led to an entry are shown; none are if `None`. Finding them takes
    /// about a millisecond.
    pub stack_from: Option<Level>,
}

impl Places {
    /// The functions that led here, if entries of `level` show them: one or two lines each, the innermost first.
    pub(super) fn stack(self, level: Level) -> Option<String> {
        self.stack_from.filter(|from| level >= *from)?;
        let mut text = Backtrace::force_capture().to_string();
        if text.len() > LOG_STACK_BYTES_MAX {
            text.truncate(text.floor_char_boundary(LOG_STACK_BYTES_MAX));
        }
        Some(text)
    }
}

/// `folder/file.rs:12`: as short as the callers in Caddy's logs, and enough to find the line.
pub(super) fn short(place: &Location<'_>) -> String {
    let path = place.file().replace('\\', "/");
    // The name of the package stands in front of its `src`.
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
        let places = Places {
            caller: false,
            stack_from: Some(Level::Error),
        };
        assert_eq!(places.stack(Level::Warn), None);
        let stack = places.stack(Level::Error).expect("a stack");
        assert!(stack.contains("place::tests"), "{stack}");
        assert!(stack.len() <= LOG_STACK_BYTES_MAX);
        assert_eq!(Places::default().stack(Level::Error), None);
    }
}
