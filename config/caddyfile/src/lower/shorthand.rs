//! Expands short placeholders: `{path}` in a site stands for `{http.request.uri.path}`. The registry lists them; the
//! router evaluates placeholders.

use crate::registry::placeholders::{EXACT, FAMILIES};
use crate::tree::Directive;

/// Writes out the short placeholders in every word of some lines.
pub(super) fn expand_lines(lines: &mut [Directive]) {
    for line in lines {
        for word in std::iter::once(&mut line.name).chain(&mut line.args) {
            if word.text.contains('{') {
                word.text = expand(&word.text);
            }
        }
        if let Some(block) = &mut line.block {
            expand_lines(block);
        }
    }
}

/// Writes out the short placeholders in a text.
pub(super) fn expand(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        match long_form(rest) {
            Some((long, used)) => {
                out.push_str(&long);
                rest = &rest[used..];
            }
            None => {
                out.push('{');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// The long form of the placeholder that a text begins with, and how many bytes it took.
fn long_form(text: &str) -> Option<(String, usize)> {
    let end = text.find('}')?;
    let name = &text[1..end];
    if let Some((_, long)) = EXACT.iter().find(|(short, _)| *short == name) {
        return Some((format!("{{{long}}}"), end + 1));
    }
    let (prefix, rest) = name.split_once('.')?;
    let family = FAMILIES.iter().find(|family| family.prefix == prefix)?;
    let fits = rest.chars().all(|c| family.takes(c));
    fits.then(|| (format!("{{{}{rest}}}", family.long), end + 1))
}

#[cfg(test)]
mod tests {
    use super::expand;

    #[test]
    fn short_placeholders_are_written_out() {
        for (short, long) in [
            ("{path}", "{http.request.uri.path}"),
            (
                "a{host}:{port}b",
                "a{http.request.host}:{http.request.port}b",
            ),
            ("{query.a}", "{http.request.uri.query.a}"),
            ("{re.x.1}", "{http.regexp.x.1}"),
            ("{unknown}", "{unknown}"),
            ("{{path}}", "{{http.request.uri.path}}"),
            ("{path", "{path"),
            ("{}", "{}"),
        ] {
            assert_eq!(expand(short), long);
        }
    }
}
