//! `basicauth`: each rule has one user and some paths; a request that passes any rule is allowed.

use std::collections::BTreeSet;

use super::pieces::{block, line, prefix};
use super::translation::Translation;
use crate::tree::{Directive, Token};

const USAGE: &str = "basicauth <path> <user> <password>";

/// A user and what it opens.
struct Rule<'t> {
    at: &'t Token,
    user: &'t Token,
    hash: String,
    realm: Option<&'t Token>,
    paths: Vec<&'t str>,
}

impl Translation<'_> {
    /// All of a site together: a path is open to every user of a rule for it or a path above it.
    pub(super) fn basicauth(&mut self, lines: &[&Directive]) {
        let mut rules = Vec::new();
        for line in lines {
            rules.extend(self.rule(line));
        }
        let mut paths: BTreeSet<&str> = BTreeSet::new();
        for rule in &rules {
            paths.extend(&rule.paths);
        }
        // The longest first: requests belong to the longest path above them.
        let mut ordered: Vec<&str> = paths.iter().copied().collect();
        ordered.sort_by_key(|path| std::cmp::Reverse(path.len()));
        for path in ordered {
            let users: Vec<&Rule<'_>> = rules
                .iter()
                .filter(|rule| rule.paths.iter().any(|above| is_below(path, above)))
                .collect();
            let Some(first) = users.first() else { continue };
            let mut words = Vec::new();
            let mut matchers = Vec::new();
            let deeper: Vec<String> = paths
                .iter()
                .filter(|other| **other != path && is_below(other, path))
                .filter_map(|other| prefix(other))
                .collect();
            if deeper.is_empty() {
                words.extend(prefix(path));
            } else {
                let at = first.at;
                let mut conditions: Vec<Directive> = prefix(path)
                    .map(|path| line(at, "path", [path]))
                    .into_iter()
                    .collect();
                let not = std::iter::once("path".to_owned()).chain(deeper);
                conditions.push(line(at, "not", not));
                let (name, matcher) = self.matcher(at, "auth", conditions);
                words.push(name);
                matchers.push(matcher);
            }
            if let Some(realm) = users.iter().find_map(|rule| rule.realm) {
                words.extend(["bcrypt".to_owned(), realm.text.clone()]);
            }
            let accounts = users
                .iter()
                .map(|rule| line(rule.user, rule.user.as_str(), [rule.hash.as_str()]))
                .collect();
            self.step(matchers, block(first.at, "basic_auth", words, accounts));
        }
    }

    fn rule<'t>(&mut self, old: &'t Directive) -> Option<Rule<'t>> {
        let (user, password, mut paths) = match old.args.as_slice() {
            [path, user, password] => (user, password, vec![path.as_str()]),
            [user, password] => (user, password, Vec::new()),
            _ => {
                self.malformed(old, USAGE);
                return None;
            }
        };
        let mut realm = None;
        for inner in old.lines() {
            match (inner.name.as_str(), inner.args.as_slice()) {
                ("realm", [only]) => realm = Some(only),
                (path, []) => paths.push(path),
                _ => {
                    self.malformed(inner, "<path> or realm <name>");
                    return None;
                }
            }
        }
        if paths.is_empty() {
            self.malformed(old, USAGE);
            return None;
        }
        if password.text.starts_with("htpasswd=") {
            let help = "copy the bcrypt hashes of the file into `basic_auth`";
            self.cannot(password, "password files are not read", help);
            return None;
        }
        let Some(hash) = self.loader.hash_password(&password.text) else {
            let help = "`sluice hash-password` makes one; write it into `basic_auth`";
            self.cannot(password, "Caddy 2 wants the hash of a password", help);
            return None;
        };
        Some(Rule {
            at: &old.name,
            user,
            hash,
            realm,
            paths,
        })
    }
}

/// Whether a path is the other one or begins with it.
fn is_below(path: &str, above: &str) -> bool {
    above == "/" || path.starts_with(above)
}
