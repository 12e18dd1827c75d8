//! Messages of commands and about configurations on standard error. `sluice-diag` formats diagnostics; a running server
//! uses its logs.

use std::fmt::Display;
use std::io::{IsTerminal, Write, stderr, stdout};

use clap::ValueEnum;
use serde_json::Value;
use sluice_diag::{Colour, Diagnostic, Report, Severity, Written};
use sluice_pipeline::refusal::Refusal;

use crate::Exit;

/// Prints a line to standard output. The reader may close the pipe early (`sluice explain | head`).
macro_rules! say {
    ($($words:tt)*) => { $crate::messages::print_line(format_args!($($words)*)) };
}

/// The implementation of `say!`.
pub fn print_line(line: std::fmt::Arguments<'_>) {
    let _ = stdout().write_fmt(format_args!("{line}\n"));
}

/// Prints output that may be long and whose reader may stop early.
pub fn print_bytes(bytes: &[u8]) -> Result<Exit, Failed> {
    match stdout().write_all(bytes) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failed::new(error)),
        Ok(()) | Err(_) => Ok(Exit::Done),
    }
}

/// The format of diagnostics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MessageFormat {
    /// With the lines they point at.
    Human,
    /// One line each, for editors.
    Short,
    /// One JSON object a line, for scripts.
    Json,
}

/// Why a command failed; printing it is the last thing the program does.
#[derive(Debug)]
pub struct Failed {
    text: String,
    gist: Gist,
    /// The diagnostics of a configuration as objects.
    diagnostics: Vec<Value>,
}

/// A summary of a failure: its first error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gist {
    /// The message, complete without context.
    pub title: String,
    /// The file name and line number, if it is in a file.
    pub place: Option<(String, u32)>,
}

impl Gist {
    /// The summary of a diagnostic.
    pub fn of(diagnostic: &Diagnostic, report: &Report) -> Gist {
        Gist {
            title: diagnostic.title.clone(),
            place: diagnostic.primary.as_ref().map(|label| {
                let source = report.sources.source(label.span.source);
                let line = source.position(label.span.start).line;
                (source.name().to_owned(), line)
            }),
        }
    }
}

impl Failed {
    /// A failure described by one sentence, such as `cannot read Caddyfile: permission denied`.
    pub fn new(problem: impl Display) -> Self {
        let title = problem.to_string();
        Failed {
            text: format!("error: {title}\n"),
            gist: Gist { title, place: None },
            diagnostics: Vec::new(),
        }
    }

    /// Adds a `help` line.
    pub fn help(mut self, help: impl Display) -> Self {
        self.text.push_str(&format!("help: {help}\n"));
        self
    }

    /// The errors for which a configuration is rejected.
    pub fn report(report: &Report, format: MessageFormat) -> Self {
        let mut errors = report.sorted().into_iter();
        let first = errors.find(|found| found.severity == Severity::Error);
        let gist = first.map(|first| Gist::of(first, report));
        Failed {
            text: render(report, format),
            gist: gist.unwrap_or(Gist {
                title: "the configuration is rejected".to_owned(),
                place: None,
            }),
            diagnostics: {
                let lines = report.json();
                let objects = lines.lines().map(serde_json::from_str);
                objects.map(Result::unwrap_or_default).collect()
            },
        }
    }

    /// The reasons why a configuration cannot run; `written` locates its parts in the source.
    pub fn refusals(
        refusals: Vec<Refusal>,
        written: Option<&Written>,
        format: MessageFormat,
    ) -> Self {
        let mut report = Report::new();
        if let Some(written) = written {
            report.sources = written.sources.clone();
        }
        for refusal in refusals {
            let mut diagnostic = Diagnostic::error("cannot-run", refusal.message);
            let origin = refusal.written.zip(written);
            let origin = origin.and_then(|(id, written)| written.origins.find(id));
            if let Some(origin) = origin {
                diagnostic = diagnostic
                    .at(origin.place.span, "configured here")
                    .imported(origin.place.import);
            } else if !refusal.place.is_empty() {
                diagnostic = diagnostic.note(format!("at {} of `sluice adapt`", refusal.place));
            }
            if !refusal.detail.is_empty() {
                diagnostic = diagnostic.note(refusal.detail);
            }
            if !refusal.help.is_empty() {
                diagnostic = diagnostic.help(refusal.help);
            }
            report.push(diagnostic);
        }
        Failed::report(&report, format)
    }

    /// The text, without the final line end.
    pub fn text(&self) -> &str {
        self.text.trim_end()
    }

    /// The summary.
    pub fn gist(&self) -> &Gist {
        &self.gist
    }

    /// The diagnostics of a rejected configuration as objects; empty if it was rejected for another reason.
    pub fn diagnostics(&self) -> &[Value] {
        &self.diagnostics
    }

    /// Prints it.
    pub fn print(&self) {
        write(&self.text);
    }
}

/// Prints all diagnostics of a report, including warnings.
pub fn print_report(report: &Report, format: MessageFormat) {
    if !report.is_empty() {
        write(&render(report, format));
    }
}

fn render(report: &Report, format: MessageFormat) -> String {
    match format {
        MessageFormat::Human => report.human(colour()),
        MessageFormat::Short => report.short(),
        MessageFormat::Json => report.json(),
    }
}

/// Whether to colour standard error.
fn colour() -> Colour {
    colour_on(stderr().is_terminal())
}

/// Whether to colour standard output.
pub fn colour_of_output() -> Colour {
    colour_on(stdout().is_terminal())
}

/// Colour if the output is a terminal and the user has not disabled it (<https://no-color.org>).
fn colour_on(is_terminal: bool) -> Colour {
    let forbidden = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if is_terminal && !forbidden {
        Colour::Always
    } else {
        Colour::Never
    }
}

/// Prints to standard error. If it is closed, the message is dropped.
pub fn write(text: &str) {
    let _ = stderr().write_all(text.as_bytes());
}
