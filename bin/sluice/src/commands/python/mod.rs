//! `sluice python`: serves a Python application, found in the current folder or named as uvicorn and gunicorn take it; and
//! `sluice python-server`, with Caddy Snake's flags. Both make a configuration, which is then handled like any other.

mod project;
pub mod server;
mod site;

use std::path::PathBuf;

use serde_json::json;

use crate::Exit;
use crate::messages::{Failed, MessageFormat};
use crate::quick_servers::serve_json_then;
use project::Found;
use site::Site;

/// Flags of the command.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Application, such as `main:app` or `main:create_app()` (default: found in the current folder).
    #[arg(value_name = "MODULE:APP")]
    app: Option<String>,
    /// Interface of the application: auto, wsgi, asgi, esgi or rsgi.
    #[arg(short, long, value_name = "INTERFACE", default_value = "auto")]
    #[arg(value_parser = ["auto", "wsgi", "asgi", "esgi", "rsgi"], hide_possible_values = true)]
    interface: String,
    /// Address to listen on (repeatable; default: `127.0.0.1:8000`, or `0.0.0.0` and the port in `$PORT`).
    #[arg(short, long, value_name = "ADDRESS", conflicts_with_all = ["host", "port"])]
    bind: Vec<String>,
    /// Host to listen on.
    #[arg(long)]
    host: Option<String>,
    /// Port to listen on.
    #[arg(short, long)]
    port: Option<u16>,
    /// Number of worker processes (default: `$WEB_CONCURRENCY`, or 1).
    #[arg(short, long, value_name = "N")]
    workers: Option<u32>,
    /// Maximum number of threads of a WSGI process.
    #[arg(long, value_name = "N")]
    threads: Option<u32>,
    /// Restart the application when a Python file changes.
    #[arg(long, visible_alias = "autoreload")]
    reload: bool,
    /// Path that the application is mounted at, for URLs it generates.
    #[arg(long, value_name = "PATH", default_value = "")]
    root_path: String,
    /// Lifespan events of ASGI: auto, on or off.
    #[arg(long, value_name = "MODE", default_value = "auto")]
    #[arg(value_parser = ["auto", "on", "off"], hide_possible_values = true)]
    lifespan: String,
    /// Extension module `sluice_accelerator`: auto, on or off.
    #[arg(long, value_name = "MODE", default_value = "auto")]
    #[arg(value_parser = ["auto", "on", "off"], hide_possible_values = true)]
    accelerator: String,
    /// Treat APP as a function that returns the application.
    #[arg(long)]
    factory: bool,
    /// Folder to run in and to import from (default: the current directory).
    #[arg(long, visible_aliases = ["chdir", "working-dir"], value_name = "DIR")]
    app_dir: Option<PathBuf>,
    /// Virtual environment (default: `$VIRTUAL_ENV`, or `.venv` or `venv` in the folder).
    #[arg(long, value_name = "DIR")]
    venv: Option<PathBuf>,
    /// Load the application's environment variables from FILE (repeatable).
    #[arg(long, value_name = "FILE")]
    env_file: Vec<String>,
    /// Set an environment variable of the application (`NAME=VALUE`, repeatable).
    #[arg(short, long = "env", value_name = "NAME=VALUE")]
    env_var: Vec<String>,
    /// Enable the access log.
    #[arg(long, visible_alias = "access-logs")]
    access_log: bool,
    /// Enable debug logs.
    #[arg(short = 'v', long)]
    debug: bool,
}

/// Where uvicorn and gunicorn listen.
const LISTEN: &str = "127.0.0.1:8000";

impl Args {
    /// Serves until the server is stopped.
    pub fn run(self, format: MessageFormat) -> Result<Exit, Failed> {
        let folder = site::folder(self.app_dir.as_deref())?;
        let found = match &self.app {
            Some(app) => Found::named(app, &self.interface),
            None => project::find(&folder)?,
        };
        let mut app = found.app.clone();
        if self.factory && !app.ends_with("()") {
            app.push_str("()");
        }
        let listen = self.listen();
        let venv = site::venv(self.venv.as_deref(), &folder);
        let mut handler = json!({
            "handler": "python",
            found.interface.setting(): app,
            "working_dir": folder.to_string_lossy(),
            "workers": self.workers()?,
            "root_path": self.root_path,
            "accelerator": self.accelerator,
        });
        if found.interface.has_lifespan() {
            handler["lifespan"] = json!(self.lifespan);
        }
        if let Some(threads) = self.threads {
            handler["threads"] = json!(threads);
        }
        if self.reload {
            handler["autoreload"] = json!("on");
        }
        if let Some(venv) = &venv {
            handler["venv_path"] = json!(venv.to_string_lossy());
        }
        site::add_environment(&mut handler, &self.env_file, &self.env_var)?;
        say!("Python application: {app} ({})", found.describe());
        if let Some(venv) = &venv {
            say!("Virtual environment: {}", venv.display());
        }
        let site = Site {
            listen: listen.clone(),
            domain: None,
            handlers: vec![handler],
            files: None,
            access_log: self.access_log,
            debug: self.debug,
        };
        let urls: Vec<String> = listen.iter().map(|address| site::url(address)).collect();
        let ready = move || {
            urls.iter().for_each(|url| say!("Listening on {url}"));
            Ok(())
        };
        serve_json_then(site.config(), format, Box::new(ready))
    }

    /// The addresses: those of `--bind`, or of `--host` and `--port`, or of the environment.
    fn listen(&self) -> Vec<String> {
        if !self.bind.is_empty() {
            return self.bind.iter().map(|bind| site::address(bind)).collect();
        }
        let of_environment = std::env::var("PORT")
            .ok()
            .and_then(|port| port.parse().ok());
        let port = self.port.or(of_environment);
        let host = match (&self.host, port, self.port) {
            (Some(host), _, _) => host.as_str(),
            // As gunicorn does: a platform that sets the variable forwards to all addresses.
            (None, Some(_), None) => "0.0.0.0",
            (None, _, _) => "127.0.0.1",
        };
        match (&self.host, port) {
            (None, None) => vec![LISTEN.to_owned()],
            (_, port) => vec![site::joined(host, port.unwrap_or(8000))],
        }
    }

    fn workers(&self) -> Result<u32, Failed> {
        match (self.workers, std::env::var("WEB_CONCURRENCY")) {
            (Some(workers), _) => Ok(workers),
            (None, Err(_)) => Ok(1),
            (None, Ok(text)) => text.trim().parse().map_err(|_| {
                Failed::new(format!(
                    "`{text}` in WEB_CONCURRENCY is not a number of processes"
                ))
            }),
        }
    }
}
