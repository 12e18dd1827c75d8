//! `ngx_http_headers_module`: headers and trailers that are added to responses.

use sluice_diag::Diagnostic;
use sluice_model::Handler;
use sluice_model::handler::{FieldValues, Headers, ResponseHeaderOps};
use sluice_model::matcher::ResponseMatcher;
use sluice_model::nginx::{Expires, Trailer, Trailers};

use crate::definition::Takes::{Choice, Words};
use crate::definition::Verdict::Partly;
use crate::definition::{Definition, many, once};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::lower::text::{Facts, has_variables};
use crate::lower::values;
use crate::tree::Directive;

/// The directives.
pub const DIRECTIVES: &[Definition] = &[
    many("add_header", Words(2, 3)),
    once("add_header_inherit", Choice(&["on", "off", "merge"])),
    many("add_trailer", Words(2, 3)).but(Partly(
        "variables have the values at the start of the response",
    )),
    once("add_trailer_inherit", Choice(&["on", "off", "merge"])),
    once("expires", Words(1, 2)),
];

/// The `Expires` header of a block's responses.
pub fn expires(cx: &mut Lowering<'_>, level: &Level<'_>, facts: &Facts) -> Option<Handler> {
    let directive = level.find("expires")?;
    let (word, is_modified) = match directive.args.as_slice() {
        [word] => (word, false),
        [modified, word] if modified.text == "modified" => (word, true),
        [word, ..] => {
            return cx.invalid(
                word,
                "expires",
                "a time, `modified` and a time, `epoch`, `max` or `off`",
            );
        }
        [] => return None,
    };
    let usual = match is_modified {
        true => "modified",
        false => "access",
    };
    let mut found = Expires {
        from: usual.to_owned(),
        ..Expires::default()
    };
    let seconds = |text: &str| values::time(text).map(|time| time.0 / 1_000_000_000);
    let read = match word.text.as_str() {
        text if has_variables(text) => {
            found.value = cx.text(word, facts);
            Some(())
        }
        "off" if !is_modified => return None,
        text @ ("epoch" | "max") if !is_modified => {
            text.clone_into(&mut found.from);
            Some(())
        }
        text => {
            let (sign, digits) = match text.as_bytes().first() {
                Some(b'-') => (-1, &text[1..]),
                Some(b'+') => (1, &text[1..]),
                Some(b'@') if !is_modified => {
                    "daily".clone_into(&mut found.from);
                    (1, &text[1..])
                }
                _ => (1, text),
            };
            // A time of the day is one of a day.
            let is_fit = |seconds: &i64| found.from != "daily" || *seconds <= 24 * 60 * 60;
            seconds(digits)
                .filter(is_fit)
                .map(|seconds| found.seconds = sign * seconds)
        }
    };
    match read {
        Some(()) => Some(Handler::NginxExpires(found)),
        None => {
            let wanted = "a time such as `30d`, `-1` or `@15h30m`, `epoch`, `max` or `off`";
            cx.invalid(word, "expires", wanted)
        }
    }
}

/// The statuses of responses that get headers without `always`.
const STATUSES: [u16; 10] = [200, 201, 204, 206, 301, 302, 303, 304, 307, 308];

/// The lines of a directive that hold in a place: its own in place of those of the blocks around it, beside them, or none of
/// theirs in any case, as the switch called `inherit` says.
fn lines<'t>(level: &Level<'t>, name: &str, inherit: &str) -> Vec<&'t Directive> {
    let mut own: Vec<&Directive> = level.own(name).collect();
    let mode = level.word(inherit).unwrap_or("on");
    if mode != "off"
        && (own.is_empty() || mode == "merge")
        && let Some(around) = level.around()
    {
        own.extend(lines(around, name, inherit));
    }
    own
}

/// Whether a line applies to error responses, too; `None` if it ends with another word.
fn is_always(cx: &mut Lowering<'_>, line: &Directive) -> Option<bool> {
    let Some(word) = line.args.get(2) else {
        return Some(false);
    };
    if word.text == "always" {
        return Some(true);
    }
    let name = line.name();
    cx.report.push(
        Diagnostic::error(
            "invalid-value",
            format!("`{}` is not a parameter of `{name}`", word.text),
        )
        .at(word.span, "not understood")
        .imported(word.import)
        .help("it takes `always` at its end; a value with blanks stands in quotes"),
    );
    None
}

/// Headers that a response has only once: a line replaces the existing one, and removes it if its value is empty.
const SINGLE: [&str; 2] = ["Last-Modified", "ETag"];

/// The fields that are added in a place.
pub fn lower(cx: &mut Lowering<'_>, level: &Level<'_>, facts: &Facts) -> Vec<Handler> {
    // Lines that are alike in this stand together, so that fields come in the order of the file.
    let mut runs: Vec<(bool, Ops)> = Vec::new();
    for line in lines(level, "add_header", "add_header_inherit") {
        let Some(is_always) = is_always(cx, line) else {
            continue;
        };
        let value = cx.text(&line.args[1], facts);
        if runs.last().is_none_or(|(last, _)| *last != is_always) {
            runs.push((is_always, Ops::default()));
        }
        if let Some((_, ops)) = runs.last_mut() {
            ops.push(&line.args[0].text, value);
        }
    }
    // Handlers added last process a response first.
    let runs = runs.into_iter().rev();
    let handlers = runs.map(|(is_always, ops)| ops.handler((!is_always).then_some(&STATUSES[..])));
    handlers.flatten().collect()
}

/// Changes to the response headers.
#[derive(Default)]
struct Ops {
    add: FieldValues,
    set: FieldValues,
    delete: Vec<String>,
}

impl Ops {
    fn push(&mut self, name: &str, value: String) {
        let single = SINGLE.iter().find(|known| known.eq_ignore_ascii_case(name));
        match (single, value.is_empty()) {
            // The last of several counts.
            (Some(single), is_empty) => {
                self.delete.retain(|known| known != single);
                self.set.remove(*single);
                match is_empty {
                    true => self.delete.push((*single).to_owned()),
                    false => _ = self.set.insert((*single).to_owned(), vec![value]),
                }
            }
            // An empty value adds nothing.
            (None, true) => {}
            (None, false) => self.add.entry(name.to_owned()).or_default().push(value),
        }
    }

    fn handler(self, statuses: Option<&[u16]>) -> Option<Handler> {
        let Ops { add, set, delete } = self;
        if add.is_empty() && set.is_empty() && delete.is_empty() {
            return None;
        }
        let require = statuses.map(|statuses| ResponseMatcher {
            status_code: statuses.to_vec(),
            ..ResponseMatcher::default()
        });
        let mut values = add.values().chain(set.values()).flatten();
        Some(Handler::Headers(Box::new(Headers {
            request: None,
            response: Some(ResponseHeaderOps {
                skip_empty: values.any(|value| value.contains('{')),
                add,
                set,
                delete,
                require,
                deferred: true,
                ..ResponseHeaderOps::default()
            }),
        })))
    }
}

/// The trailers that are added to the responses of a block.
pub fn trailers(cx: &mut Lowering<'_>, level: &Level<'_>, facts: &Facts) -> Option<Handler> {
    let mut fields = Vec::new();
    for line in lines(level, "add_trailer", "add_trailer_inherit") {
        let always = is_always(cx, line)?;
        let value = cx.text(&line.args[1], facts);
        // An empty value adds nothing.
        if !value.is_empty() {
            fields.push(Trailer {
                name: line.args[0].text.clone(),
                value,
                always,
            });
        }
    }
    (!fields.is_empty()).then_some(Handler::NginxTrailers(Trailers { fields }))
}
