//! `sluice file-server`: the files of a folder.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::Exit;
use crate::messages::{Failed, MessageFormat};
use crate::quick::{logging, serve_json};

/// The flags of the command.
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// The folder; by default the current one.
    #[arg(short, long, value_name = "PATH")]
    root: Option<PathBuf>,
    /// The address to listen on; by default :80, with a domain :443.
    #[arg(short, long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// The name to serve, over HTTPS.
    #[arg(short, long)]
    domain: Option<String>,
    /// Lists folders that have no index file.
    #[arg(short, long)]
    browse: bool,
    /// Shows where symbolic links lead in listings.
    #[arg(long)]
    reveal_symlinks: bool,
    /// The most entries a listing shows.
    #[arg(short, long, default_value_t = 10_000)]
    file_limit: u32,
    /// Renders templates in the files.
    #[arg(short, long)]
    templates: bool,
    /// Does not compress.
    #[arg(long)]
    no_compress: bool,
    /// Serves compressed files that lie beside the originals, the first choice first.
    #[arg(short, long, value_name = "ENCODING", value_delimiter = ',')]
    precompressed: Vec<String>,
    /// Logs requests.
    #[arg(short, long)]
    access_log: bool,
    /// Logs more.
    #[arg(short = 'v', long)]
    debug: bool,
}

/// What is done in place of serving.
#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Prints a template for lists of folders, to begin one's own with.
    ExportTemplate,
}

/// A template for lists.
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
            return Err(Failed::new(format!("{} is no folder", root.display())));
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
