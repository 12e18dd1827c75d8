//! Where the server tells what it notices, and where the lines of access logs go. What they say is left to `modules::log`.

use std::collections::BTreeMap;

use sluice_model::http::ServerLogs;
use sluice_model::logging::{
    FileWriter, Log, LogEncoder, LogWriter, Logging, MessageEncoder, NginxEncoder, PlainWriter,
};

use super::level::Level;
use super::{Lowering, syslog};
use crate::tree::Directive;

/// The name of the logger with this number, below `http.log.access`.
pub fn logger_name(index: usize) -> String {
    format!("nginx{index}")
}

impl Lowering<'_> {
    /// The logs of the process: `error_log` of `http`, else that of the main context; then the files of access logs.
    pub(super) fn logging(&mut self, main: &Level<'_>) -> Option<Logging> {
        let in_http = main.own("http").next().and_then(|http| {
            let mut own = http.body().iter();
            own.rfind(|directive| directive.name() == "error_log")
        });
        let directive = in_http.or_else(|| main.find("error_log"));
        let told = &self.invocation.error_log;
        let mut default = match directive {
            Some(directive) => self.error_log(directive)?,
            None if !told.is_empty() => errors(&self.prefixed(told), "ERROR"),
            None if self.access_logs.is_empty() => return None,
            None => Log::default(),
        };
        let mut logs = BTreeMap::new();
        for (index, path) in self.access_logs.iter().enumerate() {
            let name = logger_name(index);
            let logger = format!("http.log.access.{name}");
            default.exclude.push(logger.clone());
            let log = Log {
                include: vec![logger],
                ..log(path, LogEncoder::Message(MessageEncoder {}))
            };
            logs.insert(name, log);
        }
        logs.insert("default".to_owned(), default);
        Some(Logging { sink: None, logs })
    }

    /// Servers log nothing but what their places say.
    pub(super) fn server_logs(&self) -> Option<ServerLogs> {
        (!self.access_logs.is_empty()).then(|| ServerLogs {
            default_logger_name: logger_name(0),
            skip_unmapped_hosts: true,
            ..ServerLogs::default()
        })
    }

    fn error_log(&mut self, directive: &Directive) -> Option<Log> {
        let (path, level) = directive.args.split_first()?;
        // What ends a request is an error at most; those above it concern the process.
        let is_grave = level
            .first()
            .is_some_and(|word| matches!(word.text.as_str(), "crit" | "alert" | "emerg"));
        let level = match level.first().map(|word| (word, word.text.as_str())) {
            None | Some((_, "error" | "crit" | "alert" | "emerg")) => "ERROR",
            Some((_, "debug")) => "DEBUG",
            Some((_, "info" | "notice")) => "INFO",
            Some((_, "warn")) => "WARN",
            Some((word, _)) => {
                let wanted =
                    "`debug`, `info`, `notice`, `warn`, `error`, `crit`, `alert` or `emerg`";
                return self.invalid(word, "error_log", wanted);
            }
        };
        if path.text.starts_with("memory:") {
            let wanted = "a file, `stderr` or `syslog:`; a log in memory is for debuggers, and there is none";
            return self.invalid(path, "error_log", wanted);
        }
        if let Some(params) = path.text.strip_prefix("syslog:")
            && let Err(wanted) = syslog::parse(params)
        {
            return self.invalid(path, "error_log", wanted);
        }
        let whole = match path.text.as_str() {
            text if text == "stderr" || text.starts_with("syslog:") => text.to_owned(),
            text => self.prefixed(text),
        };
        let mut log = errors(&whole, level);
        if is_grave {
            log.exclude.push("http.log.error".to_owned());
        }
        Some(log)
    }
}

/// A log of errors, in nginx's form.
fn errors(path: &str, level: &str) -> Log {
    Log {
        level: level.to_owned(),
        ..log(path, LogEncoder::Nginx(NginxEncoder {}))
    }
}

/// A log of these lines, in a file or with syslog.
fn log(path: &str, lines: LogEncoder) -> Log {
    let found = path.strip_prefix("syslog:").map(syslog::parse);
    let (writer, encoder) = match found {
        // Mistakes were told where the word was read.
        Some(Ok(found)) => (found.writer.clone(), found.around(lines)),
        Some(Err(_)) | None => (writer(path), lines),
    };
    Log {
        writer: Some(writer),
        encoder: Some(encoder),
        ..Log::default()
    }
}

/// A file is not put aside by itself: whoever runs nginx has a program for that.
fn writer(path: &str) -> LogWriter {
    match path {
        "stderr" | "/dev/stderr" => LogWriter::Stderr(PlainWriter::default()),
        "/dev/stdout" => LogWriter::Stdout(PlainWriter::default()),
        "/dev/null" => LogWriter::Discard(PlainWriter::default()),
        path => LogWriter::File(FileWriter {
            filename: path.to_owned(),
            // As nginx makes them.
            mode: "0644".to_owned(),
            roll: Some(false),
            ..FileWriter::default()
        }),
    }
}
