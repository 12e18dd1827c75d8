//! `ngx_http_rewrite_module`: `rewrite`, `return`, `set`, `if` and `break`, which process a request before its content
//! handler.

use sluice_diag::Diagnostic;
use sluice_model::nginx::{
    Action, Condition, IfHolds, Nothing, ReturnResponse, RewriteTarget, SetVariable,
};

use crate::arguments;
use crate::context::Context;
use crate::definition::Takes::{Block, Flag, Nothing as NoWords, Words};
use crate::definition::Verdict::Always;
use crate::definition::Wrong;
use crate::definition::{Definition, MANY, many, once};
use crate::lower::lowering::Lowering;
use crate::lower::text::{Facts, has_variables};
use crate::registry::variables;
use crate::tree::{Directive, Word as Text};

/// The directives.
pub const DIRECTIVES: &[Definition] = &[
    many("break", NoWords),
    many("if", Block(1, MANY))
        .checked(arguments::pattern)
        .holding(|outer| match outer == Context::Server {
            true => Context::IfInServer,
            false => Context::IfInLocation,
        }),
    many("return", Words(1, 2)),
    many("rewrite", Words(2, 3)).checked(check_rewrite),
    once("rewrite_log", Flag),
    many("set", Words(2, 2)),
    once("uninitialized_variable_warn", Flag).but(Always("an unset variable is empty")),
];

/// The actions that stand in a block. `branch` makes the place that an `if` block stands for and gives its number.
pub fn lower(
    cx: &mut Lowering<'_>,
    directives: &[Directive],
    facts: &Facts,
    branch: &mut dyn FnMut(&mut Lowering<'_>, &Directive) -> Option<u32>,
) -> Vec<Action> {
    let mut actions = Vec::new();
    for directive in directives {
        let action = match directive.name() {
            "break" => Some(Action::Break(Nothing {
                origin: cx.origin(directive),
            })),
            "set" => set(cx, directive, facts),
            "return" => return_response(cx, directive, facts),
            "rewrite" => rewrite(cx, directive, facts),
            "if" => condition(cx, directive, facts).map(|condition| {
                Action::If(IfHolds {
                    condition,
                    actions: lower(cx, directive.body(), facts, &mut |_, _| None),
                    branch: branch(cx, directive),
                    origin: cx.origin(directive),
                })
            }),
            _ => None,
        };
        actions.extend(action);
    }
    actions
}

/// The name of a variable, without its dollar sign.
pub fn variable_name<'w>(cx: &mut Lowering<'_>, word: &'w Text, of: &str) -> Option<&'w str> {
    match word.text.strip_prefix('$') {
        Some(name) if !variables::may_be_set(name) => {
            cx.report.push(
                Diagnostic::error(
                    "invalid-value",
                    format!("`${name}` is a variable of the server"),
                )
                .at(word.span, "it cannot be given another value")
                .imported(word.import)
                .help("take another name"),
            );
            None
        }
        Some(name) if !name.is_empty() => Some(name),
        _ => cx.invalid(word, of, "a variable such as `$name`"),
    }
}

fn set(cx: &mut Lowering<'_>, directive: &Directive, facts: &Facts) -> Option<Action> {
    let variable = variable_name(cx, &directive.args[0], "set")?.to_ascii_lowercase();
    let value = cx.text(&directive.args[1], facts);
    Some(Action::Set(SetVariable {
        variable,
        value,
        origin: cx.origin(directive),
    }))
}

fn return_response(cx: &mut Lowering<'_>, directive: &Directive, facts: &Facts) -> Option<Action> {
    let first = directive.args.first()?;
    let (status, text) = match (first.text.parse::<u16>(), directive.args.get(1)) {
        (Ok(status), text) if status <= 999 => (status, text),
        (Err(_), None) if is_address(&first.text) => (302, Some(first)),
        _ => {
            return cx.invalid(
                first,
                "return",
                "a status, a status and a text, or an address",
            );
        }
    };
    let text = text.map(|text| cx.text(text, facts));
    Some(Action::Return(ReturnResponse {
        status,
        text,
        origin: cx.origin(directive),
    }))
}

fn is_address(text: &str) -> bool {
    ["http://", "https://", "$scheme"]
        .iter()
        .any(|start| text.starts_with(start))
}

fn rewrite(cx: &mut Lowering<'_>, directive: &Directive, facts: &Facts) -> Option<Action> {
    let [pattern, to, flag @ ..] = directive.args.as_slice() else {
        return None;
    };
    let mut then = match flag.first().map(|word| (word, word.text.as_str())) {
        None => "",
        Some((_, "last")) => "last",
        Some((_, "break")) => "break",
        Some((_, "redirect")) => "302",
        Some((_, "permanent")) => "301",
        Some((word, _)) => {
            return cx.invalid(
                word,
                "rewrite",
                "`last`, `break`, `redirect` or `permanent`",
            );
        }
    };
    if is_address(&to.text) && then != "301" {
        then = "302";
    }
    // A question mark at the end keeps the query of the request out.
    let (text, drops_query) = match to.text.strip_suffix('?') {
        Some(text) => (text, true),
        None => (to.text.as_str(), false),
    };
    let (path, query) = match text.split_once('?') {
        Some((path, query)) => (path, query),
        None => (text, ""),
    };
    let part = |text: &str| Text {
        text: text.to_owned(),
        ..to.clone()
    };
    Some(Action::Rewrite(RewriteTarget {
        pattern: cx.pattern(&pattern.text, pattern),
        path: cx.text(&part(path), facts),
        query: cx.text(&part(query), facts),
        drops_query,
        then: then.to_owned(),
        origin: cx.origin(directive),
    }))
}

/// What stands between the parentheses of an `if`.
fn condition(cx: &mut Lowering<'_>, directive: &Directive, facts: &Facts) -> Option<Condition> {
    let words = inside_parentheses(cx, directive)?;
    match words.as_slice() {
        [subject] => Some(Condition {
            subject: variable(cx, subject).map(|subject| cx.text(subject, facts))?,
            test: "is set".to_owned(),
            ..Condition::default()
        }),
        [test, subject] => file_test(cx, test, subject, facts),
        [subject, test, with] => comparison(cx, subject, test, with, facts),
        _ => malformed(cx, directive),
    }
}

fn malformed<T>(cx: &mut Lowering<'_>, directive: &Directive) -> Option<T> {
    cx.report.push(
        Diagnostic::error("invalid-condition", "an `if` without a condition")
            .at(directive.span(), "not understood")
            .imported(directive.name.import)
            .help("write `if ($variable)`, `if ($variable = text)`, `if ($variable ~ pattern)` or `if (-f path)`"),
    );
    None
}

fn variable<'w>(cx: &mut Lowering<'_>, word: &'w Text) -> Option<&'w Text> {
    match word.text.starts_with('$') {
        true => Some(word),
        false => cx.invalid(word, "if", "a variable such as `$name`"),
    }
}

fn inside_parentheses(cx: &mut Lowering<'_>, directive: &Directive) -> Option<Vec<Text>> {
    let mut words = directive.args.clone();
    let opens = words
        .first_mut()
        .is_some_and(|first| match first.text.strip_prefix('(') {
            Some(rest) => {
                first.text = rest.to_owned();
                true
            }
            None => false,
        });
    let closes = words
        .last_mut()
        .is_some_and(|last| match last.text.strip_suffix(')') {
            Some(rest) => {
                last.text = rest.to_owned();
                true
            }
            None => false,
        });
    if !opens || !closes {
        return malformed(cx, directive);
    }
    // The parentheses may stand apart from what is in them; a text in quotes may be empty.
    let ends = [directive.args.first(), directive.args.last()];
    let is_alone = |word: &Text| {
        word.text.is_empty()
            && ends
                .iter()
                .flatten()
                .any(|end| end.span == word.span && matches!(&*end.text, "(" | ")"))
    };
    words.retain(|word| !is_alone(word));
    Some(words)
}

fn file_test(
    cx: &mut Lowering<'_>,
    test: &Text,
    subject: &Text,
    facts: &Facts,
) -> Option<Condition> {
    let (negated, letter) = match test.text.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, test.text.as_str()),
    };
    let test = match letter {
        "-f" => "file",
        "-d" => "directory",
        "-e" => "exists",
        "-x" => "executable",
        _ if letter.starts_with('$') && letter.contains(['=', '~']) => {
            return cx.invalid(
                test,
                "if",
                "blanks around its operator: `if ($variable = text)`",
            );
        }
        _ => return cx.invalid(test, "if", "`-f`, `-d`, `-e` or `-x`"),
    };
    Some(Condition {
        subject: cx.text(subject, facts),
        test: test.to_owned(),
        negated,
        links: facts.links.clone(),
        ..Condition::default()
    })
}

fn comparison(
    cx: &mut Lowering<'_>,
    subject: &Text,
    test: &Text,
    with: &Text,
    facts: &Facts,
) -> Option<Condition> {
    let (negated, operator) = match test.text.as_str() {
        "=" => (false, "="),
        "!=" => (true, "="),
        "~" => (false, "~"),
        "!~" => (true, "~"),
        "~*" => (false, "~*"),
        "!~*" => (true, "~*"),
        "==" => return cx.invalid(test, "if", "`=` with one sign, or `!=`"),
        _ => return cx.invalid(test, "if", "`=`, `!=`, `~`, `!~`, `~*` or `!~*`"),
    };
    let subject = variable(cx, subject)?;
    let with = match operator {
        "=" => cx.text(with, facts),
        _ => cx.pattern(&with.text, with),
    };
    Some(Condition {
        subject: cx.text(subject, facts),
        test: operator.to_owned(),
        with,
        negated,
        ..Condition::default()
    })
}

/// The variables that `set` defines anywhere in these directives, and the groups of patterns with names.
pub fn defined(directives: &[Directive], into: &mut crate::lower::text::Defined) {
    use crate::lower::text::Origin;
    for directive in directives {
        match (directive.name(), directive.args.as_slice()) {
            ("set" | "auth_request_set", [variable, ..]) if has_variables(&variable.text) => {
                into.add(&variable.text[1..], Origin::Set);
            }
            ("map" | "geo" | "split_clients", [.., variable]) if variable.text.starts_with('$') => {
                into.add(&variable.text[1..], Origin::Table);
            }
            (
                "server_name"
                | "location"
                | "rewrite"
                | "if"
                | "proxy_redirect"
                | "proxy_cookie_domain"
                | "proxy_cookie_path"
                | "proxy_cookie_flags",
                words,
            ) => {
                words.iter().for_each(|word| into.add_groups(&word.text));
            }
            _ => {}
        }
        if matches!(directive.name(), "map") {
            for row in directive.body() {
                into.add_groups(row.name());
            }
        }
        defined(directive.body(), into);
    }
}

fn check_rewrite(directive: &Directive) -> Option<Wrong> {
    match directive.arg(1)?.is_empty() {
        true => Some((1, "what the path becomes")),
        false => arguments::pattern(directive),
    }
}
