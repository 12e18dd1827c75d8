//! Normalizes request paths so that they are safe to look up: resolves dot segments and repeated slashes (RFC 3986,
//! section 5.2.4). The lookup itself is up to the caller.

use alloc::vec::Vec;

/// Appends the clean form of the decoded `path` to `out`: it begins with `/`, has no `.` or `..` segment and no
/// repeated slash, and ends with `/` exactly if `path` did or ended with a dot segment. `..` at the top stays
/// there. Other bytes, NUL and backslash among them, are kept.
pub fn clean(path: &[u8], out: &mut Vec<u8>) {
    let base = out.len();
    if is_clean(path) {
        out.extend_from_slice(path);
        return;
    }
    out.push(b'/');
    for segment in path.split(|&b| b == b'/') {
        match segment {
            b"" | b"." => {}
            b".." => {
                let kept = out[base..out.len() - 1].iter().rposition(|&b| b == b'/');
                out.truncate(base + kept.map_or(1, |slash| slash + 1));
            }
            name => {
                out.extend_from_slice(name);
                out.push(b'/');
            }
        }
    }
    let last = path.rsplit(|&b| b == b'/').next().unwrap_or_default();
    if !matches!(last, b"" | b"." | b"..") {
        out.pop();
    }
}

/// Whether `clean` would change nothing.
pub fn is_clean(path: &[u8]) -> bool {
    if path.first() != Some(&b'/') {
        return false;
    }
    // A segment can only be empty or made of dots where a slash is followed by a slash or a dot, as in nearly no path. All
    // pairs are looked at without a way out, which compiles to vector comparisons.
    let pairs = path.iter().zip(&path[1..]);
    let is_doubtful = pairs.fold(false, |found, (byte, next)| {
        found | ((*byte == b'/') & ((*next == b'/') | (*next == b'.')))
    });
    !is_doubtful
        || memchr::memchr_iter(b'/', path).all(|slash| {
            let after = &path[slash + 1..];
            let dots = after.iter().take_while(|&&b| b == b'.').count();
            let segment_ends = matches!(after.get(dots), None | Some(b'/'));
            !segment_ends || dots > 2 || dots == 0 && after.is_empty()
        })
}

/// The last segment without its slashes; empty for `/`.
pub fn base_name(path: &[u8]) -> &[u8] {
    let trimmed = path.strip_suffix(b"/").unwrap_or(path);
    trimmed.rsplit(|&b| b == b'/').next().unwrap_or_default()
}

/// What follows the last dot of the last segment; `None` without a dot.
pub fn extension(path: &[u8]) -> Option<&[u8]> {
    let name = path.rsplit(|&b| b == b'/').next()?;
    memchr::memrchr(b'.', name).map(|dot| &name[dot + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(path: &str) -> Vec<u8> {
        let mut out = b"root".to_vec();
        clean(path.as_bytes(), &mut out);
        out.split_off(4)
    }

    #[test]
    fn paths_are_cleaned() {
        for (path, expected) in [
            ("/", "/"),
            ("", "/"),
            ("/a/b", "/a/b"),
            ("/a/b/", "/a/b/"),
            ("//a///b//", "/a/b/"),
            ("/./a/./b/.", "/a/b/"),
            ("/a/../b", "/b"),
            ("/a/b/..", "/a/"),
            ("/../../etc/passwd", "/etc/passwd"),
            ("/a/../../..", "/"),
            ("..", "/"),
            ("a", "/a"),
            ("/.git", "/.git"),
            ("/...", "/..."),
            ("/..a/b..", "/..a/b.."),
            ("/a/.b/..c/", "/a/.b/..c/"),
            ("//evil.example/..", "/"),
            ("/a\\..\\b", "/a\\..\\b"),
        ] {
            assert_eq!(cleaned(path), expected.as_bytes(), "{path}");
        }
    }

    #[test]
    fn cleaning_twice_changes_nothing_and_nothing_leaves_the_root() {
        // Every path of up to seven of these bytes.
        let alphabet = b"/.a";
        for len in 0..8u32 {
            for number in 0..3usize.pow(len) {
                let path: Vec<u8> = (0..len)
                    .map(|i| alphabet[number / 3usize.pow(i) % 3])
                    .collect();
                let mut once = Vec::new();
                clean(&path, &mut once);
                assert!(is_clean(&once), "{path:?} gave {once:?}");
                assert!(!once.split(|&b| b == b'/').any(|s| s == b".." || s == b"."));
                if is_clean(&path) {
                    assert_eq!(once, path);
                }
            }
        }
    }

    #[test]
    fn names_and_extensions_are_found() {
        assert_eq!(base_name(b"/a/b.c"), b"b.c");
        assert_eq!(base_name(b"/a/b/"), b"b");
        assert_eq!(base_name(b"/"), b"");
        assert_eq!(extension(b"/a.d/b.tar.gz"), Some(&b"gz"[..]));
        assert_eq!(extension(b"/a.d/b"), None);
        assert_eq!(extension(b"/.git"), Some(&b"git"[..]));
    }
}
