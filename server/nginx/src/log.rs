//! `nginx_log`: access log lines in nginx's formats. The logs of the configuration write them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::SystemTime;

use sluice_model::nginx::{AccessLine as LineConfig, AccessLines as Config, NamedFile};
use sluice_route::placeholder::NginxKey;
use sluice_route::{Key, Template, Unknown};

use crate::state::NginxContext;
use sluice_observe::log::{Head, Kept, Log, NamedLine, Route, Severity, Target};
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::{Exchange, Late};
use sluice_pipeline::handler::{Handler, Step};
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::values::{At, expand_path, expanded, is_set};

struct Lines {
    lines: Vec<Arc<Line>>,
    /// Whether subrequests are logged.
    subrequests: bool,
}

#[derive(Debug)]
struct Line {
    logger: String,
    format: Template,
    escape: Escape,
    condition: Option<Template>,
    /// A file named by the directive itself, instead of the logger.
    file: Option<Box<File>>,
    log: Option<Log>,
    /// Where lines go; set once the logs of the configuration are in use.
    route: OnceLock<Route>,
}

/// A file whose name depends on the request.
#[derive(Debug)]
struct File {
    path: Template,
    root: Template,
    target: Arc<Target>,
}

/// How values are escaped, so that client input cannot forge a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escape {
    /// Quotes, backslashes and unprintable bytes become `\\xHH`; a missing value becomes a hyphen.
    Default,
    /// As in a JSON string.
    Json,
    /// No escaping.
    None,
}

/// Builds the handler.
pub fn build(config: &Config, builder: &Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    let line = |line: &LineConfig| {
        Ok(Arc::new(Line {
            logger: format!("http.log.access.{}", line.logger),
            format: builder.template(&line.format)?,
            escape: match line.escape.as_str() {
                "" | "default" => Escape::Default,
                "json" => Escape::Json,
                "none" => Escape::None,
                other => return Err(Refusal::new(format!("`escape={other}`"))),
            },
            condition: line
                .condition
                .as_ref()
                .map(|text| builder.template(text))
                .transpose()?,
            file: line
                .file
                .as_ref()
                .zip(builder.log)
                .map(|(file, log)| File::build(file, log, builder).map(Box::new))
                .transpose()?,
            log: builder.log.cloned(),
            route: OnceLock::new(),
        }))
    };
    let lines = config
        .lines
        .iter()
        .map(line)
        .collect::<Result<_, Refusal>>()?;
    Ok(Box::new(Lines {
        lines,
        subrequests: config.subrequests,
    }))
}

impl File {
    fn build(config: &NamedFile, log: &Log, builder: &Builder<'_>) -> Result<File, Refusal> {
        let logger = match config.errors.as_str() {
            "" => "http.log.error".to_owned(),
            name => format!("http.log.error.{name}"),
        };
        let time = |time: sluice_model::Duration| time.to_std().unwrap_or_default();
        let kept = (config.open_max > 0).then(|| Kept {
            max: config.open_max as usize,
            inactive: time(config.inactive),
            uses_min: config.uses_min,
            valid: time(config.valid),
        });
        Ok(File {
            path: builder.template(&config.path)?,
            root: builder.template(&config.root)?,
            target: Arc::new(Target {
                log: log.clone(),
                logger,
                kept,
                last_logged: Mutex::default(),
            }),
        })
    }

    /// Queues a line for the file that the request selects.
    fn write(&self, exchange: &Exchange, log: &Log, mut line: Vec<u8>) {
        line.push(b'\n');
        log.outputs().named().push(NamedLine {
            target: self.target.clone(),
            path: log_path(&self.path, exchange),
            root: log_path(&self.root, exchange),
            line,
        });
    }
}

/// Expands the path of a log file. A line is never lost because a value is unfit for a path: unsafe characters then
/// become `_`, so that a client can neither choose another directory nor evade the log.
fn log_path(text: &Template, exchange: &Exchange) -> PathBuf {
    let mut path = Vec::new();
    if expand_path(text, exchange, &mut path).is_err() {
        path.clear();
        text.expand_each(&At(exchange), Unknown::Empty, &mut path, |_, out, start| {
            let value = &mut out[start..];
            for byte in value.iter_mut() {
                if !byte.is_ascii_alphanumeric() && !matches!(byte, b'-' | b'.') {
                    *byte = b'_';
                }
            }
            if value.iter().all(|byte| *byte == b'.') {
                out.truncate(start);
                out.push(b'_');
            }
        });
    }
    PathBuf::from(OsString::from_vec(path))
}

impl Handler for Lines {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        if !self.subrequests && exchange.context.nginx().is_subrequest() {
            return Step::Next;
        }
        let lines = self.lines.iter().map(|line| line.clone() as Arc<dyn Late>);
        exchange.context.log.late.extend(lines);
        Step::Next
    }
}

impl Late for Line {
    fn add(&self, exchange: &mut Exchange) {
        let Some(log) = &self.log else { return };
        if let Some(condition) = &self.condition
            && !is_set(&expanded(condition, exchange))
        {
            return;
        }
        let mut text = Vec::with_capacity(128);
        self.format.expand_each(
            &At(exchange),
            Unknown::Empty,
            &mut text,
            |key, out, start| {
                if out.len() > start || !is_empty_word(key) {
                    self.escape.apply(out, start);
                }
            },
        );
        if let Some(file) = &self.file {
            return file.write(exchange, log, text);
        }
        let route = self.route.get_or_init(|| log.plan().route(&self.logger));
        let message = String::from_utf8_lossy(&text);
        let head = Head {
            severity: Severity::Info,
            logger: &self.logger,
            message: &message,
            caller: std::panic::Location::caller(),
        };
        let mut line = Vec::new();
        route.write(&mut line, SystemTime::now(), &head, |_| {});
    }
}

/// Whether the variable can be legitimately empty, which nginx does not log as missing.
fn is_empty_word(key: &Key) -> bool {
    matches!(
        key,
        Key::Nginx(NginxKey::RequestCompletion | NginxKey::IsArgs | NginxKey::Https)
    )
}

impl Escape {
    fn apply(self, out: &mut Vec<u8>, start: usize) {
        const HEX: &[u8; 16] = b"0123456789ABCDEF";
        match self {
            Escape::None => {}
            Escape::Default if out.len() == start => out.push(b'-'),
            Escape::Default => {
                let is_plain =
                    |byte: &u8| matches!(byte, 0x20..=0x7e) && !matches!(byte, b'"' | b'\\');
                if out[start..].iter().all(is_plain) {
                    return;
                }
                for byte in out.split_off(start) {
                    match is_plain(&byte) {
                        true => out.push(byte),
                        false => {
                            out.extend_from_slice(b"\\x");
                            out.push(HEX[usize::from(byte >> 4)]);
                            out.push(HEX[usize::from(byte & 15)]);
                        }
                    }
                }
            }
            Escape::Json => {
                let value = out.split_off(start);
                let text = serde_json::Value::from(String::from_utf8_lossy(&value)).to_string();
                // The format has its own quotes.
                out.extend_from_slice(&text.as_bytes()[1..text.len() - 1]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Escape;

    fn escaped(escape: Escape, value: &[u8]) -> String {
        let mut out = b"before ".to_vec();
        out.extend_from_slice(value);
        escape.apply(&mut out, 7);
        String::from_utf8(out.split_off(7)).expect("ASCII")
    }

    #[test]
    fn values_cannot_leave_their_line() {
        assert_eq!(escaped(Escape::Default, b"plain text"), "plain text");
        assert_eq!(escaped(Escape::Default, b""), "-");
        assert_eq!(
            escaped(Escape::Default, b"a\"b\\\n\xff"),
            "a\\x22b\\x5C\\x0A\\xFF"
        );
        assert_eq!(escaped(Escape::Json, b"a\"b\n"), "a\\\"b\\n");
        assert_eq!(escaped(Escape::Json, b""), "");
    }
}
