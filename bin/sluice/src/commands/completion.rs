//! `sluice completion`: shell completion scripts for this command line.

use clap::ValueEnum;
use clap_complete::Shell;

use crate::Exit;
use crate::commands::description;
use crate::messages::Failed;

/// Flags of the command.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Shell to complete for.
    shell: KnownShell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum KnownShell {
    Bash,
    Zsh,
    Fish,
    #[value(name = "powershell")]
    PowerShell,
}

impl Args {
    /// Prints the script.
    pub fn run(self) -> Result<Exit, Failed> {
        let shell = match self.shell {
            KnownShell::Bash => Shell::Bash,
            KnownShell::Zsh => Shell::Zsh,
            KnownShell::Fish => Shell::Fish,
            KnownShell::PowerShell => Shell::PowerShell,
        };
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut description(), "sluice", &mut script);
        crate::messages::print_bytes(&script)
    }
}
