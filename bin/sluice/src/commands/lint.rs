//! `sluice lint`: finds likely mistakes in a configuration, with the line and a correction.

use std::path::PathBuf;

use sluice_diag::Report;
use sluice_nginx::lint::lint;

use crate::Exit;
use crate::load::{Adapter, Recording, Source};
use crate::messages::{Failed, MessageFormat, print_report};

/// Flags of the command.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The nginx.conf, or `-` for stdin.
    #[arg(conflicts_with = "config")]
    path: Option<PathBuf>,
    /// The nginx.conf.
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
    /// Print findings to stdout as JSON, one object per line.
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Prints the findings; exits with 1 if there are any.
    pub fn run(self, format: MessageFormat) -> Result<Exit, Failed> {
        let path = self.path.as_deref().or(self.config.as_deref());
        let source = Source::required(path, self.adapter)?;
        let (name, text) = source.read()?;
        if source.adapter(&text) != Adapter::Nginx {
            return Err(Failed::new(format!(
                "{name} is not an nginx.conf; `lint` has rules for nginx.conf only"
            ))
            .help(
                "check a Caddyfile with `sluice validate`; if the file is an nginx.conf, add `--adapter nginx`",
            ));
        }
        let report = lint(&name, &text, &Recording::default());
        report_mistakes(
            &report,
            if self.json {
                MessageFormat::Json
            } else {
                format
            },
        )
    }
}

fn report_mistakes(report: &Report, format: MessageFormat) -> Result<Exit, Failed> {
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
