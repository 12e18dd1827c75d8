//! `sluice untrust`: removes a root certificate from the system trust store.

use std::path::{Path, PathBuf};

use sluice_certs::trust::SystemStore;

use crate::Exit;
use crate::commands::trust::installed_name;
use crate::load::Adapter;
use crate::messages::{Failed, MessageFormat};

/// Flags of the command.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Certificate file (default: the root certificate that `trust` installed).
    #[arg(short = 'p', long, value_name = "PATH")]
    cert: Option<PathBuf>,
    /// ID of the CA.
    #[arg(long, value_name = "ID", default_value = "local")]
    ca: String,
    /// Accepted for compatibility with Caddy; `--ca` is enough.
    #[arg(long)]
    address: Option<String>,
    /// Accepted for compatibility with Caddy; `--ca` is enough.
    #[arg(short, long, value_name = "PATH")]
    config: Option<PathBuf>,
    /// Accepted for compatibility with Caddy.
    #[arg(short, long, value_enum)]
    adapter: Option<Adapter>,
}

impl Args {
    /// Removes the certificate; succeeds if there is none.
    pub fn run(self, _format: MessageFormat) -> Result<Exit, Failed> {
        if self.address.is_some() || self.config.is_some() || self.adapter.is_some() {
            eprintln!(
                "warning: --address, --config and --adapter have no effect: the certificate is found in the trust store"
            );
        }
        let store = SystemStore::find(Path::new("/")).map_err(Failed::new)?;
        let name = installed_name(&self.ca);
        if let Some(path) = &self.cert {
            let pem = std::fs::read_to_string(path)
                .map_err(|error| Failed::new(format!("cannot read {}: {error}", path.display())))?;
            if !store.is_installed(&name, &pem).map_err(Failed::new)? {
                return Err(Failed::new(format!(
                    "{} was not installed by `sluice trust`",
                    path.display()
                ))
                .help("name another CA with `--ca`"));
            }
        }
        let removed = store.uninstall(&name).map_err(|error| {
            Failed::new(error)
                .help("run the command as a user that may change the trust store, such as root")
        })?;
        say!(
            "{}",
            if removed {
                "The root certificate is no longer trusted"
            } else {
                "The root certificate was not trusted"
            }
        );
        Ok(Exit::Done)
    }
}
