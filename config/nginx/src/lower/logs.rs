//! `error_log`, and the destinations of access logs. `modules::log` lowers the formats of access logs.

use std::collections::BTreeMap;

use sluice_diag::Diagnostic;
use sluice_model::http::ServerLogs;
use sluice_model::logging::{Log, LogEncoder, LogWriter, Logging, MessageEncoder};

use super::level::Level;
use super::log_files::{ERROR, ErrorLog, ErrorLogs, Hold, LEVELS, REQUESTS, log, logger_name};
use super::lowering::Lowering;
use super::syslog;
use crate::tree::{Directive, Word};

impl Lowering<'_> {
    /// Settles which log of errors is that of the process: that of the main context, else that of `http`.
    pub(super) fn process_log(&mut self, main: &Level<'_>) {
        let mut own: Vec<&Directive> = main.own("error_log").collect();
        if own.is_empty() {
            let http = main.own("http").flat_map(|http| http.body());
            own = http.filter(|line| line.name() == "error_log").collect();
        }
        self.error_logs_number(&own);
    }

    /// The name of the log of errors of a place; empty for that of the process.
    pub fn errors_of(&mut self, level: &Level<'_>) -> String {
        let directives = level.nearest(&["error_log"]);
        match directives.is_empty() {
            true => String::new(),
            false => match self.error_logs_number(&directives) {
                0 => String::new(),
                number => format!("nginx{number}"),
            },
        }
    }

    fn error_logs_number(&mut self, directives: &[&Directive]) -> usize {
        let words = |line: &&Directive| line.args.iter().map(|word| word.text.clone()).collect();
        let words: Vec<Vec<String>> = directives.iter().map(words).collect();
        let known = self
            .error_logs
            .iter()
            .position(|known| known.words == words);
        known.unwrap_or_else(|| {
            let logs = directives.iter().filter_map(|line| self.error_log(line));
            let logs = logs.collect();
            self.error_logs.push(ErrorLogs { words, logs });
            self.error_logs.len() - 1
        })
    }

    /// The logger whose lines go to a file; `None` where another directive says otherwise how its lines are held back.
    pub fn logger(&mut self, path: &Word, hold: Hold) -> Option<String> {
        let whole = match path.text.starts_with("syslog:") {
            true => path.text.clone(),
            false => self.log_path(&path.text),
        };
        let number = self.access_logs.number(&whole);
        let known = &mut self.access_logs.files[number].hold;
        if hold.bytes > 0 && known.bytes > 0 && *known != hold {
            let title = format!(
                "`access_log {}` stands elsewhere with other parameters",
                path.text
            );
            self.report.push(
                Diagnostic::error("invalid-value", title)
                    .at(path.span, "lines of one file are held back in one way")
                    .imported(path.import)
                    .help("say the same of `buffer=`, `flush=` and `gzip` wherever this file is named"),
            );
            return None;
        }
        if hold.bytes > 0 {
            *known = hold;
        }
        Some(logger_name(number))
    }

    /// The logger of the file that nginx has where nothing is said.
    pub fn usual_logger(&mut self, path: &str) -> String {
        logger_name(self.access_logs.number(path))
    }

    /// The path of a file of logs. One that begins with a variable is relative as well: nginx puts its prefix in front before
    /// it reads variables.
    pub fn log_path(&self, path: &str) -> String {
        match path.starts_with('$') {
            true => self.prefixed("") + path,
            false => self.prefixed(path),
        }
    }

    /// All logs: those of errors, and the files of access logs.
    pub(super) fn logging(&mut self) -> Option<Logging> {
        let mut logs = BTreeMap::new();
        let mut apart: Vec<String> = Vec::new();
        for (number, set) in self.error_logs.iter().enumerate().skip(1) {
            let logger = format!("{REQUESTS}.nginx{number}");
            for (index, errors) in set.logs.iter().enumerate() {
                let log = Log {
                    include: vec![logger.clone()],
                    ..errors.log(&logger)
                };
                logs.insert(format!("errors{number}.{index}"), log);
            }
            apart.push(logger);
        }
        for (index, file) in self.access_logs.files.iter().enumerate() {
            let name = logger_name(index);
            let logger = format!("http.log.access.{name}");
            apart.push(logger.clone());
            let mut log = Log {
                include: vec![logger],
                ..log(&file.path, LogEncoder::Message(MessageEncoder {}))
            };
            if let Some(LogWriter::File(writer)) = &mut log.writer {
                writer.hold_bytes = i64::try_from(file.hold.bytes).unwrap_or(i64::MAX);
                writer.hold_time = file.hold.time.unwrap_or_default();
                writer.gzip_level = i64::from(file.hold.gzip);
            }
            logs.insert(name, log);
        }
        let given = &self.invocation.error_log;
        let own = self.error_logs.first().map_or(&[][..], |set| &set.logs);
        let mut process: Vec<Log> = own.iter().map(|errors| errors.log(REQUESTS)).collect();
        if process.is_empty() && !given.is_empty() {
            let path = self.prefixed(given);
            process.push(ErrorLog { path, level: ERROR }.log(REQUESTS));
        }
        if process.is_empty() && logs.is_empty() {
            return None;
        }
        if process.is_empty() {
            process.push(Log::default());
        }
        for (index, mut log) in process.into_iter().enumerate() {
            log.exclude.extend(apart.iter().cloned());
            let name = match index {
                0 => "default".to_owned(),
                index => format!("errors0.{index}"),
            };
            logs.insert(name, log);
        }
        Some(Logging { sink: None, logs })
    }

    /// Servers log nothing but what their places say.
    pub(super) fn server_logs(&self) -> Option<ServerLogs> {
        let are_any = !self.access_logs.files.is_empty() || self.names_log_files;
        are_any.then(|| ServerLogs {
            default_logger_name: logger_name(0),
            skip_unmapped_hosts: true,
            ..ServerLogs::default()
        })
    }

    fn error_log(&mut self, directive: &Directive) -> Option<ErrorLog> {
        let (path, level) = directive.args.split_first()?;
        let level = match level.first() {
            None => ERROR,
            Some(word) => match LEVELS.iter().position(|name| *name == word.text) {
                Some(level) => level,
                None => {
                    let wanted =
                        "`debug`, `info`, `notice`, `warn`, `error`, `crit`, `alert` or `emerg`";
                    return self.invalid(word, "error_log", wanted);
                }
            },
        };
        if path.text.starts_with("memory:") {
            self.report.push(
                Diagnostic::warning("no-effect", "`error_log memory:` has no effect")
                    .at(path.span, "nothing is written")
                    .imported(path.import)
                    .note("a log in memory is for debuggers, and there is none"),
            );
        }
        if let Some(params) = path.text.strip_prefix("syslog:")
            && let Err(wanted) = syslog::parse(params)
        {
            return self.invalid(path, "error_log", wanted);
        }
        let path = match path.text.as_str() {
            text if text.starts_with("memory:") => "/dev/null".to_owned(),
            text if text == "stderr" || text.starts_with("syslog:") => text.to_owned(),
            text => self.prefixed(text),
        };
        Some(ErrorLog { path, level })
    }
}

#[cfg(test)]
mod tests {
    use sluice_model::logging::LogWriter;

    use crate::{Invocation, MemoryLoader, adapt_as};

    /// The file that requests to this server are logged in by the program that has such a usual file.
    fn access_log(conf: &str, usual: &str) -> Vec<String> {
        let invocation = Invocation {
            access_log: usual.to_owned(),
            ..Invocation::default()
        };
        let conf = format!("events {{}}\nhttp {{ server {{ listen 80; {conf} return 204; }} }}\n");
        let adapted = adapt_as("nginx.conf", &conf, &invocation, &MemoryLoader::default());
        let logging = adapted.config.expect("it is right").logging;
        let logs = logging.into_iter().flat_map(|logging| logging.logs);
        let files = logs.filter_map(|(_, log)| match log.writer {
            Some(LogWriter::File(file)) => Some(file.filename),
            _ => None,
        });
        files.collect()
    }

    #[test]
    fn where_nothing_is_said_requests_are_logged_as_the_command_line_says() {
        assert_eq!(access_log("", "/l/access.log"), ["/l/access.log"]);
        assert!(access_log("", "").is_empty());
        assert!(access_log("access_log off;", "/l/access.log").is_empty());
        assert_eq!(access_log("access_log own;", "/l/access.log"), ["own"]);
        assert_eq!(
            access_log("location /a { access_log own; }", "/l/access.log"),
            ["/l/access.log", "own"]
        );
    }
}
