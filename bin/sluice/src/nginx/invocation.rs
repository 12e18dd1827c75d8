//! The configuration that an nginx command line selects, and the default paths.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use sluice_model::logging::LogWriter;
use sluice_model::{Admin, Config};
use sluice_net::sys::identity::{Identity, is_root};
use sluice_net::sys::process::{Standard, redirect};

use super::switches::Switches;
use super::{lines, notices};
use crate::load::{self, Loaded, Source};
use crate::messages::{Failed, MessageFormat, write};

/// The directory that relative paths refer to. These five paths are those of nginx's own packages.
pub const PREFIX: &str = "/etc/nginx";
/// The default configuration file.
pub const CONF: &str = "/etc/nginx/nginx.conf";
/// The default error log.
pub const ERROR_LOG: &str = "/var/log/nginx/error.log";
/// The default access log.
pub const ACCESS_LOG: &str = "/var/log/nginx/access.log";
/// The default PID file.
pub const PID_FILE: &str = "/run/nginx.pid";

/// A configuration, and what the command line adds to it.
#[derive(Clone, Debug)]
pub struct Invocation {
    conf: PathBuf,
    added: sluice_nginx::Invocation,
    /// Whether this process has detached from its terminal.
    background: bool,
}

impl Invocation {
    /// Applies the switches. Relative paths refer to the prefix, and a relative prefix to the current directory.
    pub fn new(switches: &Switches) -> Result<Invocation, Failed> {
        let prefix = switches.prefix.as_deref().unwrap_or(PREFIX);
        let prefix = std::path::absolute(prefix).unwrap_or_else(|_| prefix.into());
        let error_log = match switches.error_log.as_deref() {
            Some("stderr") => "stderr".to_owned(),
            Some(path) => shown(&prefix.join(path)),
            None => shown(&prefix.join(ERROR_LOG)),
        };
        Ok(Invocation {
            conf: prefix.join(switches.conf.as_deref().unwrap_or(CONF)),
            added: sluice_nginx::Invocation {
                globals: switches.globals.clone(),
                prefix: Some(shown(&prefix)),
                error_log,
                access_log: shown(&prefix.join(ACCESS_LOG)),
                pid_file: PID_FILE.to_owned(),
            },
            background: false,
        })
    }

    /// Whether this process has detached from its terminal.
    pub fn is_in_background(&self) -> bool {
        self.background
    }

    /// The configuration file name used in messages.
    pub fn conf(&self) -> String {
        shown(&self.conf)
    }

    /// Loads the configuration. nginx has no admin endpoint, so it is disabled.
    pub fn load(&self, format: MessageFormat) -> Result<Loaded, Failed> {
        let source = Source::File {
            path: self.conf.clone(),
            adapter: None,
        };
        let (name, text) = source
            .read_as(|path, error| lines::call(&format!("open() \"{}\"", path.display()), error))?;
        let mut added = self.added.clone();
        if added.error_log != "stderr"
            && let Err(error) = open_log(Path::new(&added.error_log))
        {
            let what = lines::call(&format!("open() \"{}\"", added.error_log), &error);
            write(&format!(
                "nginx: [alert] could not open error log file: {what}\n"
            ));
            added.error_log = "stderr".to_owned();
        }
        let mut loaded = load::nginx(&name, &text, &added, format)?;
        serve_as_nobody(&mut loaded.config);
        loaded.config.admin = Some(Admin {
            disabled: true,
            ..Admin::default()
        });
        Ok(loaded)
    }

    /// Logs to the command line's error log that this process sends a signal: the configured error log belongs to the
    /// server.
    pub fn log_sender(&self) {
        let line = notices::of_sender();
        match self.added.error_log.as_str() {
            "stderr" => write(&String::from_utf8_lossy(&line)),
            // If it cannot be opened, that was reported when the configuration was loaded.
            path => _ = open_log(Path::new(path)).and_then(|mut file| file.write_all(&line)),
        }
    }

    /// Records that this process has detached from its terminal.
    pub fn leave_terminal(&mut self) {
        self.background = true;
    }

    /// In the background: redirects standard error to the error log, as nginx does, so that a crash message is not
    /// lost. Without an error log file, standard error is unchanged.
    pub fn redirect_error(&self, config: &Config) {
        let logs = config.logging.as_ref().map(|logging| &logging.logs);
        let Some(log) = logs
            .and_then(|logs| logs.get("default"))
            .filter(|_| self.background)
        else {
            return;
        };
        let path = match &log.writer {
            Some(LogWriter::File(file)) => file.filename.as_str(),
            Some(LogWriter::Discard(_)) => "/dev/null",
            _ => return,
        };
        if let Ok(file) = open_log(Path::new(path)) {
            let _ = redirect(Standard::Error, &file);
        }
    }
}

/// Sets nginx's default user if it is started as root and the configuration names none. Its group has another name on
/// Debian.
fn serve_as_nobody(config: &mut Config) {
    let process = config.apps.process.get_or_insert_default();
    if !process.user.is_empty() || !is_root() {
        return;
    }
    let is_there = |group: &&str| Identity::of("nobody", group).is_ok();
    if let Some(group) = ["nogroup", "nobody"].into_iter().find(is_there) {
        process.user = "nobody".to_owned();
        process.group = group.to_owned();
    }
}

fn open_log(path: &Path) -> std::io::Result<std::fs::File> {
    OpenOptions::new().append(true).create(true).open(path)
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
