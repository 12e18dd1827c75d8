//! Paths as nginx compares and writes them.

/// Why a path is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadPath {
    /// It leads out of the root.
    Outside,
    /// It has a byte that no path has.
    Nul,
}

/// Whether [`clean`] would change nothing.
pub fn is_clean(path: &[u8]) -> bool {
    sluice_message::path::is_clean(path) && !path.contains(&0)
}

/// Appends `path`, decoded, with dot segments resolved and, if wanted, repeated slashes merged.
pub fn clean(path: &[u8], merges: bool, out: &mut Vec<u8>) -> Result<(), BadPath> {
    if path.contains(&0) {
        return Err(BadPath::Nul);
    }
    let Some(body) = path.strip_prefix(b"/") else {
        out.extend_from_slice(path);
        return Ok(());
    };
    let start = out.len();
    let mut segments = body.split(|byte| *byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        let ends = segments.peek().is_none();
        match segment {
            b".." => {
                if out.len() == start {
                    return Err(BadPath::Outside);
                }
                let parent = out[start..].iter().rposition(|byte| *byte == b'/');
                out.truncate(start + parent.unwrap_or(0));
            }
            b"" if !merges && !ends => out.push(b'/'),
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
    Ok(())
}

/// Appends a decoded path as nginx writes it to an upstream or into a redirect.
pub fn escape(path: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in path {
        let plain = matches!(byte, 0x21..=0x7e) && !b"\"#%<>?\\^`{|}".contains(byte);
        match plain {
            true => out.push(*byte),
            false => out.extend([
                b'%',
                HEX[usize::from(byte >> 4)],
                HEX[usize::from(byte & 15)],
            ]),
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
    }
}
