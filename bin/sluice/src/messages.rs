//! What the program says on standard error about commands and configurations. How a diagnostic looks is left to
//! `sluice-diag`; what a running server says goes through its logs.

use std::fmt::Display;
use std::io::{IsTerminal, Write, stderr, stdout};

use clap::ValueEnum;
use sluice_diag::{Colour, Diagnostic, Report, Severity, Written};
use sluice_serve::refusal::Refusal;

use crate::Exit;

/// Prints a line to standard output. Whoever reads it may have enough and close it (`sluice explain | head`).
macro_rules! say {
    ($($words:tt)*) => { $crate::messages::print_line(format_args!($($words)*)) };
}

/// What `say!` does.
pub fn print_line(line: std::fmt::Arguments<'_>) {
    let _ = stdout().write_fmt(format_args!("{line}\n"));
}

/// Prints what may be long and read by a program that stops early.
pub fn print_bytes(bytes: &[u8]) -> Result<Exit, Failed> {
    match stdout().write_all(bytes) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failed::new(error)),
        Ok(()) | Err(_) => Ok(Exit::Done),
    }
}

/// How mistakes in configurations are told.
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
}

/// What a failure comes down to: its first mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gist {
    /// It stands alone.
    pub title: String,
    /// The name of the file and the number of the line, if it is in one.
    pub place: Option<(String, u32)>,
}

impl Gist {
    /// That of a diagnostic.
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
    /// A failure in one sentence, such as `cannot read Caddyfile: permission denied`.
    pub fn new(problem: impl Display) -> Self {
        let title = problem.to_string();
        Failed {
            text: format!("error: {title}\n"),
            gist: Gist { title, place: None },
        }
    }

    /// Adds what to do about it.
    pub fn help(mut self, help: impl Display) -> Self {
        self.text.push_str(&format!("help: {help}\n"));
        self
    }

    /// The mistakes that refuse a configuration.
    pub fn report(report: &Report, format: MessageFormat) -> Self {
        let mut errors = report.sorted().into_iter();
        let first = errors.find(|found| found.severity == Severity::Error);
        let gist = first.map(|first| Gist::of(first, report));
        Failed {
            text: render(report, format),
            gist: gist.unwrap_or(Gist {
                title: "it is refused".to_owned(),
                place: None,
            }),
        }
    }

    /// The reasons why a configuration cannot run; `written` says where its parts stand.
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
                    .at(origin.place.span, "asked for here")
                    .imported(origin.place.import);
            } else if !refusal.place.is_empty() {
                diagnostic = diagnostic.note(format!("at {} of `sluice adapt`", refusal.place));
            }
            if !refusal.help.is_empty() {
                diagnostic = diagnostic.help(refusal.help);
            }
            report.push(diagnostic);
        }
        Failed::report(&report, format)
    }

    /// The text, without the line end.
    pub fn text(&self) -> &str {
        self.text.trim_end()
    }

    /// What it comes down to.
    pub fn gist(&self) -> &Gist {
        &self.gist
    }

    /// Prints it.
    pub fn print(&self) {
        write(&self.text);
    }
}

/// Prints what a report says, warnings included.
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

/// The colour of what goes to standard error.
fn colour() -> Colour {
    colour_on(stderr().is_terminal())
}

/// The colour of what goes to standard output.
pub fn colour_of_output() -> Colour {
    colour_on(stdout().is_terminal())
}

/// Colour for people who look at a terminal and did not forbid it (<https://no-color.org>).
fn colour_on(is_terminal: bool) -> Colour {
    let forbidden = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if is_terminal && !forbidden {
        Colour::Always
    } else {
        Colour::Never
    }
}

/// Prints to standard error. That may be closed; then nobody listens, which is no reason to fail.
pub fn write(text: &str) {
    let _ = stderr().write_all(text.as_bytes());
}
