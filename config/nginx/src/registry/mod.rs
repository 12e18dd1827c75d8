//! The vocabulary of an nginx.conf: every documented directive and sluice's own few, with its contexts and a verdict.
//! Messages and `docs/reference/nginx-directives.md` are generated from it; the file of a module lowers its directives.

pub mod variables;

use std::collections::HashMap;
use std::sync::LazyLock;

pub use crate::context::Context;
use crate::definition::LowerContent;
pub use crate::definition::{Definition, MANY, Repeats, Takes, Verdict};
use crate::modules::{self, Module};

/// A documented directive of one module.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The module, such as `ngx_http_core_module`.
    pub module: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Whether only the commercial edition has it.
    pub is_commercial: bool,
    /// Whether it is ours: nginx does not know it.
    pub is_ours: bool,
    /// The places where it may stand, separated by commas.
    pub contexts: &'static str,
    /// How it is written.
    pub syntax: &'static str,
    /// How its module here defines it, if it does.
    pub definition: Option<&'static Definition>,
}

impl Entry {
    /// What becomes of it.
    pub fn verdict(&self) -> Verdict {
        if let Some(definition) = self.definition {
            return definition.verdict;
        }
        let reason = REFUSED_MODULES
            .iter()
            .find(|(module, _)| self.module.starts_with(module));
        match reason {
            Some((_, reason)) => Verdict::Refused(reason),
            None if self.is_commercial => Verdict::Refused("only in nginx Plus"),
            None => Verdict::NotYet,
        }
    }
    /// Whether it is one of nginx's web server: not of its mail proxy, its proxy of streams or its reports.
    pub fn is_of_http(&self) -> bool {
        !["ngx_stream", "ngx_mail", "ngx_mgmt"]
            .iter()
            .any(|other| self.module.starts_with(other))
    }

    /// Whether it may stand there.
    pub fn may_stand_in(&self, context: Context) -> bool {
        let places = self.contexts.split(',');
        (self.is_of_http() || context == Context::Main)
            && (self.contexts.is_empty() || places.into_iter().any(|place| context.is(place)))
    }
}

/// Modules that will not come, by the beginnings of their names, with the reasons.
const REFUSED_MODULES: &[(&str, &str)] = &[
    ("ngx_http_perl", "sluice does not run Perl"),
    ("ngx_http_js", "sluice does not run JavaScript"),
    ("ngx_stream_js", "sluice does not run JavaScript"),
    (
        "ngx_http_xslt",
        "sluice does not process XSLT; let the application do it",
    ),
    (
        "ngx_http_image_filter",
        "sluice does not transform images; let the application do it",
    ),
    ("ngx_mail", "sluice is not a mail proxy"),
    (
        "ngx_http_mp4",
        "players request ranges of plain files, which sluice serves",
    ),
    (
        "ngx_http_flv",
        "players request ranges of plain files, which sluice serves",
    ),
    ("ngx_http_f4f", "only in nginx Plus"),
    ("ngx_http_hls", "only in nginx Plus"),
    (
        "ngx_http_geoip",
        "its databases are no longer published; use `geo` or `map`",
    ),
    (
        "ngx_stream_geoip",
        "its databases are no longer published; use `geo` or `map`",
    ),
    ("ngx_mgmt", "it reports usage to the vendor of nginx Plus"),
    (
        "ngx_http_status_module",
        "removed from nginx; use `stub_status`",
    ),
    ("ngx_http_upstream_conf", "removed from nginx"),
];

/// All documented directives.
pub static ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    let lines = include_str!("directives.tsv").lines().skip(1);
    lines.filter_map(entry).collect()
});

static BY_NAME: LazyLock<HashMap<&'static str, Vec<usize>>> = LazyLock::new(|| {
    let mut by_name: HashMap<&'static str, Vec<usize>> = HashMap::new();
    for (index, entry) in ENTRIES.iter().enumerate() {
        by_name.entry(entry.name).or_default().push(index);
    }
    by_name
});

fn entry(line: &'static str) -> Option<Entry> {
    let mut cells = line.split('\t');
    let (module, name, edition) = (cells.next()?, cells.next()?, cells.next()?);
    let contexts = cells.next()?;
    let syntax = cells.nth(2).unwrap_or_default();
    Some(Entry {
        module,
        name,
        is_commercial: edition == "PLUS",
        is_ours: edition == "SLUICE",
        contexts,
        syntax,
        definition: modules::module(module).and_then(|module| module.definition(name)),
    })
}

/// Whether any module has a directive of this name.
pub fn is_known(name: &str) -> bool {
    BY_NAME.contains_key(name)
}

/// Whether directives of this module do what its documentation says, if only in part.
pub fn is_built(module: &str) -> bool {
    let mut found = modules::module(module)
        .into_iter()
        .flat_map(Module::definitions);
    found.any(|found| matches!(found.verdict, Verdict::Works | Verdict::Partly(_)))
}

/// The directives of this name.
pub fn entries(name: &str) -> impl Iterator<Item = &'static Entry> {
    let found = BY_NAME.get(name).map(Vec::as_slice).unwrap_or_default();
    found.iter().map(|index| &ENTRIES[*index])
}

/// How the directive of this name is lowered if it sets the content handler.
pub fn content(name: &str) -> Option<LowerContent> {
    let mut definitions = entries(name).filter_map(|entry| entry.definition);
    definitions.find_map(|definition| definition.content)
}

/// The names of the directives that may stand there.
pub fn names_in(context: Context) -> impl Iterator<Item = &'static str> {
    ENTRIES
        .iter()
        .filter(move |entry| entry.may_stand_in(context))
        .map(|entry| entry.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_directive_of_the_documentation_is_there() {
        // Those of the documentation, `post_action`, which it does not have, and those of sluice:
        // `certificate_storage`, `dashboard_actions`, `min_data_rate`, `memory_limit`, `overload` and `request_id`, and
        // `cache_peers` and `cache_purge_storage` of the four modules with a cache.
        assert_eq!(ENTRIES.len(), 975 + 1 + 6 + 4 * 2);
        let plus = ENTRIES.iter().filter(|entry| entry.is_commercial).count();
        assert_eq!(plus, 130);
    }

    #[test]
    fn every_definition_of_a_module_is_a_directive_of_it() {
        for module in modules::ALL {
            for definition in module.definitions() {
                let name = format!("{}{}", module.prefix, definition.name);
                let found = entries(&name).any(|entry| entry.module == module.name);
                assert!(found, "{} has no `{name}`", module.name);
                let mut others = module.definitions();
                let same = others
                    .by_ref()
                    .filter(|other| other.name == definition.name);
                assert_eq!(same.count(), 1, "{name}");
            }
        }
    }

    #[test]
    fn contexts_are_distinguished() {
        let may = |name: &str, context| entries(name).any(|entry| entry.may_stand_in(context));
        assert!(may("server", Context::Http) && may("server", Context::Upstream));
        assert!(may("return", Context::IfInServer) && !may("root", Context::IfInServer));
        assert!(may("root", Context::IfInLocation) && may("include", Context::Events));
        assert!(!may("worker_processes", Context::Server) && may("mail", Context::Main));
    }
}
