//! `hide`: files that the file server treats as nonexistent.

use std::os::unix::ffi::OsStrExt;

use sluice_route::Template;
use sluice_route::glob::Glob;

use sluice_pipeline::context::Exchange;
use sluice_pipeline::files;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::values::At;

/// The patterns of one `file_server`.
#[derive(Default)]
pub(super) struct Hidden {
    fixed: Vec<Pattern>,
    /// Patterns with placeholders, compiled for each request.
    later: Vec<Template>,
    working_dir: Vec<u8>,
}

enum Pattern {
    /// Without a slash: hides every path with such a name as a component.
    Name(Glob),
    /// With a slash: hides that file, or that folder and everything below it.
    Path {
        prefix: Vec<u8>,
        /// `None` without wildcards: most patterns have none, and every request checks all patterns.
        glob: Option<Glob>,
    },
}

impl Hidden {
    pub(super) fn build<'a>(
        patterns: impl IntoIterator<Item = &'a String>,
    ) -> Result<Hidden, Refusal> {
        let mut hidden = Hidden::default();
        if let Ok(dir) = std::env::current_dir() {
            hidden.working_dir = dir.as_os_str().as_bytes().to_vec();
        }
        for text in patterns {
            let template = super::template(text)?;
            match template.literal() {
                Some(literal) => {
                    let pattern = hidden.compile(literal);
                    let refuse = || Refusal::new(format!("`hide` pattern `{text}` is malformed"));
                    hidden.fixed.push(pattern.ok_or_else(refuse)?);
                }
                None => hidden.later.push(template),
            }
        }
        Ok(hidden)
    }

    /// Whether the file at the absolute, normalized `path` is hidden.
    pub(super) fn hides(&self, exchange: &Exchange, path: &[u8]) -> bool {
        self.fixed.iter().any(|pattern| pattern.hides(path))
            || self.later.iter().any(|template| {
                files::with_path(|text| {
                    let text = template.resolve(&At(exchange), text);
                    // A pattern that depends on the request cannot be validated at startup; if it is malformed it does
                    // not hide anything.
                    self.compile(text)
                        .is_some_and(|pattern| pattern.hides(path))
                })
            })
    }

    fn compile(&self, text: &[u8]) -> Option<Pattern> {
        if text.is_empty() {
            return None;
        }
        if !text.contains(&b'/') {
            return Glob::parse(std::str::from_utf8(text).ok()?)
                .ok()
                .map(Pattern::Name);
        }
        // Resolved like a relative root.
        let mut prefix = Vec::new();
        let whole = match text.starts_with(b"/") {
            true => text.to_vec(),
            false => [&self.working_dir, &b"/"[..], text].concat(),
        };
        sluice_message::path::clean(&whole, &mut prefix);
        if prefix.len() > 1 && prefix.ends_with(b"/") {
            prefix.pop();
        }
        let mut glob = None;
        if prefix.iter().any(|byte| b"*?[\\".contains(byte)) {
            glob = Some(Glob::parse(std::str::from_utf8(&prefix).ok()?).ok()?);
        }
        Some(Pattern::Path { prefix, glob })
    }
}

impl Pattern {
    fn hides(&self, path: &[u8]) -> bool {
        match self {
            Pattern::Name(glob) => path
                .split(|&b| b == b'/')
                .any(|name| !name.is_empty() && glob.matches(name)),
            Pattern::Path { prefix, glob } => {
                let within = path
                    .strip_prefix(&prefix[..])
                    .is_some_and(|rest| matches!(rest, [] | [b'/', ..]) || prefix == b"/");
                // Check parent folders too, so that a wildcard also hides the contents of a folder.
                let matches = |glob: &Glob| ancestors(path).any(|ancestor| glob.matches(ancestor));
                within || glob.as_ref().is_some_and(matches)
            }
        }
    }
}

/// The path itself and all its parent folders.
fn ancestors(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = path
        .iter()
        .enumerate()
        .filter(|&(at, &b)| b == b'/' && at > 0)
        .map(|(at, _)| at);
    ends.chain([path.len()]).map(|end| &path[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hides(pattern: &str, path: &str) -> bool {
        let hidden = Hidden {
            working_dir: b"/srv".to_vec(),
            ..Hidden::default()
        };
        hidden
            .compile(pattern.as_bytes())
            .unwrap()
            .hides(path.as_bytes())
    }

    #[test]
    fn names_hide_wherever_they_stand() {
        assert!(hides(".git", "/srv/www/.git"));
        assert!(hides(".git", "/srv/www/.git/config"));
        assert!(!hides(".git", "/srv/www/.github"));
        assert!(hides(".*", "/srv/www/a/.hidden/x"));
        assert!(hides("*.secret", "/srv/www/a.secret"));
        assert!(!hides("*.secret", "/srv/www/a.secrets"));
    }

    #[test]
    fn paths_hide_a_file_or_a_whole_folder() {
        assert!(hides("/srv/www/private", "/srv/www/private"));
        assert!(hides("/srv/www/private/", "/srv/www/private/a/b"));
        assert!(!hides("/srv/www/private", "/srv/www/private2"));
        assert!(hides("www/./private", "/srv/www/private/x"));
        assert!(hides("/srv/www/no*ext", "/srv/www/noext"));
        assert!(hides("/srv/*/private", "/srv/www/private/x"));
        assert!(!hides("/srv/www/no*ext", "/srv/www/a/noext"));
    }

    #[test]
    fn malformed_patterns_do_not_compile() {
        for text in ["", "[", "/a/[", "a\\"] {
            assert!(
                Hidden::default().compile(text.as_bytes()).is_none(),
                "{text}"
            );
        }
    }
}
