//! Lint rules for locations and files.

use super::{File, Found, Spot};
use crate::tree::Directive;

/// Locations that compare from the left, with their paths.
fn prefixes<'s, 't>(file: &'s File<'t>) -> impl Iterator<Item = (&'s Spot<'t>, &'t str)> + 's {
    file.blocks("location")
        .filter_map(|spot| match spot.location()? {
            ("" | "^~", path) if path.starts_with('/') => Some((spot, path)),
            _ => None,
        })
}

pub fn alias_traversal<'t>(file: &File<'t>, found: &mut Found<'t>) {
    for (spot, path) in prefixes(file).filter(|(_, path)| !path.ends_with('/')) {
        for line in spot
            .own("alias")
            .filter(|line| line.arg(0).is_some_and(|a| a.ends_with('/')))
        {
            let block = spot.block().unwrap_or(line);
            found.with(
                line,
                format!("`{path}../` leaves the folder"),
                block,
                "does not end with a slash",
            );
        }
    }
}

pub fn alias_without_slash<'t>(file: &File<'t>, found: &mut Found<'t>) {
    for (spot, _) in prefixes(file).filter(|(_, path)| path.ends_with('/')) {
        for line in spot.own("alias") {
            if line
                .arg(0)
                .is_some_and(|alias| !alias.ends_with('/') && !alias.contains('$'))
            {
                found.at(line, "does not end with a slash");
            }
        }
    }
}

pub fn root_in_location<'t>(file: &File<'t>, found: &mut Found<'t>) {
    for (spot, _) in prefixes(file).filter(|(_, path)| *path == "/") {
        let Some(server) = spot.within("server") else {
            continue;
        };
        let others = server
            .body()
            .iter()
            .filter(|line| line.name() == "location")
            .count()
            > 1;
        let is_outside = spot.nearest_around("root").is_empty();
        if let Some(line) = spot.own("root").last().filter(|_| others && is_outside) {
            found.at(line, "only here");
        }
    }
}

/// What may stand in an `if`, as it belongs to the phase of rewriting.
const SAFE: &[&str] = &["return", "rewrite", "set", "break", "rewrite_log"];

pub fn if_in_location<'t>(file: &File<'t>, found: &mut Found<'t>) {
    for spot in file
        .blocks("if")
        .filter(|spot| spot.within("location").is_some())
    {
        let ends = spot.body().iter().any(|line| line.name() == "return");
        let unsafe_one = spot.body().iter().find(|line| !SAFE.contains(&line.name()));
        if let (Some(line), Some(block), false) = (unsafe_one, spot.block(), ends) {
            found.with(line, "not of the phase of rewriting", block, "the `if`");
        }
    }
}

pub fn if_host<'t>(file: &File<'t>, found: &mut Found<'t>) {
    for spot in file
        .blocks("if")
        .filter(|spot| spot.within("location").is_none())
    {
        let subject = spot.block().and_then(|block| block.arg(0));
        if let (Some("($host" | "($http_host"), Some(block)) = (subject, spot.block()) {
            found.at(block, "the name has already selected the server");
        }
    }
}

pub fn php_without_check<'t>(file: &File<'t>, found: &mut Found<'t>) {
    for spot in file.blocks("location") {
        let Some((modifier, pattern)) = spot.location() else {
            continue;
        };
        // One that names its scripts lets no others through.
        let is_any = modifier.starts_with('~')
            && pattern.trim_start_matches('(').starts_with("\\.")
            || modifier.starts_with('~') && pattern.contains("+") && pattern.contains("php");
        let checks = spot
            .own("try_files")
            .any(|line| line.args.last().is_some_and(|l| l.text.starts_with('=')))
            || spot.body().iter().any(|line| {
                line.name() == "if"
                    && line
                        .args
                        .iter()
                        .any(|w| w.text.contains("-f") || w.text.contains("-e"))
            });
        if let Some(line) = spot.own("fastcgi_pass").next()
            && is_any
            && pattern.contains("php")
            && !checks
        {
            found.at(line, "every path with a script's suffix is proxied");
        }
    }
}

pub fn try_files_circle<'t>(file: &File<'t>, found: &mut Found<'t>) {
    for (_, line) in file.all("try_files") {
        if line
            .args
            .last()
            .is_some_and(|last| matches!(&*last.text, "$uri" | "$uri/" | "$request_uri"))
        {
            found.at(line, "the last argument is not checked");
        }
    }
}

pub fn unreachable<'t>(file: &File<'t>, found: &mut Found<'t>) {
    for spot in &file.spots {
        let all: Vec<&'t Directive> = spot.own("location").collect();
        let known = |block: &'t Directive| crate::lower::locations::modifier_and_word(block);
        let mut before: Vec<(&'t Directive, &'t str, bool)> = Vec::new();
        for block in &all {
            let Some((modifier @ ("~" | "~*"), pattern)) = known(block) else {
                continue;
            };
            let is_shadowed = |(_, first, folds): &&(&Directive, &str, bool)| {
                matches_all(first) || *first == pattern && (*folds || modifier == "~")
            };
            if let Some((first, ..)) = before.iter().find(is_shadowed) {
                found.with(block, "an earlier pattern wins", first, "this one");
            }
            before.push((block, pattern, modifier == "~*"));
        }
        for block in &all {
            let Some(("", path)) = known(block) else {
                continue;
            };
            let wins = |(_, pattern, folds): &&(&Directive, &str, bool)| {
                matches_all(pattern) || begins(pattern, path, *folds)
            };
            if let Some((first, ..)) = before.iter().find(wins).filter(|_| path.starts_with('/')) {
                found.with(block, "a pattern always wins", first, "this one");
            }
        }
    }
}

/// Whether a pattern matches each path.
fn matches_all(pattern: &str) -> bool {
    matches!(
        pattern,
        "" | "."
            | "/"
            | "^"
            | "^/"
            | ".*"
            | "^.*"
            | "^.*$"
            | "^/.*"
            | "^/.*$"
            | "^/(.*)"
            | "^/(.*)$"
            | "(.*)"
            | "^(.*)$"
    )
}

/// Whether a pattern is the beginning of a path and nothing else.
fn begins(pattern: &str, path: &str, folds: bool) -> bool {
    let Some(text) = pattern.strip_prefix("^/") else {
        return false;
    };
    let text = text.strip_suffix(".*").unwrap_or(text);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'_');
    let start = path.get(1..=text.len()).unwrap_or_default();
    !text.is_empty()
        && text.bytes().all(is_plain)
        && (start == text || folds && start.eq_ignore_ascii_case(text))
}

pub fn return_before_locations<'t>(file: &File<'t>, found: &mut Found<'t>) {
    for spot in file.blocks("server") {
        let location = spot.own("location").next();
        if let (Some(line), Some(location)) = (spot.own("return").next(), location) {
            found.with(line, "it handles every request", location, "never chosen");
        }
    }
}

pub fn merge_slashes_off<'t>(file: &File<'t>, found: &mut Found<'t>) {
    for (_, line) in file
        .all("merge_slashes")
        .filter(|(_, line)| line.arg(0) == Some("off"))
    {
        found.at(line, "slashes are not merged");
    }
}

pub fn hidden_files<'t>(file: &File<'t>, found: &mut Found<'t>) {
    for (spot, line) in file
        .all("autoindex")
        .filter(|(_, line)| line.arg(0) == Some("on"))
    {
        let server = spot.within("server");
        let hides = file.blocks("location").any(|other| {
            let is_here = match (server, other.within("server")) {
                (Some(one), Some(two)) => std::ptr::eq(one, two),
                _ => true,
            };
            let is_dots = other.location().is_some_and(|(modifier, pattern)| {
                modifier.starts_with('~') && pattern.contains("/\\.")
            });
            is_here && is_dots
        });
        if !hides {
            found.at(line, "no location denies `/.git`");
        }
    }
}

pub fn allow_without_deny<'t>(file: &File<'t>, found: &mut Found<'t>) {
    for spot in &file.spots {
        let rules: Vec<&'t Directive> = spot
            .body()
            .iter()
            .filter(|line| matches!(line.name(), "allow" | "deny"))
            .collect();
        if let Some(last) = rules
            .last()
            .filter(|last| last.name() == "allow" && last.arg(0) != Some("all"))
            && !rules.iter().any(|rule| rule.name() == "deny")
        {
            found.at(last, "all others are admitted as well");
        }
    }
}
