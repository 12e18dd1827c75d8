//! Texts with placeholders that become file paths: restricts what a request may contribute to them.
//!
//! The configuration determines the directories. A value of the request fills in its own part and no more: it cannot
//! add or remove a path component or climb to a parent. The rule applies where the path is built, so that it holds for
//! every directive and wherever a value comes from (RFC 3986, section 5.2.4 does not apply: file systems resolve `..`
//! after all texts were joined).

use alloc::vec::Vec;
use core::fmt;

use super::{ErrorKey, Found, Key, NginxKey, Part, Template, Values};

/// Where a value comes from, as far as paths of files are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// The configuration or the system: any path.
    Configured,
    /// The path of the request, or an upstream: slashes, but nothing that climbs.
    Path,
    /// Anything else of the request: a part of one component.
    Name,
    /// A variable that was made of a value which does not fit into a path.
    Unfit,
}

/// A value of the request does not fit into the path that the configuration gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnfitPath;

impl fmt::Display for UnfitPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of the request would change the folder of a path")
    }
}

impl core::error::Error for UnfitPath {}

impl Key {
    /// Where its values come from; those of variables follow from what set them.
    pub fn provenance(&self) -> Provenance {
        match self {
            Key::Env(_)
            | Key::System(_)
            | Key::FileText(_)
            | Key::Time(_)
            | Key::Local
            | Key::LocalHost
            | Key::LocalPort
            | Key::Duration
            | Key::DurationMs
            | Key::Uuid
            | Key::ShuttingDown
            | Key::TimeUntilShutdown
            | Key::Error(ErrorKey::StatusCode | ErrorKey::StatusText | ErrorKey::Id) => {
                Provenance::Configured
            }
            Key::Uri
            | Key::UriEscaped
            | Key::Path
            | Key::PathEscaped
            | Key::PathDir
            | Key::OrigUri
            | Key::OrigPath
            | Key::OrigPathDir
            | Key::File(_)
            | Key::Proxy(_)
            | Key::ResponseHeader(_)
            | Key::InterceptStatus
            | Key::InterceptHeader(_) => Provenance::Path,
            Key::UrlPattern(group) if group.starts_with("pathname.") => Provenance::Path,
            Key::Nginx(key) => key.provenance(),
            _ => Provenance::Name,
        }
    }
}

impl NginxKey {
    fn provenance(&self) -> Provenance {
        match self {
            NginxKey::RequestUri
            | NginxKey::UriFrom(_)
            | NginxKey::ChosenPath
            | NginxKey::SentField(_)
            | NginxKey::SentTrailer(_)
            | NginxKey::Upstream(_)
            | NginxKey::UpstreamCookie(_)
            | NginxKey::UpstreamField(_)
            | NginxKey::UpstreamTrailer(_) => Provenance::Path,
            NginxKey::TimeLocal
            | NginxKey::TimeIso
            | NginxKey::DateGmt
            | NginxKey::Msec
            | NginxKey::Pid
            | NginxKey::RequestBodyFile
            | NginxKey::RequestTime => Provenance::Configured,
            _ => Provenance::Name,
        }
    }
}

impl Template {
    /// Appends the path that the text stands for to `out`; unknown placeholders vanish.
    ///
    /// # Errors
    /// A value of the request holds NUL or a slash that it may not have, is the `.` or `..` of a component, or is empty
    /// where it was to name a component. What was appended by then is of no use.
    pub fn expand_path(&self, values: &dyn Values, out: &mut Vec<u8>) -> Result<(), UnfitPath> {
        self.scan(values, out).map(drop)
    }

    /// As [`Template::expand`] without unknown placeholders, and says what may be made of the value.
    pub fn expand_traced(&self, values: &dyn Values, out: &mut Vec<u8>) -> Provenance {
        if let Some(text) = self.literal() {
            out.extend_from_slice(text);
            return Provenance::Configured;
        }
        if let Some(key) = self.single() {
            let found = values.value(key, out);
            return match found {
                Found::Known => values.provenance(key),
                Found::Unknown => Provenance::Name,
            };
        }
        let start = out.len();
        self.scan(values, out).unwrap_or_else(|UnfitPath| {
            out.truncate(start);
            self.expand(values, super::Unknown::Empty, out);
            Provenance::Unfit
        })
    }

    fn scan(&self, values: &dyn Values, out: &mut Vec<u8>) -> Result<Provenance, UnfitPath> {
        let mut scan = Scan {
            component_at: out.len(),
            is_touched: false,
            is_named: false,
            after_own_slash: false,
        };
        let mut provenance = Provenance::Configured;
        for part in &self.parts {
            let from = out.len();
            let of_part = match part {
                Part::Literal(text) => {
                    out.extend_from_slice(text);
                    Provenance::Configured
                }
                Part::Placeholder(placeholder) => {
                    let found = values.value(&placeholder.key, out);
                    let provenance = match found {
                        Found::Known => values.provenance(&placeholder.key),
                        Found::Unknown => Provenance::Name,
                    };
                    if provenance == Provenance::Path {
                        resolve_dots(out, from);
                    }
                    provenance
                }
            };
            if of_part != Provenance::Configured {
                provenance = Provenance::Path;
            }
            scan.take(out, from, of_part)?;
        }
        scan.end_component(&out[scan.component_at..])?;
        Ok(provenance)
    }
}

/// Resolves the dot segments of an absolute path that stands in `out` from `from` on, within that path: clients may send
/// them, and matchers have resolved them as well.
fn resolve_dots(out: &mut Vec<u8>, from: usize) {
    let path = &out[from..];
    let is_dots = |part: &[u8]| matches!(part, b"." | b"..");
    // Few paths have a name that begins with a dot.
    let may_have_dots = memchr::memmem::find(path, b"/.").is_some();
    if may_have_dots && path[0] == b'/' && path.split(|byte| *byte == b'/').any(is_dots) {
        let path = out.split_off(from);
        sluice_message::path::clean(&path, out);
    }
}

/// The component that is being written.
struct Scan {
    component_at: usize,
    /// Whether a byte of it comes from the request.
    is_touched: bool,
    /// Whether a value was to be part of it, empty or not.
    is_named: bool,
    /// Whether the configuration wrote the slash before it.
    after_own_slash: bool,
}

impl Scan {
    /// Looks at what was appended from `from` on.
    fn take(&mut self, out: &[u8], from: usize, of: Provenance) -> Result<(), UnfitPath> {
        let text = &out[from..];
        let has = |byte| memchr::memchr(byte, text).is_some();
        match of {
            Provenance::Configured => {}
            Provenance::Path if !has(0) => {}
            Provenance::Name if !has(0) && !has(b'/') => self.is_named = true,
            Provenance::Path | Provenance::Name | Provenance::Unfit => return Err(UnfitPath),
        }
        let is_own = of == Provenance::Configured;
        let mut begun = from;
        for slash in memchr::memchr_iter(b'/', text).map(|at| from + at) {
            self.is_touched |= !is_own && slash > begun;
            self.end_component(&out[self.component_at..slash])?;
            *self = Scan {
                component_at: slash + 1,
                is_touched: false,
                is_named: false,
                after_own_slash: is_own,
            };
            begun = slash + 1;
        }
        self.is_touched |= !is_own && out.len() > begun;
        Ok(())
    }

    fn end_component(&self, component: &[u8]) -> Result<(), UnfitPath> {
        let climbs = self.is_touched && matches!(component, b"." | b"..");
        let is_lost = self.is_named && self.after_own_slash && component.is_empty();
        match climbs || is_lost {
            true => Err(UnfitPath),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    /// A name, a path, a text of the configuration and one that is unfit.
    struct Four(&'static str, &'static str);

    impl Values for Four {
        fn value(&self, key: &Key, out: &mut Vec<u8>) -> Found {
            out.extend_from_slice(match key {
                Key::Host => self.0.as_bytes(),
                Key::Path => self.1.as_bytes(),
                Key::Env(_) => b"../own/.",
                _ => return Found::Unknown,
            });
            Found::Known
        }
    }

    fn path(text: &str, name: &'static str, path: &'static str) -> Option<String> {
        let mut out = b"before".to_vec();
        let template = Template::parse(text).unwrap();
        template.expand_path(&Four(name, path), &mut out).ok()?;
        Some(String::from_utf8(out.split_off(6)).unwrap())
    }

    #[test]
    fn a_value_stays_in_the_component_that_it_was_given() {
        let root = "/srv/{http.request.host}/www{http.request.uri.path}";
        for (name, uri, expected) in [
            ("a.example", "/x/y", Some("/srv/a.example/www/x/y")),
            ("..a", "/x..y/...", Some("/srv/..a/www/x..y/...")),
            ("...", "/", Some("/srv/.../www/")),
            (".", "/x", None),
            ("..", "/x", None),
            ("", "/x", None),
            ("a/b", "/x", None),
            ("/", "/x", None),
            ("a\0", "/x", None),
            ("a", "/x\0", None),
            ("a", "/../x", Some("/srv/a/www/x")),
            ("a", "/x/..", Some("/srv/a/www/")),
            ("a", "/x/./y", Some("/srv/a/www/x/y")),
            ("a", "/../../..", Some("/srv/a/www/")),
            ("a", "x/../../y", None),
            ("a", "", Some("/srv/a/www")),
            ("a", "//x", Some("/srv/a/www//x")),
        ] {
            assert_eq!(path(root, name, uri).as_deref(), expected, "{name:?} {uri}");
        }
    }

    #[test]
    fn components_count_however_many_texts_they_are_made_of() {
        let both = "/srv/{http.request.host}{http.request.uri.path}";
        assert_eq!(path(both, ".", "."), None);
        assert_eq!(path("/srv/.{http.request.host}/x", ".", ""), None);
        assert_eq!(
            path("/srv/.{http.request.host}/x", "", "").as_deref(),
            Some("/srv/./x")
        );
        assert_eq!(path("/srv/{http.request.host}./x", ".", ""), None);
        assert_eq!(path("{http.request.host}", "..", ""), None);
        let around = "/srv/a{http.request.host}b";
        assert_eq!(path(around, "..", "").as_deref(), Some("/srv/a..b"));
        assert_eq!(path(around, "", "").as_deref(), Some("/srv/ab"));
        assert_eq!(path("{http.request.host}/x", "", "").as_deref(), Some("/x"));
        assert_eq!(path("/srv/{nobody}/x", "", ""), None);
    }

    #[test]
    fn headers_from_the_configuration_are_left_alone() {
        let own = "/srv/../{env.X}/./x{http.request.host}";
        assert_eq!(path(own, "", "").as_deref(), Some("/srv/../../own/././x"));
    }

    #[test]
    fn variables_remember_what_they_were_made_of() {
        let traced = |text: &str, name| {
            let mut out = Vec::new();
            let template = Template::parse(text).unwrap();
            let provenance = template.expand_traced(&Four(name, "/x"), &mut out);
            (provenance, String::from_utf8(out).unwrap())
        };
        for (text, name, provenance, value) in [
            ("/srv", "", Provenance::Configured, "/srv"),
            ("/srv/{env.X}", "", Provenance::Configured, "/srv/../own/."),
            ("{http.request.host}", "a/b", Provenance::Name, "a/b"),
            ("{http.request.uri.path}", "", Provenance::Path, "/x"),
            ("/srv/{http.request.host}", "a", Provenance::Path, "/srv/a"),
            (
                "/srv/{http.request.host}",
                "..",
                Provenance::Unfit,
                "/srv/..",
            ),
            (
                "/srv/{http.request.host}",
                "a/b",
                Provenance::Unfit,
                "/srv/a/b",
            ),
        ] {
            assert_eq!(
                traced(text, name),
                (provenance, value.into()),
                "{text} {name}"
            );
        }
    }
}
