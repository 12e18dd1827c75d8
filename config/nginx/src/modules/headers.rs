//! `ngx_http_headers_module`: fields that are added to answers.

use sluice_diag::Diagnostic;
use sluice_model::Handler;
use sluice_model::handler::{FieldValues, Headers, ResponseHeaderOps};
use sluice_model::matcher::ResponseMatcher;
use sluice_model::nginx::Expires;

use crate::lower::Lowering;
use crate::lower::level::Level;
use crate::lower::text::Facts;
use crate::lower::values;
use crate::registry::Takes::Words;
use crate::registry::Verdict::Partly;
use crate::registry::Word;

/// The directives.
pub const WORDS: &[Word] = &[
    Word::many("add_header", Words(2, 3)).but(Partly(
        "one that answers of an upstream have already stands there twice, as in nginx; `Last-Modified` and `ETag` are \
         added, not replaced",
    )),
    Word::once("expires", Words(1, 2)).but(Partly("times without variables, `epoch`, `max` and `off`; `@` is not built")),
];

/// Until when answers of a place are fresh.
pub fn expires(cx: &mut Lowering<'_>, level: &Level<'_>) -> Option<Handler> {
    let directive = level.find("expires")?;
    let (word, from) = match directive.args.as_slice() {
        [word] => (word, "access"),
        [modified, word] if modified.text == "modified" => (word, "modified"),
        [word, ..] => {
            return cx.invalid(
                word,
                "expires",
                "a time, `modified` and a time, `epoch`, `max` or `off`",
            );
        }
        [] => return None,
    };
    let (from, seconds) = match word.text.as_str() {
        "off" => return None,
        "epoch" => ("epoch", 0),
        "max" => ("max", 0),
        text => {
            let (sign, digits) = match text.strip_prefix('-') {
                Some(digits) => (-1, digits),
                None => (1, text.strip_prefix('+').unwrap_or(text)),
            };
            match values::time(digits) {
                Some(time) => (from, sign * (time.0 / 1_000_000_000)),
                None => {
                    return cx.invalid(
                        word,
                        "expires",
                        "a time such as `30d` or `-1`, `epoch`, `max` or `off`",
                    );
                }
            }
        }
    };
    Some(Handler::NginxExpires(Expires {
        seconds,
        from: from.to_owned(),
        always: false,
    }))
}

/// The statuses of answers that get fields without `always`.
const STATUSES: [u16; 10] = [200, 201, 204, 206, 301, 302, 303, 304, 307, 308];

/// The fields that are added in a place. Those of a block replace those of the blocks around it.
pub fn lower(cx: &mut Lowering<'_>, level: &Level<'_>, facts: &Facts) -> Vec<Handler> {
    let (mut always, mut usually) = (FieldValues::new(), FieldValues::new());
    for directive in level.nearest(&["add_header"]) {
        let name = &directive.args[0];
        let into = match directive.args.get(2) {
            Some(word) if word.text != "always" => {
                cx.report.push(
                    Diagnostic::error(
                        "invalid-value",
                        format!("`{}` is no word of `add_header`", word.text),
                    )
                    .at(word.span, "not understood")
                    .imported(word.import)
                    .help("it takes `always` at its end; a value with blanks stands in quotes"),
                );
                continue;
            }
            Some(_) => &mut always,
            None => &mut usually,
        };
        let value = cx.text(&directive.args[1], facts);
        // An empty value adds nothing.
        if !value.is_empty() {
            into.entry(name.text.clone()).or_default().push(value);
        }
    }
    let usually = handler(usually, Some(&STATUSES));
    usually.into_iter().chain(handler(always, None)).collect()
}

fn handler(add: FieldValues, statuses: Option<&[u16]>) -> Option<Handler> {
    if add.is_empty() {
        return None;
    }
    let require = statuses.map(|statuses| ResponseMatcher {
        status_code: statuses.to_vec(),
        ..ResponseMatcher::default()
    });
    Some(Handler::Headers(Box::new(Headers {
        request: None,
        response: Some(ResponseHeaderOps {
            skip_empty: add.values().flatten().any(|value| value.contains('{')),
            add,
            require,
            deferred: true,
            ..ResponseHeaderOps::default()
        }),
    })))
}
