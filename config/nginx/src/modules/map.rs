//! `ngx_http_map_module`, `ngx_http_geo_module`, `ngx_http_split_clients_module`: variables from lookup tables.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use sluice_diag::Diagnostic;
use sluice_model::nginx::{TableRow, VariableTable};
use sluice_route::matcher::{AddressSpan, IpRanges};

use super::rewrite::variable_name;
use crate::definition::Takes::{Block, Number};
use crate::definition::Verdict::Always;
use crate::definition::{Definition, many, once};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::lower::text::{Facts, literal};
use crate::tree::{Directive, Word as Text};

/// Those of `map`.
pub const MAP: &[Definition] = &[
    many("map", Block(2, 2)),
    once("map_hash_bucket_size", Number).but(Always("tables grow as needed")),
    once("map_hash_max_size", Number).but(Always("tables grow as needed")),
];

/// Those of `geo`.
pub const GEO: &[Definition] = &[many("geo", Block(1, 2))];

/// Those of `split_clients`.
pub const SPLIT_CLIENTS: &[Definition] = &[many("split_clients", Block(2, 2))];

/// All tables of `http`.
pub fn lower(cx: &mut Lowering<'_>, http: &Level<'_>) -> Vec<VariableTable> {
    let mut tables = Vec::new();
    for directive in http.directives() {
        let table = match directive.name() {
            "map" => map(cx, directive),
            "geo" => geo(cx, directive),
            "split_clients" => split_clients(cx, directive),
            _ => None,
        };
        tables.extend(table);
    }
    tables
}

fn start(
    cx: &mut Lowering<'_>,
    directive: &Directive,
    kind: &str,
    source: String,
) -> Option<VariableTable> {
    let variable = variable_name(cx, directive.args.last()?, kind)?.to_ascii_lowercase();
    Some(VariableTable {
        variable,
        source,
        kind: kind.to_owned(),
        ..VariableTable::default()
    })
}

fn map(cx: &mut Lowering<'_>, directive: &Directive) -> Option<VariableTable> {
    let facts = Facts::of_every_place();
    let source = cx.text(directive.args.first()?, &facts);
    let mut table = start(cx, directive, "map", source)?;
    let mut known = HashSet::new();
    for row in directive.body() {
        let is_key = !matches!(row.name(), "hostnames" | "volatile");
        // Of patterns the first that matches counts, so a second one is of no use, and no mistake.
        if is_key && !row.name().starts_with('~') && !known.insert(row.name().to_ascii_lowercase())
        {
            return twice(cx, row);
        }
        match (row.name(), row.args.as_slice()) {
            ("hostnames", []) => table.hostnames = true,
            // What is found is looked up anew each time anyway.
            ("volatile", []) => {}
            ("default", [value]) => table.default = cx.text(value, &facts),
            (key, [value]) => {
                let key = match key.strip_prefix('~') {
                    Some(pattern) => {
                        let bare = pattern.strip_prefix('*').unwrap_or(pattern);
                        cx.pattern(bare, &row.name);
                        key.to_owned()
                    }
                    // A backslash keeps a key from being one of these words.
                    None => key.strip_prefix('\\').unwrap_or(key).to_owned(),
                };
                let value = cx.text(value, &facts);
                table.rows.push(TableRow { key, value });
            }
            _ => return row_of(cx, row, "map", "a text and a value"),
        }
    }
    Some(table)
}

/// A second value for one key: nginx refuses that, too.
fn twice<T>(cx: &mut Lowering<'_>, row: &Directive) -> Option<T> {
    cx.report.push(
        Diagnostic::error(
            "invalid-row",
            format!("`{}` has a value already", row.name()),
        )
        .at(row.span(), "the second row for it")
        .imported(row.name.import)
        .help("remove one of them"),
    );
    None
}

/// A row that is none.
pub(super) fn row_of<T>(
    cx: &mut Lowering<'_>,
    row: &Directive,
    of: &str,
    wanted: &str,
) -> Option<T> {
    cx.report.push(
        Diagnostic::error(
            "invalid-row",
            format!("`{}` is not a valid line of a `{of}`", row.name()),
        )
        .at(row.span(), "not understood")
        .imported(row.name.import)
        .help(format!("a row is {wanted}")),
    );
    None
}

fn geo(cx: &mut Lowering<'_>, directive: &Directive) -> Option<VariableTable> {
    let source = match directive.args.as_slice() {
        [source, _] => cx.text(source, &Facts::of_every_place()),
        _ => "{http.vars.client_ip}".to_owned(),
    };
    let mut table = start(cx, directive, "geo", source)?;
    let body = directive.body();
    let in_ranges = body.first().is_some_and(|row| row.name() == "ranges");
    // Of two rows for the same addresses the later one counts.
    let mut spans: HashMap<AddressSpan, &Directive> = HashMap::new();
    for row in &body[usize::from(in_ranges)..] {
        let of = |key: &str| match in_ranges {
            true => AddressSpan::of_range(key),
            false => AddressSpan::of_network(key),
        };
        match (row.name(), row.args.as_slice()) {
            ("default", [value]) => table.default = literal(&value.text),
            ("proxy", [network]) if IpRanges::new(&[&network.text]).is_ok() => {
                table.proxies.push(network.text.clone());
            }
            ("proxy_recursive", []) => table.proxy_recursive = true,
            ("delete", [key]) if let Some(span) = of(&key.text) => {
                // Removes an entry defined above; as in nginx, a missing one is not an error.
                spans.remove(&span);
            }
            (key, [_]) if let Some(span) = of(key) => {
                spans.insert(span, row);
            }
            _ if in_ranges => {
                return row_of(
                    cx,
                    row,
                    "geo",
                    "a range such as `10.0.0.1-10.0.0.9` and a value",
                );
            }
            _ => {
                let wanted = "an address or a network and a value; `ranges` stands in front of all";
                return row_of(cx, row, "geo", wanted);
            }
        }
    }
    let mut spans: Vec<(AddressSpan, &Directive)> = spans.into_iter().collect();
    spans.sort_by_key(|(span, _)| (span.is_v6, span.first, Reverse(span.last)));
    if let Some(row) = overlapping(&spans) {
        return row_of(
            cx,
            row,
            "geo",
            "a range that lies within another one or apart",
        );
    }
    table.rows = spans
        .iter()
        .filter_map(|(_, row)| {
            Some(TableRow {
                key: row.name().to_owned(),
                value: literal(row.arg(0)?),
            })
        })
        .collect();
    Some(table)
}

/// The first row of which a part, and not all, lies within the addresses of another. They are sorted, the wider first.
fn overlapping<'t>(spans: &[(AddressSpan, &'t Directive)]) -> Option<&'t Directive> {
    let mut open: Vec<AddressSpan> = Vec::new();
    for (span, row) in spans {
        let is_past = |outer: &AddressSpan| outer.is_v6 != span.is_v6 || outer.last < span.first;
        while open.pop_if(|outer| is_past(outer)).is_some() {}
        if open.last().is_some_and(|outer| outer.last < span.last) {
            return Some(row);
        }
        open.push(*span);
    }
    None
}

fn split_clients(cx: &mut Lowering<'_>, directive: &Directive) -> Option<VariableTable> {
    let source = cx.text(directive.args.first()?, &Facts::of_every_place());
    let mut table = start(cx, directive, "split_clients", source)?;
    let mut sum = 0;
    for row in directive.body() {
        let (key, value) = match (row.name(), row.args.as_slice()) {
            ("*", [value]) => (String::new(), value),
            (share, [value]) => match hundredths(share) {
                Some(share) => {
                    sum += share;
                    (share.to_string(), value)
                }
                None => {
                    return row_of(
                        cx,
                        row,
                        "split_clients",
                        "a share such as `0.5%`, or `*`, and a value",
                    );
                }
            },
            _ => {
                return row_of(
                    cx,
                    row,
                    "split_clients",
                    "a share such as `0.5%`, or `*`, and a value",
                );
            }
        };
        if sum > 10_000 {
            return row_of(
                cx,
                row,
                "split_clients",
                "a share; all together are at most 100 %",
            );
        }
        let value = value_text(value);
        table.rows.push(TableRow { key, value });
    }
    Some(table)
}

fn value_text(word: &Text) -> String {
    literal(&word.text)
}

/// A share in hundredths of a percent.
fn hundredths(text: &str) -> Option<u32> {
    let number = text.strip_suffix('%')?;
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let part = match part.len() {
        0 => 0,
        1 => part.parse::<u32>().ok()? * 10,
        2 => part.parse().ok()?,
        _ => return None,
    };
    let share = whole
        .parse::<u32>()
        .ok()?
        .checked_mul(100)?
        .checked_add(part)?;
    (1..=10_000).contains(&share).then_some(share)
}

#[cfg(test)]
mod tests {
    use super::hundredths;

    #[test]
    fn shares_are_read() {
        for (text, share) in [("50%", 5000), ("0.5%", 50), ("0.05%", 5), ("100%", 10_000)] {
            assert_eq!(hundredths(text), Some(share), "{text}");
        }
        for wrong in ["50", "%", "0%", "101%", "1.234%", "-1%", "x%"] {
            assert_eq!(hundredths(wrong), None, "{wrong}");
        }
    }
}
