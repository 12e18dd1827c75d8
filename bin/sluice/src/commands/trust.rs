//! `sluice trust`: installs the local CA's root certificate into the system trust store.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sluice_certs::trust::SystemStore;
use sluice_certs::{LocalCa, LocalCaOptions, Storage};
use sluice_model::Config;
use sluice_tls::storages;

use crate::load::{Adapter, Source};
use crate::messages::{Failed, MessageFormat};
use crate::{Exit, folders};

/// Flags of the command.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// ID of the CA.
    #[arg(long, value_name = "ID", default_value = "local")]
    ca: String,
    /// Address of the admin endpoint of a running server (its CA is the one stored for this user on this machine).
    #[arg(long)]
    address: Option<String>,
    /// Configuration file that sets the certificate storage.
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
}

impl Args {
    /// Installs the root certificate, creating it first if necessary.
    pub fn run(self, format: MessageFormat) -> Result<Exit, Failed> {
        let storage = storage(self.address, self.config, self.adapter, format)?;
        let options = LocalCaOptions {
            id: self.ca.clone(),
            ..LocalCaOptions::default()
        };
        let authority = LocalCa::open(storage, options, SystemTime::now()).map_err(Failed::new)?;
        let store = SystemStore::find(Path::new("/")).map_err(Failed::new)?;
        let name = installed_name(&self.ca);
        store
            .install(&name, authority.root_pem())
            .map_err(|error| {
                Failed::new(error)
                    .help("run the command as a user that may change the trust store, such as root")
            })?;
        say!(
            "The root certificate is trusted: {}",
            store.path(&name).display()
        );
        Ok(Exit::Done)
    }
}

/// Name of a CA's root certificate in trust stores.
pub fn installed_name(authority: &str) -> String {
    format!("sluice-{authority}")
}

/// The certificate storage that the flags select.
pub fn storage(
    address: Option<String>,
    config: Option<PathBuf>,
    adapter: Option<Adapter>,
    format: MessageFormat,
) -> Result<Storage, Failed> {
    if address.is_some() {
        return Err(
            Failed::new("cannot read the root certificate from a running server yet")
                .help("run this as the user of the server; `--config` names its configuration"),
        );
    }
    let config = match &config {
        Some(path) => Source::required(Some(path), adapter)?.load(format)?.config,
        None => Config::default(),
    };
    storages::open(config.storage.as_ref(), &folders::data()).map_err(Failed::new)
}
