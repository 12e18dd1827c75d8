//! Diagnostics for scripts: one JSON object per line.
//!
//! The keys are a stable interface. Output for people is in `render`.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::diagnostic::{Diagnostic, Label};
use crate::limits::DIAGNOSTICS_SHOWN_MAX;
use crate::report::Report;
use crate::source::{Position, Sources, Span};

impl Report {
    /// One JSON object a line for each diagnostic, and `{"more":N}` last if some are left out.
    ///
    /// Keys: `severity`, `slug`, `title`, `place` (an object with `file`, `line`, `column`,
    /// `end_line`, `end_column`, `start`, `end`, `label`; absent without a place), `also` (more
    /// places), `imports` (places with `what`, innermost first), `notes`, `help`. Offsets `start`
    /// and `end` count bytes from 0; lines and columns count from 1, columns in characters.
    pub fn json(&self) -> String {
        let mut out = String::new();
        for diagnostic in self.sorted().iter().take(DIAGNOSTICS_SHOWN_MAX) {
            out.push_str(&object(diagnostic, &self.sources));
            out.push('\n');
        }
        if let Some(more) = self.more() {
            out.push_str(&format!("{{\"more\":{more}}}\n"));
        }
        out
    }
}

fn object(diagnostic: &Diagnostic, sources: &Sources) -> String {
    let severity = diagnostic.severity.word();
    let mut out = format!(
        "{{\"severity\":\"{severity}\",\"slug\":{}",
        string(diagnostic.slug)
    );
    out.push_str(&format!(",\"title\":{}", string(&diagnostic.title)));
    if let Some(primary) = &diagnostic.primary {
        out.push_str(&format!(",\"place\":{}", labelled(primary, sources)));
    }
    let also = diagnostic
        .secondary
        .iter()
        .map(|label| labelled(label, sources));
    let imports = sources.import_chain(diagnostic.import).map(|step| {
        format!(
            "{{{},\"what\":{}}}",
            place(step.at, sources),
            string(&step.what)
        )
    });
    let notes = diagnostic.notes.iter().map(|note| string(note));
    let help = diagnostic.help.iter().map(|help| string(help));
    out.push_str(&format!(
        ",\"also\":{},\"imports\":{}",
        array(also),
        array(imports)
    ));
    out.push_str(&format!(
        ",\"notes\":{},\"help\":{}}}",
        array(notes),
        array(help)
    ));
    out
}

fn labelled(label: &Label, sources: &Sources) -> String {
    format!(
        "{{{},\"label\":{}}}",
        place(label.span, sources),
        string(&label.text)
    )
}

fn place(span: Span, sources: &Sources) -> String {
    let source = sources.source(span.source);
    let Position { line, column } = source.position(span.start);
    let end = source.position(span.end);
    format!(
        "\"file\":{},\"line\":{line},\"column\":{column},\"end_line\":{},\"end_column\":{},\
         \"start\":{},\"end\":{}",
        string(source.name()),
        end.line,
        end.column,
        span.start,
        span.end
    )
}

fn array(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

/// A JSON string (RFC 8259, section 7).
fn string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::ImportStep;

    #[test]
    fn every_part_is_there() {
        let mut report = Report::new();
        let id = report.sources.add("a \"b\"", "one\ntwo three");
        let at = Span::new(id, 0, 3);
        let import = report.sources.add_import(ImportStep {
            at,
            what: "snippet `s`".into(),
            parent: None,
        });
        let diagnostic = Diagnostic::error("slug", "a\tb").at(Span::new(id, 4, 7), "here");
        report.push(
            diagnostic
                .also(at, "there")
                .imported(Some(import))
                .note("n")
                .help("h\n2"),
        );
        let expected = concat!(
            r#"{"severity":"error","slug":"slug","title":"a\u0009b","place":{"file":"a \"b\"","#,
            r#""line":2,"column":1,"end_line":2,"end_column":4,"start":4,"end":7,"label":"here"},"#,
            r#""also":[{"file":"a \"b\"","line":1,"column":1,"end_line":1,"end_column":4,"#,
            r#""start":0,"end":3,"label":"there"}],"imports":[{"file":"a \"b\"","line":1,"#,
            r#""column":1,"end_line":1,"end_column":4,"start":0,"end":3,"what":"snippet `s`"}],"#,
            r#""notes":["n"],"help":["h\n2"]}"#,
            "\n"
        );
        assert_eq!(report.json(), expected);
    }

    #[test]
    fn a_mistake_without_a_place_has_none() {
        let mut report = Report::new();
        report.push(Diagnostic::warning("w", "t"));
        let expected = "{\"severity\":\"warning\",\"slug\":\"w\",\"title\":\"t\",\"also\":[],\
                        \"imports\":[],\"notes\":[],\"help\":[]}\n";
        assert_eq!(report.json(), expected);
    }
}
