//! Prints a translated configuration as text.

use std::fmt::Write;

use super::Pages;
use crate::tree::{Directive, Token};

/// The text in its customary layout.
pub(super) fn caddyfile(pages: &Pages) -> String {
    // In front of everything a byte order mark would be none of the first word.
    let mut out = String::from("\n");
    if !pages.globals.is_empty() {
        out.push_str("{\n");
        lines(&pages.globals, &[], &mut out);
        out.push_str("}\n\n");
    }
    for (at, page) in pages.sites.iter().enumerate() {
        if at > 0 {
            out.push('\n');
        }
        let addresses: Vec<String> = page.site.addresses.iter().map(written).collect();
        out.push_str(&addresses.join(", "));
        out.push_str(" {\n");
        lines(&page.site.body, &page.comments, &mut out);
        out.push_str("}\n");
    }
    // A word with all three of both quotes and a backslash at its end cannot be written.
    crate::format("translation", &out).unwrap_or(out)
}

/// Lines with the comments in front of them. Layout is left to `format`.
fn lines(body: &[Directive], comments: &[(usize, String)], out: &mut String) {
    for at in 0..=body.len() {
        for (_, comment) in comments.iter().filter(|(before, _)| *before == at) {
            let _ = writeln!(out, "# {}", comment.replace(['\n', '\r'], " "));
        }
        let Some(line) = body.get(at) else { return };
        out.push_str(&written(&line.name));
        for arg in &line.args {
            out.push(' ');
            out.push_str(&written(arg));
        }
        if let Some(block) = &line.block {
            out.push_str(" {\n");
            lines(block, &[], out);
            out.push('}');
        }
        out.push('\n');
    }
}

/// A word with the quotes it needs.
fn written(word: &Token) -> String {
    let text = word.text.as_str();
    let needs_quotes = text.is_empty()
        || text.starts_with(['#', '"', '`', '\\'])
        || text.starts_with("<<")
        || text.contains(char::is_whitespace)
        || text.contains("\\<")
        || text.ends_with(['\\', '{'])
        || matches!(text, "{" | "}" | "{}")
        || (text.starts_with('}') && !text.contains('{'));
    match needs_quotes {
        false => text.to_owned(),
        true if !text.contains('`') => format!("`{text}`"),
        true => format!("\"{}\"", text.replace('"', "\\\"")),
    }
}
