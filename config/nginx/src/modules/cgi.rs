//! What FastCGI, SCGI and uwsgi have in common: parameters of the application, and headers of its responses.

use std::collections::BTreeMap;

use sluice_model::nginx::NginxProxy;

use super::{forwarding, next_upstream};
use crate::arguments;
use crate::definition::Takes::Words;
use crate::definition::{Definition, MANY, many, once};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::lower::text::Facts;

/// The directives.
pub const DIRECTIVES: &[Definition] = &[
    once("cache_use_stale", Words(1, MANY)).of(&next_upstream::OF_CGI),
    next_upstream::NEXT_UPSTREAM.of(&next_upstream::OF_CGI),
    many("param", Words(2, 3)).checked(|line| {
        let third = line.arg(2)?;
        (third != "if_not_empty").then_some((2, "`if_not_empty` at its end"))
    }),
];

/// `*_pass`, to which modules add how it is lowered.
pub const PASS: Definition = once("pass", Words(1, 1)).checked(arguments::address);

/// The variables of the application, which of them are left out where they are empty; `name` is the directive.
pub fn params(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    facts: &Facts,
    name: &str,
) -> Option<(BTreeMap<String, String>, Vec<String>)> {
    let (mut env, mut if_not_empty) = (BTreeMap::new(), Vec::new());
    for line in level.nearest(&[name]) {
        let variable = &line.args[0].text;
        match line.args.get(2) {
            Some(word) if word.text != "if_not_empty" => {
                return cx.invalid(word, name, "`if_not_empty` at its end");
            }
            Some(_) => if_not_empty.push(variable.clone()),
            None => {}
        }
        env.insert(variable.clone(), cx.text(&line.args[1], facts));
    }
    Some((env, if_not_empty))
}

/// How responses are forwarded; `prefix` is the prefix of the directives.
pub fn proxying(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    facts: &Facts,
    prefix: &str,
) -> NginxProxy {
    const USUAL: [&str; 6] = [
        "Status",
        "X-Accel-Expires",
        "X-Accel-Redirect",
        "X-Accel-Limit-Rate",
        "X-Accel-Buffering",
        "X-Accel-Charset",
    ];
    forwarding::lower(cx, level, facts, prefix, &USUAL)
}
