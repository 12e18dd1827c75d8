//! `sluice adapt`: a configuration as JSON, which is what a server runs.

use std::path::PathBuf;

use crate::load::{Adapter, Source};
use crate::messages::{Failed, MessageFormat, print_report};
use crate::{Exit, envfile, supervise};

/// The flags of the command.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The configuration; `-` for standard input. By default the Caddyfile of this folder.
    #[arg(short, long, value_name = "PATH")]
    config: Option<PathBuf>,
    /// Its language; by default told from its name and text.
    #[arg(short, long, value_enum)]
    adapter: Option<Adapter>,
    /// Prints the JSON with line breaks.
    #[arg(short, long)]
    pretty: bool,
    /// Also checks whether a server could run it.
    #[arg(long)]
    validate: bool,
    /// Files with variables to set first.
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    envfile: Vec<PathBuf>,
}

impl Args {
    /// Prints the JSON; warnings go to standard error.
    pub fn run(self, format: MessageFormat) -> Result<Exit, Failed> {
        envfile::apply(&self.envfile)?;
        let source = Source::required(self.config.as_deref(), self.adapter)?;
        let loaded = source.load(format)?;
        print_report(&loaded.report, format);
        let json = match self.pretty {
            false => Ok(loaded.config.to_json()),
            true => pretty(&loaded.config),
        };
        say!("{}", json.map_err(Failed::new)?);
        if self.validate {
            supervise::validate(&loaded, format)?;
        }
        Ok(Exit::Done)
    }
}

/// With tabs, as Caddy prints it.
fn pretty(config: &sluice_model::Config) -> Result<String, serde_json::Error> {
    use serde::Serialize;
    let mut out = Vec::new();
    let style = serde_json::ser::PrettyFormatter::with_indent(b"\t");
    config.serialize(&mut serde_json::Serializer::with_formatter(&mut out, style))?;
    Ok(String::from_utf8(out).expect("JSON is UTF-8"))
}
