//! `sluice adapt`: converts a configuration to JSON, or an nginx.conf or a Caddy 1 configuration to a Caddyfile.

use std::path::PathBuf;

use clap::ValueEnum;
use sluice_caddyfile::translate;

use crate::load::{Adapter, Recording, Source};
use crate::messages::{Failed, MessageFormat, print_report};
use crate::{Exit, envfile, supervise};

/// Flags of the command.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Configuration file, or `-` for stdin (default: `./Caddyfile`).
    #[arg(conflicts_with = "config")]
    path: Option<PathBuf>,
    /// Configuration file.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Configuration format: caddyfile, caddy1, json or nginx (default: detected from name and content).
    #[arg(short, long, visible_alias = "from", value_name = "FORMAT", value_enum)]
    #[arg(hide_possible_values = true)]
    adapter: Option<Adapter>,
    /// Output format: json, or caddyfile for an nginx.conf or a Caddyfile of Caddy 1.
    #[arg(long, value_name = "FORMAT", value_enum, hide_possible_values = true, default_value_t = Target::Json)]
    to: Target,
    /// Indent the JSON.
    #[arg(short, long)]
    pretty: bool,
    /// Also check that the server could run it.
    #[arg(long)]
    validate: bool,
    /// Load environment variables from FILE (repeatable).
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    envfile: Vec<PathBuf>,
}

/// The output format of `adapt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Target {
    /// What a server runs.
    Json,
    /// A Caddyfile that says the same as an nginx.conf, or as the Caddyfile of a Caddy 1.
    Caddyfile,
}

impl Args {
    /// Prints the result to standard output and warnings to standard error.
    pub fn run(self, format: MessageFormat) -> Result<Exit, Failed> {
        envfile::apply(&self.envfile)?;
        let path = self.path.as_deref().or(self.config.as_deref());
        let source = Source::required(path, self.adapter)?;
        if self.to == Target::Caddyfile {
            return translate_source(&source, format);
        }
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

/// Prints an nginx.conf or a Caddy 1 configuration as a Caddyfile of Caddy 2.
fn translate_source(source: &Source, format: MessageFormat) -> Result<Exit, Failed> {
    let (name, text) = source.read()?;
    if source.adapter(&text) == Adapter::Nginx {
        let translated = sluice_nginx::translate(&name, &text, &Recording::default());
        return match translated.caddyfile {
            Some(caddyfile) => {
                print_report(&translated.report, format);
                crate::messages::print_bytes(caddyfile.as_bytes())
            }
            None => Err(Failed::report(&translated.report, format)),
        };
    }
    let is_old = match source.adapter(&text) {
        Adapter::Caddy1 => true,
        Adapter::Caddyfile => sluice_caddyfile::is_v1(&name, &text),
        Adapter::Json | Adapter::Nginx => false,
    };
    if !is_old {
        return Err(Failed::new(format!(
            "{name} is neither an nginx.conf nor a Caddyfile of Caddy 0 or 1"
        ))
        .help("if it is a Caddyfile of Caddy 1, add `--from caddy1`; to format a Caddyfile, use `sluice fmt`"));
    }
    let translated = translate(&name, &text, &Recording::default());
    match translated.caddyfile {
        Some(caddyfile) => {
            print_report(&translated.report, format);
            crate::messages::print_bytes(caddyfile.as_bytes())
        }
        None => Err(Failed::report(&translated.report, format)),
    }
}

/// Indented with tabs, as in Caddy.
fn pretty(config: &sluice_model::Config) -> Result<String, serde_json::Error> {
    use serde::Serialize;
    let mut out = Vec::new();
    let style = serde_json::ser::PrettyFormatter::with_indent(b"\t");
    config.serialize(&mut serde_json::Serializer::with_formatter(&mut out, style))?;
    Ok(String::from_utf8(out).expect("JSON is UTF-8"))
}
