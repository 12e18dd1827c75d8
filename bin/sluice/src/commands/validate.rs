//! `sluice validate`: whether a server could run a configuration, without opening a port.

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
    /// Files with variables to set first.
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    envfile: Vec<PathBuf>,
}

impl Args {
    /// Prints everything that is wrong, or that nothing is.
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
