//! Semantic versions (semver.org) and version constraints.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;

use super::function;
use crate::error::Fault;
use crate::function::{Call, Function};
use crate::room::Room;
use crate::value::{IntKind, Object, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    function("semver", 1, 1, |call| {
        let version = Version::parse(&call.str(0)?).ok_or(MALFORMED)?;
        call.room.take(256)?;
        Ok(Value::Object(Rc::new(version)))
    }),
    function("semverCompare", 2, 2, compare),
];

const MALFORMED: Fault = Fault::Syntax("an invalid version");

#[derive(Clone, Debug, PartialEq, Eq)]
struct Version {
    numbers: [u64; 3],
    before: String,
    build: String,
    original: String,
}

impl Version {
    /// A version; missing numbers are zeros, a `v` in front is passed.
    fn parse(text: &str) -> Option<Version> {
        let bare = text.strip_prefix('v').unwrap_or(text);
        let (rest, build) = bare.split_once('+').unwrap_or((bare, ""));
        let (rest, before) = rest.split_once('-').unwrap_or((rest, ""));
        let mut numbers = [0; 3];
        let parts: Vec<_> = rest.split('.').collect();
        if parts.len() > 3 {
            return None;
        }
        for (number, part) in numbers.iter_mut().zip(parts) {
            let digits = part.bytes().all(|byte| byte.is_ascii_digit());
            *number = part.parse().ok().filter(|_| digits)?;
        }
        let named = |text: &str| {
            text.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte))
        };
        if !named(before) || !named(build) {
            return None;
        }
        Some(Version {
            numbers,
            before: before.into(),
            build: build.into(),
            original: text.into(),
        })
    }

    /// Precedence (semver.org, item 11).
    fn order(&self, other: &Version) -> Ordering {
        let by_numbers = self.numbers.cmp(&other.numbers);
        by_numbers.then_with(|| match (self.before.is_empty(), other.before.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => order_before(&self.before, &other.before),
        })
    }
}

fn order_before(one: &str, other: &str) -> Ordering {
    let mut others = other.split('.');
    for part in one.split('.') {
        let Some(with) = others.next() else {
            return Ordering::Greater;
        };
        let order = match (part.parse::<u64>(), with.parse::<u64>()) {
            (Ok(a), Ok(b)) => a.cmp(&b),
            (Ok(_), Err(_)) => Ordering::Less,
            (Err(_), Ok(_)) => Ordering::Greater,
            (Err(_), Err(_)) => part.cmp(with),
        };
        if order.is_ne() {
            return order;
        }
    }
    if others.next().is_some() {
        Ordering::Less
    } else {
        Ordering::Equal
    }
}

impl Object for Version {
    fn type_name(&self) -> &'static str {
        "*semver.Version"
    }

    fn member(&self, name: &str, args: &[Value], _room: &mut Room) -> Result<Option<Value>, Fault> {
        let number = |at: usize| Value::Int(self.numbers[at] as i64, IntKind::Uint64);
        Ok(Some(match (name, args) {
            ("Major", []) => number(0),
            ("Minor", []) => number(1),
            ("Patch", []) => number(2),
            ("Prerelease", []) => Value::text(&self.before),
            ("Metadata", []) => Value::text(&self.build),
            ("Original", []) => Value::text(&self.original),
            ("String", []) => self.plain(),
            _ => return Ok(None),
        }))
    }

    fn plain(&self) -> Value {
        let [major, minor, patch] = self.numbers;
        let mut text = format!("{major}.{minor}.{patch}");
        for (mark, part) in [('-', &self.before), ('+', &self.build)] {
            if !part.is_empty() {
                text.push(mark);
                text.push_str(part);
            }
        }
        Value::text(text)
    }
}

/// `semverCompare condition version`: conditions with `,` or space between them all hold, with `||` one does.
fn compare(call: &mut Call<'_>) -> Result<Value, Fault> {
    let condition = call.str(0)?;
    let version = Version::parse(&call.str(1)?).ok_or(MALFORMED)?;
    for alternative in condition.split("||") {
        if all_hold(alternative, &version)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

fn all_hold(conditions: &str, version: &Version) -> Result<bool, Fault> {
    let words: Vec<&str> = conditions
        .split([',', ' '])
        .filter(|word| !word.is_empty())
        .collect();
    let mut at = 0;
    while at < words.len() {
        // `1.2 - 1.4` stands for both ends and what is between.
        if words.get(at + 1) == Some(&"-") {
            let (low, high) = (words[at], words.get(at + 2).ok_or(MALFORMED)?);
            if !holds(">=", low, version)? || !holds("<=", high, version)? {
                return Ok(false);
            }
            at += 3;
            continue;
        }
        let start = words[at].find(|c: char| !"=<>!~^".contains(c));
        let (sign, operand) = match start {
            Some(start) => words[at].split_at(start),
            None => {
                at += 1;
                (words[at - 1], *words.get(at).ok_or(MALFORMED)?)
            }
        };
        if !holds(sign, operand, version)? {
            return Ok(false);
        }
        at += 1;
    }
    Ok(true)
}

/// Whether one condition holds. Numbers that are left out or written as `x` match any.
fn holds(sign: &str, operand: &str, version: &Version) -> Result<bool, Fault> {
    let bare = operand.strip_prefix('v').unwrap_or(operand);
    let core = bare.split(['-', '+']).next().unwrap_or(bare);
    let wild = |part: &&str| matches!(*part, "x" | "X" | "*");
    let given: Vec<_> = core.split('.').take_while(|part| !wild(part)).collect();
    let given_count = given.iter().filter(|part| !part.is_empty()).count();
    let text = if core.split('.').any(|part| wild(&part)) {
        if given_count == 0 {
            String::from("0")
        } else {
            given.join(".")
        }
    } else {
        bare.into()
    };
    let low = Version::parse(&text).ok_or(MALFORMED)?;
    // A version before a release is meant only where the condition names one.
    if !version.before.is_empty() && low.before.is_empty() {
        return Ok(false);
    }
    let order = version.order(&low);
    let below = |at: usize| {
        let mut high = low.numbers;
        high[at] += 1;
        high[at + 1..].fill(0);
        version.numbers < high
    };
    let same = |count: usize| count == 0 || below(count - 1);
    Ok(match sign {
        "" | "=" | "==" if given_count < 3 => order.is_ge() && same(given_count),
        "" | "=" | "==" => order.is_eq(),
        "!=" if given_count < 3 => order.is_lt() || !same(given_count),
        "!=" => order.is_ne(),
        ">" if given_count < 3 => order.is_gt() && !same(given_count),
        ">" => order.is_gt(),
        ">=" | "=>" => order.is_ge(),
        "<" => order.is_lt(),
        "<=" | "=<" => order.is_le() || given_count < 3 && order.is_ge() && same(given_count),
        "~" | "~>" => order.is_ge() && same(given_count.clamp(0, 2)),
        "^" => {
            let lead = low.numbers.iter().position(|number| *number > 0);
            let at = lead.unwrap_or(2).min(given_count.max(1) - 1);
            order.is_ge() && (given_count == 0 || below(at))
        }
        _ => return Err(MALFORMED),
    })
}
