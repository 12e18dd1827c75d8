//! Logs: the options that access logs and the global option `log` share, and the logging section of the whole
//! configuration.

use std::collections::BTreeMap;

use sluice_model::RawModule;
use sluice_model::logging::{
    FileWriter, Log, LogSampling, LogWriter, Logging, NetWriter, PlainWriter,
};

use super::Lowering;
use super::definition::Read::{Choice, Flag, Number, Text, Time, With};
use super::definition::{Block, Options, option};
use super::listen::Pairings;
use super::log_formats::FORMAT;
use super::matchers::inner_line;
use super::outcome::AccessLog;
use super::servers::logs_of;
use crate::tree::{Directive, Token};

/// The log that takes what no other takes.
pub(super) const DEFAULT_LOG: &str = "default";

/// The options of `log`, for the access log of a site and for a global log.
pub(super) static LOG: Options<LogLines> = Options::new(
    "log",
    &[
        option(
            "hostnames",
            "hostnames <hostnames...>",
            With(|cx, line, lines| match &mut lines.access {
                Some(access) => {
                    access.hostnames.extend(cx.texts(line)?);
                    Some(())
                }
                None => cx.only_elsewhere(line, "a global log", "directive"),
            }),
        ),
        option(
            "no_hostname",
            "no_hostname",
            With(|cx, line, lines| {
                cx.flag(line)?;
                // It means nothing for a log that no site has, and Caddy accepts it.
                if let Some(access) = &mut lines.access {
                    access.no_hostname = true;
                }
                Some(())
            }),
        ),
        option::<LogLines>(
            "output",
            "output <writer_module> …",
            With(|cx, line, lines| {
                lines.log.writer = Some(cx.log_writer(line)?);
                Some(())
            }),
        )
        .holding(Block::Modules(&[
            ("file", &OUTPUT_FILE),
            ("net", &OUTPUT_NET),
        ])),
        option::<LogLines>(
            "format",
            "format <encoder_module> …",
            With(|cx, line, lines| {
                let Some(format) = inner_line(line) else {
                    return cx.missing(line, "a format such as `json` or `console`");
                };
                lines.log.encoder = Some(cx.log_encoder(&format)?);
                Some(())
            }),
        )
        .holding(Block::Modules(&[("json", &FORMAT), ("console", &FORMAT)])),
        option(
            "core",
            "core <core_module> …",
            With(|cx, line, lines| {
                lines.log.core = Some(cx.log_core(line)?);
                Some(())
            }),
        ),
        option(
            "level",
            "level <level>",
            With(|cx, line, lines| {
                lines.log.level = cx.log_level(line)?;
                Some(())
            }),
        ),
        option::<LogLines>(
            "sampling",
            "sampling { … }",
            With(|cx, line, lines| {
                cx.between(line, &line.args, 0, 0)?;
                let mut sampling = LogSampling::default();
                cx.only_once(line, &["interval", "first", "thereafter"])?;
                cx.read_options(&SAMPLING, line.lines(), &mut sampling)?;
                lines.log.sampling = Some(sampling);
                Some(())
            }),
        )
        .holding(Block::Options(&SAMPLING)),
        option(
            "include",
            "include <namespaces...>",
            With(|cx, line, lines| match lines.access {
                Some(_) => cx.only_elsewhere(line, "an access log", "global option"),
                None => {
                    lines.log.include.extend(cx.texts(line)?);
                    Some(())
                }
            }),
        ),
        option(
            "exclude",
            "exclude <namespaces...>",
            With(|cx, line, lines| match lines.access {
                Some(_) => cx.only_elsewhere(line, "an access log", "global option"),
                None => {
                    lines.log.exclude.extend(cx.texts(line)?);
                    Some(())
                }
            }),
        ),
    ],
);

/// What the lines of `log` amount to.
pub(super) struct LogLines {
    /// What every log has.
    pub(super) log: Log,
    /// What the access log of a site has besides; `None` for a global log.
    pub(super) access: Option<AccessLog>,
}

/// The lines of `log` that a block has once: a second one would silently replace the first.
const ONCE: [&str; 6] = [
    "output",
    "format",
    "core",
    "level",
    "sampling",
    "no_hostname",
];

impl Lowering<'_> {
    /// Reads the block of a `log`.
    pub(super) fn log_lines(&mut self, line: &Directive, lines: &mut LogLines) -> Option<()> {
        let is_unique = self.only_once(line, &ONCE);
        self.read_options(&LOG, line.lines(), lines)?;
        is_unique
    }

    /// Refuses lines of a block that repeat one of these names.
    fn only_once(&mut self, line: &Directive, names: &[&str]) -> Option<()> {
        let mut seen: Vec<&str> = Vec::new();
        let mut is_unique = Some(());
        for option in line.lines() {
            let name = option.name.text.as_str();
            if seen.contains(&name) {
                is_unique = self.duplicate(option);
            } else if names.contains(&name) {
                seen.push(name);
            }
        }
        is_unique
    }
}

static SAMPLING: Options<LogSampling> = Options::new(
    "sampling",
    &[
        option(
            "interval",
            "interval <duration>",
            Time(|sampling| &mut sampling.interval),
        ),
        option(
            "first",
            "first <number>",
            Number("a number of entries", |sampling| &mut sampling.first),
        ),
        option(
            "thereafter",
            "thereafter <number>",
            Number("a number of entries", |sampling| &mut sampling.thereafter),
        ),
    ],
);

static OUTPUT_FILE: Options<FileWriter> = Options::new(
    "output file",
    &[
        option(
            "mode",
            "mode <mode>",
            With(|cx, line, file| {
                file.mode = four_digits(cx.file_mode(line, &[])?);
                Some(())
            }),
        ),
        option(
            "dir_mode",
            "dir_mode <mode>",
            With(|cx, line, file| {
                file.dir_mode = cx.file_mode(line, &["inherit", "from_file"])?;
                Some(())
            }),
        ),
        option(
            "roll_disabled",
            "roll_disabled",
            With(|cx, line, file| {
                cx.flag(line)?;
                file.roll = Some(false);
                Some(())
            }),
        ),
        option(
            "roll_size",
            "roll_size <size>",
            With(|cx, line, file| {
                // The model counts MiB, rounded up.
                let size = cx.single_size(line)?;
                file.roll_size_mb = (size + (1 << 20) - 1) >> 20;
                Some(())
            }),
        ),
        option(
            "roll_interval",
            "roll_interval <duration>",
            Time(|file| &mut file.roll_interval),
        ),
        option(
            "roll_minutes",
            "roll_minutes <minutes...>",
            With(|cx, line, file| {
                file.roll_minutes = cx.roll_minutes(line)?;
                Some(())
            }),
        ),
        option(
            "roll_at",
            "roll_at <times...>",
            With(|cx, line, file| {
                cx.texts(line)?;
                let parts = line.args.iter().flat_map(|word| word.text.split(','));
                file.roll_at = parts.map(|part| part.trim().to_string()).collect();
                Some(())
            }),
        ),
        option(
            "roll_uncompressed",
            "roll_uncompressed",
            With(|cx, line, file| {
                cx.flag(line)?;
                file.roll_gzip = Some(false);
                Some(())
            }),
        ),
        option(
            "roll_local_time",
            "roll_local_time",
            Flag(|file| &mut file.roll_local_time),
        ),
        option(
            "roll_keep",
            "roll_keep <num>",
            With(|cx, line, file| {
                file.roll_keep = cx.single_number(line, "a number of files")?;
                Some(())
            }),
        ),
        option(
            "roll_keep_for",
            "roll_keep_for <days>",
            With(|cx, line, file| {
                const DAY: i64 = 86_400 * 1_000_000_000;
                let time = cx.single_duration(line)?.0;
                file.roll_keep_days = time / DAY + i64::from(time % DAY > 0);
                Some(())
            }),
        ),
        option(
            "backup_time_format",
            "backup_time_format <format>",
            Text(|file| &mut file.backup_time_format),
        ),
        option(
            "roll_compression",
            "roll_compression <algorithm>",
            Choice(&["gzip", "zstd", "none"], |file| &mut file.roll_compression),
        ),
    ],
);

static OUTPUT_NET: Options<NetWriter> = Options::new(
    "output net",
    &[
        option(
            "dial_timeout",
            "dial_timeout <duration>",
            Time(|net| &mut net.dial_timeout),
        ),
        option("soft_start", "soft_start", Flag(|net| &mut net.soft_start)),
    ],
);

const WRITERS: [&str; 5] = ["file", "net", "stdout", "stderr", "discard"];

impl Lowering<'_> {
    /// Refuses an option that only the other kind of `log` has.
    fn only_elsewhere<T>(&mut self, line: &Directive, what: &str, other: &str) -> Option<T> {
        let title = format!("{what} has no `{}`", line.name.text);
        let diagnostic = line
            .name
            .error("unknown-option", title, "not an option here");
        self.refuse(diagnostic.help(format!("it belongs to the {other} `log`")))
    }

    fn log_level(&mut self, line: &Directive) -> Option<String> {
        let word = self.single(line)?;
        let upper = word.text.to_ascii_uppercase();
        let levels = ["DEBUG", "INFO", "WARN", "ERROR", "PANIC", "FATAL"];
        if !levels.contains(&upper.as_str()) && !word.text.contains('{') {
            return self.invalid_value(word, &levels);
        }
        Some(word.text.clone())
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

    fn log_writer(&mut self, line: &Directive) -> Option<LogWriter> {
        let Some((name, args)) = line.args.split_first() else {
            return self.missing(line, "an output such as `stdout` or `file <path>`");
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
        self.read_options(&OUTPUT_FILE, line.lines(), &mut file)?;
        Some(file)
    }

    fn net_writer(&mut self, line: &Directive, args: &[Token]) -> Option<NetWriter> {
        let [address] = self.exact::<1>(line, args)?;
        let mut net = NetWriter {
            address: address.text.clone(),
            ..NetWriter::default()
        };
        self.read_options(&OUTPUT_NET, line.lines(), &mut net)?;
        Some(net)
    }

    fn roll_minutes(&mut self, line: &Directive) -> Option<Vec<i64>> {
        self.texts(line)?;
        let mut minutes = Vec::new();
        for part in line.args.iter().flat_map(|word| word.text.split(',')) {
            match part.trim().parse::<i64>() {
                Ok(minute @ 0..=59) => minutes.push(minute),
                _ => return self.bad_minute(line, part),
            }
        }
        Some(minutes)
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
