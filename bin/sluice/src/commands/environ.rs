//! `sluice environ`: the environment that a server started here would have.

use std::path::PathBuf;

use crate::Exit;
use crate::commands::version;
use crate::messages::Failed;
use crate::{envfile, folders, supervise};

/// Flags of the command.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Load environment variables from FILE (repeatable).
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    envfile: Vec<PathBuf>,
}

impl Args {
    /// Prints the environment.
    pub fn run(self) -> Result<Exit, Failed> {
        envfile::apply(&self.envfile)?;
        print();
        Ok(Exit::Done)
    }
}

/// Prints the directories the server would use, then all variables.
pub fn print() {
    say!("sluice.HomeDir={}", folders::home().display());
    say!("sluice.AppDataDir={}", folders::data().display());
    say!("sluice.AppConfigDir={}", folders::config().display());
    say!(
        "sluice.ConfigAutosavePath={}",
        folders::autosave().display()
    );
    say!("sluice.Version={}", version::TEXT);
    say!("runtime.OS={}", std::env::consts::OS);
    say!("runtime.Arch={}", std::env::consts::ARCH);
    match supervise::worker_count(0) {
        Ok(count) => say!("runtime.Workers={count}"),
        Err(error) => say!("runtime.Workers={}", error.text()),
    }
    if let Ok(folder) = std::env::current_dir() {
        say!("os.Getwd={}", folder.display());
    }
    say!("");
    for (name, value) in std::env::vars_os() {
        say!("{}={}", name.to_string_lossy(), value.to_string_lossy());
    }
}
