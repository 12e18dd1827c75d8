//! Normalizing and escaping of paths as in nginx.

use sluice_message::hex::push_escape;
use sluice_route::path::{Dots, Slashes, clean_into};

/// Why a path is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadPath {
    /// `..` leads above the root.
    Outside,
    /// It contains a NUL byte.
    Nul,
}

/// Whether [`clean`] would change nothing.
pub fn is_clean(path: &[u8]) -> bool {
    sluice_message::path::is_clean(path) && !path.contains(&0)
}

/// Appends `path`, decoded, with dot segments resolved and repeated slashes optionally merged.
pub fn clean(path: &[u8], merges: bool, out: &mut Vec<u8>) -> Result<(), BadPath> {
    if path.contains(&0) {
        return Err(BadPath::Nul);
    }
    let slashes = match merges {
        true => Slashes::Merge,
        false => Slashes::Keep,
    };
    match clean_into(path, slashes, out) {
        Dots::Inside => Ok(()),
        Dots::Outside => Err(BadPath::Outside),
    }
}

/// Appends a part of a path, escaped as nginx does for a query.
pub fn escape_argument(text: &[u8], out: &mut Vec<u8>) {
    escape_with(text, b"\"#%&+;<>?\\^`{|}", out);
}

/// Appends a decoded path, escaped as nginx does for upstreams and redirects.
pub fn escape(path: &[u8], out: &mut Vec<u8>) {
    escape_with(path, b"\"#%<>?\\^`{|}", out);
}

/// Escapes bytes that are not visible ASCII characters, and those in `named`.
fn escape_with(path: &[u8], named: &[u8], out: &mut Vec<u8>) {
    for &byte in path {
        let plain = matches!(byte, 0x21..=0x7e) && !named.contains(&byte);
        match plain {
            true => out.push(byte),
            false => push_escape(out, byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(path: &str, merges: bool) -> Result<String, BadPath> {
        let mut out = Vec::new();
        clean(path.as_bytes(), merges, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn paths_are_cleaned_as_nginx_does() {
        for (path, expected) in [
            ("/", "/"),
            ("/a//b", "/a/b"),
            ("/a/./b/../c", "/a/c"),
            ("/a/..", "/"),
            ("/a/.", "/a/"),
            ("//", "/"),
            ("*", "*"),
        ] {
            assert_eq!(cleaned(path, true).as_deref(), Ok(expected), "{path}");
        }
        assert_eq!(cleaned("/a//b/../c", false).as_deref(), Ok("/a//c"));
        for outside in ["/..", "/../a", "/a/../..", "/a/../../b"] {
            assert_eq!(cleaned(outside, true), Err(BadPath::Outside), "{outside}");
        }
        assert_eq!(cleaned("/a\0", true), Err(BadPath::Nul));
    }

    #[test]
    fn paths_are_escaped() {
        let mut out = Vec::new();
        escape("/a b?c#d%é[]:@".as_bytes(), &mut out);
        assert_eq!(out, b"/a%20b%3Fc%23d%25%C3%A9[]:@");
        let mut out = Vec::new();
        escape_argument(b"/a b?c&d+e;f=g%", &mut out);
        assert_eq!(out, b"/a%20b%3Fc%26d%2Be%3Bf=g%25");
    }
}
