//! `lab init`: generates an experiment from an existing configuration. It reads a Caddyfile, Caddy's JSON or an
//! nginx.conf, finds what can be tested, and writes the experiment with copies of the configuration that can run beside
//! everything else: on a port of the lab, without certificates, in front of the lab's own upstreams. The original is
//! not changed.

mod caddy;
mod nginx;
mod write;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::progress::Progress;
use sluice_load::outcome::{Completion, Outcome, Refused};
use sluice_load::process;

/// Maximum number of places tested; more would make the experiment too long.
pub const PLACES_MAX: usize = 24;

/// Maximum size of a configuration with its includes.
pub const CONFIG_BYTES_MAX: u64 = 4 << 20;

/// Placeholder for the server's port in a copy.
pub const PORT: &str = "__LAB_PORT__";

/// Placeholder for the folder of a run.
pub const DIR: &str = "__LAB_DIR__";

/// Options of `lab init`.
#[derive(Clone, Debug)]
pub struct Options {
    /// Configuration file: a Caddyfile, Caddy's JSON or an nginx.conf
    pub config: PathBuf,
    /// Its language; by default detected from name and content
    pub adapter: Option<Language>,
    /// Output file of the experiment; copies of the configuration go next to it
    pub out: PathBuf,
    /// Overwrites existing files
    pub force: bool,
}

/// Configuration languages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Caddy's configuration language
    Caddyfile,
    /// Caddy's JSON
    Json,
    /// nginx.conf
    Nginx,
}

/// An upstream provided by the lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Backend {
    /// An HTTP/1.1 server.
    Http,
    /// A FastCGI responder.
    Fastcgi,
}

impl Backend {
    /// Its name in the experiment.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Http => "app",
            Backend::Fastcgi => "fcgi",
        }
    }

    /// Placeholder for its port in a copy.
    pub fn port(self) -> &'static str {
        match self {
            Backend::Http => "__LAB_APP__",
            Backend::Fastcgi => "__LAB_FCGI__",
        }
    }
}

/// The expected response of a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Right {
    /// A fixed status, and the body if it is known.
    Fixed(u16, Option<String>),
    /// An existing file.
    File(PathBuf),
    /// The response of the upstream.
    Behind(Backend),
}

/// A place of the configuration that can be tested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The host, if the place requires one.
    pub host: Option<String>,
    /// Path and query.
    pub path: String,
    /// The copy of the configuration that has it; empty if there is only one.
    pub kind: String,
    /// The expected response.
    pub right: Right,
}

/// What was found in a configuration.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// What can be tested.
    pub places: Vec<Place>,
    /// What cannot, with the reason: comments of the experiment.
    pub left_out: Vec<String>,
    /// Changes made in the copies, in sentences.
    pub changes: BTreeSet<String>,
    /// Copies: kind and text.
    pub copies: Vec<(String, String)>,
}

impl Found {
    /// Adds a place, unless it is already there or the limit is reached.
    pub fn add(&mut self, place: Place) {
        let same = |known: &Place| (&known.host, &known.path) == (&place.host, &place.path);
        if self.places.iter().any(same) {
            return;
        }
        if self.places.len() == PLACES_MAX {
            let text = format!("more than {PLACES_MAX} locations: the rest has no test");
            if self.left_out.last() != Some(&text) {
                self.left_out.push(text);
            }
            return;
        }
        self.places.push(place);
    }

    /// Adds something that cannot be tested.
    pub fn leave(&mut self, text: String) {
        if !self.left_out.contains(&text) && self.left_out.len() < PLACES_MAX {
            self.left_out.push(text);
        }
    }
}

/// Runs `lab init`.
pub fn run(options: &Options, live: &mut dyn Progress) -> Outcome {
    let path = &options.config;
    let with_path = |error: std::io::Error| Refused(format!("{}: {error}", path.display()));
    if fs::metadata(path).map_err(with_path)?.len() > CONFIG_BYTES_MAX {
        let limit = CONFIG_BYTES_MAX >> 20;
        let text = format!("{}: more than {limit} MiB of configuration", path.display());
        return Err(Refused(text));
    }
    let text = fs::read_to_string(path).map_err(with_path)?;
    let language = options.adapter.unwrap_or_else(|| guess(path, &text));
    let found = match language {
        Language::Nginx => nginx::read(path, &text).map_err(Refused)?,
        Language::Json => caddy::read(&text).map_err(Refused)?,
        Language::Caddyfile => caddy::read(&adapted(path)?).map_err(Refused)?,
    };
    if found.places.is_empty() {
        let mut text = format!(
            "{}: contains nothing that a client can request",
            path.display()
        );
        for reason in &found.left_out {
            text += &format!("\n  {reason}");
        }
        return Err(Refused(text));
    }
    let stem = options.out.file_stem().unwrap_or_default();
    let stem = stem.to_string_lossy().into_owned();
    let mut files = vec![(
        options.out.clone(),
        write::experiment(&found, language, path, &stem),
    )];
    for (kind, text) in &found.copies {
        let name = write::copy_name(&stem, kind, language);
        files.push((options.out.with_file_name(name), text.clone()));
    }
    save(&files, options.force, live)?;
    for reason in &found.left_out {
        live.line(&format!("omitted: {reason}"));
    }
    live.line(&format!(
        "{} locations; next: sluice-lab run {} --quick",
        found.places.len(),
        options.out.display()
    ));
    Ok(Completion::Yes)
}

fn save(files: &[(PathBuf, String)], force: bool, live: &mut dyn Progress) -> Result<(), Refused> {
    if let Some((path, _)) = files.iter().find(|(path, _)| path.exists() && !force) {
        let text = format!("{} already exists; --force overwrites it", path.display());
        return Err(Refused(text));
    }
    for (path, text) in files {
        fs::write(path, text).map_err(|error| Refused(format!("{}: {error}", path.display())))?;
        live.line(&format!("{}", path.display()));
    }
    Ok(())
}

/// Detects the language of a configuration from its name, else from its content.
fn guess(path: &Path, text: &str) -> Language {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if name.ends_with(".json") {
        return Language::Json;
    }
    // The name first: an empty options block is valid JSON, too.
    if name.ends_with("Caddyfile") || name.starts_with("Caddyfile") {
        return Language::Caddyfile;
    }
    if text.trim_start().starts_with('{') && is_json(text) {
        return Language::Json;
    }
    // Nearly every nginx.conf has `events` or `server_name`.
    let has = |word: &str| text.lines().any(|line| line.trim_start().starts_with(word));
    if name.ends_with(".conf") || has("events") || has("server_name") {
        Language::Nginx
    } else {
        Language::Caddyfile
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(text).is_ok()
}

/// Adapts a Caddyfile to JSON with sluice or Caddy.
fn adapted(path: &Path) -> Result<String, Refused> {
    let programs = ["sluice", "caddy"];
    let found = programs.iter().find_map(|name| process::find(name));
    let Some(program) = found else {
        let text = "reading a Caddyfile needs `sluice adapt` or `caddy adapt`, but neither is installed; set SLUICE_BIN or CADDY_BIN";
        return Err(Refused::new(text));
    };
    let output = Command::new(&program)
        .args(["adapt", "--adapter", "caddyfile", "--config"])
        .arg(path)
        .output()
        .map_err(|error| Refused(format!("{}: {error}", program.display())))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(Refused(words.trim().to_string()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A file below a root that can be requested at a path: the index of a folder, else the first file in it.
pub fn file_at(root: &Path, below: &str) -> Option<(String, PathBuf)> {
    let folder = root.join(below.trim_start_matches('/'));
    if folder.is_file() {
        return Some((String::new(), folder));
    }
    let index = folder.join("index.html");
    if index.is_file() {
        return Some((String::new(), index));
    }
    let plain = |name: &str| {
        let mut bytes = name.bytes();
        !name.starts_with('.') && bytes.all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    let entries = fs::read_dir(&folder).ok()?.flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.path().is_file())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| plain(name) && !name.ends_with(".php"))
        .collect();
    names.sort();
    let name = names.into_iter().next()?;
    let path = folder.join(&name);
    Some((name, path))
}

/// The path to request for a pattern with at most one `*`, at its end; `None` for other patterns.
pub fn asked(pattern: &str) -> Option<String> {
    let path = pattern.strip_suffix('*').unwrap_or(pattern);
    let plain = path
        .bytes()
        .all(|b| b.is_ascii_graphic() && !b"*{}\"\\".contains(&b));
    (plain && path.starts_with('/')).then(|| path.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_formats_are_detected() {
        for (name, text, language) in [
            ("Caddyfile", ":80\nrespond hi\n", Language::Caddyfile),
            ("site.Caddyfile", "{\n}\n", Language::Caddyfile),
            ("a.json", "", Language::Json),
            ("a", "{\"apps\": {}}", Language::Json),
            ("nginx.conf", "", Language::Nginx),
            ("a", "user x;\nevents {\n}\n", Language::Nginx),
            ("a", "localhost\nfile_server\n", Language::Caddyfile),
        ] {
            assert_eq!(guess(Path::new(name), text), language, "{name}: {text}");
        }
    }

    #[test]
    fn patterns_that_can_be_asked() {
        assert_eq!(asked("/api/*").as_deref(), Some("/api/"));
        assert_eq!(asked("/a").as_deref(), Some("/a"));
        for pattern in ["*.php", "/a/*/b", "/{re}", "a", "/a b"] {
            assert_eq!(asked(pattern), None, "{pattern}");
        }
    }
}
