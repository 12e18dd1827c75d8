//! `sluice fmt`: formats a Caddyfile.

use std::path::PathBuf;

use crate::Exit;
use crate::differences::differences;
use crate::load::{ADJACENT, Source};
use crate::messages::{Failed, MessageFormat};

/// Flags of the command.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Caddyfile to format, or `-` for stdin (default: `./Caddyfile`).
    #[arg(conflicts_with = "config")]
    path: Option<PathBuf>,
    /// Caddyfile to format.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Write the result back to the file.
    #[arg(short = 'w', long)]
    overwrite: bool,
    /// Print the differences instead of the result.
    #[arg(short, long)]
    diff: bool,
}

impl Args {
    /// Formats the file. When printing, the exit code says whether the file was already formatted.
    pub fn run(self, format: MessageFormat) -> Result<Exit, Failed> {
        let path = self.path.or(self.config).unwrap_or_else(|| ADJACENT.into());
        let is_stdin = path.as_os_str() == "-";
        let source = Source::of(Some(&path), None).expect("a source was named");
        let (name, text) = source.read()?;
        let formatted = sluice_caddyfile::format(&name, &text)
            .map_err(|report| Failed::report(&report, format))?;
        if self.overwrite && !is_stdin {
            if formatted != text {
                std::fs::write(&path, &formatted)
                    .map_err(|error| Failed::new(format!("cannot write {name}: {error}")))?;
            }
            return Ok(Exit::Done);
        }
        if self.diff {
            crate::messages::print_bytes(differences(&text, &formatted).as_bytes())?;
        } else {
            crate::messages::print_bytes(formatted.as_bytes())?;
        }
        if is_stdin || formatted == text {
            return Ok(Exit::Done);
        }
        Err(Failed::new(format!("{name} is not formatted"))
            .help("`sluice fmt --overwrite` writes the result to the file"))
    }
}
