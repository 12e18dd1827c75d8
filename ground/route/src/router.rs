//! Selects the routes of a list that may match a host and path, at a cost that does not grow with the number of routes.
//! The index excludes routes that cannot match; the matchers of a selected route decide whether it does, unless they are
//! about its host only ([`RouteIndex::decides`]).

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::limits::{INDEX_ROUTES_MIN, PREFIX_COPIES_MAX};
use crate::path::{Case, Slashes, normalize};
use crate::table::Table;

/// What an index needs to know of a route: alternatives, one of which has to match. Without
/// alternatives the route matches always. [`crate::MatcherSets::key`] makes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteKey {
    /// The alternatives.
    pub any_of: Vec<SetKey>,
}

impl RouteKey {
    /// Whether nothing but the host decides, and an index can look it up.
    fn is_host_alone(&self) -> bool {
        let is_found = |set: &SetKey| set.is_host_alone && set.hosts.is_some();
        !self.any_of.is_empty() && self.any_of.iter().all(is_found)
    }
}

/// Hosts and paths of which one each has to match; `None` where any will do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetKey {
    /// The hosts.
    pub hosts: Option<Vec<HostKey>>,
    /// The paths.
    pub paths: Option<Vec<PathKey>>,
    /// Whether nothing but the host has to match.
    pub is_host_alone: bool,
}

/// A host that an index can look up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostKey {
    /// That host, in lower case.
    Exact(Box<[u8]>),
    /// Any one label, a dot and that name.
    Wildcard(Box<[u8]>),
}

/// A path that an index can look up, in the normal form of [`crate::path`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathKey {
    /// That path.
    Exact(Box<[u8]>),
    /// Any path that begins so.
    Prefix(Box<[u8]>),
}

/// The index of a list of routes.
#[derive(Clone, Debug, Default)]
pub struct RouteIndex {
    count: usize,
    hosts: Option<HostIndex>,
    paths: Option<PathIndex>,
    /// For each route whether its candidates match; empty if none does.
    decided: Vec<bool>,
}

/// Sorted route numbers.
type Routes = Vec<u32>;

#[derive(Clone, Debug)]
struct HostIndex {
    exact: RouteTable,
    wildcard: RouteTable,
    /// Routes for any host.
    any: Routes,
}

#[derive(Clone, Debug)]
struct PathIndex {
    exact: RouteTable,
    /// Prefixes in order, each with the routes of its own and of all prefixes of it.
    prefixes: Vec<Prefix>,
    /// Routes for any path.
    any: Routes,
}

#[derive(Clone, Debug)]
struct Prefix {
    text: Box<[u8]>,
    routes: Routes,
    /// The longest other prefix that this one begins with.
    parent: Option<u32>,
}

impl RouteIndex {
    /// The index of the routes with these keys, in this order.
    pub fn build(keys: &[RouteKey]) -> RouteIndex {
        let keyed = |has: fn(&SetKey) -> bool| {
            keys.iter()
                .filter(|key| !key.any_of.is_empty() && key.any_of.iter().all(has))
                .count()
        };
        let hosts = keyed(|set| set.hosts.is_some()) >= INDEX_ROUTES_MIN;
        let paths = keyed(|set| set.paths.is_some()) >= INDEX_ROUTES_MIN;
        RouteIndex {
            count: keys.len(),
            hosts: hosts.then(|| HostIndex::build(keys)),
            paths: paths.then(|| PathIndex::build(keys)),
            decided: match hosts {
                true => keys.iter().map(RouteKey::is_host_alone).collect(),
                false => Vec::new(),
            },
        }
    }

    /// Looks up `host` (lower case, without port) and `path` (decoded). What comes back stays right
    /// while neither changes: after a rewrite, look up again.
    pub fn lookup(&self, host: &[u8], path: &[u8]) -> Candidates<'_> {
        Candidates {
            count: self.count,
            hosts: self.hosts.as_ref().map(|index| index.lookup(host)),
            paths: self.paths.as_ref().map(|index| index.lookup(path)),
        }
    }

    /// The first route at or after `from` that may match.
    pub fn candidate(&self, host: &[u8], path: &[u8], from: usize) -> Option<usize> {
        if from >= self.count {
            return None;
        }
        match (&self.hosts, &self.paths) {
            (None, None) => Some(from),
            // One list of sites has many hosts and hardly ever paths: nothing is put together for a next question.
            (Some(hosts), None) => hosts.lookup(host).next_from(from),
            (None, Some(paths)) => paths.lookup(path).next_from(from),
            (Some(_), Some(_)) => self.lookup(host, path).next_from(from),
        }
    }

    /// Whether the matchers of `route` match each request that it is a candidate for, so that they need not be asked: they
    /// are about the host only, as those of nearly all sites.
    pub fn decides(&self, route: usize) -> bool {
        self.decided.get(route).is_some_and(|decided| *decided)
    }

    /// The number of routes.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no route.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// The routes that may match one host and path, in order.
#[derive(Clone, Debug)]
pub struct Candidates<'a> {
    count: usize,
    hosts: Option<Union<'a>>,
    paths: Option<Union<'a>>,
}

impl Candidates<'_> {
    /// The first at or after `from`.
    pub fn next_from(&mut self, from: usize) -> Option<usize> {
        if from >= self.count {
            return None;
        }
        match (&mut self.hosts, &mut self.paths) {
            (None, None) => Some(from),
            (Some(routes), None) | (None, Some(routes)) => routes.next_from(from),
            (Some(hosts), Some(paths)) => {
                // Each side leaps to where the other stands until they meet.
                let mut at = from;
                loop {
                    let host = hosts.next_from(at)?;
                    at = paths.next_from(host)?;
                    if at == host {
                        return Some(at);
                    }
                }
            }
        }
    }
}

/// Up to three sorted lists read as one.
#[derive(Clone, Debug)]
struct Union<'a> {
    lists: [&'a [u32]; 3],
}

impl Union<'_> {
    fn next_from(&mut self, from: usize) -> Option<usize> {
        let mut first = None;
        for list in &mut self.lists {
            if list.first().is_some_and(|&route| (route as usize) < from) {
                *list = &list[list.partition_point(|&route| (route as usize) < from)..];
            }
            first = match (first, list.first()) {
                (Some(a), Some(&b)) if a <= b => Some(a),
                (_, Some(&b)) => Some(b),
                (a, None) => a,
            };
        }
        // Lists only move forward, so an earlier `from` needs a new lookup.
        first.map(|route| route as usize)
    }
}

/// Routes by key. The lists of all keys lie in one buffer, in the order of the keys' numbers.
#[derive(Clone, Debug)]
struct RouteTable {
    keys: Table,
    /// Where each list begins; one more than keys, so that every list has an end.
    starts: Vec<u32>,
    routes: Routes,
}

impl RouteTable {
    fn new(map: BTreeMap<&[u8], Routes>) -> RouteTable {
        let keys: Vec<&[u8]> = map.keys().copied().collect();
        let keys = Table::new(&keys);
        let (mut starts, mut routes) = (Vec::from([0]), Routes::new());
        for list in map.into_values() {
            routes.extend(list);
            starts.push(routes.len() as u32);
        }
        RouteTable {
            keys,
            starts,
            routes,
        }
    }

    fn find(&self, key: &[u8]) -> &[u32] {
        match self.keys.find(key) {
            Some(at) => &self.routes[self.starts[at] as usize..self.starts[at + 1] as usize],
            None => &[],
        }
    }

    fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

impl HostIndex {
    fn build(keys: &[RouteKey]) -> HostIndex {
        let mut exact: BTreeMap<&[u8], Routes> = BTreeMap::new();
        let mut wildcard: BTreeMap<&[u8], Routes> = BTreeMap::new();
        let mut any = Routes::new();
        for (route, key) in keys.iter().enumerate() {
            let open = key.any_of.is_empty() || key.any_of.iter().any(|set| set.hosts.is_none());
            if open {
                any.push(route as u32);
                continue;
            }
            for host in key.any_of.iter().flat_map(|set| set.hosts.iter().flatten()) {
                match host {
                    HostKey::Exact(name) => add(exact.entry(name).or_default(), route),
                    HostKey::Wildcard(name) => add(wildcard.entry(name).or_default(), route),
                }
            }
        }
        let (exact, wildcard) = (RouteTable::new(exact), RouteTable::new(wildcard));
        HostIndex {
            exact,
            wildcard,
            any,
        }
    }

    fn lookup(&self, host: &[u8]) -> Union<'_> {
        let rest = match self.wildcard.is_empty() {
            true => None,
            false => memchr::memchr(b'.', host).map(|dot| &host[dot + 1..]),
        };
        let wildcard = rest
            .map(|rest| self.wildcard.find(rest))
            .unwrap_or_default();
        Union {
            lists: [self.exact.find(host), wildcard, &self.any],
        }
    }
}

impl PathIndex {
    fn build(keys: &[RouteKey]) -> PathIndex {
        let mut exact: BTreeMap<&[u8], Routes> = BTreeMap::new();
        let mut prefix: BTreeMap<&[u8], Routes> = BTreeMap::new();
        let mut any = Routes::new();
        for (route, key) in keys.iter().enumerate() {
            let open = key.any_of.is_empty() || key.any_of.iter().any(|set| set.paths.is_none());
            if open {
                any.push(route as u32);
                continue;
            }
            for path in key.any_of.iter().flat_map(|set| set.paths.iter().flatten()) {
                match path {
                    PathKey::Exact(path) => add(exact.entry(path).or_default(), route),
                    PathKey::Prefix(path) => add(prefix.entry(path).or_default(), route),
                }
            }
        }
        let prefixes = inherit(prefix, keys.len() * PREFIX_COPIES_MAX, &mut any);
        let exact = RouteTable::new(exact);
        PathIndex {
            exact,
            prefixes,
            any,
        }
    }

    fn lookup(&self, path: &[u8]) -> Union<'_> {
        let mut buf = Vec::new();
        let path = normalize(path, Slashes::Merge, Case::Fold, &mut buf);
        let prefix = self
            .longest_prefix(path)
            .map(|prefix| prefix.routes.as_slice());
        Union {
            lists: [self.exact.find(path), prefix.unwrap_or_default(), &self.any],
        }
    }

    /// Prefixes of `path` sort before it, and whatever stands between the longest of them and
    /// `path` begins with that longest one too. So walking from the last prefix before `path` to
    /// its parents meets the longest first.
    fn longest_prefix(&self, path: &[u8]) -> Option<&Prefix> {
        let after = self
            .prefixes
            .partition_point(|prefix| prefix.text.as_ref() <= path);
        let mut at = after.checked_sub(1)?;
        loop {
            let prefix = &self.prefixes[at];
            if path.starts_with(&prefix.text) {
                return Some(prefix);
            }
            at = prefix.parent? as usize;
        }
    }
}

/// Gives each prefix the routes of all prefixes that it begins with. Where that would copy more
/// than `copies_max` routes, the routes go to `any` instead.
fn inherit(own: BTreeMap<&[u8], Routes>, copies_max: usize, any: &mut Routes) -> Vec<Prefix> {
    let mut prefixes: Vec<Prefix> = Vec::with_capacity(own.len());
    let mut copies = 0;
    for (text, mut routes) in own {
        let mut parent = prefixes.len().checked_sub(1);
        while let Some(at) = parent.filter(|&at| !text.starts_with(&prefixes[at].text)) {
            parent = prefixes[at].parent.map(|at| at as usize);
        }
        if let Some(at) = parent {
            let inherited = &prefixes[at].routes;
            if copies + inherited.len() > copies_max {
                any.extend_from_slice(&routes);
                continue;
            }
            copies += inherited.len();
            routes.extend_from_slice(inherited);
            routes.sort_unstable();
            routes.dedup();
        }
        prefixes.push(Prefix {
            text: text.into(),
            routes,
            parent: parent.map(|at| at as u32),
        });
    }
    any.sort_unstable();
    any.dedup();
    prefixes
}

/// Adds `route` unless it is already there; it is not smaller than those there.
fn add(routes: &mut Routes, route: usize) {
    if routes.last() != Some(&(route as u32)) {
        routes.push(route as u32);
    }
}
