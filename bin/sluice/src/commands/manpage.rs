//! `sluice manpage`: the manual pages, one for each command.

use std::path::{Path, PathBuf};

use clap_mangen::Man;

use crate::Exit;
use crate::commands::description;
use crate::messages::Failed;

/// Flags of the command.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Directory to write the pages to; created if missing.
    #[arg(short = 'o', long, value_name = "DIR")]
    directory: PathBuf,
}

impl Args {
    /// Writes the pages.
    pub fn run(self) -> Result<Exit, Failed> {
        let folder = self.directory;
        write_pages(&folder).map_err(|error| {
            Failed::new(format!(
                "cannot write manual pages to {}: {error}",
                folder.display()
            ))
        })?;
        Ok(Exit::Done)
    }
}

fn write_pages(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut whole = description().disable_help_subcommand(true);
    whole.build();
    write_page(folder, whole.clone(), "sluice")?;
    for command in whole.get_subcommands() {
        write_page(
            folder,
            command.clone(),
            &format!("sluice-{}", command.get_name()),
        )?;
    }
    Ok(())
}

fn write_page(folder: &Path, command: clap::Command, title: &str) -> std::io::Result<()> {
    let mut page = Vec::new();
    // Section 8 is for system administration commands.
    Man::new(command)
        .title(title)
        .section("8")
        .render(&mut page)?;
    std::fs::write(folder.join(format!("{title}.8")), page)
}
