//! `sluice explain`: how a request is handled and why, or the page of a diagnostic. `sluice-serve` evaluates the
//! request, `text` formats the explanation.

mod pages;
mod text;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use sluice_serve::explain::report::Explanation;
use sluice_serve::explain::{Explainer, Question, Unexplained};

use crate::admin_client::{Client, default_address};
use crate::load::{Adapter, Source};
use crate::messages::{Failed, MessageFormat, colour_of_output, print_report};
use crate::{Exit, envfile, quick_servers};

/// Flags of the command.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// URL (`https://example.com/a`, `example.com/a` or `/a`), or the slug of a diagnostic such as `unknown-directive`
    /// (default: list all slugs).
    subject: Option<String>,
    /// Request method.
    #[arg(
        short = 'X',
        long = "request",
        value_name = "METHOD",
        default_value = "GET"
    )]
    method: String,
    /// Request header (`Name: value`, repeatable).
    #[arg(short = 'H', long = "header", value_name = "HEADER")]
    header: Vec<String>,
    /// Client address.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    remote_ip: IpAddr,
    /// Configuration file, or `-` for stdin (default: `./Caddyfile`, else the running server).
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
    /// Load environment variables from FILE (repeatable).
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    envfile: Vec<PathBuf>,
    /// Explain with the configuration of the running server whose admin endpoint is at ADDRESS.
    #[arg(long, conflicts_with_all = ["config", "adapter", "envfile"])]
    address: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Prints the explanation.
    pub fn run(self, format: MessageFormat) -> Result<Exit, Failed> {
        let Some(subject) = &self.subject else {
            return Ok(pages::list());
        };
        if !subject.contains('/') {
            return pages::print(subject);
        }
        let question = self.question(subject)?;
        let source = match self.address {
            Some(_) => None,
            None => Source::of(self.config.as_deref(), self.adapter),
        };
        let explanation = match source {
            Some(source) => {
                envfile::apply(&self.envfile)?;
                offline(&source, &question, format)?
            }
            None => running(self.address.unwrap_or_else(default_address), &question)?,
        };
        if self.json {
            let json = serde_json::to_string_pretty(&explanation).map_err(Failed::new)?;
            say!("{json}");
        } else {
            say!("{}", text::render(&explanation, colour_of_output()));
        }
        Ok(Exit::Done)
    }

    fn question(&self, subject: &str) -> Result<Question, Failed> {
        let mut question =
            Question::url(subject).map_err(|error| failed(error, MessageFormat::Human))?;
        question.method.clone_from(&self.method);
        question.remote_ip = Some(self.remote_ip);
        for text in &self.header {
            let (name, value) = quick_servers::field(text)?;
            question.fields.push((name.to_owned(), value.to_owned()));
        }
        Ok(question)
    }
}

/// Explains with a configuration that is loaded now.
fn offline(
    source: &Source,
    question: &Question,
    format: MessageFormat,
) -> Result<Explanation, Failed> {
    let loaded = source.load(format)?;
    print_report(&loaded.report, format);
    Explainer::offline(Arc::new(loaded.config), loaded.files, loaded.written)
        .explain(question)
        .map_err(|error| failed(error, format))
}

/// Explains with the configuration of a running server.
fn running(address: String, question: &Question) -> Result<Explanation, Failed> {
    let body = serde_json::to_vec(question).map_err(Failed::new)?;
    let response = Client::new(address).post("/explain", "application/json", &body, &[])?;
    serde_json::from_slice(&response)
        .map_err(|error| Failed::new(format!("the server sent an unexpected response: {error}")))
}

fn failed(error: Unexplained, format: MessageFormat) -> Failed {
    match error {
        Unexplained::Refused(refusals) => Failed::refusals(refusals, None, format),
        Unexplained::Invalid { problem, help } if help.is_empty() => Failed::new(problem),
        Unexplained::Invalid { problem, help } => Failed::new(problem).help(help),
    }
}
