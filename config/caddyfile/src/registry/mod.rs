//! The vocabulary of a Caddyfile: every directive, option, matcher and short placeholder, with its syntax and a
//! verdict. Messages and the user guide are generated from these tables; `lower` translates the words.

mod directives;
mod global_options;
mod options;
pub mod placeholders;
mod running;

pub use directives::{DIRECTIVE_ORDER, DIRECTIVES};
pub use global_options::GLOBAL_OPTIONS;
pub use options::OPTIONS;
pub use running::{GAPS, Gap, Running, running};

/// What becomes of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is lowered to the model.
    Lowered,
    /// It is lowered, with a warning: it has a new name.
    Renamed(&'static str),
    /// It is refused by name; says what to do instead.
    Unsupported(&'static str),
    /// As `Unsupported`; no released Caddy takes it either.
    Unreleased(&'static str),
    /// As `Unsupported`; Caddy as it is released refuses it, too, for it needs a plugin.
    Plugin(&'static str),
}

/// The diagnostic for a word that is known and rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Why, in a few words.
    pub why: &'static str,
    /// What to do instead.
    pub instead: &'static str,
}

impl Verdict {
    /// The diagnostic for a rejected word; `None` if the word is not rejected.
    pub fn refused(self) -> Option<Refused> {
        let (why, instead) = match self {
            Verdict::Lowered | Verdict::Renamed(_) => return None,
            Verdict::Unsupported(instead) => ("known, but not built", instead),
            Verdict::Unreleased(instead) => ("in no released Caddy", instead),
            Verdict::Plugin(instead) => ("needs a plugin in Caddy, too", instead),
        };
        Some(Refused { why, instead })
    }

    /// Whether Caddy as it is released knows the word. Only what it knows is counted.
    pub fn is_counted(self) -> bool {
        !matches!(self, Verdict::Unreleased(_) | Verdict::Plugin(_))
    }
}

/// A directive.
#[derive(Clone, Copy, Debug)]
pub struct Directive {
    /// Its name.
    pub name: &'static str,
    /// How it is written.
    pub usage: &'static str,
    /// What becomes of it.
    pub verdict: Verdict,
}

/// An option, or a matcher.
#[derive(Clone, Copy, Debug)]
pub struct OptionEntry {
    /// The directive, matcher or option around it.
    pub place: &'static str,
    /// Its name.
    pub name: &'static str,
    /// How it is written.
    pub usage: &'static str,
    /// What becomes of it.
    pub verdict: Verdict,
}

/// Directives and places that Caddy itself does not have: ours, and those of plugins that people know.
pub const OWN: &[&str] = &[
    "buffer_folder",
    "circuit_breaker",
    "coalesce",
    "in_flight",
    "lb_bounded_load",
    "lb_slow_start",
    "max_ejected",
    "min_data_rate",
    "rate_limit",
    "transport scgi",
    "transport uwsgi",
    "zone",
];

/// Finds a directive.
pub fn directive(name: &str) -> Option<&'static Directive> {
    DIRECTIVES.iter().find(|entry| entry.name == name)
}

fn entries() -> impl Iterator<Item = &'static OptionEntry> {
    OPTIONS.iter().chain(GLOBAL_OPTIONS)
}

/// What becomes of an option in some place; `None` if it has no such option.
pub fn option(place: &str, name: &str) -> Option<Verdict> {
    let found = entries().find(|entry| entry.place == place && entry.name == name);
    found.map(|entry| entry.verdict)
}

/// The names of the options in some place that are lowered.
pub fn option_names(place: &str) -> Vec<&'static str> {
    let lowered = |entry: &&OptionEntry| entry.place == place && entry.verdict == Verdict::Lowered;
    entries().filter(lowered).map(|entry| entry.name).collect()
}

/// The directive that has an option of this name, if only one has.
pub fn owner_of(name: &str) -> Option<&'static str> {
    let owns = |entry: &&OptionEntry| entry.name == name && directive(entry.place).is_some();
    let mut owners = OPTIONS.iter().filter(owns).map(|entry| entry.place);
    match (owners.next(), owners.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    }
}

/// How a line is written: an option of the place, or the directive itself.
pub fn usage(place: &str, name: &str) -> Option<&'static str> {
    let option = entries().find(|entry| entry.place == place && entry.name == name);
    match option {
        Some(entry) => Some(entry.usage),
        None if place == name => directive(name).map(|entry| entry.usage),
        None => None,
    }
}

/// What to write instead of a word from another language or an older version.
pub fn old_name(name: &str) -> Option<&'static str> {
    OLD_NAMES
        .iter()
        .find(|(old, _)| *old == name)
        .map(|(_, help)| *help)
}

/// Words of Caddy 0 and 1 and of other servers, with what to write instead.
const OLD_NAMES: &[(&str, &str)] = &[
    ("browse", "write `file_server browse`"),
    (
        "errors",
        "write `handle_errors` for error pages, `log` for a log file",
    ),
    ("ext", "write `try_files {path} {path}.html`"),
    (
        "fastcgi",
        "write `php_fastcgi`, or `reverse_proxy` with `transport fastcgi`",
    ),
    ("gzip", "write `encode gzip`"),
    ("import_once", "write `import`"),
    (
        "listen",
        "write the address in front of the site block, or `bind`",
    ),
    ("location", "write `handle <path>` or `route <path>`"),
    ("mime", "write `header <matcher> Content-Type <type>`"),
    ("proxy", "write `reverse_proxy`"),
    ("proxy_pass", "write `reverse_proxy`"),
    ("server_name", "write the name in front of the site block"),
    ("status", "write `respond <status>`"),
    (
        "websocket",
        "write `reverse_proxy`: WebSocket passes through it",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ordered_name_is_a_directive() {
        for name in DIRECTIVE_ORDER {
            assert!(directive(name).is_some(), "{name}");
        }
    }

    #[test]
    fn names_are_unique_in_their_place() {
        let all: Vec<_> = entries().map(|entry| (entry.place, entry.name)).collect();
        for (at, key) in all.iter().enumerate() {
            assert!(!all[..at].contains(key), "{key:?}");
        }
    }
}
