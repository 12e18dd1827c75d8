//! `valid_referers`: checks the `Referer` of a request.

use std::sync::Arc;

use sluice_model::nginx::VariableTable as Config;

use super::groups::{Case, Pattern};
use sluice_observe::Recorder;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::refusal::Refusal;

/// The accepted referers.
#[derive(Debug, Default)]
pub struct Referers {
    /// `none`: accept requests without `Referer`.
    none: bool,
    /// `blocked`: accept values that are not a URL, as left by a proxy or firewall.
    blocked: bool,
    hosts: Vec<Host>,
    patterns: Vec<Pattern>,
}

/// A host and the required prefix of its path.
#[derive(Debug)]
struct Host {
    name: Name,
    path: Box<[u8]>,
}

/// Names in lowercase.
#[derive(Debug, PartialEq, Eq)]
enum Name {
    Exact(Box<[u8]>),
    /// `*.a`: a suffix including its dot.
    Ending(Box<[u8]>),
    /// `.a`: the suffix, or the name itself.
    Both(Box<[u8]>),
    /// `a.*`: a prefix including its dot.
    Beginning(Box<[u8]>),
}

impl Referers {
    /// Parses the parameters of the directive, which are the keys of the rows.
    pub fn build(config: &Config, recorder: Option<&Arc<Recorder>>) -> Result<Referers, Refusal> {
        let mut referers = Referers::default();
        for row in &config.rows {
            match row.key.as_str() {
                "none" => referers.none = true,
                "blocked" => referers.blocked = true,
                key => match key.strip_prefix('~') {
                    Some(pattern) => {
                        let pattern =
                            Pattern::new("valid_referers", pattern, Case::Folded, recorder)?;
                        referers.patterns.push(pattern);
                    }
                    None => referers.hosts.push(Host::parse(key)),
                },
            }
        }
        // An exact name wins, then the longest match.
        referers
            .hosts
            .sort_by_key(|host| std::cmp::Reverse(host.name.weight()));
        Ok(referers)
    }

    /// Whether a request with this `Referer` is valid.
    ///
    /// # Errors
    /// A regular expression exceeds its match limit.
    pub fn welcome(&self, referer: &[u8]) -> Result<bool, Fault> {
        if referer.is_empty() {
            return Ok(self.none);
        }
        let behind = |scheme: &str| {
            let start = referer.get(..scheme.len())?;
            let is_it = start.eq_ignore_ascii_case(scheme.as_bytes());
            is_it.then(|| &referer[scheme.len()..])
        };
        let Some(rest) = behind("http://").or_else(|| behind("https://")) else {
            return Ok(self.blocked);
        };
        let end = memchr::memchr2(b'/', b':', rest).unwrap_or(rest.len());
        let name = rest[..end].to_ascii_lowercase();
        if let Some(host) = self.hosts.iter().find(|host| host.name.is(&name)) {
            let path = memchr::memchr(b'/', rest).map_or(&[][..], |at| &rest[at..]);
            return Ok(path.starts_with(&host.path));
        }
        for pattern in &self.patterns {
            if pattern.is_match(rest)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Host {
    fn parse(text: &str) -> Host {
        let (name, path) = match text.find('/') {
            Some(at) => text.split_at(at),
            None => (text, ""),
        };
        let lower = |text: &str| text.to_ascii_lowercase().into_bytes().into_boxed_slice();
        let name = match (name.strip_prefix('*'), name.strip_suffix('*')) {
            (Some(ending), _) => Name::Ending(lower(ending)),
            (None, Some(beginning)) => Name::Beginning(lower(beginning)),
            (None, None) if name.starts_with('.') => Name::Both(lower(name)),
            (None, None) => Name::Exact(lower(name)),
        };
        Host {
            name,
            path: path.as_bytes().into(),
        }
    }
}

impl Name {
    fn is(&self, name: &[u8]) -> bool {
        match self {
            Name::Exact(exact) => **exact == *name,
            Name::Ending(ending) => name.len() > ending.len() && name.ends_with(ending),
            Name::Both(ending) => name.ends_with(ending) || ending.get(1..) == Some(name),
            Name::Beginning(beginning) => {
                name.len() > beginning.len() && name.starts_with(beginning)
            }
        }
    }

    /// Sort order: exact names, then suffixes, then prefixes; longest first.
    fn weight(&self) -> (u8, usize) {
        match self {
            Name::Exact(_) => (2, 0),
            Name::Ending(text) | Name::Both(text) => (1, text.len()),
            Name::Beginning(text) => (0, text.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_model::nginx::TableRow;

    fn referers(words: &[&str]) -> Referers {
        let row = |word: &&str| TableRow {
            key: (*word).to_owned(),
            value: String::new(),
        };
        let config = Config {
            rows: words.iter().map(row).collect(),
            ..Config::default()
        };
        Referers::build(&config, None).expect("the words are right")
    }

    #[test]
    fn pages_of_ours_are_welcome() {
        let all = referers(&[
            "none",
            "blocked",
            "*.example.com",
            "example.*",
            "www.example.org/galleries/",
            ".both.test",
            "~\\.google\\.",
        ]);
        for good in [
            "",
            "hidden by a proxy",
            "http://a.example.com/x",
            "HTTPS://A.Example.Com:8080",
            "http://example.net",
            "http://www.example.org/galleries/1",
            "https://both.test/",
            "https://x.both.test",
            "http://www.google.co/search?q",
        ] {
            assert!(all.welcome(good.as_bytes()).unwrap(), "{good}");
        }
        for bad in [
            "http://other.test/",
            "http://www.example.org/",
            "http://www.example.org",
            "http://aboth.test/",
        ] {
            assert!(!all.welcome(bad.as_bytes()).unwrap(), "{bad}");
        }
        let few = referers(&["a.test"]);
        let welcome = |referer: &[u8]| few.welcome(referer).unwrap();
        assert!(!welcome(b"") && !welcome(b"junk") && welcome(b"http://a.test"));
    }
}
