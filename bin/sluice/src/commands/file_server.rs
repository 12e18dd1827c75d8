//! `sluice file-server`: serves the files of a directory.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::Exit;
use crate::messages::{Failed, MessageFormat};
use crate::quick_servers::{logging, serve_json};

/// Flags of the command.
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// Directory to serve (default: the current directory).
    #[arg(short, long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Address to listen on (default: `:80`, or `:443` with `--domain`).
    #[arg(short, long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Host name to serve over HTTPS.
    #[arg(short, long)]
    domain: Option<String>,
    /// List directories that have no index file.
    #[arg(short, long)]
    browse: bool,
    /// Show the targets of symbolic links in listings.
    #[arg(long)]
    reveal_symlinks: bool,
    /// Maximum number of entries in a listing.
    #[arg(short, long, default_value_t = 10_000)]
    file_limit: u32,
    /// Execute templates in the files.
    #[arg(short, long)]
    templates: bool,
    /// Disable compression.
    #[arg(long)]
    no_compress: bool,
    /// Serve precompressed files found beside the originals, in order of preference.
    #[arg(short, long, value_name = "ENCODING", value_delimiter = ',')]
    precompressed: Vec<String>,
    /// Enable the access log.
    #[arg(short, long)]
    access_log: bool,
    /// Enable debug logs.
    #[arg(short = 'v', long)]
    debug: bool,
}

/// Actions that replace serving.
#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Print the default listing template, as a starting point for your own.
    ExportTemplate,
}

/// The default listing template.
const LIST: &str = include_str!("list.html");

impl Args {
    /// Serves until the server is stopped.
    pub fn run(self, format: MessageFormat) -> Result<Exit, Failed> {
        if let Some(Action::ExportTemplate) = self.action {
            say!("{}", LIST.trim_end());
            return Ok(Exit::Done);
        }
        let config = self.config()?;
        say!("Serving files on {}", self.listen());
        serve_json(config, format)
    }

    fn listen(&self) -> &str {
        match (&self.listen, &self.domain) {
            (Some(listen), _) => listen,
            (None, Some(_)) => ":443",
            (None, None) => ":80",
        }
    }

    fn config(&self) -> Result<Value, Failed> {
        let mut handlers = Vec::new();
        if self.templates {
            handlers.push(json!({ "handler": "templates" }));
        }
        if !self.no_compress {
            handlers.push(json!({
                "handler": "encode",
                "encodings": { "zstd": {}, "gzip": {} },
                "prefer": ["zstd", "gzip"],
            }));
        }
        handlers.push(self.file_server()?);
        let mut route = json!({ "handle": handlers });
        if let Some(domain) = &self.domain {
            route["match"] = json!([{ "host": [domain] }]);
        }
        let mut server = json!({ "listen": [self.listen()], "routes": [route] });
        if self.access_log {
            server["logs"] = json!({});
        }
        let mut config = json!({
            "admin": { "disabled": true, "config": { "persist": false } },
            "apps": { "http": { "servers": { "static": server } } },
        });
        if let Some(logging) = logging(self.debug) {
            config["logging"] = logging;
        }
        Ok(config)
    }

    fn file_server(&self) -> Result<Value, Failed> {
        let root = match &self.root {
            Some(root) => root.clone(),
            None => std::env::current_dir().map_err(Failed::new)?,
        };
        if !root.is_dir() {
            return Err(Failed::new(format!(
                "{} is not a directory",
                root.display()
            )));
        }
        let mut handler = json!({ "handler": "file_server", "root": root.to_string_lossy() });
        if self.browse {
            let mut browse = json!({ "file_limit": self.file_limit });
            if self.reveal_symlinks {
                browse["reveal_symlinks"] = json!(true);
            }
            handler["browse"] = browse;
        }
        if !self.precompressed.is_empty() {
            let empty = |name: &String| (name.clone(), json!({}));
            let encodings: Map<String, Value> = self.precompressed.iter().map(empty).collect();
            handler["precompressed"] = Value::Object(encodings);
            handler["precompressed_order"] = json!(self.precompressed);
        }
        Ok(handler)
    }
}
