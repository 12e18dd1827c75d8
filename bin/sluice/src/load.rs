//! Loads a configuration from a file, standard input or generated text. The packages of the configuration languages
//! parse it; `sluice-serve` checks whether a server can run it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use clap::ValueEnum;
use sluice_admin::document::Document;
use sluice_caddyfile::limits::FILE_BYTES_MAX;
use sluice_caddyfile::{Adapted, DiskLoader, Loader, adapt, adapt_v1};
use sluice_diag::{Diagnostic, Report, Span, Written};
use sluice_model::{Config, ConfigError, Idle, idle_settings};
use sluice_pipeline::expression;
use sluice_serve::fleet::{Location, LocationError};

use crate::commands::hash_bcrypt;
use crate::messages::{Failed, MessageFormat};
use crate::remote;

/// The language of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Adapter {
    /// A Caddyfile.
    Caddyfile,
    /// A Caddyfile of Caddy 0 or 1 (detected automatically).
    Caddy1,
    /// Caddy's JSON.
    Json,
    /// An nginx.conf.
    Nginx,
}

impl Loaded {
    /// A configuration that was not read from a text; `files` are those that file servers hide.
    pub fn made(config: Config, document: Document, files: Vec<String>) -> Loaded {
        Loaded {
            config,
            document,
            report: Report::default(),
            written: None,
            files,
            read_at: SystemTime::now(),
            texts: None,
        }
    }
}

/// The default configuration file.
pub const ADJACENT: &str = "Caddyfile";

/// The source of a configuration.
#[derive(Clone, Debug)]
pub enum Source {
    /// A file.
    File {
        /// Its path.
        path: PathBuf,
        /// Its format; `None` to detect it.
        adapter: Option<Adapter>,
    },
    /// Standard input, which can be read only once.
    Stdin {
        /// Its format; a Caddyfile if `None`.
        adapter: Option<Adapter>,
    },
    /// A place that the nodes of a fleet share.
    Url {
        /// The URL, or why it is not one.
        location: Result<Box<Location>, LocationError>,
        /// Its format; `None` to detect it.
        adapter: Option<Adapter>,
    },
}

/// A configuration that was loaded.
#[derive(Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Warnings, and the texts they refer to.
    pub report: Report,
    /// What clients of the admin endpoint see of it.
    pub document: Document,
    /// The positions of its routes in these texts, if its format has them.
    pub written: Option<Arc<Written>>,
    /// The files that it was read from, including imported ones.
    pub files: Vec<String>,
    /// When reading them began.
    pub read_at: SystemTime,
    /// The input of a Caddyfile; `None` for other formats.
    pub texts: Option<Texts>,
}

/// Everything that a Caddyfile was parsed from, so that it can be parsed again elsewhere with the same result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    /// The file name used in messages.
    pub name: String,
    /// The content of the file.
    pub text: String,
    /// The imported files, by the names used to import them.
    pub files: BTreeMap<String, String>,
    /// The environment variables that it refers to.
    pub variables: BTreeMap<String, String>,
}

impl Texts {
    /// The request body with both texts and configuration, as a server accepts it.
    pub fn with(&self, config: &Config) -> serde_json::Value {
        serde_json::json!({
            "config": config,
            "caddyfile": {
                "name": self.name,
                "text": self.text,
                "files": self.files,
                "variables": self.variables,
            }
        })
    }
}

impl Source {
    /// The source selected by the flags `--config` and `--adapter`; else the Caddyfile in the current directory, if
    /// there is one.
    pub fn of(config: Option<&Path>, adapter: Option<Adapter>) -> Option<Source> {
        match config {
            Some(path) if path == Path::new("-") => Some(Source::Stdin { adapter }),
            Some(path) if Location::is_url(&path.to_string_lossy()) => Some(Source::Url {
                location: remote::location(&path.to_string_lossy()).map(Box::new),
                adapter,
            }),
            Some(path) => Some(Source::File {
                path: path.to_path_buf(),
                adapter,
            }),
            None if Path::new(ADJACENT).is_file() => Some(Source::File {
                path: ADJACENT.into(),
                adapter,
            }),
            None => None,
        }
    }

    /// Like [`Source::of`]; having no source is an error.
    pub fn required(config: Option<&Path>, adapter: Option<Adapter>) -> Result<Source, Failed> {
        Source::of(config, adapter).ok_or_else(|| {
            Failed::new("no configuration: this folder has no Caddyfile")
                .help("write a Caddyfile here, or name a file with `--config FILE`")
        })
    }

    /// Reads and parses it.
    pub fn load(&self, format: MessageFormat) -> Result<Loaded, Failed> {
        let read_at = SystemTime::now();
        let (name, text) = self.read()?;
        let adapter = self.adapter(&text);
        let mut loaded = parse(&name, &text, adapter, format)?;
        if adapter == Adapter::Caddyfile {
            hint_at_layout(&name, &text, &mut loaded.report);
        }
        loaded.read_at = read_at;
        if let Source::File { path, .. } = self
            && let Ok(whole) = std::path::absolute(path)
        {
            // File servers hide the configuration files by their absolute paths.
            loaded.files.retain(|file| *file != name);
            loaded.files.insert(0, whole.to_string_lossy().into_owned());
        }
        Ok(loaded)
    }

    /// The name used in messages, and the text.
    pub fn read(&self) -> Result<(String, String), Failed> {
        self.read_as(|path, error| format!("cannot read {}: {error}", path.display()))
    }

    /// Like [`Source::read`], with the caller's message for a file that cannot be read.
    pub fn read_as(
        &self,
        unread: impl FnOnce(&Path, &std::io::Error) -> String,
    ) -> Result<(String, String), Failed> {
        let (name, bytes) = match self {
            Source::File { path, .. } => {
                let name = path.to_string_lossy().into_owned();
                let read = std::fs::File::open(path).and_then(read_bounded);
                (name, read)
            }
            Source::Stdin { .. } => ("stdin".to_owned(), read_bounded(std::io::stdin())),
            Source::Url { location, .. } => return remote::read(location),
        };
        let bytes = bytes.map_err(|error| Failed::new(unread(Path::new(&name), &error)))?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            Failed::new(format!("{name} is not valid UTF-8 (at byte {at})"))
        })?;
        Ok((name, text))
    }

    /// The format: the given one, else detected from the file name, else from the beginning of the text.
    pub fn adapter(&self, text: &str) -> Adapter {
        let (path, named) = match self {
            Source::File { path, adapter } => (path.as_path(), adapter),
            Source::Stdin { adapter } => (Path::new("stdin"), adapter),
            Source::Url { location, adapter } => {
                let name = location.as_ref().map_or("", |location| location.name());
                (Path::new(name), adapter)
            }
        };
        named.unwrap_or_else(|| detect(path, text))
    }
}

/// Detects the format from the file name, else from the beginning of the text.
pub fn detect(path: &Path, text: &str) -> Adapter {
    let file = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .to_ascii_lowercase();
    if sluice_nginx::begins_with_events(text) {
        return Adapter::Nginx;
    }
    if file.starts_with("caddyfile") || file.ends_with(".caddyfile") {
        return Adapter::Caddyfile;
    }
    if file == "nginx.conf" || file.ends_with(".nginx.conf") {
        return Adapter::Nginx;
    }
    // A Caddyfile may begin with a brace as well, but then a line end follows.
    let json = text
        .trim_start()
        .strip_prefix('{')
        .is_some_and(|rest| rest.trim_start().starts_with(['"', '}']));
    if file.ends_with(".json") || json {
        Adapter::Json
    } else if sluice_nginx::looks_like_nginx(text) {
        Adapter::Nginx
    } else {
        Adapter::Caddyfile
    }
}

/// Warns if a Caddyfile is not formatted, at the first line that differs.
fn hint_at_layout(name: &str, text: &str, report: &mut Report) {
    // CRLF line ends do not count as a difference.
    let text = text.replace("\r\n", "\n");
    let Ok(formatted) = sluice_caddyfile::format(name, &text) else {
        return;
    };
    if formatted == text {
        return;
    }
    let lines = text.split_inclusive('\n');
    let same = lines.zip(formatted.split_inclusive('\n'));
    let before: usize = same
        .take_while(|(is, should)| is == should)
        .map(|(line, _)| line.len())
        .sum();
    let line = text[before..].split('\n').next().unwrap_or_default().len();
    let offset = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    let source = report.sources.add(name, text);
    let span = Span::new(source, offset(before), offset(before + line));
    let found = Diagnostic::warning("not-formatted", format!("`{name}` is not formatted"));
    let found = found.at(span, "the first line that would change");
    report.push(found.help("`sluice fmt --overwrite` formats the file"));
}

/// Parses a text.
pub fn parse(
    name: &str,
    text: &str,
    adapter: Adapter,
    format: MessageFormat,
) -> Result<Loaded, Failed> {
    let read_at = SystemTime::now();
    match adapter {
        Adapter::Caddyfile | Adapter::Caddy1 => {
            let loader = Recording::default();
            let adapted = match adapter {
                Adapter::Caddy1 => adapt_v1(name, text, &loader),
                Adapter::Caddyfile | Adapter::Json | Adapter::Nginx => adapt(name, text, &loader),
            };
            let Adapted {
                mut config,
                mut report,
                origins,
                expressions,
            } = adapted;
            if config.is_some() {
                for written in &expressions {
                    expression::report(&written.text, written.span, written.import, &mut report);
                }
                config = config.filter(|_| !report.has_errors());
            }
            let read = loader.read.into_inner();
            let files = std::iter::once(name.to_owned())
                .chain(read.iter().map(|(path, _)| path.clone()))
                .collect();
            let texts = (adapter == Adapter::Caddyfile).then(|| Texts {
                name: name.to_owned(),
                text: text.to_owned(),
                files: read.into_iter().collect(),
                variables: loader.variables.into_inner(),
            });
            match config {
                Some(config) => Ok(Loaded {
                    config,
                    document: Document::Derived,
                    written: Some(Arc::new(Written {
                        sources: report.sources.clone(),
                        origins,
                    })),
                    report,
                    files,
                    read_at,
                    texts,
                }),
                None => Err(Failed::report(&report, format)),
            }
        }
        Adapter::Nginx => nginx(name, text, &sluice_nginx::Invocation::default(), format),
        Adapter::Json => match Config::from_json(text) {
            Ok(config) => Ok(Loaded {
                report: idle_report(&config),
                config,
                document: Document::Given(text.into()),
                written: None,
                files: vec![name.into()],
                read_at,
                texts: None,
            }),
            Err(error) => Err(Failed::report(&json_report(name, text, &error), format)),
        },
    }
}

/// Parses an nginx.conf.
pub fn nginx(
    name: &str,
    text: &str,
    invocation: &sluice_nginx::Invocation,
    format: MessageFormat,
) -> Result<Loaded, Failed> {
    let read_at = SystemTime::now();
    let loader = Recording::default();
    let sluice_nginx::Adapted {
        config,
        report,
        origins,
    } = sluice_nginx::adapt_as(name, text, invocation, &loader);
    let Some(config) = config else {
        return Err(Failed::report(&report, format));
    };
    let read = loader.read.into_inner();
    let files = std::iter::once(name.to_owned()).chain(read.into_iter().map(|(path, _)| path));
    Ok(Loaded {
        config,
        document: Document::Fixed,
        written: Some(Arc::new(Written {
            sources: report.sources.clone(),
            origins,
        })),
        report,
        files: files.collect(),
        read_at,
        texts: None,
    })
}

/// bcrypt cost of plaintext passwords in a Caddy 1 configuration. They are hashed each time the file is loaded, which
/// must not take long.
const PASSWORD_COST: u32 = 10;

/// Records which files were imported, and their texts.
#[derive(Default)]
pub struct Recording {
    read: RefCell<Vec<(String, String)>>,
    variables: RefCell<BTreeMap<String, String>>,
}

impl Loader for Recording {
    fn read(&self, path: &str) -> std::io::Result<Vec<u8>> {
        let found = DiskLoader.read(path);
        let mut read = self.read.borrow_mut();
        if !read.iter().any(|(known, _)| known == path) {
            let text = found.as_deref().unwrap_or_default();
            read.push((path.to_owned(), String::from_utf8_lossy(text).into_owned()));
        }
        found
    }

    fn glob(&self, pattern: &str) -> std::io::Result<Vec<String>> {
        DiskLoader.glob(pattern)
    }

    fn variable(&self, name: &str) -> Option<String> {
        let value = DiskLoader.variable(name);
        if let Some(value) = &value {
            let mut known = self.variables.borrow_mut();
            known.insert(name.to_owned(), value.clone());
        }
        value
    }

    fn hash_password(&self, password: &str) -> Option<String> {
        hash_bcrypt(password, PASSWORD_COST).ok()
    }
}

/// Warns of settings of a JSON configuration that have no effect.
fn idle_report(config: &Config) -> Report {
    let mut report = Report::new();
    for Idle {
        place,
        name,
        instead,
    } in idle_settings(config)
    {
        let found = Diagnostic::warning("no-effect", format!("{name} has no effect"));
        report.push(found.note(format!("at {place}")).help(instead));
    }
    report
}

fn json_report(name: &str, text: &str, error: &ConfigError) -> Report {
    let mut report = Report::new();
    let source = report.sources.add(name, text);
    report.push(match error {
        ConfigError::Syntax {
            line,
            column,
            message,
        } => {
            let at = offset(text, *line, *column);
            let help = "if it is a Caddyfile, add `--adapter caddyfile`";
            Diagnostic::error("invalid-json", "the configuration is not JSON")
                .at(Span::new(source, at, at + 1), message)
                .help(help)
        }
        ConfigError::Shape { path, message } => {
            let diagnostic = Diagnostic::error("invalid-config", message);
            if path.is_empty() {
                diagnostic
            } else {
                diagnostic.note(format!("at {path}"))
            }
        }
    });
    report
}

/// The offset of a `serde_json` position: line and column count from 1, columns in bytes.
fn offset(text: &str, line: usize, column: usize) -> u32 {
    let before: usize = text
        .split_inclusive('\n')
        .take(line.saturating_sub(1))
        .map(str::len)
        .sum();
    let mut at = (before + column.saturating_sub(1)).min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    u32::try_from(at).unwrap_or(u32::MAX)
}

fn read_bounded(from: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(FILE_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err(std::io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guess(path: &str, text: &str) -> Adapter {
        Source::File {
            path: path.into(),
            adapter: None,
        }
        .adapter(text)
    }

    #[test]
    fn the_language_is_guessed_from_name_and_text() {
        assert_eq!(guess("/a/Caddyfile", "{"), Adapter::Caddyfile);
        assert_eq!(guess("Caddyfile.dev", "{\"a\":1}"), Adapter::Caddyfile);
        assert_eq!(guess("site.caddyfile", ""), Adapter::Caddyfile);
        assert_eq!(guess("a.json", "localhost"), Adapter::Json);
        assert_eq!(guess("a.conf", " {\n \"apps\": {}}"), Adapter::Json);
        assert_eq!(guess("a.conf", "{}"), Adapter::Json);
        assert_eq!(guess("a.conf", "{\n\tdebug\n}\n"), Adapter::Caddyfile);
        assert_eq!(guess("a.conf", "localhost\nrespond ok"), Adapter::Caddyfile);
        assert_eq!(guess("/etc/nginx/nginx.conf", ""), Adapter::Nginx);
        assert_eq!(guess("a.nginx.conf", ""), Adapter::Nginx);
        assert_eq!(guess("a.conf", "# x\n\nuser a; # b\n"), Adapter::Nginx);
        assert_eq!(guess("a.conf", "events {\n}\n"), Adapter::Nginx);
        let one_line = "# x\nevents { worker_connections 5; }\nhttp {\n";
        assert_eq!(guess("a.conf", one_line), Adapter::Nginx);
        assert_eq!(guess("Caddyfile", one_line), Adapter::Nginx);
        let site = "server {\n\tlisten 80;\n}\n";
        assert_eq!(guess("sites-available/default", site), Adapter::Nginx);
        assert_eq!(guess("a.example.conf", site), Adapter::Nginx);
        assert_eq!(guess("Caddyfile", site), Adapter::Caddyfile);
        assert_eq!(guess("a", "server {\n\trespond x\n}\n"), Adapter::Caddyfile);
        let named = Source::File {
            path: "a.json".into(),
            adapter: Some(Adapter::Caddyfile),
        };
        assert_eq!(named.adapter("{}"), Adapter::Caddyfile);
    }

    #[test]
    fn the_first_line_out_of_layout_is_pointed_at() {
        let hint = |text: &str| {
            let mut report = Report::new();
            hint_at_layout("Caddyfile", text, &mut report);
            report.short()
        };
        assert_eq!(hint(":80 {\n\trespond x\n}\n"), "");
        assert_eq!(hint(":80 {\r\n\trespond x\r\n}\r\n"), "");
        let said = "warning[not-formatted]: `Caddyfile` is not formatted\n";
        assert_eq!(
            hint(":80 {\nrespond x\n}\n"),
            format!("Caddyfile:2:1: {said}")
        );
        assert_eq!(
            hint(":80 {\n\trespond x\n}\n\n"),
            format!("Caddyfile:4:1: {said}")
        );
        assert_eq!(
            hint(":80 {\n\t\"\n"),
            "",
            "what cannot be read is told otherwise"
        );
    }

    #[test]
    fn mistakes_in_json_are_pointed_at() {
        let failed = |text: &str| match parse("a.json", text, Adapter::Json, MessageFormat::Short) {
            Ok(loaded) => panic!("it was taken: {loaded:?}"),
            Err(failed) => failed.text().to_owned(),
        };
        assert_eq!(
            failed("{\n  x\n}"),
            "a.json:2:3: error[invalid-json]: the configuration is not JSON"
        );
        assert!(failed(r#"{"appz":{}}"#).starts_with("error[invalid-config]: "));
    }
}
