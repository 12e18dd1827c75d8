//! Keys of values: paths with `/`, as certmagic writes them.

use std::fmt;

use crate::limits::KEY_BYTES_MAX;

/// A key such as `certificates/local/a.test/a.test.crt`. It has no leading or trailing slash, no empty segment and
/// none that is `.` or `..`, so that it is also a path below a folder. The empty key is the prefix of all.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

/// Why a text is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// A segment is empty, `.` or `..`.
    Segment,
    /// It contains a control character or a backslash.
    Character,
    /// It is longer than a key may be.
    Length,
}

impl Key {
    /// The key that `text` is.
    ///
    /// # Errors
    /// The rule that `text` breaks.
    pub fn new(text: impl Into<String>) -> Result<Key, KeyError> {
        let text = text.into();
        if text.len() > KEY_BYTES_MAX {
            return Err(KeyError::Length);
        }
        if text.chars().any(|c| c.is_control() || c == '\\') {
            return Err(KeyError::Character);
        }
        if !text.is_empty() && text.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(KeyError::Segment);
        }
        Ok(Key(text))
    }

    /// The key of `name` below this one.
    ///
    /// # Errors
    /// The rule that the result breaks.
    pub fn below(&self, name: &str) -> Result<Key, KeyError> {
        match self.0.as_str() {
            "" => Key::new(name),
            own => Key::new(format!("{own}/{name}")),
        }
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `other` is this key or lies below it.
    pub fn covers(&self, other: &Key) -> bool {
        let rest = other.0.strip_prefix(&self.0);
        rest.is_some_and(|rest| self.0.is_empty() || rest.is_empty() || rest.starts_with('/'))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyError::Segment => f.write_str("a segment of the key is empty, `.` or `..`"),
            KeyError::Character => {
                f.write_str("the key contains a control character or a backslash")
            }
            KeyError::Length => write!(f, "the key is longer than {KEY_BYTES_MAX} bytes"),
        }
    }
}

impl std::error::Error for KeyError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_path_that_cannot_leave_its_folder() {
        assert!(Key::new("certificates/local/a.test/a.test.crt").is_ok());
        assert!(Key::new("").is_ok());
        for bad in ["/a", "a/", "a//b", ".", "a/../b", ".."] {
            assert_eq!(Key::new(bad), Err(KeyError::Segment), "{bad}");
        }
        for bad in ["a\0b", "a\nb", "a\\b"] {
            assert_eq!(Key::new(bad), Err(KeyError::Character), "{bad:?}");
        }
        assert_eq!(Key::new("a".repeat(1025)), Err(KeyError::Length));
    }

    #[test]
    fn a_key_covers_whole_segments() {
        let key = |text: &str| Key::new(text).unwrap();
        assert!(key("").covers(&key("a/b")));
        assert!(key("a").covers(&key("a")));
        assert!(key("a").covers(&key("a/b")));
        assert!(!key("a").covers(&key("ab")));
        assert!(!key("a/b").covers(&key("a")));
        assert_eq!(key("").below("a").unwrap(), key("a"));
        assert_eq!(key("a").below("b/c").unwrap(), key("a/b/c"));
        assert_eq!(key("a").below("../c"), Err(KeyError::Segment));
    }
}
