//! `log`, `log_skip`, `log_name` and `log_append`: the access log of a site.

use sluice_model::Handler;
use sluice_model::handler::LogAppend;
use sluice_model::logging::Log;

use super::vars::variable;
use crate::lower::Lowering;
use crate::lower::args::texts;
use crate::lower::definition::{Definition, directive};
use crate::lower::logs::{LOG, LogLines};
use crate::lower::outcome::{AccessLog, Outcome, Outcomes};
use crate::tree::Directive;

/// `log`.
pub(super) static LOG_DIRECTIVE: Definition =
    directive("log", "log [<logger_name>] [{ … }]", |cx, line| {
        cx.log(line)
    })
    .with(&LOG);

/// `log_skip`.
pub(super) static LOG_SKIP: Definition =
    directive("log_skip", "log_skip [<matcher>]", |cx, line| {
        cx.log_skip(line)
    });

/// `log_skip` under its old name.
pub(super) static SKIP_LOG: Definition = LOG_SKIP.formerly("skip_log");

/// `log_name`.
pub(super) static LOG_NAME: Definition =
    directive("log_name", "log_name [<matcher>] <names...>", |cx, line| {
        cx.log_name(line)
    });

/// `log_level`.
pub(super) static LOG_LEVEL: Definition =
    directive("log_level", "log_level [<matcher>] <level>", |cx, line| {
        cx.access_level(line)
    });

/// The levels of access log entries.
const LEVELS: [&str; 4] = ["debug", "info", "warn", "error"];

/// `log_append`.
pub(super) static LOG_APPEND: Definition = directive(
    "log_append",
    "log_append [<matcher>] [<]<key> <value>",
    |cx, line| cx.log_append(line),
);

impl Lowering<'_> {
    fn log(&mut self, line: &Directive) -> Outcomes {
        self.between(line, &line.args, 0, 1)?;
        let mut lines = LogLines {
            log: Log::default(),
            access: Some(AccessLog {
                name: line
                    .args
                    .first()
                    .map(|word| word.text.clone())
                    .unwrap_or_default(),
                hostnames: Vec::new(),
                no_hostname: false,
                log: None,
            }),
        };
        self.log_lines(line, &mut lines)?;
        let (mut access, mut log) = (lines.access?, lines.log);
        if log != Log::default() {
            if access.name.is_empty() {
                access.name = format!("log{}", self.next_log);
                self.next_log += 1;
            }
            log.include = vec![format!("http.log.access.{}", access.name)];
            access.log = Some(log);
        }
        Some(vec![Outcome::Log(Box::new(access))])
    }

    fn log_skip(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.no_block(line)?;
            this.exact::<0>(line, args)?;
            Some(variable("log_skip", true.into()))
        })
    }

    fn log_name(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.no_block(line)?;
            this.between(line, args, 1, usize::MAX)?;
            Some(variable("access_logger_names", texts(args).into()))
        })
    }

    fn access_level(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.no_block(line)?;
            let [word] = this.exact::<1>(line, args)?;
            let lower = word.text.to_lowercase();
            match LEVELS.iter().find(|level| **level == lower) {
                Some(level) => Some(variable("log_level", (*level).into())),
                None => this.invalid_value(word, &LEVELS),
            }
        })
    }

    fn log_append(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.no_block(line)?;
            let [key, value] = this.exact::<2>(line, args)?;
            let (early, key) = match key.text.strip_prefix('<') {
                Some(name) if !name.is_empty() => (true, name),
                _ => (false, key.text.as_str()),
            };
            let (key, value) = (key.to_string(), value.text.clone());
            Some(Handler::LogAppend(LogAppend { key, value, early }))
        })
    }
}
