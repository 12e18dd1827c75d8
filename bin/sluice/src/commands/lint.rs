//! `sluice lint`: what a configuration may say and hardly means, with the line and what to write instead.

use std::path::PathBuf;

use sluice_diag::Report;
use sluice_nginx::lint::lint;

use crate::Exit;
use crate::load::{Adapter, Recording, Source};
use crate::messages::{Failed, MessageFormat, print_report};

/// The flags of the command.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The nginx.conf; `-` for standard input.
    #[arg(conflicts_with = "config")]
    path: Option<PathBuf>,
    /// The nginx.conf.
    #[arg(short, long, value_name = "PATH")]
    config: Option<PathBuf>,
    /// Its language; by default told from its name and text.
    #[arg(short, long, value_enum)]
    adapter: Option<Adapter>,
    /// Prints the findings to standard output, one JSON object a line.
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Prints what was found; ends with 1 if anything was.
    pub fn run(self, format: MessageFormat) -> Result<Exit, Failed> {
        let path = self.path.as_deref().or(self.config.as_deref());
        let source = Source::required(path, self.adapter)?;
        let (name, text) = source.read()?;
        if source.adapter(&text) != Adapter::Nginx {
            return Err(Failed::new(format!(
                "{name} is no nginx.conf, and there are no rules for others"
            ))
            .help(
                "`sluice validate` looks at a Caddyfile; `--adapter nginx` says that it is one",
            ));
        }
        let report = lint(&name, &text, &Recording::default());
        told(
            &report,
            if self.json {
                MessageFormat::Json
            } else {
                format
            },
        )
    }
}

fn told(report: &Report, format: MessageFormat) -> Result<Exit, Failed> {
    if format == MessageFormat::Json {
        if !report.is_empty() {
            say!("{}", report.json().trim_end());
        }
    } else {
        print_report(report, format);
    }
    match report.is_empty() {
        true if format != MessageFormat::Json => {
            say!("Nothing found");
            Ok(Exit::Done)
        }
        true => Ok(Exit::Done),
        false => Ok(Exit::Refused),
    }
}
