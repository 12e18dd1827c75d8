//! `sluice adapt`: a configuration as JSON, which is what a server runs, or an nginx.conf or one of Caddy 1 as a Caddyfile.

use std::path::PathBuf;

use clap::ValueEnum;
use sluice_caddyfile::translate;

use crate::load::{Adapter, Recording, Source};
use crate::messages::{Failed, MessageFormat, print_report};
use crate::{Exit, envfile, supervise};

/// The flags of the command.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The configuration; `-` for standard input. By default the Caddyfile of this folder.
    #[arg(conflicts_with = "config")]
    path: Option<PathBuf>,
    /// The configuration.
    #[arg(short, long, value_name = "PATH")]
    config: Option<PathBuf>,
    /// Its language; by default told from its name and text.
    #[arg(short, long, visible_alias = "from", value_enum)]
    adapter: Option<Adapter>,
    /// What it is turned into.
    #[arg(long, value_enum, default_value_t = Target::Json)]
    to: Target,
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

/// What `adapt` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Target {
    /// What a server runs.
    Json,
    /// A Caddyfile that says the same as an nginx.conf, or as the Caddyfile of a Caddy 1.
    Caddyfile,
}

impl Args {
    /// Prints the result; warnings go to standard error.
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

/// Prints an nginx.conf, or a configuration of Caddy 1, in the language of Caddy 2.
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
            "{name} is neither an nginx.conf nor in the language of Caddy 0 and 1"
        ))
        .help("say so with `--from caddy1`, or format it with `sluice fmt`"));
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

/// With tabs, as Caddy prints it.
fn pretty(config: &sluice_model::Config) -> Result<String, serde_json::Error> {
    use serde::Serialize;
    let mut out = Vec::new();
    let style = serde_json::ser::PrettyFormatter::with_indent(b"\t");
    config.serialize(&mut serde_json::Serializer::with_formatter(&mut out, style))?;
    Ok(String::from_utf8(out).expect("JSON is UTF-8"))
}
