//! `sluice run`: a server in the foreground.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;

use sluice_admin::read_autosaved;
use sluice_net::sys::process::leave_terminal;

use crate::commands::environ;
use crate::load::{Adapter, Source};
use crate::messages::{Failed, MessageFormat};
use crate::supervise::{Job, Manners, Origin};
use crate::{Exit, envfile, folders, supervise};

/// The flags of the command.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The configuration; `-` for standard input. By default the Caddyfile of this folder, if there is one.
    #[arg(short, long, value_name = "PATH")]
    config: Option<PathBuf>,
    /// Its language; by default told from its name and text.
    #[arg(short, long, value_enum)]
    adapter: Option<Adapter>,
    /// Files with variables to set first.
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    envfile: Vec<PathBuf>,
    /// Prints the environment first.
    #[arg(short, long)]
    environ: bool,
    /// Uses the configuration that was served last, if there is one.
    #[arg(short, long)]
    resume: bool,
    /// Reloads the configuration when its files change.
    #[arg(short, long)]
    watch: bool,
    /// Writes the number of the process to this file.
    #[arg(long, value_name = "PATH")]
    pidfile: Option<PathBuf>,
    /// Sends what comes from standard input to this address once requests are served.
    #[arg(long, value_name = "ADDRESS", hide = true)]
    pingback: Option<String>,
}

impl Args {
    /// Serves until the server is stopped.
    pub fn run(self, format: MessageFormat) -> Result<Exit, Failed> {
        let pingback = self.pingback.map(Pingback::read).transpose()?;
        envfile::apply(&self.envfile)?;
        if self.environ {
            environ::print();
        }
        let saved = if self.resume { saved()? } else { None };
        let source = Source::of(self.config.as_deref(), self.adapter);
        let origin = match (saved, source) {
            (Some(config), _) => Origin::Saved(config),
            (None, Some(source)) => Origin::Source(source),
            (None, None) => Origin::Nothing,
        };
        supervise::run(Job {
            origin,
            watch: self.watch,
            pidfile: self.pidfile,
            ready: Box::new(|| pingback.map_or(Ok(()), Pingback::send)),
            format,
            manners: Manners::Caddy,
            handed: Vec::new(),
        })
    }
}

fn saved() -> Result<Option<sluice_model::Config>, Failed> {
    let path = folders::autosave();
    read_autosaved(&path)
        .map_err(|error| Failed::new(format!("cannot read {}: {error}", path.display())))
}

/// What tells the process that waits for us that we serve.
struct Pingback {
    address: String,
    secret: Vec<u8>,
}

impl Pingback {
    /// Takes the secret of that process, and leaves its terminal.
    fn read(address: String) -> Result<Pingback, Failed> {
        const SECRET_BYTES_MAX: u64 = 1024;
        let mut secret = Vec::new();
        let read = std::io::stdin()
            .take(SECRET_BYTES_MAX)
            .read_to_end(&mut secret);
        read.map_err(Failed::new)?;
        // It fails for the leader of a group, which has no terminal to lose.
        let _ = leave_terminal();
        Ok(Pingback { address, secret })
    }

    fn send(self) -> Result<(), Failed> {
        TcpStream::connect(&self.address)
            .and_then(|mut stream| stream.write_all(&self.secret))
            .map_err(|error| Failed::new(format!("cannot report to {}: {error}", self.address)))
    }
}
