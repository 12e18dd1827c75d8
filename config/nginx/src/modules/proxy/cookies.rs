//! `proxy_cookie_domain`, `proxy_cookie_path` and `proxy_cookie_flags`: changes to cookies of upstreams.

use sluice_model::nginx::{CookieFlags, LocationChange};

use crate::definition::{Keywords, Wrong};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::lower::text::Facts;
use crate::tree::Directive;

/// Whether small and capital letters are the same to a pattern that does not say so.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// They are not.
    Kept,
    /// They are.
    Folded,
}

/// A pattern behind its `~`; with an asterisk in front letters of both cases are the same.
pub fn case(pattern: &str, usual: Case) -> String {
    match (pattern.strip_prefix('*'), usual) {
        (Some(pattern), _) => format!("(?i){pattern}"),
        (None, Case::Folded) => format!("(?i){pattern}"),
        (None, Case::Kept) => pattern.to_owned(),
    }
}

/// The flags of `proxy_cookie_flags`.
pub const FLAGS: Keywords = Keywords {
    from: 1,
    words: &[
        "secure",
        "nosecure",
        "httponly",
        "nohttponly",
        "samesite",
        "samesite=strict",
        "samesite=lax",
        "samesite=none",
        "nosamesite",
    ],
    wanted: "`secure`, `nosecure`, `httponly`, `nohttponly`, `samesite`, `samesite=strict`, `samesite=lax`, `samesite=none` and \
             `nosamesite`",
};

/// Checks the arguments of `proxy_cookie_domain` and `proxy_cookie_path`.
pub fn changed(directive: &Directive) -> Option<Wrong> {
    alone(
        directive,
        "`off`, or what is replaced and by what",
        &["off"],
    )
}

/// Checks the arguments of `proxy_cookie_flags`.
pub fn flagged(directive: &Directive) -> Option<Wrong> {
    alone(directive, "`off`, or a cookie and its flags", &["off"])
}

/// Refuses an argument alone that is not one of these words.
pub fn alone(directive: &Directive, wanted: &'static str, words: &[&str]) -> Option<Wrong> {
    let first = directive.arg(0)?;
    (directive.args.len() == 1 && !words.contains(&first)).then_some((0, wanted))
}

/// What `proxy_cookie_domain` or `proxy_cookie_path` says.
pub fn changes(
    cx: &mut Lowering<'_>,
    level: &Level<'_>,
    facts: &Facts,
    name: &str,
) -> Vec<LocationChange> {
    let usual = match name {
        "proxy_cookie_domain" => Case::Folded,
        _ => Case::Kept,
    };
    let mut changes = Vec::new();
    for line in level.nearest(&[name]) {
        match line.args.as_slice() {
            [word] if word.text == "off" => return Vec::new(),
            [from, to] => changes.push(LocationChange {
                to: cx.text(to, facts),
                ..match from.text.strip_prefix('~') {
                    None => LocationChange {
                        from: cx.text(from, facts),
                        ..LocationChange::default()
                    },
                    Some(pattern) => LocationChange {
                        pattern: cx.pattern(&case(pattern, usual), from),
                        ..LocationChange::default()
                    },
                }
            }),
            [word, ..] => {
                let wanted = "`off`, or what is replaced and by what";
                let _: Option<()> = cx.invalid(word, name, wanted);
            }
            [] => {}
        }
    }
    changes
}

/// What `proxy_cookie_flags` says.
pub fn flags(cx: &mut Lowering<'_>, level: &Level<'_>, facts: &Facts) -> Vec<CookieFlags> {
    let mut all = Vec::new();
    for line in level.nearest(&["proxy_cookie_flags"]) {
        let Some((cookie, flags)) = line.args.split_first() else {
            continue;
        };
        if cookie.text == "off" && flags.is_empty() {
            return Vec::new();
        }
        let (name, pattern) = match cookie.text.strip_prefix('~') {
            None => (cx.text(cookie, facts), String::new()),
            Some(pattern) => {
                let pattern = cx.pattern(&case(pattern, Case::Folded), cookie);
                (String::new(), pattern)
            }
        };
        all.push(CookieFlags {
            name,
            pattern,
            flags: flags.iter().map(|flag| flag.text.clone()).collect(),
        });
    }
    all
}
