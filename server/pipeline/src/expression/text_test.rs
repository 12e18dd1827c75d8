//! The most common conditions in expressions, comparisons of a placeholder with constant strings, evaluated on bytes
//! without the evaluator: `{method} == 'GET'`, `{path} in ['/a', '/b']`, `{query.a}.startsWith('x')`.

use cel::common::ast::{CallExpr, Expr, IdedExpr, operators};
use sluice_route::matcher::{Input, Refusal};
use sluice_route::regexp::Regexp;
use sluice_route::{Found, Key, Kind};

use super::calls::{literal_text, placeholder_key};
use super::failure::failed;
use super::{Fault, Place};

/// A placeholder and the comparison of its value.
#[derive(Debug)]
pub(super) struct TextTest {
    key: Key,
    wanted: Wanted,
}

#[derive(Debug)]
enum Wanted {
    OneOf(Vec<Box<str>>),
    Prefix(Box<str>),
    Suffix(Box<str>),
    Part(Box<str>),
    Pattern(Regexp),
}

impl TextTest {
    /// The comparison for an expression, if it is one, and the result it has to yield.
    pub(super) fn of(expr: &IdedExpr) -> Option<Result<(TextTest, bool), Fault>> {
        let Expr::Call(call) = &expr.expr else {
            return None;
        };
        let (key, wanted) = match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::EQUALS | operators::NOT_EQUALS, [a, b]) => {
                let (key, text) = match placeholder_key(a) {
                    Some(key) => (key, literal_text(b)?),
                    None => (placeholder_key(b)?, literal_text(a)?),
                };
                (key, Wanted::OneOf(vec![text.into()]))
            }
            (operators::IN, [value, list]) => (placeholder_key(value)?, one_of(list)?),
            (_, [text]) => {
                let key = placeholder_key(call.target.as_deref()?)?;
                match of_member(call, literal_text(text)?)? {
                    Ok(wanted) => (key, wanted),
                    Err(message) => return Some(Err(Fault::new(Place::Of(expr.id), message))),
                }
            }
            _ => return None,
        };
        let test = TextTest { key, wanted };
        Some(Ok((test, call.func_name != operators::NOT_EQUALS)))
    }

    /// Whether the value satisfies the comparison. A value that is not a string is unequal to all strings; the string
    /// functions fail for it.
    pub(super) fn matches(&self, input: &Input<'_>) -> Result<bool, Refusal> {
        input.scratch.with_buf(|buf| {
            let found = input.values.value(&self.key, buf);
            let text = found == Found::Known && input.values.kind(&self.key) == Kind::Text;
            let text = text.then_some(&buf[..]);
            let part = |looked: fn(&[u8], &[u8]) -> bool, wanted: &str| match text {
                Some(text) => Ok(looked(text, wanted.as_bytes())),
                None => Err(failed("a value that is not text has no parts")),
            };
            match &self.wanted {
                Wanted::OneOf(texts) => {
                    Ok(text.is_some_and(|text| texts.iter().any(|one| one.as_bytes() == text)))
                }
                Wanted::Prefix(wanted) => part(<[u8]>::starts_with, wanted),
                Wanted::Suffix(wanted) => part(<[u8]>::ends_with, wanted),
                Wanted::Part(wanted) => part(
                    |text, wanted| memchr::memmem::find(text, wanted).is_some(),
                    wanted,
                ),
                Wanted::Pattern(regexp) => match text {
                    Some(text) => Ok(regexp.is_match(text)),
                    None => Err(failed("a value that is not text matches no pattern")),
                },
            }
        })
    }
}

fn one_of(list: &IdedExpr) -> Option<Wanted> {
    let Expr::List(list) = &list.expr else {
        return None;
    };
    let texts = list
        .elements
        .iter()
        .map(|element| literal_text(element).map(Into::into));
    texts.collect::<Option<_>>().map(Wanted::OneOf)
}

fn of_member(call: &CallExpr, text: &str) -> Option<Result<Wanted, String>> {
    Some(Ok(match call.func_name.as_str() {
        "startsWith" => Wanted::Prefix(text.into()),
        "endsWith" => Wanted::Suffix(text.into()),
        "contains" => Wanted::Part(text.into()),
        "matches" => return Some(pattern(text).map(Wanted::Pattern)),
        _ => return None,
    }))
}

/// Compiles a regular expression; the error describes why it is invalid.
pub(super) fn pattern(text: &str) -> Result<Regexp, String> {
    Regexp::new(text).map_err(|error| format!("regular expression `{text}`: {error}"))
}
