//! `limits` and `timeouts`, which belong to a site in Caddy 1 and to a server in Caddy 2.

use sluice_model::Duration;

use super::pieces::{block, line, prefix};
use super::translation::Translation;
use crate::lower::parse_size;
use crate::tree::{Directive, Token};

impl Translation<'_> {
    /// `timeouts <duration>`, or a block of single ones. Caddy 1 takes the shortest of all sites of
    /// a port; here of all sites.
    pub(super) fn timeouts(&mut self, old: &Directive) {
        let mut found: Vec<(&str, &Token)> = Vec::new();
        match old.args.as_slice() {
            [] => {}
            [all] => found.extend(["read", "header", "write", "idle"].map(|name| (name, all))),
            _ => return self.malformed(old, "timeouts <duration>"),
        }
        for inner in old.lines() {
            match inner.args.as_slice() {
                [only] => found.push((inner.name.as_str(), only)),
                _ => return self.malformed(inner, "read, header, write or idle <duration>"),
            }
        }
        for (name, value) in found {
            let name = match name {
                "read" => "read_body",
                "header" => "read_header",
                "write" => "write",
                "idle" => "idle",
                _ => return self.malformed(old, "timeouts { read|header|write|idle <duration> }"),
            };
            match value.as_str() {
                "none" | "0" => {}
                text => match Duration::parse(text) {
                    Ok(duration) => self.globals.timeout(name, value, duration),
                    Err(_) => return self.malformed(old, "timeouts <duration>"),
                },
            }
        }
    }

    /// `limits <size>`, or a block of `header <size>` and `body [<path>] <size>`.
    pub(super) fn limits(&mut self, old: &Directive) {
        let mut found: Vec<(&str, Option<&Token>, &Token)> = Vec::new();
        if let [all] = old.args.as_slice() {
            found.extend([("header", None, all), ("body", None, all)]);
        }
        for inner in old.lines() {
            match (inner.name.as_str(), inner.args.as_slice()) {
                (name @ ("header" | "body"), [size]) => found.push((name, None, size)),
                ("body", [path, size]) => found.push(("body", Some(path), size)),
                _ => return self.malformed(inner, "header <size> or body [<path>] <size>"),
            }
        }
        if found.is_empty() {
            return self.malformed(old, "limits <size>");
        }
        for (name, path, size) in found {
            let Some(bytes) = parse_size(&size.text) else {
                self.malformed(old, "limits <size>");
                continue;
            };
            if name == "header" {
                let known = self.globals.head.as_ref();
                if known.is_none_or(|(_, smallest)| bytes < *smallest) {
                    self.globals.head = Some((size.clone(), bytes));
                }
                continue;
            }
            let below = path.and_then(|path| prefix(path.as_str()));
            let max = line(size, "max_size", [size.as_str()]);
            let body = block(size, "request_body", below, vec![max]);
            self.step(Vec::new(), body);
        }
    }
}
