//! The state of one lowering, and what modules ask of it.

use std::collections::{BTreeMap, HashMap};

use sluice_diag::{Diagnostic, Origin, OriginId, Origins, Report, Span};
use sluice_model::cache::CacheStore;
use sluice_model::http::RouteOrigin;
use sluice_model::nginx::{ClientLimits, MediaTypes, TableRow, VariableTable};
use sluice_model::proxy::ResponseTests;
use sluice_route::pcre::{Case, Pattern, Wrong};

use super::charsets::Charsets;
use super::facts_of_places::FactsOfPlaces;
use super::invocation::Invocation;
use super::log_files::{AccessLogs, ErrorLogs};
use super::text::{self, Defined, Facts};
use crate::tree::{Directive, Word};

/// The cache directories of a configuration, by module and zone.
pub type Stores = BTreeMap<(&'static str, String), CacheStore>;

/// The state of one lowering.
pub struct Lowering<'r> {
    /// What was noticed.
    pub report: &'r mut Report,
    /// The folder that paths are relative to.
    pub(super) folder: &'r str,
    /// What the command line adds.
    pub invocation: &'r Invocation,
    pub(super) defined: Defined,
    pub(super) groups: BTreeMap<&'r str, &'r Directive>,
    /// The directives of `http`.
    pub(super) http: &'r [Directive],
    pub(super) types: Vec<MediaTypes>,
    /// The files of access logs; the logger of each has its number.
    pub(super) access_logs: AccessLogs,
    /// Whether there are files of access logs that each line names anew.
    pub names_log_files: bool,
    /// What holds for clients in different places.
    pub(super) client_limits: Vec<ClientLimits>,
    /// What `error_log` says in different places; first that of the process.
    pub(super) error_logs: Vec<ErrorLogs>,
    pub(super) tables: Vec<VariableTable>,
    /// The ways in which paths of scripts are split.
    pub(super) scripts: Vec<Script>,
    /// The cache directories.
    pub(super) stores: Stores,
    /// The tests of health checks, by name.
    pub(super) response_tests: BTreeMap<String, ResponseTests>,
    /// Whether any location has health checks: the groups must then share the state of their servers.
    pub has_health_checks: bool,
    /// Tables that follow from places, and whether a variable asks for them.
    pub(super) derived: Vec<(VariableTable, bool)>,
    /// Where each of them is.
    pub(super) derived_known: HashMap<String, usize>,
    /// The encodings of texts.
    pub charsets: Charsets,
    /// Whether any place has pages with commands.
    pub has_pages: bool,
    /// Whether a variable asks for what clients offer in their handshakes.
    pub(super) keeps_offers: bool,
    /// The facts of places, for variables that texts of every place use.
    pub(super) facts_of_places: FactsOfPlaces,
    /// Where the parts of the model were written.
    pub(super) origins: Origins,
}

/// A way in which paths of scripts are split: `fastcgi_index` and `fastcgi_split_path_info`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// What is added to a path that ends with a slash.
    pub index: String,
    /// The pattern with two groups, if there is any.
    pub split: String,
    /// Whether a variable asks for it.
    pub is_used: bool,
}

/// Whether a directive of this name is in these blocks, or in blocks inside of them.
fn has(directives: &[Directive], name: &str) -> bool {
    directives
        .iter()
        .any(|directive| directive.name() == name || has(directive.body(), name))
}

impl<'r> Lowering<'r> {
    /// The state before anything is lowered. `defined` are the variables that the configuration sets, `folder` is the one
    /// that paths are relative to.
    pub(super) fn new(
        directives: &'r [Directive],
        defined: Defined,
        folder: &'r str,
        invocation: &'r Invocation,
        report: &'r mut Report,
    ) -> Self {
        let mut groups = BTreeMap::new();
        for http in directives.iter().filter(|d| d.name() == "http") {
            let found = http.body().iter().filter(|d| d.name() == "upstream");
            groups.extend(found.filter_map(|group| Some((group.arg(0)?, group))));
        }
        let http = directives.iter().find(|d| d.name() == "http");
        let mut charsets = Charsets::default();
        charsets.note(directives);
        Lowering {
            report,
            folder,
            invocation,
            defined,
            groups,
            http: http.map_or(&[], Directive::body),
            types: Vec::new(),
            access_logs: AccessLogs::default(),
            names_log_files: false,
            client_limits: Vec::new(),
            error_logs: Vec::new(),
            tables: Vec::new(),
            scripts: Vec::new(),
            stores: Stores::new(),
            response_tests: BTreeMap::new(),
            has_health_checks: has(directives, "health_check"),
            derived: Vec::new(),
            derived_known: HashMap::new(),
            charsets,
            has_pages: false,
            keeps_offers: false,
            facts_of_places: FactsOfPlaces::default(),
            origins: Origins::default(),
        }
    }

    /// Notes that a part of the model was written as this directive.
    pub fn origin(&mut self, directive: &Directive) -> RouteOrigin {
        RouteOrigin(vec![self.origin_id(directive)])
    }

    /// As [`Self::origin`], by its number.
    pub fn origin_id(&mut self, directive: &Directive) -> OriginId {
        self.origins.add(Origin {
            name: directive.name().to_owned(),
            place: directive.place(),
            conditions: Vec::new(),
        })
    }

    /// A text with its variables as placeholders.
    pub fn text(&mut self, word: &Word, facts: &Facts) -> String {
        let text = text::lower(word, facts, &self.defined, self.report);
        self.note_use(&text, facts);
        text
    }

    /// Notes what a text asks for.
    pub fn note_use(&mut self, text: &str, facts: &Facts) {
        if let Some(number) = facts.script
            && text.contains("{nginx.table.fastcgi_")
        {
            self.scripts[number].is_used = true;
        }
        self.note_tables(text);
    }

    /// The row of a place in the tables about places.
    pub(super) fn facts_row(&mut self, facts: &Facts) -> u32 {
        let (row, texts) = self.facts_of_places.row(facts);
        for text in texts {
            self.note_use(&text, facts);
        }
        row
    }

    /// Notes which tables a text asks for: the others are left out.
    fn note_tables(&mut self, text: &str) {
        let of_offer = [
            "{nginx.tls.ciphers}",
            "{nginx.tls.curves}",
            "{nginx.tls.id}",
        ];
        self.keeps_offers |= of_offer.iter().any(|name| text.contains(name));
        for (at, start) in text.match_indices("{nginx.table.derived:") {
            let digits = text[at + start.len()..].split('}').next();
            if let Some(number) = digits.and_then(|digits| digits.parse::<usize>().ok())
                && let Some((_, is_used)) = self.derived.get_mut(number)
            {
                *is_used = true;
            }
        }
        for (at, start) in text.match_indices("{nginx.table.connections:") {
            let what = text[at + start.len()..].split('}').next();
            let what = what.unwrap_or_default().to_owned();
            let number = self.derived_number(VariableTable {
                variable: format!("connections:{what}"),
                kind: "connections".to_owned(),
                rows: vec![TableRow {
                    key: what,
                    value: String::new(),
                }],
                ..VariableTable::default()
            });
            self.derived[number].1 = true;
        }
    }

    /// The number of a table that follows from a place. It is named by it unless it has a name.
    pub fn derived_number(&mut self, table: VariableTable) -> usize {
        let key = format!("{table:?}");
        if let Some(number) = self.derived_known.get(&key) {
            return *number;
        }
        let number = self.derived.len();
        let variable = match table.variable.as_str() {
            "" => text::derived_table(number),
            named => named.to_owned(),
        };
        self.derived
            .push((VariableTable { variable, ..table }, false));
        self.derived_known.insert(key, number);
        number
    }

    /// Checks a pattern.
    pub fn pattern(&mut self, pattern: &str, word: &Word) -> String {
        if let Err(error) = Pattern::new(pattern, Case::Kept) {
            let span = self.inside(word, pattern, error.at);
            let bare = pattern.strip_prefix("(?i)").unwrap_or(pattern);
            let (title, help) = match &error.what {
                Wrong::Malformed(_) => (
                    format!("`{bare}` is not a valid pattern"),
                    "patterns are those of PCRE; quote one that has `{`, `}`, `;` or spaces in it",
                ),
                Wrong::Unsupported(what) => (
                    format!("`{bare}`: {what} is not supported in patterns"),
                    "look arounds, references to groups, atomic groups and possessive repetitions are taken",
                ),
            };
            self.report.push(
                Diagnostic::error("invalid-pattern", title)
                    .at(span, error.to_string())
                    .imported(word.import)
                    .help(help),
            );
        }
        pattern.to_owned()
    }

    /// Where the byte `at` of `text` stands, which is the end of a word or all of it; the word where its escapes hide that.
    fn inside(&self, word: &Word, text: &str, at: usize) -> Span {
        let bare = text.strip_prefix("(?i)").unwrap_or(text);
        let added = text.len() - bare.len();
        let written = self.report.sources.text(word.span);
        let found = written.rfind(bare).and_then(|start| {
            let before = start + at.checked_sub(added)?;
            let rest = written.get(before..)?;
            Some((
                before,
                rest.chars()
                    .next()
                    .map_or(0, |letter| letter.len_utf8() as u32),
            ))
        });
        match found {
            Some((before, width)) => {
                let start = word.span.start + u32::try_from(before).unwrap_or_default();
                Span::new(word.span.source, start, start + width)
            }
            None => word.span,
        }
    }

    /// A path of the configuration: relative ones begin in the folder of the main file.
    pub fn path(&self, path: &str) -> String {
        match path.starts_with(['/', '$']) || self.folder.is_empty() {
            true => path.to_owned(),
            false => format!("{}/{path}", self.folder),
        }
    }

    /// The folder of the file, where paths of certificates begin; empty for the current one.
    pub fn folder(&self) -> &'r str {
        self.folder
    }

    /// A path of files that are served or written: relative ones begin in the prefix of the command line.
    pub fn prefixed(&self, path: &str) -> String {
        match &self.invocation.prefix {
            Some(prefix) if !path.starts_with(['/', '$']) => {
                format!("{}/{path}", prefix.trim_end_matches('/'))
            }
            _ => self.path(path),
        }
    }

    /// Refuses a word.
    pub fn invalid<T>(&mut self, word: &Word, of: &str, wanted: &str) -> Option<T> {
        let title = format!("`{}` is not a valid value for `{of}`", word.text);
        self.report.push(
            Diagnostic::error("invalid-value", title)
                .at(word.span, "not understood")
                .imported(word.import)
                .help(format!("it takes {wanted}")),
        );
        None
    }

    /// The `upstream` block of this name.
    pub fn upstream_block(&self, name: &str) -> Option<&'r Directive> {
        self.groups.get(name).copied()
    }

    /// What is said directly in `http`.
    pub fn of_http(&self, name: &str) -> Option<&'r Directive> {
        self.http.iter().find(|line| line.name() == name)
    }

    /// Whether an address of the kinds without a usual port has one, or names a group.
    pub fn has_port(&mut self, name: &str, word: &Word, of: &str) -> Option<()> {
        let after_brackets = name.rfind(']').map_or(name, |at| &name[at..]);
        if after_brackets.contains(':') || self.groups.contains_key(name) {
            return Some(());
        }
        self.invalid(
            word,
            of,
            "`host:port`, `unix:/path` or the name of an `upstream`",
        )
    }

    /// Whether anything in the configuration sets this variable.
    pub fn is_set(&self, name: &str) -> bool {
        self.defined.has(name)
    }

    /// The names of all groups of upstreams.
    pub fn group_names(&self) -> Vec<String> {
        self.groups.keys().map(|name| (*name).to_owned()).collect()
    }

    /// The number of a way in which paths of scripts are split.
    pub fn script_number(&mut self, script: Script) -> usize {
        let is_same = |known: &Script| known.index == script.index && known.split == script.split;
        let known = self.scripts.iter().position(is_same);
        known.unwrap_or_else(|| {
            self.scripts.push(script);
            self.scripts.len() - 1
        })
    }

    /// The `match` block of this name.
    pub fn response_tests(&self, name: &str) -> Option<ResponseTests> {
        self.response_tests.get(name).cloned()
    }

    /// The cache directory of a module's zone.
    pub fn store(&self, module: &'static str, zone: &str) -> Option<CacheStore> {
        self.stores.get(&(module, zone.to_owned())).cloned()
    }

    /// All stores of a module's caches, by zone.
    pub fn stores_of(&self, module: &str) -> Vec<(String, CacheStore)> {
        let stores = self.stores.iter();
        let own = stores.filter(|((of, _), _)| *of == module);
        own.map(|((_, zone), store)| (zone.clone(), store.clone()))
            .collect()
    }

    /// All variables that are looked up.
    pub(super) fn all_tables(&self) -> Vec<VariableTable> {
        let mut tables = self.tables.clone();
        let derived = self.derived.iter().filter(|(_, is_used)| *is_used);
        tables.extend(derived.map(|(table, _)| table.clone()));
        tables.extend(self.facts_of_places.tables());
        for (number, script) in self.scripts.iter().enumerate() {
            let table = |variable: String, kind: &str| VariableTable {
                variable,
                source: "{http.request.uri.path}".to_owned(),
                kind: kind.to_owned(),
                rows: vec![TableRow {
                    key: script.split.clone(),
                    value: text::literal(&script.index),
                }],
                ..VariableTable::default()
            };
            if script.is_used {
                tables.push(table(text::script_table(number), "script"));
                tables.push(table(text::info_table(number), "path_info"));
            }
        }
        tables
    }

    /// The number of these media types.
    pub fn types_number(&mut self, types: MediaTypes) -> u32 {
        let known = self.types.iter().position(|known| *known == types);
        let index = known.unwrap_or_else(|| {
            self.types.push(types);
            self.types.len() - 1
        });
        u32::try_from(index).unwrap_or(u32::MAX)
    }

    /// The number of what holds for clients; 0 for what nginx has by default.
    pub fn client_limits_number(&mut self, limits: ClientLimits) -> u32 {
        if limits == ClientLimits::default() {
            return 0;
        }
        let known = self.client_limits.iter().position(|known| *known == limits);
        let index = known.unwrap_or_else(|| {
            self.client_limits.push(limits);
            self.client_limits.len() - 1
        });
        u32::try_from(index + 1).unwrap_or(u32::MAX)
    }
}
