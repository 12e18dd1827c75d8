//! Logs: the settings that access logs and the global option `log` share, and the logging section of the whole
//! configuration.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sluice_model::RawModule;
use sluice_model::logging::{
    AppendEncoder, FileWriter, FilterEncoder, JournaldEncoder, LineEncoder, Log, LogEncoder,
    LogSampling, LogWriter, Logging, NetWriter, PlainWriter,
};

use super::Lowering;
use super::listen::Pairings;
use super::matchers::inner_line;
use super::servers::logs_of;
use crate::tree::{Directive, Token};

/// The log that takes what no other takes.
pub(super) const DEFAULT_LOG: &str = "default";

const WRITERS: [&str; 5] = ["file", "net", "stdout", "stderr", "discard"];
const ENCODERS: [&str; 5] = ["console", "json", "filter", "append", "journald"];
const FILTERS: [&str; 9] = [
    "delete",
    "rename",
    "replace",
    "ip_mask",
    "query",
    "cookie",
    "regexp",
    "hash",
    "multi_regexp",
];

impl Lowering<'_> {
    /// Reads an option that every log has.
    pub(super) fn log_option(&mut self, line: &Directive, log: &mut Log) -> Option<()> {
        let place = std::mem::replace(&mut self.place, "log");
        let done = self.shared_log_option(line, log);
        self.place = place;
        done
    }

    fn shared_log_option(&mut self, line: &Directive, log: &mut Log) -> Option<()> {
        match line.name.text.as_str() {
            "output" => log.writer = Some(self.log_writer(line)?),
            "format" => {
                let Some(format) = inner_line(line) else {
                    return self.missing(line, "a format such as `json` or `console`");
                };
                log.encoder = Some(self.log_encoder(&format)?);
            }
            "level" => {
                let word = self.single(line)?;
                let upper = word.text.to_ascii_uppercase();
                let levels = ["DEBUG", "INFO", "WARN", "ERROR", "PANIC", "FATAL"];
                if !levels.contains(&upper.as_str()) && !word.text.contains('{') {
                    return self.invalid_value(word, &levels);
                }
                log.level.clone_from(&word.text);
            }
            "core" => log.core = Some(self.log_core(line)?),
            "sampling" => {
                self.between(line, &line.args, 0, 0)?;
                self.place = "sampling";
                log.sampling = Some(self.log_sampling(line)?);
            }
            _ => return self.unknown_option(line),
        }
        Some(())
    }

    /// The one core that there is; it takes every entry and does nothing with it.
    fn log_core(&mut self, line: &Directive) -> Option<RawModule> {
        self.no_block(line)?;
        let [name] = self.exact::<1>(line, &line.args)?;
        if name.text != "mock" {
            return self.unknown_module(name, "log core", &["mock"]);
        }
        Some(
            [("module".to_string(), "mock".into())]
                .into_iter()
                .collect(),
        )
    }

    fn log_sampling(&mut self, line: &Directive) -> Option<LogSampling> {
        let mut sampling = LogSampling::default();
        self.each(line.lines(), |this, option| {
            match option.name.text.as_str() {
                "interval" => sampling.interval = this.single_duration(option)?,
                "first" => sampling.first = this.single_number(option, "a number of entries")?,
                "thereafter" => {
                    sampling.thereafter = this.single_number(option, "a number of entries")?;
                }
                _ => return this.unknown_option(option),
            }
            Some(())
        })?;
        Some(sampling)
    }

    fn log_writer(&mut self, line: &Directive) -> Option<LogWriter> {
        let Some((name, args)) = line.args.split_first() else {
            return self.missing(line, "a place such as `stdout` or `file <path>`");
        };
        let plain = PlainWriter::default();
        match name.text.as_str() {
            "stdout" | "stderr" | "discard" => {
                self.no_block(line)?;
                self.exact::<0>(line, args)?;
            }
            _ => {}
        }
        Some(match name.text.as_str() {
            "stdout" => LogWriter::Stdout(plain),
            "stderr" => LogWriter::Stderr(plain),
            "discard" => LogWriter::Discard(plain),
            "file" => LogWriter::File(self.file_writer(line, args)?),
            "net" => LogWriter::Net(self.net_writer(line, args)?),
            _ => return self.unknown_module(name, "log output", &WRITERS),
        })
    }

    fn file_writer(&mut self, line: &Directive, args: &[Token]) -> Option<FileWriter> {
        let [filename] = self.exact::<1>(line, args)?;
        let mut file = FileWriter {
            filename: filename.text.clone(),
            ..FileWriter::default()
        };
        self.place = "output file";
        self.each(line.lines(), |this, option| {
            this.file_writer_option(option, &mut file)?;
            Some(())
        })?;
        Some(file)
    }

    fn file_writer_option(&mut self, line: &Directive, file: &mut FileWriter) -> Option<()> {
        match line.name.text.as_str() {
            "mode" => file.mode = four_digits(self.file_mode(line, &[])?),
            "dir_mode" => file.dir_mode = self.file_mode(line, &["inherit", "from_file"])?,
            "roll_disabled" => {
                self.flag(line)?;
                file.roll = Some(false);
            }
            "roll_size" => {
                // The model counts MiB, and a part of one counts whole.
                let size = self.single_size(line)?;
                file.roll_size_mb = (size + (1 << 20) - 1) >> 20;
            }
            "roll_interval" => file.roll_interval = self.single_duration(line)?,
            "roll_minutes" => {
                self.texts(line)?;
                file.roll_minutes.clear();
                for part in line.args.iter().flat_map(|word| word.text.split(',')) {
                    match part.trim().parse::<i64>() {
                        Ok(minute @ 0..=59) => file.roll_minutes.push(minute),
                        _ => return self.bad_minute(line, part),
                    }
                }
            }
            "roll_at" => {
                self.texts(line)?;
                let parts = line.args.iter().flat_map(|word| word.text.split(','));
                file.roll_at = parts.map(|part| part.trim().to_string()).collect();
            }
            "roll_uncompressed" => {
                self.flag(line)?;
                file.roll_gzip = Some(false);
            }
            "roll_compression" => {
                let word = self.single(line)?;
                file.roll_compression = self.one_of(word, &["gzip", "zstd", "none"])?;
            }
            "roll_local_time" => {
                self.flag(line)?;
                file.roll_local_time = true;
            }
            "roll_keep" => file.roll_keep = self.single_number(line, "a number of files")?,
            "roll_keep_for" => {
                let days = self.single_duration(line)?.0;
                const DAY: i64 = 86_400 * 1_000_000_000;
                file.roll_keep_days = days / DAY + i64::from(days % DAY > 0);
            }
            "backup_time_format" => file.backup_time_format = self.single_text(line)?,
            _ => return self.unknown_option(line),
        }
        Some(())
    }

    fn bad_minute<T>(&mut self, line: &Directive, part: &str) -> Option<T> {
        let word = line.args.first().unwrap_or(&line.name);
        let title = format!("invalid minute `{part}`");
        self.refuse(word.error("invalid-number", title, "expected minutes from 0 to 59"))
    }

    fn file_mode(&mut self, line: &Directive, words: &[&str]) -> Option<String> {
        let word = self.single(line)?;
        let octal = u32::from_str_radix(&word.text, 8).is_ok_and(|mode| mode <= 0o7777);
        if octal || words.contains(&word.text.as_str()) {
            return Some(word.text.clone());
        }
        let title = format!("invalid file mode `{}`", word.text);
        let diagnostic = word.error("invalid-number", title, "not an octal number");
        self.refuse(diagnostic.help("write four octal digits, such as `0640`"))
    }

    fn net_writer(&mut self, line: &Directive, args: &[Token]) -> Option<NetWriter> {
        let [address] = self.exact::<1>(line, args)?;
        let mut net = NetWriter {
            address: address.text.clone(),
            ..NetWriter::default()
        };
        self.place = "output net";
        self.each(line.lines(), |this, option| {
            match option.name.text.as_str() {
                "dial_timeout" => net.dial_timeout = this.single_duration(option)?,
                "soft_start" => {
                    this.flag(option)?;
                    net.soft_start = true;
                }
                _ => return this.unknown_option(option),
            }
            Some(())
        })?;
        Some(net)
    }

    /// Reads an encoder from a line that begins with its name.
    fn log_encoder(&mut self, line: &Directive) -> Option<LogEncoder> {
        match line.name.text.as_str() {
            "console" => Some(LogEncoder::Console(self.line_encoder(line)?)),
            "json" => Some(LogEncoder::Json(self.line_encoder(line)?)),
            "filter" => Some(LogEncoder::Filter(self.filter_encoder(line)?)),
            "append" => Some(LogEncoder::Append(self.append_encoder(line)?)),
            "journald" => Some(LogEncoder::Journald(self.journald_encoder(line)?)),
            _ => self.unknown_module(&line.name, "log format", &ENCODERS),
        }
    }

    fn line_encoder(&mut self, line: &Directive) -> Option<LineEncoder> {
        self.between(line, &line.args, 0, 0)?;
        self.place = "format";
        let mut encoder = LineEncoder::default();
        self.each(line.lines(), |this, option| {
            match option.name.text.as_str() {
                "message_key" => encoder.message_key = Some(this.single_text(option)?),
                "level_key" => encoder.level_key = Some(this.single_text(option)?),
                "time_key" => encoder.time_key = Some(this.single_text(option)?),
                "name_key" => encoder.name_key = Some(this.single_text(option)?),
                "caller_key" => encoder.caller_key = Some(this.single_text(option)?),
                "stacktrace_key" => encoder.stacktrace_key = Some(this.single_text(option)?),
                "line_ending" => encoder.line_ending = Some(this.single_text(option)?),
                "time_format" => encoder.time_format = this.single_text(option)?,
                "time_local" => {
                    this.flag(option)?;
                    encoder.time_local = true;
                }
                "duration_format" => encoder.duration_format = this.single_text(option)?,
                "level_format" => encoder.level_format = this.single_text(option)?,
                _ => return this.unknown_option(option),
            }
            Some(())
        })?;
        Some(encoder)
    }

    fn wrapped(&mut self, line: &Directive) -> Option<Box<LogEncoder>> {
        match inner_line(line) {
            Some(inner) => self.log_encoder(&inner).map(Box::new),
            None => self.missing(line, "the format that writes"),
        }
    }

    fn journald_encoder(&mut self, line: &Directive) -> Option<JournaldEncoder> {
        self.between(line, &line.args, 0, 0)?;
        let mut encoder = JournaldEncoder::default();
        self.each(line.lines(), |this, option| {
            match option.name.text.as_str() {
                "wrap" => encoder.wrap = Some(this.wrapped(option)?),
                _ => return this.unknown_option(option),
            }
            Some(())
        })?;
        Some(encoder)
    }

    fn append_encoder(&mut self, line: &Directive) -> Option<AppendEncoder> {
        self.between(line, &line.args, 0, 0)?;
        let mut encoder = AppendEncoder::default();
        self.each(line.lines(), |this, option| {
            match option.name.text.as_str() {
                "wrap" => encoder.wrap = Some(this.wrapped(option)?),
                "fields" => {
                    this.each(option.lines(), |this, field| {
                        let value = this.single(field)?;
                        encoder.fields.insert(
                            field.name.text.clone(),
                            super::directives::scalar(&value.text),
                        );
                        Some(())
                    })?;
                }
                name => {
                    let value = this.single(option)?;
                    encoder
                        .fields
                        .insert(name.to_string(), super::directives::scalar(&value.text));
                }
            }
            Some(())
        })?;
        Some(encoder)
    }

    fn filter_encoder(&mut self, line: &Directive) -> Option<FilterEncoder> {
        self.between(line, &line.args, 0, 0)?;
        let mut encoder = FilterEncoder::default();
        self.each(line.lines(), |this, option| {
            match option.name.text.as_str() {
                "wrap" => encoder.wrap = Some(this.wrapped(option)?),
                "fields" => {
                    this.each(option.lines(), |this, field| {
                        this.filter_field(field, &mut encoder)?;
                        Some(())
                    })?;
                }
                _ => this.filter_field(option, &mut encoder)?,
            }
            Some(())
        })?;
        Some(encoder)
    }

    fn filter_field(&mut self, line: &Directive, encoder: &mut FilterEncoder) -> Option<()> {
        let Some((filter, args)) = line.args.split_first() else {
            return self.missing(line, "a filter such as `delete`");
        };
        let mut module = RawModule::new();
        let mut put = |key: &str, value: Value| module.insert(key.to_string(), value);
        put("filter", filter.text.as_str().into());
        match filter.text.as_str() {
            "delete" | "hash" => {
                self.exact::<0>(line, args)?;
            }
            "rename" => {
                let [name] = self.exact::<1>(line, args)?;
                put("name", name.text.as_str().into());
            }
            "replace" => {
                let [value] = self.exact::<1>(line, args)?;
                put("value", value.text.as_str().into());
            }
            "regexp" => {
                let [pattern, value] = self.exact::<2>(line, args)?;
                put("regexp", pattern.text.as_str().into());
                put("value", value.text.as_str().into());
            }
            "ip_mask" => {
                let (ipv4, ipv6) = self.ip_mask(line, args)?;
                if let Some(bits) = ipv4 {
                    put("ipv4_cidr", bits.into());
                }
                if let Some(bits) = ipv6 {
                    put("ipv6_cidr", bits.into());
                }
            }
            "query" | "cookie" => {
                self.exact::<0>(line, args)?;
                let key = if filter.text == "query" {
                    "parameter"
                } else {
                    "name"
                };
                put("actions", self.filter_actions(line, key)?);
            }
            "multi_regexp" => {
                self.exact::<0>(line, args)?;
                let mut operations = Vec::new();
                self.each(line.lines(), |this, operation| {
                    let [pattern, value] = this.exact::<2>(operation, &operation.args)?;
                    operations.push(json!({"regexp": pattern.text, "value": value.text}));
                    Some(())
                })?;
                put("operations", operations.into());
            }
            _ => return self.unknown_module(filter, "log filter", &FILTERS),
        }
        self.put_filter(line, module, encoder)
    }

    /// Gives a field its filter. Only patterns may be several: they become one filter.
    fn put_filter(
        &mut self,
        line: &Directive,
        module: RawModule,
        encoder: &mut FilterEncoder,
    ) -> Option<()> {
        let field = &line.name.text;
        let Some(first) = encoder.fields.get_mut(field) else {
            encoder.fields.insert(field.clone(), module);
            return Some(());
        };
        let is_pattern = |module: &RawModule| module.get("filter") == Some(&json!("regexp"));
        let is_joined = first.get("filter") == Some(&json!("multi_regexp"));
        if !is_pattern(&module) || !(is_pattern(first) || is_joined) {
            let title = format!("field `{field}` has a filter already");
            let diagnostic = line.name.error("duplicate-option", title, "a second one");
            return self.refuse(diagnostic.help("only `regexp` may stand there several times"));
        }
        let operation =
            |module: &RawModule| json!({"regexp": module["regexp"], "value": module["value"]});
        if !is_joined {
            let operations = json!([operation(first)]);
            *first = RawModule::new();
            first.insert("filter".to_owned(), "multi_regexp".into());
            first.insert("operations".to_owned(), operations);
        }
        if let Some(Value::Array(operations)) = first.get_mut("operations") {
            operations.push(operation(&module));
        }
        Some(())
    }

    fn ip_mask(&mut self, line: &Directive, args: &[Token]) -> Option<(Option<u8>, Option<u8>)> {
        self.between(line, args, 0, 2)?;
        let mut bits = [None, None];
        for (at, word) in args.iter().enumerate() {
            bits[at] = Some(self.number(word, "a number of bits")?);
        }
        self.each(line.lines(), |this, option| {
            let word = this.single(option)?;
            let number = Some(this.number(word, "a number of bits")?);
            match option.name.text.as_str() {
                "ipv4" => bits[0] = number,
                "ipv6" => bits[1] = number,
                _ => return this.invalid_value(&option.name, &["ipv4", "ipv6"]),
            }
            Some(())
        })?;
        let [ipv4, ipv6] = bits;
        Some((ipv4, ipv6))
    }

    fn filter_actions(&mut self, line: &Directive, key: &str) -> Option<Value> {
        let mut actions = Vec::new();
        self.each(line.lines(), |this, option| {
            let action = option.name.text.as_str();
            match (action, option.args.as_slice()) {
                ("replace", [name, value]) => {
                    actions.push(json!({"type": action, key: name.text, "value": value.text}));
                }
                ("delete" | "hash", [name]) => {
                    actions.push(json!({"type": action, key: name.text}));
                }
                ("replace" | "delete" | "hash", _) => {
                    return this.missing(option, "a name, and `replace` a value");
                }
                _ => return this.invalid_value(&option.name, &["replace", "delete", "hash"]),
            }
            Some(())
        })?;
        Some(actions.into())
    }

    /// The logs that sites write to, by name: of one name the last in the order of the servers.
    pub(super) fn site_logs(&mut self, pairings: &Pairings) -> BTreeMap<String, Log> {
        let mut logs = BTreeMap::new();
        let shares = pairings.servers.iter().flat_map(|pairing| &pairing.shares);
        for log in shares.flat_map(|share| logs_of(&pairings.sites[share.site])) {
            if let Some(body) = &log.log {
                logs.insert(log.name.clone(), body.clone());
            }
        }
        logs
    }

    /// All logs: those of the global options, then those of sites. The default log leaves out what
    /// another one takes.
    pub(super) fn logging(&self, site_logs: BTreeMap<String, Log>) -> Option<Logging> {
        let mut logs: BTreeMap<String, Log> = BTreeMap::new();
        let mut taken = Vec::new();
        for (name, log) in self.options.logs.iter().cloned().chain(site_logs) {
            if name != DEFAULT_LOG {
                taken.extend(log.include.iter().cloned());
            }
            let empty = log == Log::default();
            if !empty || (name != DEFAULT_LOG && self.options.debug) {
                logs.insert(name, log);
            }
        }
        if !taken.is_empty() {
            let default = logs.entry(DEFAULT_LOG.to_string()).or_default();
            default.exclude.extend(taken);
            default.exclude.sort();
            default.exclude.dedup();
        }
        if self.options.debug {
            logs.entry(DEFAULT_LOG.to_string()).or_default();
            for log in logs.values_mut().filter(|log| log.level.is_empty()) {
                log.level = "DEBUG".to_string();
            }
        }
        (!logs.is_empty()).then_some(Logging { sink: None, logs })
    }
}

/// A file mode as Caddy writes it.
fn four_digits(mode: String) -> String {
    let number = u32::from_str_radix(&mode, 8).expect("`file_mode` has read it");
    format!("{number:04o}")
}
