//! Calls of matchers, such as `path('/a/*', '/b')`, compiled to the matchers with the same names, and calls of `ph`. As
//! in Caddy, their arguments have to be constants or placeholders.

use std::collections::BTreeMap;
use std::sync::Arc;

use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};
use sluice_model::matcher::{FileMatcher, UrlPattern};
use sluice_route::matcher::Hook;
use sluice_route::{Key, Matcher, MatcherError};

use super::source::{PLACEHOLDER_FUNCTION, REQUEST};
use super::{Fault, Place};
use crate::files::FileHook;
use crate::refusal::Refusal;
use crate::url_pattern::UrlPatternHook;

/// The matchers that can be called.
pub(super) const NAMES: [&str; 15] = [
    "client_ip",
    "file",
    "header",
    "header_regexp",
    "host",
    "method",
    "path",
    "path_regexp",
    "protocol",
    "query",
    "remote_ip",
    "tls",
    "url_pattern",
    "vars",
    "vars_regexp",
];

/// Whether a call is a matcher call: `Some(false)` for `x.path()`, which is an error.
pub(super) fn is_matcher(call: &CallExpr) -> Option<bool> {
    NAMES
        .contains(&call.func_name.as_str())
        .then(|| call.target.is_none())
}

/// The error for `x.path()`.
pub(super) fn as_member(id: u64, call: &CallExpr) -> Fault {
    let message = format!("`{}` is called on nothing", call.func_name);
    Fault::new(Place::Of(id), message)
}

/// The key of a call `ph(req, 'name')`; `None` for other expressions.
pub(super) fn placeholder_key(expr: &IdedExpr) -> Option<Key> {
    placeholder_name(expr).map(Key::parse)
}

fn placeholder_name(expr: &IdedExpr) -> Option<&str> {
    let Expr::Call(call) = &expr.expr else {
        return None;
    };
    if call.func_name != PLACEHOLDER_FUNCTION || call.target.is_some() {
        return None;
    }
    match call.args.as_slice() {
        [request, name] if matches!(&request.expr, Expr::Ident(name) if name == REQUEST) => {
            literal_text(name)
        }
        _ => None,
    }
}

/// Checks a call of `ph`.
pub(super) fn placeholder(expr: &IdedExpr) -> Result<(), Fault> {
    match placeholder_name(expr) {
        Some(_) => Ok(()),
        None => Err(
            Fault::new(Place::Of(expr.id), "`ph` takes `req` and a name in quotes")
                .with_help("write the placeholder itself, as `{http.request.method}`"),
        ),
    }
}

/// The value of a string literal.
pub(super) fn literal_text(expr: &IdedExpr) -> Option<&str> {
    match &expr.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}

/// Compiles a matcher call. Regular expressions without a name of their own get `name`, the name of the enclosing
/// matcher.
pub(super) fn matcher(id: u64, call: &CallExpr, name: &str) -> Result<Matcher, Fault> {
    let arguments = Arguments { id, call };
    let compiled = match call.func_name.as_str() {
        "client_ip" => Matcher::client_ip(&arguments.texts()?),
        "remote_ip" => Matcher::remote_ip(&arguments.texts()?),
        "host" => Matcher::host(&arguments.texts()?),
        "method" => Matcher::method(&arguments.texts()?),
        "path" => Matcher::path(&arguments.texts()?),
        "protocol" => Matcher::protocol(&arguments.single()?),
        "path_regexp" => {
            let (own, [pattern]) = arguments.named()?;
            Matcher::path_regexp(own.as_deref().unwrap_or(name), &pattern)
        }
        "header_regexp" => {
            let (own, [field, pattern]) = arguments.named()?;
            let own = own.as_deref().unwrap_or(name);
            Matcher::header_regexp([(field.as_str(), own, pattern.as_str())])
        }
        "vars_regexp" => {
            let (own, [var, pattern]) = arguments.named()?;
            let own = own.as_deref().unwrap_or(name);
            Matcher::vars_regexp([(var.as_str(), own, pattern.as_str())])
        }
        "header" => {
            let fields = arguments.map()?;
            Matcher::header(fields.iter().map(|(name, v)| (name.as_str(), Some(&v[..]))))
        }
        "query" => {
            let params = arguments.map()?;
            Matcher::query(params.iter().map(|(name, v)| (name.as_str(), &v[..])))
        }
        "vars" => {
            let vars = arguments.map()?;
            Matcher::vars(vars.iter().map(|(name, v)| (name.as_str(), &v[..])))
        }
        "tls" => Ok(Matcher::Tls(arguments.handshake()?)),
        "url_pattern" => return arguments.url_pattern(),
        _ => return arguments.file(),
    };
    compiled.map_err(|error: MatcherError| Fault::new(Place::Of(id), error.to_string()))
}

struct Arguments<'a> {
    id: u64,
    call: &'a CallExpr,
}

impl Arguments<'_> {
    fn fault(&self, message: &str, help: &str) -> Fault {
        let message = format!("`{}` {message}", self.call.func_name);
        Fault::new(Place::Of(self.id), message).with_help(help)
    }

    fn text(&self, arg: &IdedExpr) -> Result<String, Fault> {
        let mut text = String::new();
        match push_text(arg, &mut text) {
            true => Ok(text),
            false => Err(self.fault(
                "takes constant texts",
                "write texts in quotes, placeholders as `{method}`, or both joined by `+`",
            )),
        }
    }

    /// One or more strings.
    fn texts(&self) -> Result<Vec<String>, Fault> {
        if self.call.args.is_empty() {
            return Err(self.fault("has nothing to compare with", "name at least one in quotes"));
        }
        self.call.args.iter().map(|arg| self.text(arg)).collect()
    }

    fn single(&self) -> Result<String, Fault> {
        match self.call.args.as_slice() {
            [only] => self.text(only),
            _ => Err(self.fault("takes one text", "name one in quotes")),
        }
    }

    /// `N` strings, optionally preceded by a name.
    fn named<const N: usize>(&self) -> Result<(Option<String>, [String; N]), Fault> {
        let mut texts = self.texts()?;
        let own = (texts.len() == N + 1).then(|| texts.remove(0));
        match texts.try_into() {
            Ok(texts) => Ok((own, texts)),
            Err(_) => Err(self.fault(
                &format!("takes {N} or {} texts", N + 1),
                "the first of the longer form names the groups",
            )),
        }
    }

    /// `{'name': 'value', 'other': ['a', 'b']}`
    fn map(&self) -> Result<BTreeMap<String, Vec<String>>, Fault> {
        let help = "write `{'name': 'value'}` or `{'name': ['one', 'another']}`";
        let [only] = self.call.args.as_slice() else {
            return Err(self.fault("takes one map", help));
        };
        let Expr::Map(map) = &only.expr else {
            return Err(self.fault("takes a map", help));
        };
        let mut found = BTreeMap::new();
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else {
                return Err(self.fault("takes a map", help));
            };
            let Some(name) = literal_text(&entry.key) else {
                return Err(self.fault("takes names in quotes", help));
            };
            let values = match &entry.value.expr {
                Expr::List(list) => list
                    .elements
                    .iter()
                    .map(|element| self.text(element))
                    .collect::<Result<_, _>>()?,
                _ => vec![self.text(&entry.value)?],
            };
            found.insert(name.to_owned(), values);
        }
        Ok(found)
    }

    /// `tls()`, `tls('any')`, `tls('complete')` and `tls('early_data')`: the wanted state of the handshake.
    fn handshake(&self) -> Result<Option<bool>, Fault> {
        let text = match self.call.args.is_empty() {
            true => "any".to_owned(),
            false => self.single()?,
        };
        match text.as_str() {
            "any" => Ok(None),
            "complete" => Ok(Some(true)),
            "early_data" => Ok(Some(false)),
            _ => Err(self.fault(
                &format!("does not know `{text}`"),
                "write `any`, `complete` or `early_data`",
            )),
        }
    }

    /// `url_pattern('/books/:id')` and `url_pattern('/books/:id', 'https://example.com')`.
    fn url_pattern(&self) -> Result<Matcher, Fault> {
        let (first, [last]) = self.named()?;
        let (pattern, base_url) = match first {
            Some(pattern) => (pattern, last),
            None => (last, String::new()),
        };
        let config = UrlPattern {
            pattern,
            base_url,
            ignore_case: false,
        };
        self.hook(UrlPatternHook::build(&config))
    }

    fn hook<H: Hook + 'static>(&self, built: Result<H, Refusal>) -> Result<Matcher, Fault> {
        match built {
            Ok(hook) => Ok(Matcher::Hook(Arc::new(hook))),
            Err(refusal) => {
                Err(Fault::new(Place::Of(self.id), refusal.message).with_help(refusal.help))
            }
        }
    }

    /// `file()`, `file('/a', '/b')` and `file({'root': '/srv', 'try_files': ['/a']})`.
    fn file(&self) -> Result<Matcher, Fault> {
        let mut config = FileMatcher::default();
        match self.call.args.as_slice() {
            [] => {}
            [only] if matches!(only.expr, Expr::Map(_)) => {
                for (name, mut values) in self.map()? {
                    match (name.as_str(), values.as_mut_slice()) {
                        ("root", [root]) => config.root = std::mem::take(root),
                        ("try_policy", [policy]) => config.try_policy = std::mem::take(policy),
                        ("try_files", _) => config.try_files = values,
                        ("split_path", _) => config.split_path = values,
                        _ => {
                            let help = "`root`, `try_files`, `try_policy` and `split_path`";
                            return Err(self.fault(&format!("has no option `{name}`"), help));
                        }
                    }
                }
            }
            _ => config.try_files = self.texts()?,
        }
        self.hook(FileHook::build(&config))
    }
}

/// Appends a text made of constants and placeholders, with placeholders in the syntax of matchers.
fn push_text(expr: &IdedExpr, out: &mut String) -> bool {
    if let Some(text) = literal_text(expr) {
        out.push_str(text);
        return true;
    }
    if let Some(name) = placeholder_name(expr) {
        out.push_str(&format!("{{{name}}}"));
        return true;
    }
    match &expr.expr {
        Expr::Call(call) if call.func_name == operators::ADD && call.target.is_none() => {
            call.args.iter().all(|arg| push_text(arg, out))
        }
        _ => false,
    }
}
