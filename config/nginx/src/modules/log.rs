//! `ngx_http_log_module`: access logs.

use sluice_diag::Diagnostic;
use sluice_model::Handler;
use sluice_model::nginx::{AccessLine, AccessLines};

use crate::lower::level::Level;
use crate::lower::text::{Facts, has_variables};
use crate::lower::{Lowering, syslog};
use crate::registry::Takes::Words;
use crate::registry::Verdict::{Always, Partly};
use crate::registry::{MANY, Word};
use crate::tree::{Directive, Word as Text};

/// The directives.
pub const WORDS: &[Word] = &[
    Word::many("access_log", Words(1, MANY)).but(Partly(
        "files without variables; `if=` works, `buffer=` and `flush=` are automatic, `gzip` is not built; \
         where nothing is said no log is written",
    )),
    Word::many("log_format", Words(2, MANY)),
    Word::once("open_log_file_cache", Words(1, 4)).but(Always("files of logs stay open")),
];

/// The format that is there without being written.
const COMBINED: &str = "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \
                        \"$http_referer\" \"$http_user_agent\"";

/// A format of lines.
#[derive(Clone, Debug)]
pub struct Format {
    text: Text,
    escape: String,
}

/// What the access logs of a place are told of a request.
pub fn lower(cx: &mut Lowering<'_>, level: &Level<'_>, facts: &Facts) -> Option<Handler> {
    let directives = level.nearest(&["access_log"]);
    if directives
        .iter()
        .any(|directive| directive.arg(0) == Some("off"))
    {
        return None;
    }
    let mut lines = Vec::new();
    for directive in directives {
        lines.extend(line(cx, level, directive, facts));
    }
    (!lines.is_empty()).then_some(Handler::NginxLog(AccessLines { lines }))
}

fn line(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    directive: &Directive,
    facts: &Facts,
) -> Option<AccessLine> {
    let (path, rest) = directive.args.split_first()?;
    if let Some(params) = path.text.strip_prefix("syslog:") {
        if let Err(wanted) = syslog::parse(params) {
            return cx.invalid(path, "access_log", wanted);
        }
    } else if has_variables(&path.text) {
        let wanted = "`off`, a file or `syslog:`; variables are not built yet";
        return cx.invalid(path, "access_log", wanted);
    }
    let (name, params) = match rest.split_first() {
        Some((name, params)) if !name.text.contains('=') => (Some(name), params),
        _ => (None, rest),
    };
    let mut condition = None;
    for param in params {
        match param.text.split_once('=') {
            Some(("if", text)) => {
                let word = Text {
                    text: text.to_owned(),
                    ..param.clone()
                };
                condition = Some(cx.text(&word, facts));
            }
            Some(("buffer" | "flush", _)) => {}
            _ => {
                return cx.invalid(
                    param,
                    "access_log",
                    "`buffer=`, `flush=` or `if=`; `gzip` is not built yet",
                );
            }
        }
    }
    let format = format(cx, level, name.unwrap_or(path), name)?;
    Some(AccessLine {
        logger: cx.logger(&path.text),
        format: cx.text(&format.text, facts),
        escape: format.escape,
        condition,
    })
}

fn format(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    place: &Text,
    name: Option<&Text>,
) -> Option<Format> {
    let wanted = name.map_or("combined", |name| &name.text);
    let found = level.everywhere("log_format");
    let found = found.into_iter().find(|line| line.arg(0) == Some(wanted));
    let Some(line) = found else {
        if wanted == "combined" {
            return Some(Format {
                text: Text {
                    text: COMBINED.to_owned(),
                    ..place.clone()
                },
                escape: String::new(),
            });
        }
        cx.report.push(
            Diagnostic::error(
                "unknown-format",
                format!("no `log_format` is called `{wanted}`"),
            )
            .at(place.span, "not defined")
            .imported(place.import)
            .help("define it in `http`, or use `combined`"),
        );
        return None;
    };
    let mut parts = line.args[1..].iter().peekable();
    let mut escape = String::new();
    if let Some(word) = parts
        .peek()
        .and_then(|word| word.text.strip_prefix("escape="))
    {
        escape = word.to_owned();
        let word = parts.next()?;
        if !matches!(escape.as_str(), "default" | "json" | "none") {
            return cx.invalid(
                word,
                "log_format",
                "`escape=default`, `escape=json` or `escape=none`",
            );
        }
    }
    let first = line.args.get(1)?;
    Some(Format {
        text: Text {
            text: parts.map(|part| part.text.as_str()).collect(),
            ..first.clone()
        },
        escape,
    })
}
