//! `ngx_http_userid_module`: cookies that identify clients.

use sluice_model::Handler;
use sluice_model::nginx::UserId;

use crate::arguments::each;
use crate::definition::Takes::{Choice, Number, Words};
use crate::definition::{Definition, MANY, once};
use crate::definition::{Keywords, Wrong};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::lower::text::Facts;
use crate::lower::values;
use crate::tree::Directive;
use crate::tree::Word as Text;

/// The directives.
pub const DIRECTIVES: &[Definition] = &[
    once("userid", Choice(&["on", "v1", "log", "off"])),
    once("userid_domain", Words(1, 1)),
    once("userid_expires", Words(1, 1)).checked(check_expires),
    once("userid_flags", Words(1, MANY)).of(&FLAG_KEYWORDS),
    once("userid_mark", Words(1, 1)).checked(check_mark),
    once("userid_name", Words(1, 1)),
    once("userid_p3p", Words(1, 1)),
    once("userid_path", Words(1, 1)),
    once("userid_service", Number),
];

const FLAG_KEYWORDS: Keywords = Keywords {
    from: 0,
    words: &[
        "off",
        "secure",
        "httponly",
        "samesite=strict",
        "samesite=lax",
        "samesite=none",
    ],
    wanted: "`secure`, `httponly`, `samesite=strict`, `samesite=lax`, `samesite=none` or `off`",
};

/// The flags of a cookie.
const FLAGS: [&str; 5] = [
    "secure",
    "httponly",
    "samesite=strict",
    "samesite=lax",
    "samesite=none",
];

/// The cookie that clients of a place get.
pub fn lower(cx: &mut Lowering<'_>, level: &Level<'_>, facts: &Facts) -> Option<Handler> {
    let mode = level.word("userid").filter(|mode| *mode != "off")?;
    let text = |name: &str, none: &str| {
        let word = level.word(name).filter(|word| *word != none);
        word.unwrap_or_default().to_owned()
    };
    let word = |name: &str| level.find(name).and_then(|line| line.args.first());
    let p3p = word("userid_p3p").filter(|word| word.text != "none");
    let service = word("userid_service").map(|word| (word, word.text.parse()));
    let reset = Text {
        text: "$uid_reset".to_owned(),
        ..level.find("userid")?.args.first()?.clone()
    };
    Some(Handler::NginxUserId(Box::new(UserId {
        mode: mode.to_owned(),
        name: level.word("userid_name").unwrap_or("uid").to_owned(),
        domain: text("userid_domain", "none"),
        path: level.word("userid_path").unwrap_or("/").to_owned(),
        expires: expires(cx, word("userid_expires")),
        flags: flags(cx, level),
        mark: mark(cx, word("userid_mark")),
        p3p: p3p.map(|word| cx.text(word, facts)).unwrap_or_default(),
        service: match service {
            None => None,
            Some((_, Ok(number))) => Some(number),
            Some((word, Err(_))) => cx.invalid(word, "userid_service", "a number of 32 bits"),
        },
        reset: cx.text(&reset, facts),
    })))
}

fn expires(cx: &mut Lowering<'_>, word: Option<&Text>) -> Option<i64> {
    let word = word?;
    match (word.text.as_str(), values::time(&word.text)) {
        ("off", _) => None,
        ("max", _) => Some(-1),
        (_, Some(time)) => Some(time.0 / 1_000_000_000),
        (_, None) => cx.invalid(
            word,
            "userid_expires",
            "a time such as `365d`, `max` or `off`",
        ),
    }
}

fn mark(cx: &mut Lowering<'_>, word: Option<&Text>) -> String {
    let Some(word) = word.filter(|word| word.text != "off") else {
        return String::new();
    };
    match word.text.as_bytes() {
        [letter] if letter.is_ascii_alphanumeric() || *letter == b'=' => word.text.clone(),
        _ => cx
            .invalid(word, "userid_mark", "a letter, a digit, `=` or `off`")
            .unwrap_or_default(),
    }
}

fn flags(cx: &mut Lowering<'_>, level: &Level<'_>) -> Vec<String> {
    let Some(line) = level.find("userid_flags") else {
        return Vec::new();
    };
    let mut flags = Vec::new();
    for word in line.args.iter().filter(|word| word.text != "off") {
        match FLAGS
            .iter()
            .find(|flag| word.text.eq_ignore_ascii_case(flag))
        {
            Some(flag) => flags.push((*flag).to_owned()),
            None => {
                let wanted = format!("`off`, or some of `{}`", FLAGS.join("`, `"));
                let _: Option<()> = cx.invalid(word, "userid_flags", &wanted);
            }
        }
    }
    flags
}

fn check_expires(directive: &Directive) -> Option<Wrong> {
    each(directive, "a time such as `365d`, `max` or `off`", |word| {
        matches!(word, "max" | "off") || values::time(word).is_some()
    })
}

fn check_mark(directive: &Directive) -> Option<Wrong> {
    each(directive, "a letter, a digit, `=` or `off`", |word| {
        word == "off"
            || matches!(
                word.as_bytes(),
                [b'=' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z']
            )
    })
}
