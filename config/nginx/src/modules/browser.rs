//! `ngx_http_browser_module`: variables that distinguish modern from ancient browsers.

use sluice_model::nginx::{TableRow, VariableTable};

use crate::definition::Takes::Words;
use crate::definition::{Definition, MANY, many, once};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::lower::text::literal;
use crate::tree::Directive;

/// The directives.
pub const DIRECTIVES: &[Definition] = &[
    many("ancient_browser", Words(1, MANY)),
    once("ancient_browser_value", Words(1, 1)),
    many("modern_browser", Words(1, 2)),
    once("modern_browser_value", Words(1, 1)),
];

/// Browsers whose versions are known.
const BROWSERS: [&str; 5] = ["gecko", "konqueror", "msie", "opera", "safari"];

/// The tables of a place: whether a browser is modern, and whether it is not; none where the place says nothing of browsers.
pub fn tables(cx: &mut Lowering<'_>, level: &Level<'_>) -> Option<(usize, usize)> {
    let modern = level.nearest(&["modern_browser"]);
    let ancient = level.nearest(&["ancient_browser"]);
    let values = ["modern_browser_value", "ancient_browser_value"].map(|name| level.word(name));
    if modern.is_empty() && ancient.is_empty() && values == [None, None] {
        return None;
    }
    let mut rows: Vec<TableRow> = modern
        .iter()
        .filter_map(|line| modern_row(cx, line))
        .collect();
    let words = ancient.iter().flat_map(|line| &line.args);
    rows.extend(words.map(|word| row("ancient", word.text.clone())));
    let mut table = |kind: &str, value: Option<&str>| {
        cx.derived_number(VariableTable {
            source: "{nginx.http.user-agent}".to_owned(),
            kind: kind.to_owned(),
            default: literal(value.unwrap_or("1")),
            rows: rows.clone(),
            ..VariableTable::default()
        })
    };
    let [modern, ancient] = values;
    Some((
        table("modern_browser", modern),
        table("ancient_browser", ancient),
    ))
}

fn row(key: &str, value: String) -> TableRow {
    TableRow {
        key: key.to_owned(),
        value,
    }
}

fn modern_row(cx: &mut Lowering<'_>, line: &Directive) -> Option<TableRow> {
    match line.args.as_slice() {
        [word] if word.text == "unlisted" => Some(row("modern", word.text.clone())),
        [name, version] if BROWSERS.contains(&name.text.as_str()) => {
            let is_version = |text: &str| {
                let mut bytes = text.bytes();
                !text.is_empty() && bytes.all(|byte| byte.is_ascii_digit() || byte == b'.')
            };
            if !is_version(&version.text) {
                return cx.invalid(version, "modern_browser", "a version such as `5.5`");
            }
            Some(row("modern", format!("{} {}", name.text, version.text)))
        }
        [name] if BROWSERS.contains(&name.text.as_str()) => {
            cx.invalid(name, "modern_browser", "a version behind the browser")
        }
        [name, ..] => {
            let names = format!("`{}` and a version, or `unlisted`", BROWSERS.join("`, `"));
            cx.invalid(name, "modern_browser", &names)
        }
        [] => None,
    }
}
