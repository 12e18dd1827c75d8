//! Files that an nginx.conf includes, such as those of `conf.d` and `sites-available`: which block they belong into.

use sluice_diag::Span;

pub use crate::lower::invocation::Fragment;
use crate::registry::{self, Context};
use crate::tree::{Directive, Word};

impl Fragment {
    /// Where the directives at the top of a file belong; `None` for those of a whole nginx.conf, and where no block takes
    /// all of them.
    pub fn of(directives: &[Directive]) -> Option<Fragment> {
        if directives.is_empty() {
            return None;
        }
        let fits = |context| {
            let mut known = directives
                .iter()
                .filter(|directive| registry::is_known(directive.name()));
            known.all(|directive| {
                let mut entries = registry::entries(directive.name());
                entries.any(|entry| entry.may_stand_in(context))
            })
        };
        let is_whole = |directive: &Directive| matches!(directive.name(), "events" | "http");
        match directives.iter().any(is_whole) || fits(Context::Main) {
            true => None,
            false if fits(Context::Http) => Some(Fragment::Http),
            false if fits(Context::Server) => Some(Fragment::Server),
            false => None,
        }
    }

    /// A minimal nginx.conf around the directives.
    pub(crate) fn wrap(self, directives: Vec<Directive>) -> Vec<Directive> {
        let Some(place) = directives.first().map(|first| first.name.clone()) else {
            return directives;
        };
        let at = Span::new(place.span.source, place.span.start, place.span.start);
        let word = |text: &str| Word {
            text: text.to_owned(),
            span: at,
            import: place.import,
        };
        let block = |name: &str, args: &[&str], block| Directive {
            name: word(name),
            args: args.iter().map(|arg| word(arg)).collect(),
            block,
        };
        let inner = match self {
            Fragment::Http => directives,
            Fragment::Server => vec![block("server", &[], Some(directives))],
        };
        let connections = block("worker_connections", &["10000"], None);
        vec![
            block("events", &[], Some(vec![connections])),
            block("http", &[], Some(inner)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryLoader;

    #[test]
    fn files_belong_into_blocks() {
        for (text, expected) in [
            ("server { listen 80; }", Some(Fragment::Http)),
            (
                "upstream u { server a; } map $a $b { }",
                Some(Fragment::Http),
            ),
            ("location / { }", Some(Fragment::Server)),
            ("listen 80; server_name a;", Some(Fragment::Server)),
            ("events {}", None),
            ("user a; http { }", None),
            ("worker_processes 1;", None),
            ("load_module a;", None),
            ("", None),
        ] {
            let parsed = crate::parse("a.conf", text, &MemoryLoader::default());
            assert_eq!(Fragment::of(&parsed.directives), expected, "{text}");
        }
    }

    #[test]
    fn a_fragment_is_checked_in_its_block() {
        let adapted = |text: &str, within| {
            let invocation = crate::Invocation {
                within: Some(within),
                ..crate::Invocation::default()
            };
            let loader = MemoryLoader::default();
            let report = crate::adapt_as("a.conf", text, &invocation, &loader).report;
            report.short()
        };
        assert_eq!(adapted("server { listen 80; }", Fragment::Http), "");
        assert_eq!(adapted("location / { return 204; }", Fragment::Server), "");
        let said = adapted("server { lisen 80; }", Fragment::Http);
        assert!(
            said.contains("a.conf:1:10") && said.contains("lisen"),
            "{said}"
        );
    }
}
