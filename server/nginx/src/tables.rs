//! Variables evaluated on use: `map`, `geo`, `split_clients` and others.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;

use sluice_model::nginx::VariableTable as Config;
use sluice_route::{Found, Key, Kind, Provenance, Template, Unknown, Values};

use sluice_route::placeholder::NginxKey;

use super::browser::{self, Browsers};
use super::geo::Geo;
use super::groups::{Case, Pattern};
use super::referer::Referers;
use super::secure_link::{Asked, SecureLink};
use super::state::{Lookup, NginxContext, Subject};
use sluice_observe::Recorder;
use sluice_pipeline::build::template;
use sluice_pipeline::refusal::Refusal;

/// Maximum nesting of tables that refer to each other. nginx detects cycles; no realistic file needs more steps.
const STEPS_MAX: u8 = 16;

thread_local! {
    static STEPS: Cell<u8> = const { Cell::new(0) };
}

/// All tables by variable name.
#[derive(Debug, Default)]
pub struct Tables {
    by_name: HashMap<Box<str>, Table>,
    /// The row of each place in tables of the kind `place`.
    places: Vec<u32>,
}

#[derive(Debug)]
struct Table {
    source: Template,
    rows: Rows,
    default: Template,
}

#[derive(Debug)]
enum Rows {
    Map(Map),
    Geo(Geo),
    /// The upper bounds of shares of the hash range; `None` for the rest.
    Split(Vec<(Option<u32>, Template)>),
    Script(Script),
    Browser(Browsers, browser::Class),
    Referer(Referers),
    Link(SecureLink, Asked),
    /// `$realpath_root`: the source is a path whose symbolic links are resolved.
    RealPath,
    Connections(Connections, Option<Arc<Recorder>>),
    /// A variable that follows from the place, such as `$document_root`, by rows.
    Place(Vec<Template>),
}

/// Connection counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connections {
    Active,
    Writing,
    Waiting,
}

/// A part of a script path (`fastcgi_split_path_info`).
#[derive(Debug)]
struct Script {
    part: Part,
    /// Its first group is the script name, its second the path info; without a pattern the whole path is the script
    /// name.
    split: Option<Pattern>,
    index: Template,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Script,
    Rest,
}

#[derive(Debug, Default)]
struct Map {
    exact: HashMap<Box<[u8]>, Template>,
    /// Suffixes and prefixes of host names, longest first.
    endings: Vec<(Box<[u8]>, Template)>,
    beginnings: Vec<(Box<[u8]>, Template)>,
    patterns: Vec<(Pattern, Template)>,
}

impl Tables {
    /// Builds the tables. `places` has the row of each place of the tree.
    pub fn build(
        configs: &[Config],
        places: Vec<u32>,
        recorder: Option<&Arc<Recorder>>,
    ) -> Result<Tables, Refusal> {
        let mut tables = HashMap::new();
        for config in configs {
            let rows = match config.kind.as_str() {
                "map" => Rows::Map(Map::build(config, recorder)?),
                "geo" => Rows::Geo(Geo::build(config)?),
                "split_clients" => Rows::Split(shares(config)?),
                "script" => Rows::Script(Script::build(Part::Script, config, recorder)?),
                "modern_browser" => Rows::Browser(Browsers::build(config)?, browser::Class::Modern),
                "ancient_browser" => {
                    Rows::Browser(Browsers::build(config)?, browser::Class::Ancient)
                }
                "referer" => Rows::Referer(Referers::build(config, recorder)?),
                "secure_link" => Rows::Link(link(config)?, Asked::Verdict),
                "secure_link_expires" => Rows::Link(link(config)?, Asked::Expires),
                "place" => {
                    let rows = config.rows.iter();
                    let rows = rows.map(|row| template(&row.value));
                    Rows::Place(rows.collect::<Result<_, Refusal>>()?)
                }
                "real_path" => Rows::RealPath,
                "connections" => Rows::Connections(connections(config)?, recorder.cloned()),
                "path_info" => Rows::Script(Script::build(Part::Rest, config, recorder)?),
                other => return Err(Refusal::new(format!("`{other}` is not a kind of table"))),
            };
            let table = Table {
                source: template(&config.source)?,
                rows,
                default: template(&config.default)?,
            };
            tables.insert(config.variable.as_str().into(), table);
        }
        Ok(Tables {
            by_name: tables,
            places,
        })
    }

    /// Like [`Tables::build`], for requests to share; `None` if there are no tables.
    pub fn shared(
        configs: &[Config],
        places: Vec<u32>,
        recorder: Option<&Arc<Recorder>>,
    ) -> Result<Option<Arc<dyn Lookup>>, Refusal> {
        let tables = Tables::build(configs, places, recorder)?;
        Ok(match tables.by_name.is_empty() {
            true => None,
            false => Some(Arc::new(tables)),
        })
    }
}

impl Tables {
    /// The row of the place that a request has arrived at.
    fn row<'r>(&self, subject: Subject<'_>, rows: &'r [Template]) -> Option<&'r Template> {
        let place = subject.request()?.context.nginx().place;
        let row = self.places.get(place as usize)?;
        rows.get(*row as usize)
    }
}

impl Lookup for Tables {
    fn know(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    fn value(&self, subject: Subject<'_>, name: &str, out: &mut Vec<u8>) -> Provenance {
        let Some(table) = self.by_name.get(name) else {
            return Provenance::Configured;
        };
        let steps = STEPS.get();
        if steps >= STEPS_MAX {
            return Provenance::Unfit;
        }
        STEPS.set(steps + 1);
        let (source, from) = match table.rows {
            // Symbolic links are resolved for each request.
            Rows::RealPath => real_path(&table.source, subject),
            _ => {
                let mut source = Vec::new();
                let from = table.source.expand_traced(&subject, &mut source);
                (source, from)
            }
        };
        let provenance = match (&table.rows, from) {
            (Rows::RealPath, Provenance::Unfit) => from,
            (Rows::Place(rows), _) => match self.row(subject, rows) {
                Some(value) => value.expand_traced(&subject, out),
                None => Provenance::Configured,
            },
            _ => table.find(subject, &source, from, out),
        };
        STEPS.set(steps);
        provenance
    }
}

impl Table {
    fn find(
        &self,
        subject: Subject<'_>,
        source: &[u8],
        from: Provenance,
        out: &mut Vec<u8>,
    ) -> Provenance {
        let found = match &self.rows {
            Rows::Map(map) => match map.find(source) {
                Match::Value(value) => Some(value),
                Match::Pattern(pattern, value) => {
                    let mut groups = Vec::new();
                    // Matched before.
                    let _ = pattern.find(source, &mut groups);
                    let values = Groups {
                        at: subject,
                        text: source,
                        groups: &groups,
                        pattern,
                        from,
                    };
                    return value.expand_traced(&values, out);
                }
                Match::Nothing => None,
            },
            Rows::Geo(geo) => geo.find(subject.request(), source),
            Rows::Browser(browsers, class) if browsers.says(*class, source) => None,
            Rows::Browser(..) => return Provenance::Configured,
            Rows::Referer(referers) => {
                if !subject.found_or_fails(referers.welcome(source)) {
                    out.push(b'1');
                }
                return Provenance::Configured;
            }
            Rows::Link(link, asked) => {
                if let Some(exchange) = subject.request() {
                    link.push(exchange, source, *asked, out);
                }
                return Provenance::Name;
            }
            // Chosen by the caller.
            Rows::Place(_) => return Provenance::Configured,
            Rows::RealPath => {
                out.extend_from_slice(source);
                return Provenance::Configured;
            }
            Rows::Connections(what, recorder) => {
                what.push(recorder.as_deref(), out);
                return Provenance::Configured;
            }
            Rows::Script(script) => {
                script.push(subject, source, out);
                return Provenance::Path;
            }
            Rows::Split(shares) => {
                let hash = murmur(source);
                let mut shares = shares.iter();
                shares
                    .find(|(end, _)| end.is_none_or(|end| hash < end))
                    .map(|(_, value)| value)
            }
        };
        found.unwrap_or(&self.default).expand_traced(&subject, out)
    }
}

/// Resolves all symbolic links of a path; empty if it does not exist.
fn real_path(text: &Template, subject: Subject<'_>) -> (Vec<u8>, Provenance) {
    let mut path = Vec::new();
    if text.expand_path(&subject, &mut path).is_err() {
        return (Vec::new(), Provenance::Unfit);
    }
    let real = std::fs::canonicalize(OsStr::from_bytes(&path));
    let real = real.map_or(Vec::new(), |path| path.into_os_string().into_vec());
    (real, Provenance::Configured)
}

fn link(config: &Config) -> Result<SecureLink, Refusal> {
    match config.rows.first() {
        Some(row) if row.key == "md5" => Ok(SecureLink::Md5(template(&row.value)?)),
        Some(row) if row.key == "secret" => Ok(SecureLink::Secret(row.value.as_bytes().into())),
        _ => Err(Refusal::new("`secure_link` without a way to check")),
    }
}

fn connections(config: &Config) -> Result<Connections, Refusal> {
    match config.rows.first().map_or("", |row| &row.key) {
        "active" => Ok(Connections::Active),
        "writing" => Ok(Connections::Writing),
        "waiting" => Ok(Connections::Waiting),
        other => Err(Refusal::new(format!("nobody counts `{other}` connections"))),
    }
}

impl Connections {
    fn push(self, recorder: Option<&Recorder>, out: &mut Vec<u8>) {
        let Some(recorder) = recorder else { return };
        let (_, open) = recorder.hub().connections();
        let writing = recorder.totals().in_flight();
        let count = match self {
            Connections::Active => open,
            Connections::Writing => writing,
            Connections::Waiting => open.saturating_sub(writing),
        };
        out.extend_from_slice(count.to_string().as_bytes());
    }
}

impl Script {
    fn build(
        part: Part,
        config: &Config,
        recorder: Option<&Arc<Recorder>>,
    ) -> Result<Script, Refusal> {
        let row = config.rows.first();
        let split = match row.map_or("", |row| &row.key) {
            "" => None,
            pattern => Some(Pattern::new(
                "fastcgi_split_path_info",
                pattern,
                Case::Kept,
                recorder,
            )?),
        };
        if split
            .as_ref()
            .is_some_and(|pattern| pattern.groups_count() < 2)
        {
            return Err(Refusal::new(
                "`fastcgi_split_path_info` needs a pattern with two groups",
            ));
        }
        Ok(Script {
            part,
            split,
            index: template(row.map_or("", |row| &row.value))?,
        })
    }

    fn push(&self, subject: Subject<'_>, path: &[u8], out: &mut Vec<u8>) {
        let mut groups = Vec::new();
        let split = self.split.as_ref();
        let is_split =
            split.is_some_and(|split| subject.found_or_fails(split.find(path, &mut groups)));
        let group = |index: usize| {
            let found = groups.get(index).copied().flatten();
            found.map_or(&[][..], |(start, end)| &path[start as usize..end as usize])
        };
        match self.part {
            Part::Rest => out.extend_from_slice(group(2)),
            Part::Script => {
                let script = if is_split { group(1) } else { path };
                out.extend_from_slice(script);
                if script.ends_with(b"/") {
                    self.index.expand(&subject, Unknown::Empty, out);
                }
            }
        }
    }
}

enum Match<'m> {
    Value(&'m Template),
    Pattern(&'m Pattern, &'m Template),
    Nothing,
}

impl Map {
    fn build(config: &Config, recorder: Option<&Arc<Recorder>>) -> Result<Map, Refusal> {
        let mut map = Map::default();
        let lower = |text: &str| text.to_ascii_lowercase().into_bytes().into_boxed_slice();
        for row in &config.rows {
            let value = template(&row.value)?;
            let key = row.key.as_str();
            if let Some(pattern) = key.strip_prefix('~') {
                let pattern = match pattern.strip_prefix('*') {
                    Some(pattern) => Pattern::new("map", pattern, Case::Folded, recorder)?,
                    None => Pattern::new("map", pattern, Case::Kept, recorder)?,
                };
                map.patterns.push((pattern, value));
                continue;
            }
            match (
                config.hostnames,
                key.strip_prefix('*'),
                key.strip_suffix('*'),
                key.strip_prefix('.'),
            ) {
                (true, Some(ending), _, _) => map.endings.push((lower(ending), value)),
                (true, _, Some(beginning), _) => map.beginnings.push((lower(beginning), value)),
                (true, _, _, Some(bare)) => {
                    map.endings.push((lower(key), value.clone()));
                    map.exact.entry(lower(bare)).or_insert(value);
                }
                _ => _ = map.exact.entry(lower(key)).or_insert(value),
            }
        }
        map.endings
            .sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        map.beginnings
            .sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        Ok(map)
    }

    fn find(&self, source: &[u8]) -> Match<'_> {
        let lower = source.to_ascii_lowercase();
        if let Some(value) = self.exact.get(&*lower) {
            return Match::Value(value);
        }
        let mut ends = self.endings.iter();
        if let Some((_, value)) =
            ends.find(|(text, _)| lower.len() > text.len() && lower.ends_with(text))
        {
            return Match::Value(value);
        }
        let mut starts = self.beginnings.iter();
        if let Some((_, value)) =
            starts.find(|(text, _)| lower.len() > text.len() && lower.starts_with(text))
        {
            return Match::Value(value);
        }
        for (pattern, value) in &self.patterns {
            match pattern.is_match(source) {
                Ok(true) => return Match::Pattern(pattern, value),
                Ok(false) => {}
                // As in nginx, the default value is used.
                Err(_) => return Match::Nothing,
            }
        }
        Match::Nothing
    }
}

/// The values of a request together with the groups of a row's pattern.
struct Groups<'a> {
    at: Subject<'a>,
    text: &'a [u8],
    groups: &'a [Option<(u32, u32)>],
    pattern: &'a Pattern,
    /// The provenance of the text.
    from: Provenance,
}

impl Groups<'_> {
    fn group(&self, index: usize, out: &mut Vec<u8>) -> Found {
        if let Some((start, end)) = self.groups.get(index).copied().flatten() {
            out.extend_from_slice(&self.text[start as usize..end as usize]);
        }
        Found::Known
    }
}

impl Values for Groups<'_> {
    fn value(&self, key: &Key, out: &mut Vec<u8>) -> Found {
        match key {
            Key::Nginx(NginxKey::Capture(index)) => self.group(usize::from(*index), out),
            Key::Var(name) => match self.pattern.group_of(name) {
                Some(index) => self.group(index, out),
                None => self.at.value(key, out),
            },
            key => self.at.value(key, out),
        }
    }

    fn kind(&self, key: &Key) -> Kind {
        self.at.kind(key)
    }

    fn provenance(&self, key: &Key) -> Provenance {
        let group = match key {
            Key::Nginx(NginxKey::Capture(index)) => Some(usize::from(*index)),
            Key::Var(name) => self.pattern.group_of(name),
            _ => None,
        };
        let Some(group) = group else {
            return self.at.provenance(key);
        };
        let found = self.groups.get(group).copied().flatten();
        let is_empty = found.is_none_or(|(start, end)| start == end);
        match self.from {
            Provenance::Configured | Provenance::Path => Provenance::Path,
            // Its pattern permits an empty group.
            Provenance::Name | Provenance::Unfit if is_empty => Provenance::Path,
            Provenance::Name | Provenance::Unfit => Provenance::Name,
        }
    }
}

fn shares(config: &Config) -> Result<Vec<(Option<u32>, Template)>, Refusal> {
    let mut shares = Vec::with_capacity(config.rows.len());
    let mut end = 0u64;
    for row in &config.rows {
        let share = match row.key.as_str() {
            "" => None,
            text => {
                let part: u64 = text.parse().map_err(|_| {
                    Refusal::new(format!("split_clients: `{text}` is not a percentage"))
                })?;
                end += part * u64::from(u32::MAX) / 10_000;
                Some(u32::try_from(end).unwrap_or(u32::MAX))
            }
        };
        shares.push((share, template(&row.value)?));
    }
    Ok(shares)
}

/// Austin Appleby's MurmurHash2 with seed 0, as documented by nginx, so that clients keep their share when
/// migrating from nginx.
fn murmur(text: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = text.len() as u32;
    let mut words = text.chunks_exact(4);
    for word in words.by_ref() {
        let mut part = u32::from_le_bytes([word[0], word[1], word[2], word[3]]).wrapping_mul(M);
        part = (part ^ (part >> 24)).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ part;
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        for (index, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * index);
        }
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_murmur2() {
        // From the reference implementation with seed 0.
        for (text, hash) in [("", 0), ("a", 0x9268_5f5e), ("abcd", 0x2687_3021)] {
            assert_eq!(
                murmur(text.as_bytes()),
                hash,
                "{text}: {:x}",
                murmur(text.as_bytes())
            );
        }
    }
}
