//! `if`: translates conditions of `redir` and `rewrite` to matchers.
//!
//! A condition becomes a matcher of its own if there is one; the others become an expression.

use super::pieces::{escape_regexp, line};
use super::placeholders::{Setting, translate};
use super::translation::Translation;
use crate::tree::{Directive, Token};

/// How conditions are joined.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Join {
    All,
    Any,
}

/// `if <a> <operator> <b>`.
struct Condition<'t> {
    at: &'t Token,
    left: &'t Token,
    operator: &'static str,
    right: &'t Token,
    negated: bool,
}

const OPERATORS: &[&str] = &["is", "has", "starts_with", "ends_with", "match"];

/// Whether a line belongs to the conditions.
pub(super) fn is_condition(line: &Directive) -> bool {
    matches!(line.name.as_str(), "if" | "if_op")
}

impl Translation<'_> {
    /// The lines of a matcher that stand for the conditions among some lines; `taken` are the names
    /// of its other lines.
    pub(super) fn conditions(&mut self, lines: &[Directive], taken: &[&str]) -> Vec<Directive> {
        let mut join = Join::All;
        let mut conditions = Vec::new();
        for inner in lines {
            match (inner.name.as_str(), inner.args.as_slice()) {
                ("if_op", [word]) if word.text == "or" => join = Join::Any,
                ("if_op", [word]) if word.text == "and" => join = Join::All,
                ("if", [left, operator, right]) => {
                    let found = condition(left, operator, right, &inner.name);
                    match found {
                        Some(found) => conditions.push(found),
                        None => self.malformed(inner, "if <a> <operator> <b>"),
                    }
                }
                ("if" | "if_op", _) => self.malformed(inner, "if <a> <operator> <b>"),
                _ => {}
            }
        }
        let native: Option<Vec<Directive>> = conditions.iter().map(native).collect();
        let native = native.filter(|lines| {
            (join == Join::All || lines.len() == 1) && are_independent(lines, taken)
        });
        match native {
            Some(lines) => lines,
            None => self.expression(&conditions, join).into_iter().collect(),
        }
    }

    fn expression(&mut self, conditions: &[Condition<'_>], join: Join) -> Option<Directive> {
        let first = conditions.first()?;
        let setting = self.setting();
        let terms: Vec<String> = conditions.iter().map(|one| term(one, setting)).collect();
        let operator = match join {
            Join::All => " && ",
            Join::Any => " || ",
        };
        Some(line(first.at, "expression", [terms.join(operator)]))
    }
}

fn condition<'t>(
    left: &'t Token,
    operator: &Token,
    right: &'t Token,
    at: &'t Token,
) -> Option<Condition<'t>> {
    let text = operator.as_str();
    let plain = text.strip_prefix("not_").or(text.strip_prefix('!'));
    let plain = if text == "not" { Some("is") } else { plain };
    let name = plain.unwrap_or(text);
    Some(Condition {
        at,
        left,
        operator: OPERATORS.iter().find(|known| **known == name)?,
        right,
        negated: plain.is_some(),
    })
}

/// The matcher that says the same, if there is one.
fn native(one: &Condition<'_>) -> Option<Directive> {
    let value = one.right.as_str();
    if value.contains('{') || value.is_empty() {
        return None;
    }
    let literal = !value.contains('*');
    let words: Vec<String> = match (one.left.as_str(), one.operator) {
        ("{scheme}", "is") => vec!["protocol".into(), value.into()],
        ("{method}", "is") => vec!["method".into(), value.into()],
        ("{path}", "is") if literal => vec!["path".into(), value.into()],
        ("{path}", "starts_with") if literal => vec!["path".into(), format!("{value}*")],
        ("{path}", "ends_with") if literal => vec!["path".into(), format!("*{value}")],
        ("{path}", "has") if literal => vec!["path".into(), format!("*{value}*")],
        ("{path}", "match") => vec!["path_regexp".into(), value.into()],
        (left, operator) if literal => {
            let field = left.strip_prefix("{>")?.strip_suffix('}')?.to_owned();
            let value = match operator {
                "is" => value.to_owned(),
                "starts_with" => format!("{value}*"),
                "ends_with" => format!("*{value}"),
                "has" => format!("*{value}*"),
                _ => return Some(header_regexp(one, field, value.to_owned())),
            };
            vec!["header".into(), field, value]
        }
        _ => return None,
    };
    Some(negate(one, words))
}

fn header_regexp(one: &Condition<'_>, field: String, pattern: String) -> Directive {
    negate(one, vec!["header_regexp".into(), field, pattern])
}

fn negate(one: &Condition<'_>, words: Vec<String>) -> Directive {
    match one.negated {
        true => line(one.at, "not", words),
        false => line(one.at, &words[0], words[1..].iter().cloned()),
    }
}

/// Whether all lines of a matcher have to match: those of one name are alternatives to each other,
/// negated ones excepted.
fn are_independent(lines: &[Directive], taken: &[&str]) -> bool {
    lines.iter().enumerate().all(|(at, line)| {
        let name = line.name.as_str();
        let again = lines[at + 1..]
            .iter()
            .any(|other| other.name.as_str() == name);
        name == "not" || !(again || taken.contains(&name))
    })
}

/// A condition in the language of expressions.
fn term(one: &Condition<'_>, setting: Setting<'_>) -> String {
    let left = value(one.left, setting);
    let right = value(one.right, setting);
    let positive = match one.operator {
        "is" => {
            let operator = if one.negated { "!=" } else { "==" };
            return format!("{left} {operator} {right}");
        }
        "has" => format!("{left}.contains({right})"),
        "starts_with" => format!("{left}.startsWith({right})"),
        "ends_with" => format!("{left}.endsWith({right})"),
        _ => format!("{left}.matches({right})"),
    };
    match one.negated {
        true => format!("!{positive}"),
        false => positive,
    }
}

/// A placeholder as it is, any other text in quotes.
fn value(word: &Token, setting: Setting<'_>) -> String {
    let (text, _) = translate(&word.text, setting);
    let is_placeholder =
        text.starts_with('{') && text.ends_with('}') && text.matches('{').count() == 1;
    match is_placeholder {
        true => text,
        false => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
    }
}

/// The expression for paths below `base` that go on with something a pattern matches.
pub(super) fn pattern_below(base: &str, pattern: &str) -> String {
    let base = base.trim_end_matches('/');
    match (base, pattern.strip_prefix('^')) {
        ("", _) => pattern.to_owned(),
        (base, Some(anchored)) => format!("^{}{anchored}", escape_regexp(base)),
        (base, None) => format!("^{}.*?{pattern}", escape_regexp(base)),
    }
}
