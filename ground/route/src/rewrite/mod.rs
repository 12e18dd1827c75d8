//! Changes of method, path and query for the directives `rewrite`, `uri`, `method` and `handle_path`. Redirects are in
//! `sluice-serve`.

mod edit;
mod query;
mod target;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use sluice_message::{Method, RequestHead, Status, Uri};

pub use self::edit::replace_text;
use self::edit::{End, change_path, cleaned, set_query, slashes_of, strip};
pub use self::query::QueryOps;
use self::target::Target;
pub use self::target::is_decoded_path;
use crate::limits::REWRITTEN_URI_BYTES_MAX;
use crate::matcher::{Input, Refusal};
use crate::placeholder::{Template, TemplateError, UnfitPath, Unknown};
use crate::regexp::{Regexp, RegexpError, escape_replacement};

/// Why a rewrite cannot be compiled. Each carries the text at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RewriteError {
    /// A text with too many placeholders.
    Template(String, TemplateError),
    /// A malformed or oversized regular expression.
    Regexp(String, RegexpError),
}

impl fmt::Display for RewriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RewriteError::Template(text, error) => write!(f, "`{text}`: {error}"),
            RewriteError::Regexp(text, error) => write!(f, "regular expression `{text}`: {error}"),
        }
    }
}

impl core::error::Error for RewriteError {}

/// Operations on a request. Whatever order they were added in, they are applied in that of the
/// methods here: method, target, prefix, suffix, substrings, expressions, query; several of one kind
/// keep theirs.
#[derive(Clone, Debug, Default)]
pub struct Rewrite {
    ops: Vec<Op>,
}

#[derive(Clone, Debug)]
enum Op {
    Method(Template),
    Uri(Target),
    StripPrefix(Template),
    StripSuffix(Template),
    Substring {
        find: Template,
        replace: Template,
        limit: usize,
    },
    PathRegexp {
        regexp: Regexp,
        replace: Template,
    },
    Query(QueryOps),
}

/// What a rewrite changes; what stays is `None`.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// The new method.
    pub method: Option<Method>,
    /// The new path and query.
    pub uri: Option<Uri>,
}

impl Change {
    /// Writes the change into `head` and gives back the method it replaced, if it did.
    pub fn write(self, head: &mut RequestHead) -> Option<Method> {
        if let Some(uri) = self.uri {
            head.uri = uri;
        }
        self.method
            .map(|method| core::mem::replace(&mut head.method, method))
    }
}

impl Rewrite {
    /// No operation.
    pub fn new() -> Rewrite {
        Rewrite::default()
    }

    /// Sets the method.
    pub fn method(self, method: &str) -> Result<Rewrite, RewriteError> {
        let op = Op::Method(template(method)?);
        Ok(self.with(op))
    }

    /// Sets path and query to `uri`: a path keeps the query unless `uri` has a `?`, and `?…` alone
    /// keeps the path. What follows a `#` is never sent and ignored.
    pub fn uri(self, uri: &str) -> Result<Rewrite, RewriteError> {
        let op = Op::Uri(Target::parse(uri)?);
        Ok(self.with(op))
    }

    /// Removes `prefix` from the path, if it begins so. Case does not count, and a character
    /// matches its escape unless `prefix` holds the escape itself.
    pub fn strip_prefix(self, prefix: &str) -> Result<Rewrite, RewriteError> {
        let op = Op::StripPrefix(template(prefix)?);
        Ok(self.with(op))
    }

    /// Removes `suffix` from the path, if it ends so; otherwise as [`Rewrite::strip_prefix`].
    pub fn strip_suffix(self, suffix: &str) -> Result<Rewrite, RewriteError> {
        let op = Op::StripSuffix(template(suffix)?);
        Ok(self.with(op))
    }

    /// Replaces `find` in the encoded path and in the query, `limit` times each; 0 is without
    /// limit.
    pub fn substring(
        self,
        find: &str,
        replace: &str,
        limit: usize,
    ) -> Result<Rewrite, RewriteError> {
        let op = Op::Substring {
            find: template(find)?,
            replace: template(replace)?,
            limit,
        };
        Ok(self.with(op))
    }

    /// Replaces all matches of `find` in the encoded path; `replace` may name groups as `$1` and
    /// `${name}`.
    pub fn path_regexp(self, find: &str, replace: &str) -> Result<Rewrite, RewriteError> {
        let op = Op::PathRegexp {
            regexp: regexp(find)?,
            replace: template(replace)?,
        };
        Ok(self.with(op))
    }

    /// Changes the parameters of the query, which then are in the order of their names.
    pub fn query(self, ops: QueryOps) -> Rewrite {
        self.with(Op::Query(ops))
    }

    /// What this makes of a request. Placeholders have the values from before all of its
    /// operations.
    pub fn apply(&self, input: &Input<'_>) -> Result<Change, Refusal> {
        let mut change = Change::default();
        let mut uri = None;
        for op in &self.ops {
            if let Op::Method(method) = op {
                change.method = new_method(method, input)?;
                continue;
            }
            let uri = uri.get_or_insert_with(|| input.head.uri.clone());
            op.apply(uri, input).map_err(|UnfitPath| Refusal {
                status: Status::BAD_REQUEST,
                reason: "a value does not fit into the path of the rewritten URI".into(),
            })?;
            // Replacements can multiply what a client sent; each step is held to the limit.
            if uri.as_bytes().len() > REWRITTEN_URI_BYTES_MAX {
                return Err(Refusal {
                    status: Status::URI_TOO_LONG,
                    reason: "the rewritten URI is too long".into(),
                });
            }
        }
        change.method = change.method.filter(|method| *method != input.head.method);
        change.uri = uri.filter(|uri| uri.as_bytes() != input.head.uri.as_bytes());
        Ok(change)
    }

    fn with(mut self, op: Op) -> Rewrite {
        self.ops.push(op);
        self.ops.sort_by_key(Op::rank);
        self
    }
}

fn template(text: &str) -> Result<Template, RewriteError> {
    Template::parse(text).map_err(|error| RewriteError::Template(text.into(), error))
}

fn regexp(pattern: &str) -> Result<Regexp, RewriteError> {
    Regexp::new(pattern).map_err(|error| RewriteError::Regexp(pattern.into(), error))
}

fn expand(template: &Template, input: &Input<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    template.expand(input.values, Unknown::Empty, &mut out);
    out
}

/// The method that a text comes to; nothing leaves the method as it is.
fn new_method(method: &Template, input: &Input<'_>) -> Result<Option<Method>, Refusal> {
    let mut token = expand(method, input);
    if token.is_empty() {
        return Ok(None);
    }
    token.make_ascii_uppercase();
    let refusal = || Refusal {
        status: Status::BAD_REQUEST,
        reason: "the rewritten method is not a token".into(),
    };
    Method::from_token(&token).map(Some).ok_or_else(refusal)
}

impl Op {
    fn rank(&self) -> u8 {
        match self {
            Op::Method(_) => 0,
            Op::Uri(_) => 1,
            Op::StripPrefix(_) => 2,
            Op::StripSuffix(_) => 3,
            Op::Substring { .. } => 4,
            Op::PathRegexp { .. } => 5,
            Op::Query(_) => 6,
        }
    }

    fn apply(&self, uri: &mut Uri, input: &Input<'_>) -> Result<(), UnfitPath> {
        match self {
            Op::Method(_) => {}
            Op::Uri(target) => target.apply(uri, input)?,
            Op::StripPrefix(prefix) => {
                let mut prefix = expand(prefix, input);
                if prefix.first() != Some(&b'/') {
                    prefix.insert(0, b'/');
                }
                change_path(uri, &|path| strip(path, &prefix, End::Start));
            }
            Op::StripSuffix(suffix) => {
                let suffix = expand(suffix, input);
                change_path(uri, &|path| strip(path, &suffix, End::End));
            }
            Op::Substring {
                find,
                replace,
                limit,
            } => {
                let (find_text, replace) = (expand(find, input), expand(replace, input));
                if find_text.is_empty() {
                    return Ok(());
                }
                let slashes = slashes_of(find.source().as_bytes());
                change_path(uri, &|path| {
                    replace_text(&cleaned(path, slashes), &find_text, &replace, *limit)
                });
                if let Some(query) = uri.query() {
                    let query = replace_text(query, &find_text, &replace, *limit);
                    set_query(uri, &query);
                }
            }
            Op::PathRegexp { regexp, replace } => {
                let mut replacement = Vec::new();
                // Only the text of the configuration names groups: dollar signs in values are
                // plain.
                replace.expand_each(
                    input.values,
                    Unknown::Empty,
                    &mut replacement,
                    |_, out, start| {
                        escape_replacement(out, start);
                    },
                );
                change_path(uri, &|path| regexp.replace_all(path, &replacement));
            }
            Op::Query(ops) => ops.apply(uri, input),
        }
        Ok(())
    }
}
