//! `header`, `request_header` and the header changes of other directives.

use std::collections::BTreeMap;

use sluice_model::Handler;
use sluice_model::handler::{FieldValues, HeaderOps, Headers, Replacement, ResponseHeaderOps};
use sluice_model::matcher::ResponseMatcher;

use crate::lower::Lowering;
use crate::lower::definition::Read::{Flag, With};
use crate::lower::definition::{Definition, Options, directive, option};
use crate::lower::outcome::{Outcome, Outcomes};
use crate::lower::routes::route;
use crate::tree::{Directive, Token};

/// One change to a header field, as a line has it.
enum Change {
    Add(String, String),
    Set(String, String),
    Delete(String),
    Replace(String, Replacement),
}

/// A change with the marks that only responses may have.
struct Marked {
    change: Change,
    /// `>`: when the head is written.
    deferred: bool,
    /// `?`: only if the field is missing.
    default: bool,
}

/// The fields that are only set where they are missing: the words, the names as written, and the values.
type Defaults = Vec<(Token, String, String)>;

/// `header`.
pub(super) static HEADER: Definition = directive(
    "header",
    "header [<matcher>] [[+|-|?|>]<field> [<value>|<find>] [<replace>]] [{ … }]",
    |cx, line| cx.header(line),
)
.with(&OPTIONS);

/// The options; any other line is a change to a header.
static OPTIONS: Options<ResponseHeaderOps> = Options::new(
    "header",
    &[
        option("defer", "defer", Flag(|ops| &mut ops.deferred)),
        option(
            "match",
            "match <inline_response_matcher>",
            With(|cx, line, ops| {
                ops.require = Some(cx.response_matcher(line)?);
                Some(())
            }),
        ),
    ],
);

/// `request_header`.
pub(super) static REQUEST_HEADER: Definition = directive(
    "request_header",
    "request_header [<matcher>] [[+|-]<field> [<value>|<find>] [<replace>]]",
    |cx, line| cx.request_header(line),
);

impl Lowering<'_> {
    fn header(&mut self, line: &Directive) -> Outcomes {
        let (matcher, args) = self.matched(line)?;
        if args.is_empty() && line.lines().is_empty() {
            return self.missing(line, "a header name");
        }
        let is_field = |option: &&Directive| !OPTIONS.has(&option.name.text);
        if let (false, Some(first)) = (args.is_empty(), line.lines().iter().find(is_field)) {
            let title = "`header` has both arguments and a block";
            let diagnostic = first.name.error("unexpected-block", title, "the block");
            return self.refuse(diagnostic.help("put all headers into the block"));
        }
        let mut ops = ResponseHeaderOps::default();
        let mut defaults = Defaults::default();
        if let Some((field, rest)) = args.split_first() {
            self.response_change(line, field, rest, &mut ops, &mut defaults)?;
        }
        self.each(line.lines(), |this, option| {
            if !is_field(&option) {
                return this.read_option(&OPTIONS, option, &mut ops);
            }
            this.no_block(option)?;
            let (field, rest) = (&option.name, option.args.as_slice());
            this.response_change(option, field, rest, &mut ops, &mut defaults)
        })?;
        // Each default has a handler of its own, which is for responses without that field that also satisfy `match`.
        let mut defaulted = Vec::with_capacity(defaults.len());
        for default in defaults {
            defaulted.push(self.only_if_missing(default, ops.require.as_ref())?);
        }
        let handlers = some_ops(ops).into_iter().chain(defaulted).map(|response| {
            Handler::Headers(Box::new(Headers {
                request: None,
                response: Some(response),
            }))
        });
        Some(
            handlers
                .map(|handler| Outcome::Route(route(matcher.clone(), handler)))
                .collect(),
        )
    }

    fn response_change(
        &mut self,
        line: &Directive,
        field: &Token,
        args: &[Token],
        ops: &mut ResponseHeaderOps,
        defaults: &mut Defaults,
    ) -> Option<()> {
        let marked = self.header_change(line, field, args)?;
        if marked.default {
            if let Change::Set(name, value) = marked.change {
                defaults.push((field.clone(), name, value));
            }
            return Some(());
        }
        ops.deferred |= marked.deferred || matches!(marked.change, Change::Delete(_));
        let ResponseHeaderOps {
            add,
            set,
            delete,
            replace,
            ..
        } = ops;
        apply(marked.change, add, set, delete, replace);
        Some(())
    }

    fn request_header(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.no_block(line)?;
            let Some((field, rest)) = args.split_first() else {
                return this.missing(line, "a header name");
            };
            let mut ops = HeaderOps::default();
            this.request_change(line, field, rest, &mut ops)?;
            Some(Handler::Headers(Box::new(Headers {
                request: Some(ops),
                response: None,
            })))
        })
    }

    /// A change to a request, or to a response where no mark is allowed.
    pub(super) fn request_change(
        &mut self,
        line: &Directive,
        field: &Token,
        args: &[Token],
        ops: &mut HeaderOps,
    ) -> Option<()> {
        let marked = self.header_change(line, field, args)?;
        if marked.default {
            let title = format!(
                "`{}` sets a default value, which is possible for responses only",
                field.text
            );
            let diagnostic = field.error("invalid-value", title, "not allowed here");
            return self.refuse(
                diagnostic.help("use the directive `header`, or a matcher such as `header !Field`"),
            );
        }
        let HeaderOps {
            add,
            set,
            delete,
            replace,
        } = ops;
        apply(marked.change, add, set, delete, replace);
        Some(())
    }

    /// A change to the response of an upstream.
    pub(super) fn upstream_change(
        &mut self,
        line: &Directive,
        ops: &mut ResponseHeaderOps,
    ) -> Option<()> {
        let Some((field, rest)) = line.args.split_first() else {
            return self.missing(line, "a header name");
        };
        let mut plain = HeaderOps {
            add: std::mem::take(&mut ops.add),
            set: std::mem::take(&mut ops.set),
            delete: std::mem::take(&mut ops.delete),
            replace: std::mem::take(&mut ops.replace),
        };
        let done = self.request_change(line, field, rest, &mut plain);
        let HeaderOps {
            add,
            set,
            delete,
            replace,
        } = plain;
        *ops = ResponseHeaderOps {
            add,
            set,
            delete,
            replace,
            ..std::mem::take(ops)
        };
        done
    }

    /// A change that sets a field where it is missing, and where the condition of the block holds.
    fn only_if_missing(
        &mut self,
        (word, name, value): (Token, String, String),
        condition: Option<&ResponseMatcher>,
    ) -> Option<ResponseHeaderOps> {
        let set = canonical(&name);
        let mut require = ResponseMatcher {
            headers: [(name, None)].into_iter().collect(),
            ..ResponseMatcher::default()
        };
        if let Some(condition) = condition {
            require.status_code.clone_from(&condition.status_code);
            for (field, values) in &condition.headers {
                match (canonical(field) == set, values) {
                    (false, _) => {
                        require.headers.insert(field.clone(), values.clone());
                    }
                    (true, None) => {}
                    (true, Some(_)) => {
                        let title =
                            format!("`match` requires `{set}`, so its default is never set");
                        let diagnostic = word.error("invalid-value", title, "set if it is missing");
                        let help = format!("remove `header {field}` from `match`, or this line");
                        return self.refuse(diagnostic.help(help));
                    }
                }
            }
        }
        Some(ResponseHeaderOps {
            set: FieldValues::from([(set, vec![value])]),
            require: Some(require),
            ..ResponseHeaderOps::default()
        })
    }

    /// Reads `[+|-|?|>]Field [value] [replacement]`.
    fn header_change(&mut self, line: &Directive, field: &Token, args: &[Token]) -> Option<Marked> {
        self.between(line, args, 0, 2)?;
        let (deferred, text) = match field.text.strip_prefix('>') {
            Some(rest) => (true, rest),
            None => (false, field.text.as_str()),
        };
        let text = text.strip_suffix(':').unwrap_or(text);
        let value = args
            .first()
            .map(|word| word.text.clone())
            .unwrap_or_default();
        let (default, change) = if deferred && args.len() < 2 {
            (false, Change::Set(canonical(text), value))
        } else if let Some(name) = text.strip_prefix('+') {
            (false, Change::Add(canonical(name), value))
        } else if let Some(name) = text.strip_prefix('-') {
            (false, Change::Delete(name.to_string()))
        } else if let Some(name) = text.strip_prefix('?') {
            (true, Change::Set(name.to_string(), value))
        } else if let Some(replacement) = args.get(1) {
            let replacement = Replacement {
                search: String::new(),
                search_regexp: value,
                replace: replacement.text.clone(),
            };
            (
                false,
                Change::Replace(text.trim_start_matches('>').to_string(), replacement),
            )
        } else {
            (false, Change::Set(canonical(text), value))
        };
        Some(Marked {
            change,
            deferred,
            default,
        })
    }
}

fn some_ops(ops: ResponseHeaderOps) -> Option<ResponseHeaderOps> {
    (ops != ResponseHeaderOps::default()).then_some(ops)
}

fn apply(
    change: Change,
    add: &mut FieldValues,
    set: &mut FieldValues,
    delete: &mut Vec<String>,
    replace: &mut BTreeMap<String, Vec<Replacement>>,
) {
    match change {
        Change::Add(field, value) => add.entry(field).or_default().push(value),
        Change::Set(field, value) => {
            set.insert(field, vec![value]);
        }
        Change::Delete(field) => delete.push(field),
        Change::Replace(field, replacement) => {
            replace.entry(field).or_default().push(replacement);
        }
    }
}

/// The usual spelling of a field name: each part begins with a capital. Names with characters that
/// no field name has (placeholders, wildcards) stay as they are.
pub(super) fn canonical(name: &str) -> String {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if !name.chars().all(token) {
        return name.to_string();
    }
    let mut start = true;
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        out.push(if start {
            c.to_ascii_uppercase()
        } else {
            c.to_ascii_lowercase()
        });
        start = c == '-';
    }
    out
}
