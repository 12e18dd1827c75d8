//! `ngx_http_log_module`: access logs.

use sluice_diag::Diagnostic;
use sluice_model::nginx::{AccessLine, AccessLines, NamedFile};
use sluice_model::{Duration, Handler};

use crate::definition::Repeats::OncePerName;
use crate::definition::Takes::Words;
use crate::definition::Wrong;
use crate::definition::{Definition, MANY, many, once};
use crate::lower::level::Level;
use crate::lower::log_files::Hold;
use crate::lower::lowering::Lowering;
use crate::lower::text::{Facts, has_variables};
use crate::lower::{syslog, values};
use crate::tree::{Directive, Word as Text};

/// The directives.
pub const DIRECTIVES: &[Definition] = &[
    many("access_log", Words(1, MANY)).checked(|line| params(line).err()),
    many("log_format", Words(2, MANY))
        .checked(log_format)
        .repeated(OncePerName)
        .named(),
    once("open_log_file_cache", Words(1, 4)).checked(|line| open_files(line).err()),
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

/// What follows the name of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Params<'t> {
    /// How lines are held back and compressed.
    pub hold: Hold,
    /// Where the condition stands.
    pub condition: Option<&'t Text>,
}

/// nginx's buffer where lines are compressed and no size is said.
const GZIP_BUFFER_BYTES: u64 = 64 * 1024;

/// How hard nginx compresses where no level is said.
const GZIP_LEVEL: u8 = 1;

/// Reads what follows the names of a log and of its format. The error is the number of the word that means nothing, and what
/// may stand there.
pub fn params(directive: &Directive) -> Result<Params<'_>, Wrong> {
    const WANTED: &str =
        "`buffer=SIZE`, `flush=TIME` beside it, `gzip` with a level from 1 to 9, or `if=CONDITION`";
    let path = directive.arg(0).unwrap_or_default();
    if path == "off" {
        let alone = Err((1, "nothing behind `off`"));
        return if directive.args.len() > 1 {
            alone
        } else {
            Ok(Params::default())
        };
    }
    let mut found = Params::default();
    let mut flush_at = None;
    for (at, word) in directive.args.iter().enumerate().skip(2) {
        let hold = &mut found.hold;
        match word.text.split_once('=') {
            None if word.text == "gzip" => hold.gzip = GZIP_LEVEL,
            Some(("gzip", level)) => {
                let level = level.parse().ok().filter(|level| (1..=9).contains(level));
                hold.gzip = level.ok_or((at, WANTED))?;
            }
            Some(("buffer", bytes)) => {
                let bytes = values::size(bytes).filter(|bytes| *bytes > 0);
                hold.bytes = bytes.ok_or((at, WANTED))?;
            }
            Some(("flush", length)) => {
                let length = values::time(length).filter(|length| *length > Duration::default());
                hold.time = Some(length.ok_or((at, WANTED))?);
                flush_at = Some(at);
            }
            Some(("if", _)) => found.condition = Some(word),
            _ => return Err((at, WANTED)),
        }
    }
    if found.hold.gzip > 0 && found.hold.bytes == 0 {
        found.hold.bytes = GZIP_BUFFER_BYTES;
    }
    match (flush_at, found.hold.bytes) {
        (Some(at), 0) => Err((at, "`flush=` beside `buffer=` or `gzip` only")),
        (_, 1..) if has_variables(path) => {
            Err((0, "a file without variables where lines are buffered"))
        }
        (_, 1..) if path.starts_with("syslog:") => Err((
            0,
            "a file where lines are buffered: those for syslog are not",
        )),
        _ => Ok(found),
    }
}

/// Which files with variables in their names stay open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFiles {
    max: u32,
    inactive: Duration,
    uses_min: u32,
    valid: Duration,
}

/// Reads `open_log_file_cache`; `None` is `off`. The error is as that of [`params`].
pub fn open_files(directive: &Directive) -> Result<Option<OpenFiles>, Wrong> {
    const WANTED: &str =
        "`off`, or `max=N` and perhaps `inactive=TIME`, `min_uses=N` and `valid=TIME`";
    let mut is_off = false;
    // nginx's numbers.
    let mut found = OpenFiles {
        max: 0,
        inactive: Duration::seconds(10),
        uses_min: 1,
        valid: Duration::seconds(60),
    };
    for (at, word) in directive.args.iter().enumerate() {
        let wrong = (at, WANTED);
        match word.text.split_once('=') {
            Some(("max", count)) => found.max = count.parse().map_err(|_| wrong)?,
            Some(("min_uses", count)) => found.uses_min = count.parse().map_err(|_| wrong)?,
            Some(("inactive", length)) => found.inactive = values::time(length).ok_or(wrong)?,
            Some(("valid", length)) => found.valid = values::time(length).ok_or(wrong)?,
            None if word.text == "off" => is_off = true,
            _ => return Err(wrong),
        }
    }
    match (is_off, found.max) {
        (true, _) => Ok(None),
        (false, 0) => Err((0, WANTED)),
        (false, _) => Ok(Some(found)),
    }
}

/// The access log lines of a block's requests.
pub fn lower(cx: &mut Lowering<'_>, level: &Level<'_>, facts: &Facts) -> Option<Handler> {
    let directives = level.nearest(&["access_log"]);
    if directives
        .iter()
        .any(|directive| directive.arg(0) == Some("off"))
    {
        return None;
    }
    let mut lines = Vec::new();
    if directives.is_empty() {
        lines.extend(usual_line(cx, level, facts));
    }
    for directive in directives {
        lines.extend(line(cx, level, directive, facts));
    }
    let subrequests = level.is_on("log_subrequest", false);
    (!lines.is_empty()).then_some(Handler::NginxLog(AccessLines { lines, subrequests }))
}

/// The line of nginx's own log, where nothing is said and nginx's command line runs the file.
fn usual_line(cx: &mut Lowering<'_>, level: &Level<'_>, facts: &Facts) -> Option<AccessLine> {
    let path = cx.invocation.access_log.clone();
    if path.is_empty() {
        return None;
    }
    let mut blocks = std::iter::successors(Some(level), |level| level.around());
    let some = blocks.find_map(|level| level.directives().first())?;
    let combined = Text {
        text: COMBINED.to_owned(),
        ..some.name.clone()
    };
    Some(AccessLine {
        logger: cx.usual_logger(&path),
        format: cx.text(&combined, facts),
        ..AccessLine::default()
    })
}

fn line(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    directive: &Directive,
    facts: &Facts,
) -> Option<AccessLine> {
    let path = directive.args.first()?;
    if let Some(params) = path.text.strip_prefix("syslog:")
        && let Err(wanted) = syslog::parse(params)
    {
        return cx.invalid(path, "access_log", wanted);
    }
    // Errors were reported when the words were checked.
    let params = params(directive).ok()?;
    let condition = params.condition.map(|word| {
        let text = word.text.strip_prefix("if=").unwrap_or_default();
        let text = Text {
            text: text.to_owned(),
            ..word.clone()
        };
        cx.text(&text, facts)
    });
    let name = directive.args.get(1);
    let format = format(cx, level, name.unwrap_or(path), name)?;
    let is_named_anew = has_variables(&path.text) && !path.text.starts_with("syslog:");
    let (logger, file) = match is_named_anew {
        true => (String::new(), Some(named_file(cx, level, path, facts))),
        false => (cx.logger(path, params.hold)?, None),
    };
    Some(AccessLine {
        logger,
        format: cx.text(&format.text, facts),
        escape: format.escape,
        condition,
        file,
    })
}

/// A file that each line names anew: nginx asks for the root of the request before it makes one.
fn named_file(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    path: &Text,
    facts: &Facts,
) -> Box<NamedFile> {
    cx.names_log_files = true;
    let kept = level.find("open_log_file_cache");
    let kept = kept.and_then(|directive| open_files(directive).ok().flatten());
    let whole = Text {
        text: cx.log_path(&path.text),
        ..path.clone()
    };
    let file = NamedFile {
        path: cx.text(&whole, facts),
        root: facts.root.clone().unwrap_or_default(),
        errors: cx.errors_of(level),
        ..NamedFile::default()
    };
    Box::new(match kept {
        None => file,
        Some(kept) => NamedFile {
            open_max: kept.max,
            inactive: kept.inactive,
            uses_min: kept.uses_min,
            valid: kept.valid,
            ..file
        },
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

fn log_format(directive: &Directive) -> Option<Wrong> {
    if directive.arg(0) == Some("combined") {
        return Some((
            0,
            "a name that is free: `combined` is there without being written",
        ));
    }
    let escape = directive.arg(1)?.strip_prefix("escape=");
    if escape.is_some_and(|escape| !matches!(escape, "default" | "json" | "none")) {
        return Some((1, "`escape=default`, `escape=json` or `escape=none`"));
    }
    let mut words = directive.args.iter().enumerate().skip(1);
    let (at, _) = words.find(|(_, word)| !has_whole_names(&word.text))?;
    Some((at, "names behind each `$`, as in `$status` or `${status}`"))
}

/// Whether a name stands behind each `$`, and each bracket is closed.
fn has_whole_names(text: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    text.split('$')
        .skip(1)
        .all(|rest| match rest.strip_prefix('{') {
            None => rest.starts_with(is_letter),
            Some(rest) => rest
                .split_once('}')
                .is_some_and(|(name, _)| !name.is_empty() && name.chars().all(is_letter)),
        })
}
