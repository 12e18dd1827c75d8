//! `sluice validate`: checks whether a server could run a configuration, without opening a port.

use std::path::PathBuf;

use crate::load::{Adapter, Source};
use crate::messages::{Failed, MessageFormat, print_report};
use crate::{Exit, envfile, supervise};

/// Flags of the command.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Configuration file, or `-` for stdin (default: `./Caddyfile`).
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Configuration format: caddyfile, caddy1, json or nginx (default: detected from name and content).
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        value_enum,
        hide_possible_values = true
    )]
    adapter: Option<Adapter>,
    /// Load environment variables from FILE (repeatable).
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    envfile: Vec<PathBuf>,
}

impl Args {
    /// Prints all errors, or that the configuration is valid.
    pub fn run(self, format: MessageFormat) -> Result<Exit, Failed> {
        envfile::apply(&self.envfile)?;
        let source = Source::required(self.config.as_deref(), self.adapter)?;
        let loaded = source.load(format)?;
        print_report(&loaded.report, format);
        supervise::validate(&loaded, format)?;
        say!("Valid configuration");
        Ok(Exit::Done)
    }
}
