//! `overload`, a directive of sluice: sheds requests that an upstream cannot serve in time.

use sluice_model::Handler;
use sluice_model::handler::Overload;

use crate::definition::Takes::Words;
use crate::definition::{Definition, MANY, Wrong, once};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::lower::text::Facts;
use crate::lower::values;
use crate::tree::Directive;

/// The directive.
pub const DIRECTIVES: &[Definition] = &[once("overload", Words(1, MANY)).checked(check)];

/// What a parameter of `overload` takes.
enum Value {
    Number,
    Time,
    Text,
}

/// The parameters, and the modes that have them.
const PARAMETERS: [(&str, Value, &[&str]); 10] = [
    ("target_latency", Value::Time, &["adaptive"]),
    ("min", Value::Number, &["adaptive"]),
    ("max", Value::Number, &["adaptive"]),
    ("queue", Value::Number, &["queue", "adaptive"]),
    ("timeout", Value::Time, &["queue", "adaptive"]),
    ("name", Value::Text, &["fail_fast", "queue", "adaptive"]),
    ("key", Value::Text, &["fail_fast", "queue", "adaptive"]),
    ("priority", Value::Text, &["fail_fast", "queue", "adaptive"]),
    (
        "ipv4_prefix",
        Value::Number,
        &["fail_fast", "queue", "adaptive"],
    ),
    (
        "ipv6_prefix",
        Value::Number,
        &["fail_fast", "queue", "adaptive"],
    ),
];

const WANTED: &str = "`fail_fast N`, `queue N`, `adaptive` or `off`";

fn count(text: &str) -> Option<i64> {
    let number = text.parse::<u32>().ok().filter(|number| *number > 0);
    number.map(i64::from)
}

fn check(directive: &Directive) -> Option<Wrong> {
    let mode = directive.arg(0)?;
    let first = match mode {
        "off" => return directive.arg(1).map(|_| (1, "nothing behind `off`")),
        "fail_fast" | "queue" => {
            let max = directive.arg(1).and_then(count);
            if max.is_none() {
                let at = usize::from(directive.args.len() > 1);
                return Some((at, "a number of requests behind the mode"));
            }
            2
        }
        "adaptive" => 1,
        _ => return Some((0, WANTED)),
    };
    let mut words = directive.args.iter().enumerate().skip(first);
    words.find_map(|(at, word)| {
        let (name, value) = word.text.split_once('=').unwrap_or((&word.text, ""));
        let known = PARAMETERS
            .iter()
            .find(|(known, _, modes)| *known == name && modes.contains(&mode));
        let wanted = match known {
            None => match mode {
                "fail_fast" => "`name=`, `key=`, `priority=`, `ipv4_prefix=` or `ipv6_prefix=`",
                "queue" => "`queue=`, `timeout=`, `name=`, `key=`, `priority=`, `ipv4_prefix=` or `ipv6_prefix=`",
                _ => "`target_latency=`, `min=`, `max=`, `queue=`, `timeout=`, `name=`, `key=`, `priority=`, `ipv4_prefix=` or `ipv6_prefix=`",
            },
            Some((_, Value::Number, _)) if count(value).is_none() => "a number of 1 or more behind `=`",
            Some((_, Value::Time, _)) if values::time(value).is_none_or(|time| time.0 == 0) => {
                "a length of time behind `=`, such as `100ms`"
            }
            Some((_, Value::Text, _)) if value.is_empty() => "a text behind `=`",
            Some(_) => return None,
        };
        Some((at, wanted))
    })
}

/// The handler of a place, if it has one. All places that inherit a directive share its limit.
pub fn lower(cx: &mut Lowering<'_>, level: &Level<'_>, facts: &Facts) -> Option<Handler> {
    let line = level.find("overload")?;
    let mode = line.arg(0).filter(|mode| *mode != "off")?;
    let mut overload = Overload {
        mode: mode.to_owned(),
        name: cx.report.sources.place(line.name.span),
        ..Overload::default()
    };
    let mut parameters = line.args.iter().skip(1);
    if mode != "adaptive" {
        overload.max = parameters.next().and_then(|word| count(&word.text))?;
    }
    for word in parameters {
        let (name, value) = word.text.split_once('=').unwrap_or((&word.text, ""));
        let number = || count(value).unwrap_or_default();
        let time = || values::time(value).unwrap_or_default();
        let mut text = || {
            let mut part = word.clone();
            part.text = value.to_owned();
            cx.text(&part, facts)
        };
        match name {
            "target_latency" => overload.target_latency = time(),
            "min" => overload.min = number(),
            "max" => overload.max = number(),
            "queue" => overload.queue = number(),
            "timeout" => overload.timeout = time(),
            "name" => overload.name = value.to_owned(),
            "key" => overload.key = text(),
            "priority" => overload.priority = text(),
            "ipv4_prefix" => overload.ipv4_prefix = number(),
            _ => overload.ipv6_prefix = number(),
        }
    }
    Some(Handler::Overload(Box::new(overload)))
}
