//! `sluice python-server`: Caddy Snake's command, with its flags.

use std::path::PathBuf;

use serde_json::json;
use sluice_model::handler::python::PythonIsolation;

use super::project::Interface;
use super::site::{self, Site};
use crate::Exit;
use crate::messages::{Failed, MessageFormat};
use crate::quick_servers::serve_json_then;

/// Flags of the command.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Interface of the application: wsgi, asgi or esgi.
    #[arg(short = 't', long, value_name = "TYPE", value_parser = ["wsgi", "asgi", "esgi"])]
    #[arg(hide_possible_values = true)]
    server_type: String,
    /// Application, such as `main:app`.
    #[arg(short, long, value_name = "MODULE:APP")]
    app: String,
    /// Host name to serve over HTTPS.
    #[arg(short, long)]
    domain: Option<String>,
    /// Address to listen on (default: `127.0.0.1:9080`, or `:443` with `--domain`).
    #[arg(short, long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Number of worker processes (0: one per CPU).
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    workers: u32,
    /// Python interpreter.
    #[arg(long, value_name = "FILE")]
    python_path: Option<String>,
    /// Folder to run in and to import from (default: the current directory).
    #[arg(long, value_name = "DIR")]
    working_dir: Option<PathBuf>,
    /// Virtual environment (default: `$VIRTUAL_ENV`, or `.venv` or `venv` in the folder).
    #[arg(long, value_name = "DIR")]
    venv: Option<PathBuf>,
    /// Load the application's environment variables from FILE (repeatable).
    #[arg(long, value_name = "FILE")]
    env_file: Vec<String>,
    /// Set an environment variable of the application (`NAME=VALUE`, repeatable).
    #[arg(long, value_name = "NAME=VALUE")]
    env_var: Vec<String>,
    /// How long processes may take to start; -1 for no limit (default: `120s`).
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    start_timeout: Option<String>,
    /// Folder with static files.
    #[arg(long, value_name = "DIR")]
    static_path: Option<PathBuf>,
    /// Path of the static files.
    #[arg(long, value_name = "PATH", default_value = "/static")]
    static_route: String,
    /// Enable debug logs.
    #[arg(long)]
    debug: bool,
    /// Enable the access log.
    #[arg(long)]
    access_logs: bool,
    /// Restart the application when a Python file changes.
    #[arg(long)]
    autoreload: bool,
    /// Lifespan events of ASGI: on, off or auto.
    #[arg(long, value_name = "MODE", value_parser = ["on", "off", "auto"])]
    #[arg(hide_possible_values = true)]
    lifespan: Option<String>,
    /// What runs requests: sync or gevent (WSGI), uvloop or native (ASGI), gevent (ESGI).
    #[arg(long, value_name = "RUNTIME")]
    runtime: Option<String>,
    /// Extension module `sluice_accelerator`: auto, on or off.
    #[arg(long, value_name = "MODE", value_parser = ["auto", "on", "off"])]
    #[arg(hide_possible_values = true)]
    accelerator: Option<String>,
    /// Isolation of the processes: none.
    #[arg(long, value_name = "KIND")]
    isolation: Option<String>,
    #[arg(long, hide = true)]
    isolation_image: Option<String>,
    #[arg(long, hide = true)]
    isolation_network: Option<String>,
    #[arg(long, hide = true)]
    isolation_docker_host: Option<String>,
    #[arg(long, hide = true)]
    isolation_memory: Option<String>,
    #[arg(long, hide = true)]
    isolation_cpus: Option<String>,
    #[arg(long, hide = true)]
    isolation_read_only: bool,
    /// Maximum number of applications that placeholders in the flags make.
    #[arg(long, value_name = "N")]
    max_dynamic_apps: Option<u32>,
}

impl Args {
    /// Serves until the server is stopped.
    pub fn run(self, format: MessageFormat) -> Result<Exit, Failed> {
        let listen = match (&self.listen, &self.domain) {
            (Some(listen), _) => site::address(listen),
            (None, Some(_)) => ":443".to_owned(),
            (None, None) => "127.0.0.1:9080".to_owned(),
        };
        let handlers = vec![
            json!({
                "handler": "encode",
                "encodings": { "zstd": {}, "gzip": {} },
                "prefer": ["zstd", "gzip"],
            }),
            self.handler()?,
        ];
        let files = self.static_path.as_ref().map(|folder| {
            let prefix = self.static_route.trim_end_matches(['*', '/']);
            let prefix = format!("/{}", prefix.trim_start_matches('/'));
            (prefix, folder.clone())
        });
        let url = match &self.domain {
            Some(domain) => format!("https://{domain}"),
            None => site::url(&listen),
        };
        say!(
            "Python application: {} ({})",
            self.app,
            self.server_type.to_uppercase()
        );
        let site = Site {
            listen: vec![listen],
            domain: self.domain,
            handlers,
            files,
            access_log: self.access_logs,
            debug: self.debug,
        };
        let ready = move || {
            say!("Listening on {url}");
            Ok(())
        };
        serve_json_then(site.config(), format, Box::new(ready))
    }

    fn handler(&self) -> Result<serde_json::Value, Failed> {
        // Placeholders in the folder are expanded for each request.
        let given = self.working_dir.as_deref();
        let is_dynamic = given.is_some_and(|dir| dir.to_string_lossy().contains('{'));
        let folder = match (given, is_dynamic) {
            (Some(dir), true) => dir.to_owned(),
            (given, _) => site::folder(given)?,
        };
        let mut handler = json!({
            "handler": "python",
            Interface::named(&self.server_type).setting(): self.app,
            "working_dir": folder.to_string_lossy(),
            "workers": self.workers,
        });
        let venv = site::venv(self.venv.as_deref(), &folder).filter(|_| self.python_path.is_none());
        let texts = [
            (
                "venv_path",
                venv.map(|venv| venv.to_string_lossy().into_owned()),
            ),
            ("python_path", self.python_path.clone()),
            ("lifespan", self.lifespan.clone()),
            ("runtime", self.runtime.clone()),
            ("accelerator", self.accelerator.clone()),
            ("autoreload", self.autoreload.then(|| "on".to_owned())),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                handler[name] = json!(text);
            }
        }
        if let Some(text) = &self.start_timeout {
            handler["start_timeout"] = json!(text);
        }
        if let Some(isolation) = &self.isolation {
            let isolation = PythonIsolation {
                backend: isolation.clone(),
                docker: None,
            };
            handler["isolation"] = json!(isolation);
        }
        if let Some(max) = self.max_dynamic_apps {
            handler["max_dynamic_apps"] = json!(max);
        }
        site::add_environment(&mut handler, &self.env_file, &self.env_var)?;
        Ok(handler)
    }
}
