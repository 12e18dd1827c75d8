//! Formats an explanation as text: the configuration lines in the order in which they took part, with their effects
//! under each, framed like the source excerpts of diagnostics.

use std::fmt::Write;

use sluice_diag::{Colour, Excerpt, Role, columns, shown};
use sluice_serve::explain::report::{
    Explanation, Listener, Outcome, Remark, RemarkKind, Spot, Step, StepKind,
};

/// The width of the narrowest common terminal.
const COLUMNS: usize = 80;

/// More consecutive sites than this that do not match are summarized in one line.
const SITES_SHOWN_MAX: usize = 2;

/// How many of these are named.
const SITES_NAMED_MAX: usize = 3;

/// Response headers that are not specific to the request.
const DULL_FIELDS: [&str; 1] = ["Server"];

/// Formats `explanation`.
pub fn render(explanation: &Explanation, colour: Colour) -> String {
    let mut page = Page {
        colour,
        digits: digits(explanation),
        out: String::new(),
        file: None,
        line: None,
        last_route: String::new(),
    };
    page.head(explanation);
    let mut steps = explanation.steps.as_slice();
    while let Some(step) = steps.first() {
        let sites = steps.iter().take_while(|step| is_other_site(step)).count();
        let last_route = match sites > SITES_SHOWN_MAX {
            true => {
                page.sites(&steps[..sites]);
                sites
            }
            false => {
                page.step(step);
                1
            }
        };
        steps = &steps[last_route..];
    }
    page.outcome(&explanation.outcome);
    page.out.trim_end().to_owned()
}

/// The path of the route that contains a handler; a route's path is returned unchanged.
fn route_of(place: &str) -> &str {
    match place.rsplit_once(".handle[") {
        Some((route, number)) if !number.contains('.') => route,
        Some(_) | None => place,
    }
}

fn is_other_site(step: &Step) -> bool {
    step.kind == StepKind::Passed && step.name == "site"
}

/// The width of the largest line number.
fn digits(explanation: &Explanation) -> usize {
    let spots = explanation.steps.iter().flat_map(|step| {
        let remarks = step.remarks.iter().filter_map(|remark| remark.at.as_ref());
        step.at.iter().chain(remarks)
    });
    let last = spots.map(|spot| spot.line).max().unwrap_or(1);
    last.to_string().len()
}

struct Page {
    colour: Colour,
    digits: usize,
    out: String,
    /// The file whose frame is open.
    file: Option<String>,
    /// The line printed last.
    line: Option<u32>,
    /// The route printed last.
    last_route: String,
}

impl Page {
    fn push(&mut self, line: &str) {
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }

    fn head(&mut self, explanation: &Explanation) {
        let Explanation { method, url, .. } = explanation;
        let title = format!("{method} {}", shown(url));
        self.push(&self.colour.paint(Role::Title, &title));
        let Listener {
            server,
            address,
            tls,
            assumed,
        } = &explanation.listener;
        let protocol = if *tls { "HTTPS" } else { "HTTP" };
        self.entry(
            "listener",
            &format!("{address}, {protocol} (server {server})"),
        );
        for assumption in assumed {
            self.entry("assumed", assumption);
        }
        self.push("");
    }

    /// Prints a line with a label.
    fn entry(&mut self, label: &str, text: &str) {
        let mut label = self.colour.paint(Role::Help, &format!("{label:<9}"));
        for line in wrap(text, COLUMNS - 10) {
            self.push(&format!("{label} {line}"));
            label = " ".repeat(9);
        }
    }

    fn step(&mut self, step: &Step) {
        // A route that was already printed is not repeated for a handler without remarks.
        let route = route_of(&step.place);
        let is_shown = self.last_route == route;
        if step.remarks.is_empty() && (step.kind == StepKind::Taken || is_shown) {
            return;
        }
        let nothing = |remark: &Remark| remark.kind == RemarkKind::Nothing;
        if step.remarks.iter().all(nothing) && step.at.as_ref().is_some_and(|at| self.shows(at)) {
            return;
        }
        match &step.at {
            Some(spot) => self.source(spot),
            None if is_shown && step.place.ends_with(".handle[0]") => {}
            None => self.place(step),
        }
        self.last_route = route.to_owned();
        for remark in &step.remarks {
            self.remark(step, remark);
        }
        if step.more > 0 {
            let text = format!("{} more did not match either", step.more);
            self.words(0, Role::Faint, "·", &text);
        }
    }

    /// Summarizes sites for other hosts in one line.
    fn sites(&mut self, steps: &[Step]) {
        let more: usize = steps.iter().map(|step| step.more).sum();
        let name = |step: &Step| {
            let spot = step.at.as_ref()?;
            let words = spot.text.get(spot.start as usize..spot.end as usize)?;
            Some(words.trim_end_matches(',').to_owned())
        };
        let named: Vec<String> = steps
            .iter()
            .filter_map(name)
            .take(SITES_NAMED_MAX)
            .collect();
        let seen = steps.first().and_then(|step| step.remarks.first());
        let seen = seen.map_or("", |remark| &remark.text);
        let dots = if steps.len() + more > named.len() {
            " …"
        } else {
            ""
        };
        let text = format!(
            "{} other sites ({}{dots}): {seen}",
            steps.len() + more,
            named.join(", ")
        );
        if self.file.is_none()
            && let Some(spot) = steps.first().and_then(|step| step.at.as_ref())
        {
            self.open(spot);
        }
        self.words(0, Role::Warning, "✗", &text);
        self.line = None;
    }

    /// Opens a frame for the file of a spot.
    fn open(&mut self, spot: &Spot) {
        let indent = " ".repeat(self.digits);
        let arrow = self.colour.paint(Role::Frame, "-->");
        let Spot {
            file, line, column, ..
        } = spot;
        self.push(&format!("{indent}{arrow} {}:{line}:{column}", shown(file)));
        for import in &spot.imports {
            let equals = self.colour.paint(Role::Frame, "=");
            self.push(&format!("{indent} {equals} in {}", shown(import)));
        }
        self.gutter("", "");
        self.file = Some(file.clone());
        self.line = None;
    }

    fn excerpt(&self, spot: &Spot) -> Excerpt {
        let room = COLUMNS - self.digits - 3;
        Excerpt::within(&spot.text, spot.start, spot.end, room)
    }

    /// Whether the line of a spot was printed last.
    fn shows(&self, spot: &Spot) -> bool {
        self.line == Some(spot.line) && self.file.as_ref() == Some(&spot.file)
    }

    /// Prints the line of a spot, unless it was printed last.
    fn source(&mut self, spot: &Spot) {
        if self.file.as_ref() != Some(&spot.file) {
            self.open(spot);
        }
        if self.line != Some(spot.line) {
            let excerpt = self.excerpt(spot);
            self.gutter(&spot.line.to_string(), &excerpt.text);
            self.line = Some(spot.line);
        }
    }

    /// Prints a substitute for a step without a source line.
    fn place(&mut self, step: &Step) {
        let text = format!("{} ({})", step.name, step.place);
        let text = self.colour.paint(Role::Faint, &text);
        self.gutter(":", &text);
        self.line = None;
    }

    fn gutter(&mut self, number: &str, text: &str) {
        let digits = self.digits;
        let frame = self
            .colour
            .paint(Role::Frame, &format!("{number:>digits$} |"));
        self.push(&format!("{frame} {text}"));
    }

    fn remark(&mut self, step: &Step, remark: &Remark) {
        let (role, mark) = mark(remark.kind);
        let of_step = step.at.as_ref().map_or(0, |spot| self.excerpt(spot).before);
        let Some(spot) = &remark.at else {
            return self.words(of_step, role, mark, &remark.text);
        };
        self.source(spot);
        let excerpt = self.excerpt(spot);
        let sign = if role == Role::Good { "^" } else { "-" };
        let signs = sign.repeat(excerpt.width);
        let used = excerpt.before + excerpt.width + 1;
        let room = COLUMNS - self.digits - 3;
        // Beside the underline if there is room, else below.
        if used + width(mark) + 1 + width(&remark.text) <= room {
            let pad = " ".repeat(excerpt.before);
            let under = format!("{signs} {mark} {}", remark.text);
            let under = self.colour.paint(role, &under);
            return self.gutter("", &format!("{pad}{under}"));
        }
        let pad = " ".repeat(excerpt.before);
        let signs = self.colour.paint(role, &signs);
        self.gutter("", &format!("{pad}{signs}"));
        self.words(excerpt.before, role, mark, &remark.text);
    }

    /// Prints a sentence after its mark, wrapped at the terminal width.
    fn words(&mut self, indent: usize, role: Role, mark: &str, text: &str) {
        let room = COLUMNS - self.digits - 3 - width(mark) - 1;
        let indent = indent.min(room / 2);
        let mut first = true;
        for line in wrap(text, room - indent) {
            let sign = match std::mem::take(&mut first) {
                true => self.colour.paint(role, mark),
                false => " ".repeat(width(mark)),
            };
            self.gutter("", &format!("{}{sign} {line}", " ".repeat(indent)));
        }
    }

    fn outcome(&mut self, outcome: &Outcome) {
        self.push("");
        if outcome.status == 0 {
            self.entry("outcome", &outcome.text);
        } else {
            let status = format!("{} {}", outcome.status, outcome.reason);
            let status = self.colour.paint(Role::Title, &status);
            self.entry("response", &status);
            let has_response = outcome.text.starts_with("responds ");
            if !has_response {
                self.entry("", &outcome.text);
            }
        }
        for (name, value) in &outcome.fields {
            if !DULL_FIELDS.contains(&name.as_str()) {
                self.entry("", &format!("{name}: {}", shown(value)));
            }
        }
        match outcome.body_bytes {
            Some(0) | None => {}
            Some(count) => {
                let bytes = if count == 1 { "byte" } else { "bytes" };
                let mut text = format!("{count} {bytes}");
                if let Some(line) = first_line(&outcome.body_begins) {
                    let _ = write!(text, ": {line}");
                }
                self.entry("", &text);
            }
        }
    }
}

/// The first line of a body, truncated for the terminal.
fn first_line(body: &str) -> Option<String> {
    const SHOWN: usize = 50;
    let line = body.lines().map(str::trim).find(|line| !line.is_empty())?;
    let cut: String = line.chars().take(SHOWN).collect();
    let more = cut.len() < line.len() || body.trim_end().lines().count() > 1;
    Some(format!("{}{}", shown(&cut), if more { " …" } else { "" }))
}

fn mark(kind: RemarkKind) -> (Role, &'static str) {
    match kind {
        RemarkKind::Met => (Role::Good, "✓"),
        RemarkKind::Unmet => (Role::Warning, "✗"),
        RemarkKind::Rewrite
        | RemarkKind::Variable
        | RemarkKind::RequestField
        | RemarkKind::ResponseField
        | RemarkKind::Does => (Role::Help, "→"),
        RemarkKind::Nothing | RemarkKind::Note => (Role::Faint, "·"),
        RemarkKind::Error => (Role::Error, "!"),
        RemarkKind::Response => (Role::Good, "●"),
    }
}

fn width(text: &str) -> usize {
    text.chars().map(columns).sum()
}

/// Wraps a text at spaces; a word that is too long for a line exceeds it.
fn wrap(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always one");
        if !line.is_empty() && width(line) + 1 + width(word) > room {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_sentences_are_broken_at_spaces() {
        assert_eq!(wrap("aa bb cc", 5), ["aa bb", "cc"]);
        assert_eq!(wrap("a-very-long-word b", 5), ["a-very-long-word", "b"]);
        assert_eq!(wrap("", 5), [""]);
    }

    #[test]
    fn a_body_is_shown_by_its_first_line() {
        assert_eq!(first_line("ok"), Some("ok".to_owned()));
        assert_eq!(first_line("\n  a\nb\n"), Some("a …".to_owned()));
        assert_eq!(first_line(""), None);
    }
}
