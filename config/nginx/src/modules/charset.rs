//! `ngx_http_charset_module`: the charset that responses declare, and conversion to it.

use sluice_diag::Diagnostic;
use sluice_model::Handler;
use sluice_model::nginx::{Charset, CharsetMap, TableRow};

use crate::definition::Takes::{Block, Flag, Words};
use crate::definition::{Definition, MANY, many, once};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::lower::text::{Facts, has_variables};
use crate::modules::map::row_of;
use crate::tree::{Directive, Word as Text};

/// The directives.
pub const DIRECTIVES: &[Definition] = &[
    once("charset", Words(1, 1)),
    many("charset_map", Block(2, 2)),
    many("charset_types", Words(1, MANY)),
    once("override_charset", Flag),
    once("source_charset", Words(1, 1)),
];

const USUAL: [&str; 6] = [
    "text/html",
    "text/xml",
    "text/plain",
    "text/vnd.wap.wml",
    "application/javascript",
    "application/rss+xml",
];

/// Reads the tables of `http`.
pub fn lower_maps(cx: &mut Lowering<'_>, http: &Level<'_>) {
    for directive in http.own("charset_map") {
        let map = map(cx, directive);
        cx.charsets.maps.extend(map);
    }
}

fn map(cx: &mut Lowering<'_>, directive: &Directive) -> Option<CharsetMap> {
    let [from, to] = directive.args.as_slice() else {
        return None;
    };
    if is_utf8(&from.text) {
        return cx.invalid(from, "charset_map", "`utf-8` as the second of both");
    }
    if from.text.eq_ignore_ascii_case(&to.text) {
        return cx.invalid(to, "charset_map", "another encoding than the first");
    }
    let mut rows = Vec::new();
    for row in directive.body() {
        let [value] = row.args.as_slice() else {
            return row_of(cx, row, "charset_map", "a code of each of both encodings");
        };
        let Some(key) = code(&row.name, 1) else {
            return row_of(
                cx,
                row,
                "charset_map",
                "a code of one byte, such as `80`, and another",
            );
        };
        let value = match is_utf8(&to.text) {
            true => code(value, 3).filter(|value| is_letter(value)),
            false => code(value, 1),
        };
        let Some(value) = value else {
            return match is_utf8(&to.text) {
                true => row_of(
                    cx,
                    row,
                    "charset_map",
                    "a code, and the bytes of a letter in UTF-8, such as `E282AC`",
                ),
                false => row_of(
                    cx,
                    row,
                    "charset_map",
                    "two codes of one byte each, such as `80 88`",
                ),
            };
        };
        rows.push(TableRow {
            key: written(&key),
            value: written(&value),
        });
    }
    Some(CharsetMap {
        from: from.text.clone(),
        to: to.text.clone(),
        rows,
    })
}

fn is_utf8(name: &str) -> bool {
    name.eq_ignore_ascii_case("utf-8")
}

/// The bytes of a code, so many at most.
fn code(word: &Text, most: usize) -> Option<Vec<u8>> {
    let text = match word.text.len() {
        1 => format!("0{}", word.text),
        _ => word.text.clone(),
    };
    let is_code = !text.is_empty()
        && text.len() % 2 == 0
        && text.len() <= 2 * most
        && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let pairs =
        (0..text.len() / 2).map(|at| u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok());
    is_code.then(|| pairs.collect()).flatten()
}

/// Whether bytes are one letter in UTF-8, and none of ASCII.
fn is_letter(bytes: &[u8]) -> bool {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    text.chars().count() == 1 && !text.is_ascii()
}

fn written(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// Whether a block may convert charsets: then the responses themselves declare their charset.
fn recodes(level: &Level<'_>) -> bool {
    let target = level.word("charset").filter(|name| *name != "off");
    let source = level.word("source_charset");
    source
        .zip(target)
        .is_some_and(|(source, target)| source != target)
}

/// A media type with what is said of its encoding.
pub fn with_charset(level: &Level<'_>, media_type: &str) -> String {
    let charset = match level.word("charset") {
        None | Some("off") => return media_type.to_owned(),
        Some(charset) if has_variables(charset) => return media_type.to_owned(),
        Some(_) if recodes(level) => return media_type.to_owned(),
        Some(charset) => charset,
    };
    let mut types = types(level).into_iter();
    match types.any(|name| name == "*" || name == media_type) {
        true => format!("{media_type}; charset={charset}"),
        false => media_type.to_owned(),
    }
}

/// The media types of texts that are said to have an encoding.
fn types(level: &Level<'_>) -> Vec<String> {
    let written = level.nearest(&["charset_types"]);
    if written.is_empty() {
        return USUAL.map(str::to_owned).to_vec();
    }
    let words = written.iter().flat_map(|line| &line.args);
    let named = words.map(|word| word.text.clone());
    ["text/html".to_owned()].into_iter().chain(named).collect()
}

/// Declares and converts the charset of responses; `is_passed` if they come from an upstream, which may choose the
/// charset. Files and the text of `return` have the charset in their media types already, unless it depends on
/// variables or they are converted.
pub fn lower(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    facts: &Facts,
    is_passed: bool,
) -> Option<Handler> {
    let target = level.find("charset").and_then(|line| line.args.first());
    let target = target.filter(|word| word.text != "off");
    let source = level
        .find("source_charset")
        .and_then(|line| line.args.first());
    let is_said = target.is_some_and(|word| has_variables(&word.text));
    let heeds = is_passed && !cx.charsets.names.is_empty();
    if !is_said && !heeds && !recodes(level) {
        return None;
    }
    if let (Some(target), Some(source)) = (target, source) {
        check_pair(cx, source, target);
    }
    let mut text = |word: Option<&Text>| word.map(|word| cx.text(word, facts)).unwrap_or_default();
    Some(Handler::NginxCharset(Charset {
        name: text(target),
        source: text(source),
        overrides: level.is_on("override_charset", false),
        types: types(level),
    }))
}

/// Refuses an encoding that no table leads to: nginx does not start with it either.
fn check_pair(cx: &mut Lowering<'_>, source: &Text, target: &Text) {
    let (from, to) = (&source.text, &target.text);
    let is_open = has_variables(from) || has_variables(to);
    if is_open || from.eq_ignore_ascii_case(to) || cx.charsets.has_table(from, to) {
        return;
    }
    if !cx.charsets.reported.insert((from.clone(), to.clone())) {
        return;
    }
    cx.report.push(
        Diagnostic::error(
            "invalid-value",
            format!("no `charset_map` between `{from}` and `{to}`"),
        )
        .at(source.span, "texts have this encoding")
        .imported(source.import)
        .also(target.span, "and are to get this one")
        .help("include a table: nginx comes with `koi-win`, `koi-utf` and `win-utf`"),
    );
}
