//! The normal form of a path that matchers compare: lower case, dot segments resolved, repeated slashes merged. Code
//! that opens files checks file names itself.

use alloc::vec::Vec;

/// What becomes of repeated slashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slashes {
    /// `//` becomes `/`.
    Merge,
    /// `//` stays: for patterns that hold one themselves.
    Keep,
}

/// Where dot segments lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dots {
    /// They stay below the root.
    Inside,
    /// One leads above the root; it was left out.
    Outside,
}

/// Whether letters keep their case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// Letters become lower case.
    Fold,
    /// Letters stay.
    Keep,
}

/// The normal form of `path`: borrowed if it is in that form already, as nearly every path is, else
/// written into `buf`.
pub fn normalize<'a>(
    path: &'a [u8],
    slashes: Slashes,
    case: Case,
    buf: &'a mut Vec<u8>,
) -> &'a [u8] {
    let clean = is_clean(path);
    let folded = case == Case::Keep || !needs_fold(path);
    if clean && folded {
        return path;
    }
    buf.clear();
    if clean {
        buf.extend_from_slice(path);
    } else {
        clean_into(path, slashes, buf);
    }
    if case == Case::Fold {
        fold(buf);
    }
    buf
}

/// Whether folding could change something. All bytes are looked at, which the compiler turns into
/// wide steps.
fn needs_fold(path: &[u8]) -> bool {
    path.iter().fold(false, |found, byte| {
        found | byte.is_ascii_uppercase() | !byte.is_ascii()
    })
}

/// Whether cleaning changes nothing. Returns false for a few rare clean paths, which costs only time.
fn is_clean(path: &[u8]) -> bool {
    let doubtful = |at: usize| match path.get(at + 1) {
        Some(b'/') => true,
        Some(b'.') => matches!(path.get(at + 2), None | Some(b'/' | b'.')),
        _ => false,
    };
    path.first() != Some(&b'/') || !memchr::memchr_iter(b'/', path).any(doubtful)
}

/// Appends `path` to `out` with `.` and `..` segments resolved (RFC 3986, section 5.2.4) and, with
/// [`Slashes::Merge`], empty segments removed. The result ends with a slash exactly if `path` ended
/// with a slash or a dot segment, as it does where files are looked up: a matcher and a file server
/// that disagree about `/a/.` are a way around the matcher. (Go's `path.Clean`, and so Caddy, has
/// `/a` there.)
///
/// A path without a slash at its beginning stays as it is: that is `*` and the empty one, and no
/// rewrite can make another.
///
/// Tells where its dot segments lead, for those who refuse what others leave out.
pub fn clean_into(path: &[u8], slashes: Slashes, out: &mut Vec<u8>) -> Dots {
    let Some(body) = path.strip_prefix(b"/") else {
        out.extend_from_slice(path);
        return Dots::Inside;
    };
    let start = out.len();
    let mut dots = Dots::Inside;
    let mut segments = body.split(|&byte| byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        let ends = segments.peek().is_none();
        match segment {
            b".." => {
                if out.len() == start {
                    dots = Dots::Outside;
                }
                let parent = memchr::memrchr(b'/', &out[start..]).unwrap_or(0);
                out.truncate(start + parent);
            }
            b"" if slashes == Slashes::Keep && !ends => out.push(b'/'),
            b"" | b"." => {}
            _ => {
                out.push(b'/');
                out.extend_from_slice(segment);
                continue;
            }
        }
        if ends {
            out.push(b'/');
        }
    }
    dots
}

/// Converts letters to lower case: ASCII in place, other scripts one character for one character. Bytes that are not
/// valid UTF-8 stay unchanged.
pub fn fold(text: &mut Vec<u8>) {
    if text.is_ascii() {
        return text.make_ascii_lowercase();
    }
    let mut folded = Vec::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        for letter in chunk.valid().chars() {
            let lower = letter.to_lowercase().next().unwrap_or(letter);
            folded.extend_from_slice(lower.encode_utf8(&mut [0; 4]).as_bytes());
        }
        folded.extend_from_slice(chunk.invalid());
    }
    *text = folded;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(path: &[u8]) -> Vec<u8> {
        normalize(path, Slashes::Merge, Case::Fold, &mut Vec::new()).to_vec()
    }

    fn kept(path: &[u8]) -> Vec<u8> {
        normalize(path, Slashes::Keep, Case::Fold, &mut Vec::new()).to_vec()
    }

    #[test]
    fn dot_segments_and_repeated_slashes_vanish() {
        for (path, clean) in [
            ("/", "/"),
            ("//", "/"),
            ("/a/b", "/a/b"),
            ("/a//b/", "/a/b/"),
            ("/a/./b/../c", "/a/c"),
            ("/..", "/"),
            ("/../..//", "/"),
            ("/a/..", "/"),
            ("/a/../", "/"),
            ("/a/.", "/a/"),
            ("/a/b/..", "/a/"),
            ("/a/./", "/a/"),
            ("/.well-known/x", "/.well-known/x"),
            ("/...", "/..."),
            ("*", "*"),
            ("", ""),
        ] {
            assert_eq!(merged(path.as_bytes()), clean.as_bytes(), "{path}");
        }
    }

    #[test]
    fn kept_slashes_are_segments_of_their_own() {
        for (path, clean) in [
            ("//", "//"),
            ("//x", "//x"),
            ("/a//b", "/a//b"),
            ("/a//..", "/a/"),
            ("/a//../b", "/a/b"),
            ("/a//", "/a//"),
            ("/..//", "//"),
        ] {
            assert_eq!(kept(path.as_bytes()), clean.as_bytes(), "{path}");
        }
    }

    #[test]
    fn letters_of_any_script_become_lower_case() {
        assert_eq!(merged("/ÄK\u{212a}/X".as_bytes()), "/äkk/x".as_bytes());
        assert_eq!(merged(b"/\xffA"), b"/\xffa");
    }

    #[test]
    fn a_path_in_normal_form_is_not_copied() {
        let (path, mut buf) = (*b"/.a/b.c/", Vec::new());
        let normal = normalize(&path, Slashes::Merge, Case::Fold, &mut buf);
        assert_eq!(normal.as_ptr(), path.as_ptr());
    }
}
