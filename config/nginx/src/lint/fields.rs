//! Lint rules for headers, and for texts that come from clients.

use super::{File, Found, Spot};
use crate::tree::Directive;

/// Notes blocks whose own directives of this name put away those around.
fn lost<'t>(file: &File<'t>, found: &mut Found<'t>, name: &str) {
    for spot in &file.spots {
        let own: Vec<&Directive> = spot.own(name).collect();
        let Some(first) = own.first().copied() else {
            continue;
        };
        let has = |field: &Directive| {
            let wanted = field.arg(0).unwrap_or_default();
            own.iter().any(|line| {
                line.arg(0)
                    .is_some_and(|known| known.eq_ignore_ascii_case(wanted))
            })
        };
        let around = spot.nearest_around(name);
        let missing: Vec<&'t Directive> = around.into_iter().filter(|field| !has(field)).collect();
        if let Some(other) = missing.first() {
            let names: Vec<String> = missing
                .iter()
                .map(|line| format!("`{}`", line.arg(0).unwrap_or_default()))
                .collect();
            let label = format!("not inherited: {}", names.join(", "));
            found.with(first, label, other, "set here");
        }
    }
}

pub fn add_header_lost<'t>(file: &File<'t>, found: &mut Found<'t>) {
    // Since 1.29.3 a block can ask for both.
    let merges = file
        .all("add_header_inherit")
        .any(|(_, line)| line.arg(0) == Some("merge"));
    if !merges {
        lost(file, found, "add_header");
    }
}

pub fn set_header_lost<'t>(file: &File<'t>, found: &mut Found<'t>) {
    lost(file, found, "proxy_set_header");
}

pub fn param_lost<'t>(file: &File<'t>, found: &mut Found<'t>) {
    lost(file, found, "fastcgi_param");
}

/// Fields that tell browsers to be careful.
const PROTECTING: &[&str] = &[
    "strict-transport-security",
    "content-security-policy",
    "x-frame-options",
    "x-content-type-options",
    "referrer-policy",
    "permissions-policy",
];

pub fn not_always<'t>(file: &File<'t>, found: &mut Found<'t>) {
    for (_, line) in file.all("add_header") {
        let name = line.arg(0).unwrap_or_default().to_ascii_lowercase();
        if PROTECTING.contains(&&*name) && line.arg(2) != Some("always") {
            found.at(line, "missing with 404 and 500");
        }
    }
}

pub fn several_lines<'t>(file: &File<'t>, found: &mut Found<'t>) {
    for name in ["add_header", "proxy_set_header", "more_set_headers"] {
        for (_, line) in file.all(name) {
            if line
                .args
                .iter()
                .any(|word| word.text.contains(['\n', '\r']))
            {
                found.at(line, "it spans several lines");
            }
        }
    }
}

pub fn content_type_added<'t>(file: &File<'t>, found: &mut Found<'t>) {
    for (_, line) in file.all("add_header") {
        if line
            .arg(0)
            .is_some_and(|name| name.eq_ignore_ascii_case("content-type"))
        {
            found.at(line, "added to the existing type");
        }
    }
}

pub fn splitting<'t>(file: &File<'t>, found: &mut Found<'t>) {
    let is_decoded = |word: &str| {
        ["$uri", "${uri}", "$document_uri", "${document_uri}"]
            .iter()
            .any(|name| {
                word.match_indices(name).any(|(at, _)| {
                    let behind = word[at + name.len()..].bytes().next();
                    name.ends_with('}')
                        || !behind.is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_')
                })
            })
    };
    for (_, line) in file.all("return") {
        let is_redirect = line
            .arg(0)
            .is_some_and(|first| first.starts_with('3') || line.args.len() == 1);
        if is_redirect && line.args.last().is_some_and(|word| is_decoded(&word.text)) {
            found.at(line, "a decoded path in a URL");
        }
    }
    for (_, line) in file.all("rewrite") {
        let is_redirect = matches!(line.arg(2), Some("redirect" | "permanent"))
            || line.arg(1).is_some_and(|to| to.starts_with("http"));
        if is_redirect && line.arg(1).is_some_and(is_decoded) {
            found.at(line, "a decoded path in a URL");
        }
    }
    for name in ["add_header", "proxy_set_header", "proxy_pass"] {
        for (_, line) in file.all(name) {
            if line.args.last().is_some_and(|word| is_decoded(&word.text))
                || line.arg(1).is_some_and(is_decoded)
            {
                found.at(line, "a decoded path");
            }
        }
    }
}

pub fn origin_check_open<'t>(file: &File<'t>, found: &mut Found<'t>) {
    let is_open = |pattern: &str| {
        let pattern = pattern.trim_end_matches(')');
        !pattern.starts_with('^') || !(pattern.ends_with('$') || pattern.ends_with("/"))
    };
    for block in file.blocks("if").filter_map(Spot::block) {
        let words: Vec<&str> = block.args.iter().map(|word| word.text.as_str()).collect();
        if let [subject, "~" | "~*" | "!~" | "!~*", pattern, ..] = words.as_slice()
            && matches!(
                subject.trim_start_matches('('),
                "$http_origin" | "$http_referer"
            )
            && is_open(pattern)
        {
            found.at(block, "the pattern is not anchored");
        }
    }
    for block in file.blocks("map").filter_map(Spot::block) {
        if !matches!(block.arg(0), Some("$http_origin" | "$http_referer")) {
            continue;
        }
        for row in block.body() {
            let pattern = row
                .name()
                .strip_prefix('~')
                .map(|p| p.trim_start_matches('*'));
            if pattern.is_some_and(is_open) {
                found.at(row, "the pattern is not anchored");
            }
        }
    }
}

pub fn referer_none<'t>(file: &File<'t>, found: &mut Found<'t>) {
    for (_, line) in file.all("valid_referers") {
        if line.args.iter().any(|word| word.text == "none") {
            found.at(line, "`none` admits them");
        }
    }
}

pub fn real_ip_from_anyone<'t>(file: &File<'t>, found: &mut Found<'t>) {
    for (_, line) in file.all("set_real_ip_from") {
        if matches!(line.arg(0), Some("0.0.0.0/0" | "::/0")) {
            found.at(line, "this includes everyone");
        }
    }
}
