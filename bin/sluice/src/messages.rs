//! What the program says on standard error about commands and configurations. How a diagnostic looks is left to
//! `sluice-diag`; what a running server says goes through its logs.

use std::fmt::Display;
use std::io::{IsTerminal, Write, stderr, stdout};

use clap::ValueEnum;
use sluice_diag::{Colour, Diagnostic, Report};
use sluice_serve::build::Refusal;

/// Prints a line to standard output. Whoever reads it may have enough and close it (`sluice explain | head`).
macro_rules! say {
    ($($words:tt)*) => { $crate::messages::print_line(format_args!($($words)*)) };
}

/// What `say!` does.
pub fn print_line(line: std::fmt::Arguments<'_>) {
    let _ = stdout().write_fmt(format_args!("{line}\n"));
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
}

impl Failed {
    /// A failure in one sentence, such as `cannot read Caddyfile: permission denied`.
    pub fn new(problem: impl Display) -> Self {
        Failed {
            text: format!("error: {problem}\n"),
        }
    }

    /// Adds what to do about it.
    pub fn help(mut self, help: impl Display) -> Self {
        self.text.push_str(&format!("help: {help}\n"));
        self
    }

    /// The mistakes that refuse a configuration.
    pub fn report(report: &Report, format: MessageFormat) -> Self {
        Failed {
            text: render(report, format),
        }
    }

    /// The reasons why a configuration cannot run.
    pub fn refusals(refusals: Vec<Refusal>, format: MessageFormat) -> Self {
        let mut report = Report::new();
        for refusal in refusals {
            let mut diagnostic = Diagnostic::error("cannot-run", refusal.message);
            if !refusal.place.is_empty() {
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

/// Standard error may be closed; then nobody listens, which is no reason to fail.
fn write(text: &str) {
    let _ = stderr().write_all(text.as_bytes());
}
