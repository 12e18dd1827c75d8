//! `ngx_http_upstream_hc_module`: active health checks of the servers of a group.

use std::collections::BTreeMap;

use sluice_diag::Diagnostic;
use sluice_model::Duration;
use sluice_model::proxy::{
    ActiveChecks, BodyTest, GroupChecks, GrpcCheck, HeaderTest, HealthChecks, ResponseTests,
    StatusRange, StatusTest,
};

use crate::definition::Repeats::OncePerName;
use crate::definition::Takes::{Block, Words};
use crate::definition::Verdict::Partly;
use crate::definition::{Definition, MANY, Wrong, many, once};
use crate::limits::HEALTH_RESPONSE_BYTES_MAX;
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::lower::values;
use crate::tree::{Directive, Word};

/// The directives.
pub const DIRECTIVES: &[Definition] = &[
    once("health_check", Words(0, MANY)).checked(parameters),
    many("match", Block(1, 1)).repeated(OncePerName).but(Partly(
        "`require` takes `$upstream_http_…` and `$upstream_status`; checks have no other variables",
    )),
];

/// What requests of checks have in common with those of clients.
pub struct Via<'a> {
    /// The host, with placeholders.
    pub host: &'a str,
    /// Headers, with placeholders.
    pub headers: Option<&'a BTreeMap<String, Vec<String>>>,
    /// How long the upstream may take.
    pub timeout: Duration,
}

fn parameters(directive: &Directive) -> Option<Wrong> {
    let is_number = |value: &str| value.parse::<u32>().is_ok_and(|number| number > 0);
    let is_time = |value: &str| values::time(value).is_some();
    let fits = |word: &Word| {
        let (name, value) = word.text.split_once('=').unwrap_or((&word.text, ""));
        match name {
            "interval" | "jitter" | "keepalive_time" => is_time(value),
            "fails" | "passes" => is_number(value),
            "port" => value.parse::<u16>().is_ok_and(|port| port > 0),
            "uri" => value.starts_with('/'),
            "match" | "grpc_service" => !value.is_empty(),
            "grpc_status" => value.parse::<u32>().is_ok(),
            "type" => value == "grpc",
            "mandatory" | "persistent" => value.is_empty(),
            _ => false,
        }
    };
    let at = directive.args.iter().position(|word| !fits(word));
    let wanted = "`interval=TIME`, `jitter=TIME`, `fails=N`, `passes=N`, `uri=PATH`, `mandatory`, `persistent`, \
                  `match=NAME`, `port=N`, `keepalive_time=TIME`, `type=grpc`, `grpc_service=NAME` or `grpc_status=N`";
    at.map(|at| (at, wanted)).or_else(|| misplaced(directive))
}

/// The first parameter that another one must precede, or rules out.
fn misplaced(directive: &Directive) -> Option<Wrong> {
    let words = || directive.args.iter().map(|word| word.text.as_str());
    let grpc = words().position(|word| word == "type=grpc");
    words().enumerate().find_map(|(at, word)| {
        let name = word.split('=').next().unwrap_or_default();
        let before = at.checked_sub(1).and_then(|at| directive.arg(at));
        match name {
            "persistent" if before != Some("mandatory") => {
                Some((at, "`persistent` directly after `mandatory`"))
            }
            "grpc_service" | "grpc_status" if grpc.is_none_or(|grpc| at < grpc) => {
                Some((at, "`type=grpc` before it"))
            }
            "uri" | "match" if grpc.is_some() => {
                Some((at, "neither `uri=` nor `match=` with `type=grpc`"))
            }
            _ => None,
        }
    })
}

/// Reports a `health_check` in a location whose requests do not go to a group. `content` is the directive that handles
/// them.
pub fn stands_right(cx: &mut Lowering<'_>, level: &Level<'_>, content: Option<&Directive>) {
    let Some(line) = level.own("health_check").next() else {
        return;
    };
    let pass = content.filter(|content| {
        let name = content.name();
        name.ends_with("_pass") && name != "memcached_pass"
    });
    let group = pass.and_then(|pass| pass.arg(0)).and_then(|address| {
        let address = address.split_once("://").map_or(address, |(_, rest)| rest);
        let host = address.split(['/', '?']).next()?;
        cx.upstream_block(host)
    });
    if group.is_none() {
        cx.report.push(
            Diagnostic::error("misplaced-directive", "`health_check` without a group of servers")
                .at(line.span(), "there is nothing to check")
                .imported(line.name.import)
                .help(
                    "name an `upstream` block in the `proxy_pass`, `fastcgi_pass`, `uwsgi_pass`, `scgi_pass` or \
                     `grpc_pass` of this location",
                ),
        );
    }
}

/// The checks of a location, if it has any.
pub fn lower(cx: &mut Lowering<'_>, level: &Level<'_>, via: &Via<'_>) -> Option<HealthChecks> {
    let line = level.own("health_check").next()?;
    let mut active = ActiveChecks {
        uri: "/".to_owned(),
        headers: headers(via),
        interval: Duration::seconds(5),
        timeout: via.timeout,
        passes: 1,
        fails: 1,
        max_size: HEALTH_RESPONSE_BYTES_MAX,
        ..ActiveChecks::default()
    };
    let mut group = GroupChecks::default();
    for word in &line.args {
        let (name, value) = word.text.split_once('=').unwrap_or((&word.text, ""));
        let time = || values::time(value).unwrap_or_default();
        match name {
            "interval" => active.interval = time(),
            "jitter" => group.jitter = time(),
            "keepalive_time" => group.keepalive_time = time(),
            "fails" => active.fails = value.parse().unwrap_or(1),
            "passes" => active.passes = value.parse().unwrap_or(1),
            "port" => active.port = value.parse().unwrap_or_default(),
            "uri" => active.uri = value.to_owned(),
            "mandatory" => group.mandatory = true,
            "persistent" => group.persistent = true,
            "type" => {
                active.method = "POST".to_owned();
                group.grpc = Some(GrpcCheck::default());
            }
            "match" => match cx.response_tests(value) {
                Some(tests) => group.tests = Some(tests),
                None => {
                    return cx.invalid(
                        word,
                        "health_check",
                        "the name of a `match` block in `http`",
                    );
                }
            },
            _ => grpc_parameter(&mut group, name, value),
        }
    }
    active.group = Some(group);
    Some(HealthChecks {
        active: Some(active),
        passive: None,
    })
}

fn grpc_parameter(group: &mut GroupChecks, name: &str, value: &str) {
    let grpc = group.grpc.get_or_insert_default();
    match name {
        "grpc_service" => grpc.service = value.to_owned(),
        _ => grpc.status = value.parse().unwrap_or_default(),
    }
}

/// The headers that do not depend on a client's request. The others are empty, and thus not sent.
fn headers(via: &Via<'_>) -> BTreeMap<String, Vec<String>> {
    let is_fixed = |text: &str| !text.contains('{');
    let mut headers = BTreeMap::new();
    for (name, values) in via.headers.into_iter().flatten() {
        let fixed = values.iter().filter(|value| is_fixed(value));
        let fixed: Vec<String> = fixed.cloned().collect();
        if !fixed.is_empty() {
            headers.insert(name.clone(), fixed);
        }
    }
    if is_fixed(via.host) && !via.host.is_empty() {
        headers.insert("Host".to_owned(), vec![via.host.to_owned()]);
    }
    headers
}

/// Lowers all `match` blocks, by name.
pub fn all_tests(cx: &mut Lowering<'_>, http: &Level<'_>) -> BTreeMap<String, ResponseTests> {
    let mut found = BTreeMap::new();
    for block in http.own("match") {
        let mut tests = ResponseTests::default();
        for row in block.body() {
            // A row that is not understood was reported.
            let _: Option<()> = test(cx, row, &mut tests);
        }
        found.insert(block.arg(0).unwrap_or_default().to_owned(), tests);
    }
    found
}

fn test(cx: &mut Lowering<'_>, row: &Directive, tests: &mut ResponseTests) -> Option<()> {
    match row.name() {
        "status" => tests.status.push(status(cx, row)?),
        "header" => tests.headers.push(header(cx, row)?),
        "body" => tests.body.push(body(cx, row)?),
        "require" if !row.args.is_empty() => {
            for word in &row.args {
                tests.require.extend(required(cx, word)?);
            }
        }
        _ => {
            let wanted = "tests: `status`, `header`, `body` and `require`";
            return cx.invalid(&row.name, "match", wanted);
        }
    }
    Some(())
}

fn status(cx: &mut Lowering<'_>, row: &Directive) -> Option<StatusTest> {
    let (negated, words) = match row.args.as_slice() {
        [first, rest @ ..] if first.text == "!" => (true, rest),
        all => (false, all),
    };
    let wanted = "statuses and ranges of them, such as `200-399` or `! 500`";
    if words.is_empty() {
        return cx.invalid(&row.name, "match", wanted);
    }
    let mut ranges = Vec::new();
    for word in words {
        let (first, last) = word
            .text
            .split_once('-')
            .unwrap_or((&word.text, &word.text));
        let number = |text: &str| {
            let number = text.parse::<u16>().ok();
            number.filter(|number| (100..=599).contains(number))
        };
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => {
                ranges.push(StatusRange { first, last });
            }
            _ => return cx.invalid(word, "match", wanted),
        }
    }
    Some(StatusTest { ranges, negated })
}

fn header(cx: &mut Lowering<'_>, row: &Directive) -> Option<HeaderTest> {
    let words: Vec<&str> = row.args.iter().map(|word| word.text.as_str()).collect();
    let test = |name: &str| HeaderTest {
        name: name.to_owned(),
        ..HeaderTest::default()
    };
    let compared = |name, operator: &str, value: &str| {
        let test = HeaderTest {
            negated: operator.starts_with('!'),
            ..test(name)
        };
        match operator.ends_with('=') {
            true => HeaderTest {
                value: Some(value.to_owned()),
                ..test
            },
            false => HeaderTest {
                pattern: value.to_owned(),
                ..test
            },
        }
    };
    match words.as_slice() {
        ["!", name] => Some(HeaderTest {
            negated: true,
            ..test(name)
        }),
        [name] => Some(test(name)),
        [name, operator @ ("=" | "!="), value] => Some(compared(name, operator, value)),
        [name, operator @ ("~" | "!~"), pattern] => {
            cx.pattern(pattern, &row.args[2]);
            Some(compared(name, operator, pattern))
        }
        _ => {
            let wanted =
                "`header NAME`, `header ! NAME`, or a name with `=`, `!=`, `~` or `!~` and a value";
            cx.invalid(&row.name, "match", wanted)
        }
    }
}

fn body(cx: &mut Lowering<'_>, row: &Directive) -> Option<BodyTest> {
    match row.args.as_slice() {
        [operator, word] if matches!(operator.text.as_str(), "~" | "!~") => {
            let pattern = cx.pattern(&word.text, word);
            Some(BodyTest {
                pattern,
                negated: operator.text == "!~",
            })
        }
        _ => cx.invalid(&row.name, "match", "`body ~ PATTERN` or `body !~ PATTERN`"),
    }
}

/// The header whose value a variable holds; `Some(None)` for one that is never empty.
fn required(cx: &mut Lowering<'_>, word: &Word) -> Option<Option<String>> {
    let name = word.text.strip_prefix("$upstream_http_");
    match (name, word.text.as_str()) {
        (Some(name), _) if !name.is_empty() => Some(Some(name.replace('_', "-"))),
        (_, "$upstream_status") => Some(None),
        _ => cx.invalid(
            word,
            "require",
            "`$upstream_http_NAME` or `$upstream_status`",
        ),
    }
}
