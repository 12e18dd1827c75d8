//! An audit as text for a terminal, Markdown or JSON, with the same findings in the same order.

use std::fmt::Write;

use serde::Serialize;

use super::evidence::Sheet;
use super::finding::{Finding, Weight};
use crate::limits::TEXT_COLUMNS;

/// An audit as plain text, wrapped at `TEXT_COLUMNS`.
pub fn text(sheet: &Sheet, findings: &[Finding]) -> String {
    let mut out = format!("{}\n{}\n", sheet.title, summary(sheet, findings));
    for weight in Weight::ALL {
        let of_weight: Vec<&Finding> = findings.iter().filter(|f| f.weight == weight).collect();
        if of_weight.is_empty() {
            continue;
        }
        let heading = weight.heading();
        let _ = write!(out, "\n{heading}\n{}\n", "=".repeat(heading.len()));
        for finding in of_weight {
            let _ = write!(out, "\n{:<5}{}\n", finding.rule, wrapped(&finding.title, 5));
            for line in &finding.arithmetic {
                let _ = writeln!(out, "       {}", wrapped(line, 9));
            }
            for words in [&finding.meaning, &finding.advice]
                .into_iter()
                .filter(|words| !words.is_empty())
            {
                let mark = if std::ptr::eq(words, &finding.advice) {
                    "  -> "
                } else {
                    "     "
                };
                let _ = writeln!(out, "{mark}{}", wrapped(words, 5));
            }
        }
    }
    out
}

/// An audit in Markdown, for a report or an issue.
pub fn markdown(sheet: &Sheet, findings: &[Finding]) -> String {
    let mut out = format!("# Audit: {}\n\n{}\n", sheet.title, summary(sheet, findings));
    for weight in Weight::ALL {
        let mut of_weight = findings.iter().filter(|f| f.weight == weight).peekable();
        if of_weight.peek().is_none() {
            continue;
        }
        let _ = write!(out, "\n## {}\n", weight.heading());
        for finding in of_weight {
            let _ = write!(out, "\n**{}: {}**\n\n", finding.rule, finding.title);
            for line in &finding.arithmetic {
                let _ = writeln!(out, "- {line}");
            }
            if !finding.arithmetic.is_empty() {
                out.push('\n');
            }
            for words in [&finding.meaning, &finding.advice]
                .into_iter()
                .filter(|words| !words.is_empty())
            {
                let _ = writeln!(out, "{words}");
            }
        }
    }
    out
}

/// An audit as JSON: title, tool, rows by name and findings.
pub fn json(sheet: &Sheet, findings: &[Finding]) -> String {
    #[derive(Serialize)]
    struct Audit<'a> {
        schema: &'static str,
        title: &'a str,
        tool: &'a str,
        rows: Vec<String>,
        findings: &'a [Finding],
    }
    let audit = Audit {
        schema: "sluice.lab.audit/1",
        title: &sheet.title,
        tool: &sheet.tool,
        rows: sheet.rows.iter().map(|row| row.label()).collect(),
        findings,
    };
    let mut text = serde_json::to_string_pretty(&audit).unwrap_or_default();
    text.push('\n');
    text
}

/// One or two lines: what was checked and what was found.
pub fn summary(sheet: &Sheet, findings: &[Finding]) -> String {
    let tool = if sheet.tool.is_empty() {
        String::new()
    } else {
        format!(" by {}", sheet.tool)
    };
    let counted = |weight: Weight| findings.iter().filter(|f| f.weight == weight).count();
    let said = [
        (counted(Weight::Contradiction), "contradictions"),
        (counted(Weight::Limit), "limits"),
        (counted(Weight::Gap), "gaps"),
        (counted(Weight::Note), "notes"),
        (counted(Weight::Sound), "sound"),
    ];
    let said = said.iter().filter(|(count, _)| *count > 0);
    let words: Vec<String> = said
        .map(|(count, word)| match count {
            1 => format!("1 {}", word.trim_end_matches('s')),
            _ => format!("{count} {word}"),
        })
        .collect();
    let rows = match sheet.rows.len() {
        1 => "1 row".to_string(),
        count => format!("{count} rows"),
    };
    format!(
        "{rows}{tool}; {}",
        if words.is_empty() {
            "nothing to say".into()
        } else {
            words.join(", ")
        }
    )
}

/// Wraps text between words, further lines indented.
fn wrapped(text: &str, indent: usize) -> String {
    let mut out = String::new();
    let mut column = indent;
    // A number stays with its per cent sign.
    for word in text
        .replace(" %", "\u{a0}%")
        .split(' ')
        .filter(|word| !word.is_empty())
    {
        let length = word.chars().count();
        if column > indent && column + 1 + length > TEXT_COLUMNS {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            column = indent;
        } else if column > indent {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out.replace('\u{a0}', " ")
}
