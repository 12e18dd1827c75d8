//! The payloads of control frames.

use serde::{Deserialize, Serialize};
use sluice_wire::limits::{
    PYTHON_ERROR_BYTES_MAX, PYTHON_HEADERS_BYTES_MAX, PYTHON_HEADERS_MAX, PYTHON_PAYLOAD_BYTES_MAX,
};

use crate::failure::StartFailure;
use crate::interpreter::Interpreter;
use crate::notice::Level;
use crate::process::Greeting;
use crate::settings::{Accelerator, EventLoop, Interface, Lifespan, Settings};

/// CONFIG.
#[derive(Serialize)]
struct Config<'a> {
    interface: &'static str,
    module: &'a str,
    factory: bool,
    threads: usize,
    window: u32,
    lifespan: &'static str,
    r#loop: &'static str,
    accelerator: &'static str,
    working_dir: Option<String>,
    site_packages: Option<String>,
    preload: bool,
    limits: Limits,
}

/// What a worker must not exceed, since the server takes it for a violation of the protocol.
#[derive(Serialize)]
struct Limits {
    headers: u32,
    header_lines: usize,
    error: u32,
    message: u32,
}

/// The payload of CONFIG.
pub(super) fn config(settings: &Settings, interpreter: &Interpreter, preload: bool) -> Vec<u8> {
    let text = |path: &std::path::Path| path.to_string_lossy().into_owned();
    let config = Config {
        interface: name_of(settings.interface),
        module: &settings.module,
        factory: settings.factory,
        threads: settings.threads,
        window: settings.window,
        lifespan: match settings.lifespan {
            Lifespan::On => "on",
            Lifespan::Off => "off",
            Lifespan::Auto => "auto",
        },
        r#loop: match settings.event_loop {
            EventLoop::Auto => "auto",
            EventLoop::Uvloop => "uvloop",
            EventLoop::Asyncio => "asyncio",
            EventLoop::Gevent => "gevent",
        },
        accelerator: match settings.accelerator {
            Accelerator::Auto => "auto",
            Accelerator::On => "on",
            Accelerator::Off => "off",
        },
        working_dir: settings.working_dir.as_deref().map(text),
        site_packages: interpreter.site_packages.as_deref().map(text),
        preload,
        limits: Limits {
            headers: PYTHON_HEADERS_BYTES_MAX,
            header_lines: PYTHON_HEADERS_MAX,
            error: PYTHON_ERROR_BYTES_MAX,
            message: PYTHON_PAYLOAD_BYTES_MAX,
        },
    };
    serde_json::to_vec(&config).unwrap_or_default()
}

fn name_of(interface: Interface) -> &'static str {
    match interface {
        Interface::Wsgi => "wsgi",
        Interface::Asgi => "asgi",
        Interface::Esgi => "esgi",
        Interface::Rsgi => "rsgi",
        Interface::Auto => "auto",
    }
}

/// READY.
#[derive(Deserialize)]
pub(super) struct Ready {
    #[serde(default)]
    python: String,
    interface: String,
    #[serde(default)]
    r#loop: Option<String>,
    #[serde(default)]
    accelerator: Option<serde_json::Value>,
    #[serde(default)]
    marshal: bool,
}

impl Ready {
    /// What it says; `None` if it names an interface that does not exist.
    pub fn greeting(self) -> Option<Greeting> {
        const KNOWN: [Interface; 4] = [
            Interface::Wsgi,
            Interface::Asgi,
            Interface::Esgi,
            Interface::Rsgi,
        ];
        let interface = KNOWN
            .into_iter()
            .find(|known| name_of(*known) == self.interface)?;
        Some(Greeting {
            python: self.python,
            interface: Some(interface),
            event_loop: self.r#loop.unwrap_or_default(),
            accelerated: !matches!(
                self.accelerator,
                None | Some(serde_json::Value::Null | serde_json::Value::Bool(false))
            ),
            marshal: self.marshal,
        })
    }
}

/// FAILED.
#[derive(Deserialize)]
pub(super) struct Failed {
    #[serde(default)]
    stage: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    traceback: Option<String>,
    #[serde(default)]
    file: Option<String>,
    #[serde(default)]
    line: Option<u32>,
}

impl From<Failed> for StartFailure {
    fn from(failed: Failed) -> StartFailure {
        StartFailure {
            stage: failed.stage,
            message: failed.message,
            traceback: failed.traceback,
            place: failed.file.map(|file| (file, failed.line.unwrap_or(0))),
        }
    }
}

/// STATS.
#[derive(Deserialize)]
pub(super) struct Stats {
    #[serde(default)]
    pub busy_us: u64,
}

/// LOG.
#[derive(Deserialize)]
pub(super) struct Log {
    #[serde(default)]
    level: String,
    #[serde(default)]
    pub message: String,
    #[serde(default)]
    pub traceback: Option<String>,
}

impl Log {
    pub fn level(&self) -> Level {
        match &self.level[..] {
            "debug" => Level::Debug,
            "info" => Level::Info,
            "error" => Level::Error,
            _ => Level::Warn,
        }
    }
}

/// FORKED.
#[derive(Deserialize)]
pub(super) struct Forked {
    #[serde(default)]
    pub pid: u32,
    #[serde(default)]
    pub error: Option<String>,
}

/// EXITED.
#[derive(Deserialize)]
pub(super) struct Exited {
    pub pid: u32,
    pub status: i32,
}
