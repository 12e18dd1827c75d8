//! Files with environment variables (`--envfile`, and `env_file` of `python`), parsed as in Caddy.

use std::fmt;

/// A line that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineError {
    line: usize,
    problem: &'static str,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.problem)
    }
}

/// Parses `KEY=value` lines: `#` begins a comment unless quoted, `export ` may precede the key, and a value in double
/// or single quotes may span several lines and keeps its backslashes.
///
/// # Errors
/// The first line that is none.
pub fn parse(text: &str) -> Result<Vec<(String, String)>, LineError> {
    let mut variables = Vec::new();
    let mut rest = text;
    let mut line = 0;
    while !rest.is_empty() {
        line += 1;
        let (this, after) = rest.split_once('\n').unwrap_or((rest, ""));
        let trimmed = this.trim_start();
        if trimmed.trim_end().is_empty() || trimmed.starts_with('#') {
            rest = after;
            continue;
        }
        let wrong = |problem| LineError { line, problem };
        let start = &rest[this.len() - trimmed.len()..];
        let start = start.strip_prefix("export ").unwrap_or(start);
        let equals = start
            .find(['=', '\n'])
            .filter(|at| start[*at..].starts_with('='));
        let equals = equals.ok_or_else(|| wrong("expected `KEY=value`"))?;
        let key = &start[..equals];
        if key.is_empty() {
            return Err(wrong("the name of the variable is missing"));
        }
        if key.contains(char::is_whitespace) {
            return Err(wrong("the name of a variable must not contain whitespace"));
        }
        let (value, after) = value(&start[equals + 1..]).map_err(wrong)?;
        line += value.matches('\n').count();
        variables.push((key.to_owned(), value.to_owned()));
        rest = after;
    }
    Ok(variables)
}

/// The value at the start of `text`, and what follows its line.
fn value(text: &str) -> Result<(&str, &str), &'static str> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''));
    let Some(quote) = quote else {
        let (line, after) = text.split_once('\n').unwrap_or((text, ""));
        let value = line.split('#').next().unwrap_or_default();
        if value.starts_with([' ', '\t']) && !value.trim().is_empty() {
            return Err("whitespace before the value; put the value in quotes");
        }
        return Ok((value.trim(), after));
    };
    let inside = &text[1..];
    let end = closing(inside, quote).ok_or("the closing quote is missing")?;
    let (tail, after) = inside[end + 1..]
        .split_once('\n')
        .unwrap_or((&inside[end + 1..], ""));
    let tail = tail.trim();
    if !tail.is_empty() && !tail.starts_with('#') {
        return Err("only a comment may follow a closing quote");
    }
    Ok((&inside[..end], after))
}

/// The position of the closing `quote`. In double quotes a backslash escapes it; in single quotes a backslash is
/// literal.
fn closing(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if c == quote && !escaped {
            return Some(at);
        }
        escaped = quote == '"' && c == '\\' && !escaped;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Result<String, &'static str> {
        let parsed = parse(text).map_err(|error| error.problem)?;
        Ok(parsed
            .iter()
            .map(|(key, value)| format!("{key}={value}|"))
            .collect())
    }

    /// The expected values are those of Caddy 2.11 (`caddy environ --envfile`).
    #[test]
    fn values_are_read_as_caddy_reads_them() {
        for (text, expected) in [
            ("# comment\n\nA=1\nexport B=two words\n", "A=1|B=two words|"),
            ("E=val # comment\nF=a#b\n", "E=val|F=a|"),
            ("G=\"multi\nline\"\nA=1", "G=multi\nline|A=1|"),
            ("M='single\nmulti'\n", "M=single\nmulti|"),
            (r#"H="esc \" \n \\ end""#, r#"H=esc \" \n \\ end|"#),
            ("I=\n  K=lead\n", "I=|K=lead|"),
            ("L=\"a\" # trailing\n", "L=a|"),
            ("D='single $X'\n", "D=single $X|"),
            ("A=1\nA=2\n", "A=1|A=2|"),
            ("A=a   \n", "A=a|"),
            ("A=\\n\n", "A=\\n|"),
            ("1A=1\r\nB=2\r\n", "1A=1|B=2|"),
            ("A=x\"y\"\n", "A=x\"y\"|"),
            ("export=3\n", "export=3|"),
            ("", ""),
        ] {
            assert_eq!(one(text).as_deref(), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn a_hash_in_quotes_is_not_a_comment() {
        assert_eq!(
            one("C=\"quoted # not\"\n").as_deref(),
            Ok("C=quoted # not|")
        );
    }

    #[test]
    fn mistakes_are_reported_with_their_line() {
        for (text, line) in [
            ("A=1\nno equals\n", 2),
            ("=x\n", 1),
            ("A =1\n", 1),
            ("A= 1\n", 1),
            ("G=\"a\nb\"\nexport  B=1\n", 3),
            ("A=\"open\nB=1\n", 1),
            ("A=\"x\"y\n", 1),
        ] {
            assert_eq!(
                parse(text).map_err(|error| error.line),
                Err(line),
                "{text:?}"
            );
        }
    }
}
