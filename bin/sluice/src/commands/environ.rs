//! `sluice environ`: what a server started here would see.

use std::path::PathBuf;

use crate::Exit;
use crate::commands::version;
use crate::messages::Failed;
use crate::{envfile, folders, supervise};

/// The flags of the command.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Files with variables to set first.
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
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

/// Prints what the server would use, then all variables.
pub fn print() {
    println!("sluice.HomeDir={}", folders::home().display());
    println!("sluice.AppDataDir={}", folders::data().display());
    println!("sluice.AppConfigDir={}", folders::config().display());
    println!(
        "sluice.ConfigAutosavePath={}",
        folders::autosave().display()
    );
    println!("sluice.Version={}", version::TEXT);
    println!("runtime.OS={}", std::env::consts::OS);
    println!("runtime.Arch={}", std::env::consts::ARCH);
    match supervise::worker_count() {
        Ok(count) => println!("runtime.Workers={count}"),
        Err(error) => println!("runtime.Workers={}", error.text()),
    }
    if let Ok(folder) = std::env::current_dir() {
        println!("os.Getwd={}", folder.display());
    }
    println!();
    for (name, value) in std::env::vars_os() {
        println!("{}={}", name.to_string_lossy(), value.to_string_lossy());
    }
}
