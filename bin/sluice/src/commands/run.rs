//! `sluice run`: runs a server in the foreground.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

use sluice_admin::document::Document;
use sluice_admin::read_autosaved;
use sluice_model::Config;
use sluice_net::sys::process::leave_terminal;

use crate::commands::environ;
use crate::load::{Adapter, Source};
use crate::messages::{Failed, MessageFormat};
use crate::supervise::binary_upgrade::is_successor;
use crate::supervise::fleet::Member;
use crate::supervise::{Job, Manners, Origin};
use crate::{Exit, envfile, folders, supervise};

/// Flags of the command.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Configuration file, `-` for stdin, or the URL of a fleet's configuration (default: `./Caddyfile`).
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Name of this node in its fleet (default: the host name).
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
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
    /// Print the environment before starting.
    #[arg(short, long)]
    environ: bool,
    /// Start with the last configuration that was loaded, if one was saved.
    #[arg(short, long)]
    resume: bool,
    /// Reload the configuration when one of its files changes.
    #[arg(short, long)]
    watch: bool,
    /// Write the PID to FILE.
    #[arg(long, value_name = "FILE")]
    pidfile: Option<PathBuf>,
    /// Send the bytes read from stdin to ADDRESS once the server is ready.
    #[arg(long, value_name = "ADDRESS", hide = true)]
    pingback: Option<String>,
}

impl Args {
    /// Serves until the server is stopped.
    pub fn run(self, format: MessageFormat) -> Result<Exit, Failed> {
        // A process that replaces another one has nobody to report to: `sluice start` ended long ago.
        let is_first = !is_successor();
        let pingback = self.pingback.filter(|_| is_first);
        let pingback = pingback.map(Pingback::read).transpose()?;
        envfile::apply(&self.envfile)?;
        if self.environ && is_first {
            environ::print();
        }
        let saved = if self.resume { saved()? } else { None };
        let source = Source::of(self.config.as_deref(), self.adapter);
        let origin = match (saved, source) {
            (_, Some(Source::Url { location, adapter })) => {
                if self.resume {
                    return Err(
                        Failed::new("`--resume` has no effect on the node of a fleet")
                            .help("omit it: a node keeps a copy of its last configuration"),
                    );
                }
                let location = *location.map_err(Failed::new)?;
                Origin::Fleet(Arc::new(Member::new(location, adapter, self.node)?))
            }
            _ if self.node.is_some() => {
                return Err(Failed::new("`--node` names a node of a fleet")
                    .help("add `--config URL`, such as etcd://HOST/KEY"));
            }
            (Some((config, document)), _) => Origin::Saved(config, document),
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
            inherited: Default::default(),
        })
    }
}

fn saved() -> Result<Option<(Config, Document)>, Failed> {
    let path = folders::autosave();
    read_autosaved(&path)
        .map_err(|error| Failed::new(format!("cannot read {}: {error}", path.display())))
}

/// Notifies the waiting process (`sluice start`) that the server is ready.
struct Pingback {
    address: String,
    secret: Vec<u8>,
}

impl Pingback {
    /// Reads the secret of that process, and detaches from its terminal.
    fn read(address: String) -> Result<Pingback, Failed> {
        const SECRET_BYTES_MAX: u64 = 1024;
        let mut secret = Vec::new();
        let read = std::io::stdin()
            .take(SECRET_BYTES_MAX)
            .read_to_end(&mut secret);
        read.map_err(Failed::new)?;
        // It fails for a process group leader, that is, if this was not started by `sluice start`.
        let _ = leave_terminal();
        Ok(Pingback { address, secret })
    }

    fn send(self) -> Result<(), Failed> {
        TcpStream::connect(&self.address)
            .and_then(|mut stream| stream.write_all(&self.secret))
            .map_err(|error| Failed::new(format!("cannot report to {}: {error}", self.address)))
    }
}
