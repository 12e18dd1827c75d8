//! Translates locations to `route` blocks, in an order that gives each location the requests that nginx would give it.
//! Each block ends with a content handler, so none after it is reached; `handle` would keep a request from arriving
//! here a second time.

use std::cmp::Reverse;

use sluice_route::pcre::{Case, Pattern};
use sluice_route::regexp::Regexp;

use super::place::{Place, Site};
use super::text::{Facts, expanded, word};
use super::{HELD, Writer};
use crate::lower::level::Level;
use crate::lower::locations::modifier_and_word;
use crate::registry::Context;
use crate::tree::Directive;

/// What of a block is read where it holds.
const READ: &[&str] = &["rewrite", "if", "error_page", "internal"];

/// A location in the order of choice.
struct Choice<'t> {
    block: &'t Directive,
    modifier: &'t str,
    path: &'t str,
}

/// Whether a pattern is one of a Caddyfile as well, whose syntax is Go's: it cannot look around or refer to a group.
pub(super) fn is_in_both(pattern: &str) -> bool {
    let here = Pattern::new(pattern, Case::Kept);
    here.is_ok_and(|pattern| pattern.is_linear()) && Regexp::new(pattern).is_ok()
}

impl Writer<'_> {
    /// Writes what stands in a server.
    pub(super) fn site(&mut self, level: &Level<'_>, site: &Site<'_>) {
        self.leftovers(level.directives(), Context::Server, READ);
        let named: Vec<&Directive> = level
            .own("location")
            .filter(|block| is_named(block))
            .collect();
        self.open("route");
        self.rewrites(level.directives(), &site.facts);
        let mut is_whole = false;
        if level.own("return").next().is_none() {
            for choice in in_order(level) {
                if choice.modifier.starts_with('~') && !is_in_both(choice.path) {
                    self.not_translated(choice.block);
                    continue;
                }
                let matcher = self.matcher(&choice, level);
                is_whole |= matcher.is_empty();
                self.open(format!("route {matcher}").trim_end());
                let inner = level.within(choice.block.body());
                self.location(&inner, site, Some((choice.modifier, choice.path)), &named);
                self.close();
            }
        }
        if !is_whole {
            self.open("route");
            self.location(&level.within(&[]), site, None, &named);
            self.close();
        }
        self.close();
    }

    /// The matcher of a location, written in front of its block; empty for one that gets all.
    fn matcher(&mut self, choice: &Choice<'_>, level: &Level<'_>) -> String {
        let name = self.name();
        let path = choice.path;
        match choice.modifier {
            "=" => self.line(format!("@{name} path {}", word(path))),
            "~" => self.line(format!("@{name} path_regexp {name} {}", word(path))),
            "~*" => self.line(format!(
                "@{name} path_regexp {name} {}",
                word(&format!("(?i){path}"))
            )),
            "^~" => {
                // A longer path without the mark leaves the choice to the patterns.
                let longer: Vec<String> = level
                    .own("location")
                    .filter_map(modifier_and_word)
                    .filter(|(modifier, other)| {
                        modifier.is_empty() && other.len() > path.len() && other.starts_with(path)
                    })
                    .map(|(_, other)| word(&format!("{other}*")))
                    .collect();
                self.open(format!("@{name}"));
                self.line(format!("path {}", word(&format!("{path}*"))));
                if !longer.is_empty() {
                    self.line(format!("not path {}", longer.join(" ")));
                }
                self.close();
            }
            _ if path == "/" => return String::new(),
            _ => self.line(format!("@{name} path {}", word(&format!("{path}*")))),
        }
        format!("@{name}")
    }

    /// Writes what stands in a location, or outside of all.
    pub(super) fn location(
        &mut self,
        level: &Level<'_>,
        site: &Site<'_>,
        of: Option<(&str, &str)>,
        named: &[&Directive],
    ) {
        let mut facts = site.facts.clone();
        facts.root = level.word("root").map(str::to_owned);
        if of.is_some() {
            self.leftovers(level.directives(), Context::Location, READ);
        }
        for block in level.own("location") {
            self.not_translated(block);
        }
        let groups = of.filter(|(modifier, _)| modifier.starts_with('~'));
        let groups = groups.map(|_| format!("m{}", self.names));
        self.fields(level, &facts, groups.as_deref());
        if of.is_some() {
            if let Some(line) = level.own("internal").next() {
                self.not_translated(line);
                return self.line("error * 404");
            }
            for line in level.own("error_page") {
                self.not_translated(line);
            }
            self.rewrites(level.directives(), &facts);
        }
        let is_outside = of.is_none();
        let returned = match is_outside {
            true => level.nearest(&["return"]).first().copied(),
            false => level.own("return").next(),
        };
        if let Some(line) = returned {
            return self.respond(line, level, &facts, groups.as_deref());
        }
        if !self.access(level) {
            return;
        }
        let place = Place {
            level,
            site,
            facts: &facts,
            of,
            groups: groups.as_deref(),
        };
        self.tried(&place, named);
    }

    /// `error_page` of a server: pages by path, the statuses kept.
    pub(super) fn pages(&mut self, level: &Level<'_>) {
        let lines: Vec<&Directive> = level.nearest(&["error_page"]);
        let is_plain = |line: &&&Directive| {
            let words = || line.args.iter().map(|word| word.text.as_str());
            let last = words().next_back().unwrap_or_default();
            last.starts_with('/')
                && !last.contains('$')
                && !words().any(|word| word.starts_with('='))
        };
        for line in lines.iter().filter(|line| !is_plain(line)) {
            self.not_translated(line);
        }
        let plain: Vec<&&Directive> = lines.iter().filter(is_plain).collect();
        let Some(root) = level.word("root").filter(|_| !plain.is_empty()) else {
            return plain.iter().for_each(|line| self.not_translated(line));
        };
        // A page that a location handles is more than a file.
        let files = |path: &str| {
            let mut blocks = level.own("location").filter(|block| !is_named(block));
            !blocks.any(|block| {
                modifier_and_word(block)
                    .is_some_and(|(_, word)| word == path && !is_file_place(block))
            })
        };
        self.open("handle_errors");
        for line in plain {
            let Some((page, codes)) = line.args.split_last() else {
                continue;
            };
            if !files(&page.text) || page.text.ends_with(".php") {
                self.not_translated(line);
                continue;
            }
            let name = self.name();
            let codes: Vec<&str> = codes.iter().map(|code| code.text.as_str()).collect();
            self.line(format!(
                "@{name} expression `{{err.status_code}} in [{}]`",
                codes.join(", ")
            ));
            self.open(format!("handle @{name}"));
            self.line(format!("root * {}", word(root)));
            self.line(format!("rewrite * {}", word(&page.text)));
            self.line("file_server");
            self.close();
        }
        self.close();
    }

    /// `rewrite` and `if`, one after the other.
    fn rewrites(&mut self, directives: &[Directive], facts: &Facts) {
        let mut has_ended = false;
        for line in directives {
            match line.name() {
                // One that ends the phase keeps those behind it from being tried, which only a redirect does here.
                "rewrite" if has_ended => self.not_translated(line),
                "rewrite" => {
                    has_ended |= matches!(line.arg(2), Some("last" | "break"));
                    if !self.rewrite(line, facts) {
                        self.not_translated(line);
                    }
                }
                "if" if !self.condition(line, facts) => self.not_translated(line),
                _ => {}
            }
        }
    }

    fn rewrite(&mut self, line: &Directive, facts: &Facts) -> bool {
        let (Some(pattern), Some(to)) = (line.arg(0), line.arg(1)) else {
            return false;
        };
        if !is_in_both(pattern) {
            return false;
        }
        let name = self.name();
        let Some(target) = expanded(to.strip_suffix('?').unwrap_or(to), facts, Some(&name)) else {
            return false;
        };
        let is_address =
            to.starts_with("http://") || to.starts_with("https://") || to.starts_with("$scheme");
        let status = match line.arg(2) {
            Some("permanent") => Some("301"),
            Some("redirect") => Some("302"),
            _ if is_address => Some("302"),
            // `last` chooses a location anew; within one there is no such way back.
            Some("last") if facts.root.is_some() || self.depth > 2 => return false,
            _ => None,
        };
        let target = match (to.ends_with('?'), target.contains('?'), status) {
            (true, _, Some(_)) => target,
            (true, true, None) => target,
            (true, false, None) => format!("{target}?"),
            (false, true, _) => format!("{target}&{{query}}"),
            (false, false, Some(_)) => format!("{target}{{?query}}"),
            (false, false, None) => target,
        };
        self.line(format!("@{name} path_regexp {name} {}", word(pattern)));
        match status {
            Some(status) => self.line(format!("redir @{name} {} {status}", word(&target))),
            None => self.line(format!("rewrite @{name} {}", word(&target))),
        }
        true
    }

    /// An `if` that returns, where its condition has a matcher.
    fn condition(&mut self, line: &Directive, facts: &Facts) -> bool {
        let [respond] = line.body() else { return false };
        if respond.name() != "return" {
            return false;
        }
        let words: Vec<&str> = line
            .args
            .iter()
            .map(|word| word.text.trim_matches(['(', ')']))
            .filter(|word| !word.is_empty())
            .collect();
        let name = self.name();
        let (subject, test, with) = match words.as_slice() {
            [subject, test, with] => (*subject, *test, *with),
            _ => return false,
        };
        let is_pattern = test.contains('~');
        if is_pattern && !is_in_both(with) {
            return false;
        }
        let flags = if test.ends_with('*') { "(?i)" } else { "" };
        let pattern = word(&format!("{flags}{with}"));
        let matcher = match (subject, is_pattern) {
            ("$host", false) => format!("host {}", word(with)),
            ("$request_method", false) => format!("method {with}"),
            ("$scheme", false) if matches!(with, "http" | "https") => format!("protocol {with}"),
            ("$uri", true) => format!("path_regexp {name} {pattern}"),
            (subject, _) => match (
                subject.strip_prefix("$http_"),
                subject.strip_prefix("$arg_"),
            ) {
                (Some(field), _) if is_pattern => {
                    format!("header_regexp {name} {} {pattern}", field.replace('_', "-"))
                }
                (_, Some(argument)) if !is_pattern && !with.is_empty() => {
                    format!("query {}", word(&format!("{argument}={with}")))
                }
                _ => return false,
            },
        };
        let before = self.text.len();
        let not = if test.starts_with('!') { "not " } else { "" };
        self.line(format!("@{name} {not}{matcher}"));
        match self.returned(respond, facts, Some(&name), &format!("@{name} ")) {
            true => true,
            false => {
                self.text.truncate(before);
                false
            }
        }
    }

    /// `return` as the content of a block.
    fn respond(
        &mut self,
        line: &Directive,
        level: &Level<'_>,
        facts: &Facts,
        groups: Option<&str>,
    ) {
        let is_text =
            line.args.len() == 2 && !line.arg(0).is_some_and(|code| code.starts_with('3'));
        if is_text {
            let media_type = level.word("default_type").unwrap_or("text/plain");
            self.line(format!("header Content-Type {}", word(media_type)));
        }
        if !self.returned(line, facts, groups, "* ") {
            self.not_translated(line);
        }
    }

    fn returned(
        &mut self,
        line: &Directive,
        facts: &Facts,
        groups: Option<&str>,
        matcher: &str,
    ) -> bool {
        let (Some(first), second) = (line.arg(0), line.arg(1)) else {
            return false;
        };
        let text = second.map(|text| expanded(text, facts, groups));
        let text = match text {
            Some(None) => return false,
            Some(Some(text)) => Some(text),
            None => None,
        };
        let written = match (first.parse::<u16>(), text) {
            (Ok(444), _) => format!("abort {matcher}"),
            (Ok(301 | 302 | 303 | 307 | 308), Some(to)) => {
                format!("redir {matcher}{} {first}", word(&to))
            }
            (Ok(code), None) if code >= 400 => format!("error {matcher}{first}"),
            (Ok(_), None) => format!("respond {matcher}{first}"),
            (Ok(_), Some(text)) => format!("respond {matcher}{} {first}", word(&text)),
            (Err(_), _) => match expanded(first, facts, groups) {
                Some(to) => format!("redir {matcher}{} 302", word(&to)),
                None => return false,
            },
        };
        self.line(written.trim_end());
        true
    }

    /// `allow` and `deny`, where they keep out all but some, or some; whether anybody comes in.
    fn access(&mut self, level: &Level<'_>) -> bool {
        let (sockets, rules): (Vec<_>, Vec<_>) = level
            .nearest(&["allow", "deny"])
            .into_iter()
            .partition(|rule| rule.arg(0) == Some("unix:"));
        sockets.iter().for_each(|rule| self.not_translated(rule));
        let (Some(first), Some(last)) = (rules.first(), rules.last()) else {
            return true;
        };
        let of = |name: &str| -> Vec<&str> {
            rules
                .iter()
                .filter(|rule| rule.name() == name)
                .filter_map(|rule| rule.arg(0))
                .filter(|from| *from != "all")
                .collect()
        };
        let (allowed, denied) = (of("allow"), of("deny"));
        let ends = (last.name(), last.arg(0) == Some("all"));
        let name = self.name();
        match ends {
            ("deny", true) if first.arg(0) == Some("all") => {
                self.line("error * 403");
                return false;
            }
            ("deny", true) if denied.is_empty() => {
                self.line(format!("@{name} not remote_ip {}", allowed.join(" ")));
                self.line(format!("error @{name} 403"));
            }
            ("allow", true) | ("deny", false) if allowed.is_empty() => {
                if !denied.is_empty() {
                    self.line(format!("@{name} remote_ip {}", denied.join(" ")));
                    self.line(format!("error @{name} 403"));
                }
            }
            ("allow", _) if denied.is_empty() => {}
            _ => rules.iter().for_each(|rule| self.not_translated(rule)),
        }
        true
    }
}

fn is_named(block: &Directive) -> bool {
    block.arg(0).is_some_and(|name| name.starts_with('@'))
}

/// Whether a location only says something about a file.
fn is_file_place(block: &Directive) -> bool {
    block.body().iter().all(|line| {
        matches!(line.name(), "internal" | "access_log")
            || HELD.contains(&line.name())
                && !matches!(
                    line.name(),
                    "return" | "proxy_pass" | "fastcgi_pass" | "root" | "alias" | "deny"
                )
    })
}

/// Locations as nginx chooses among them: whole paths, marked beginnings, patterns, and then the longest beginning.
fn in_order<'t>(level: &Level<'t>) -> Vec<Choice<'t>> {
    let all = level.own("location").filter_map(|block| {
        let (modifier, path) = modifier_and_word(block)?;
        Some(Choice {
            block,
            modifier,
            path,
        })
    });
    let mut choices: Vec<Choice<'t>> = all.filter(|choice| !choice.path.starts_with('@')).collect();
    choices.sort_by_key(|choice| {
        let length = Reverse(choice.path.len());
        match choice.modifier {
            "=" => (0, Reverse(0)),
            "^~" => (1, length),
            "~" | "~*" => (2, Reverse(0)),
            _ => (3, length),
        }
    });
    choices
}
