//! Request headers with an underscore or a dot in their name. Applications that read headers as CGI variables cannot
//! distinguish `Remote_User` and `Remote.User` from `Remote-User`, so a client could spoof one with the other. As in
//! Caddy, sites of a Caddyfile drop all of them except those the configuration expects; servers of an nginx.conf have
//! `underscores_in_headers`.

use sluice_message::{FieldId, Fields};
use sluice_model::Server;

/// The names that the configuration expects although they contain an underscore or a dot.
#[derive(Debug, Default)]
pub struct ExpectedNames {
    underscore: Vec<Pattern>,
    dot: Vec<Pattern>,
}

/// A header name or a prefix of header names.
#[derive(Debug)]
struct Pattern {
    text: Box<[u8]>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Name,
    Prefix,
}

impl ExpectedNames {
    /// The expected names of a server.
    pub fn build(server: &Server) -> ExpectedNames {
        let patterns = |names: &[String]| names.iter().map(|name| Pattern::new(name)).collect();
        ExpectedNames {
            underscore: patterns(&server.expected_underscore_headers),
            dot: patterns(&server.expected_dot_headers),
        }
    }

    /// Removes the other headers, and those that an application could mistake for an expected one: if `User_Id` is
    /// expected, `User-Id` is removed.
    pub fn retain(&self, fields: &mut Fields) {
        let is_plain = self.underscore.is_empty() && self.dot.is_empty();
        let may_stay = |id, name: &[u8]| {
            let is_odd = id == FieldId::Other && memchr::memchr2(b'_', b'.', name).is_some();
            match is_odd {
                true => self.expects(name),
                false => is_plain || !self.is_alias(name),
            }
        };
        if fields.iter().any(|field| !may_stay(field.id, field.name)) {
            fields.retain(|field| may_stay(field.id, field.name));
        }
    }

    /// Whether a name with an underscore or a dot is expected.
    fn expects(&self, name: &[u8]) -> bool {
        let has = |sign, patterns: &[Pattern]| {
            !name.contains(&sign) || patterns.iter().any(|pattern| pattern.matches(name))
        };
        has(b'_', &self.underscore) && has(b'.', &self.dot)
    }

    fn is_alias(&self, name: &[u8]) -> bool {
        let mut patterns = self.underscore.iter().chain(&self.dot);
        patterns.any(|pattern| pattern.is_alias(name))
    }
}

impl Pattern {
    fn new(text: &str) -> Pattern {
        let (text, kind) = match text.strip_suffix('*') {
            Some(start) => (start, Kind::Prefix),
            None => (text, Kind::Name),
        };
        Pattern {
            text: text.as_bytes().into(),
            kind,
        }
    }

    fn matches(&self, name: &[u8]) -> bool {
        self.part_of(name)
            .is_some_and(|part| part.eq_ignore_ascii_case(&self.text))
    }

    fn is_alias(&self, name: &[u8]) -> bool {
        self.part_of(name)
            .is_some_and(|part| is_alias(part, &self.text))
    }

    /// The part of `name` to compare.
    fn part_of<'a>(&self, name: &'a [u8]) -> Option<&'a [u8]> {
        match self.kind {
            Kind::Name => Some(name),
            Kind::Prefix => name.get(..self.text.len()),
        }
    }
}

/// Whether a name contains a character other than letters, digits and `-`, which some applications normalize. Known
/// headers never do.
pub fn is_odd(id: FieldId, name: &[u8]) -> bool {
    id == FieldId::Other
        && name
            .iter()
            .any(|byte| !byte.is_ascii_alphanumeric() && *byte != b'-')
}

/// Whether two different names are the same to an application that reads headers as CGI variables: all characters other
/// than letters and digits are replaced (RFC 3875, section 4.1.18; PHP and others replace more than `-`).
pub fn is_alias(name: &[u8], of: &[u8]) -> bool {
    let same = |(a, b): (&u8, &u8)| match (a.is_ascii_alphanumeric(), b.is_ascii_alphanumeric()) {
        (true, true) => a.eq_ignore_ascii_case(b),
        (false, false) => true,
        (true, false) | (false, true) => false,
    };
    name.len() == of.len() && name.iter().zip(of).all(same) && !name.eq_ignore_ascii_case(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(server: &Server, names: &[&str]) -> Vec<String> {
        let mut fields = Fields::new();
        for name in names {
            fields.push_raw(FieldId::of(name.as_bytes()), name.as_bytes(), b"1");
        }
        ExpectedNames::build(server).retain(&mut fields);
        let names = fields
            .iter()
            .map(|field| String::from_utf8_lossy(field.name).into_owned());
        names.collect()
    }

    #[test]
    fn odd_names_go_unless_they_are_expected() {
        let names = [
            "Accept", "X-A", "X_A", "X.A", "x_b", "X-B", "Hook_1", "Hook-2", "Hook_3.4", "T.a",
            "T_a",
        ];
        assert_eq!(
            kept(&Server::default(), &names),
            ["Accept", "X-A", "X-B", "Hook-2"]
        );
        let server = Server {
            expected_underscore_headers: vec!["X_B".into(), "hook_*".into()],
            expected_dot_headers: vec!["t.A".into()],
            ..Server::default()
        };
        assert_eq!(
            kept(&server, &names),
            ["Accept", "X-A", "x_b", "Hook_1", "T.a"]
        );
    }

    #[test]
    fn names_are_aliases_where_cgi_makes_them_one() {
        for (name, expected) in [
            ("Remote_User", true),
            ("remote.user", true),
            ("REMOTE~USER", true),
            ("Remote-User", false),
            ("remote-user", false),
            ("RemoteUser", false),
            ("Remote_Users", false),
            ("Remote-xUser", false),
        ] {
            assert_eq!(
                is_alias(name.as_bytes(), b"Remote-User"),
                expected,
                "{name}"
            );
        }
    }
}
