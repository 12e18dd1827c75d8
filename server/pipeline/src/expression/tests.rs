//! Evaluates expressions. `tests/peer` compares the same expressions with Caddy 2.11.
#![allow(clippy::unwrap_used)]

use sluice_message::{ConnInfo, FieldId, Remote, RequestHead};
use sluice_model::matcher::Expression;
use sluice_route::matcher::{Input, MatcherSet};
use sluice_route::{Found, Key, Kind, Matcher, RequestValues, Scratch, Values};

use super::limits::{EXPRESSION_BYTES_MAX, EXPRESSION_DEPTH_MAX};
use super::node::Node;
use super::{check, compile, tree};

struct AllValues<'a>(RequestValues<'a>);

impl Values for AllValues<'_> {
    fn value(&self, key: &Key, out: &mut Vec<u8>) -> Found {
        if self.0.value(key, out) == Found::Known {
            return Found::Known;
        }
        match key {
            Key::Var(name) if &**name == "v" => out.extend_from_slice(b"val"),
            Key::Var(name) if &**name == "n" => out.extend_from_slice(b"5"),
            Key::Var(name) if &**name == "flag" => out.extend_from_slice(b"true"),
            Key::Var(_) => {}
            Key::Duration => out.extend_from_slice(b"1.5ms"),
            Key::DurationMs => out.extend_from_slice(b"1.5"),
            Key::Time(_) => out.extend_from_slice(b"2026-11-22 00:00:00 +0000 UTC"),
            Key::Env(_) => out.extend_from_slice(b"SECRET"),
            _ => return Found::Unknown,
        }
        Found::Known
    }

    fn kind(&self, key: &Key) -> Kind {
        match key {
            Key::Var(name) if &**name == "v" => Kind::Text,
            Key::Var(name) if &**name == "n" => Kind::Float,
            Key::Var(name) if &**name == "flag" => Kind::Flag,
            Key::Var(_) => Kind::Null,
            other => other.kind(),
        }
    }
}

fn named(expr: &str, name: &str) -> Expression {
    Expression {
        expr: expr.to_owned(),
        name: name.to_owned(),
    }
}

/// Runs `f` with a request for `/a/b.html?q=1&r=x`.
fn with<T>(f: impl FnOnce(&Input<'_>) -> T) -> T {
    let mut head = RequestHead {
        target: b"/a/b.html?q=1&r=x".to_vec(),
        ..RequestHead::default()
    };
    head.uri.set(b"/a/b.html?q=1&r=x");
    head.set_authority(b"example.com");
    for (name, value) in [("X-A", "one"), ("X-Evil", "{env.HOME}")] {
        head.fields.push_raw(
            FieldId::of(name.as_bytes()),
            name.as_bytes(),
            value.as_bytes(),
        );
    }
    let conn = ConnInfo {
        remote: Remote::Ip("127.0.0.1:40000".parse().unwrap()),
        local: Some("127.0.0.1:80".parse().unwrap()).into(),
        tls: None,
        facts: Default::default(),
    };
    let scratch = Scratch::new();
    let values = AllValues(RequestValues {
        head: &head,
        conn: &conn,
        client_ip: None,
        original_method: None,
        scratch: &scratch,
    });
    f(&Input {
        head: &head,
        conn: &conn,
        client_ip: None,
        values: &values,
        scratch: &scratch,
    })
}

/// The result of an expression, `None` if it fails. The tree and the matchers it is lowered to have to agree.
fn response(expr: &str) -> Option<bool> {
    let tree = tree(&named(expr, "")).unwrap_or_else(|mistake| panic!("{expr}: {mistake:?}"));
    let of_tree = with(|input| tree.matches(input)).ok();
    let lowered = MatcherSet::new(compile(&named(expr, "")).unwrap());
    let of_lowered = with(|input| lowered.matches(input)).ok();
    assert_eq!(of_tree, of_lowered, "{expr}: its lowered form differs");
    of_tree
}

#[test]
fn expressions_that_hold() {
    for expr in [
        "true",
        "path('/a/*')",
        "path('/A/*', '/x')",
        "path('/a/' + 'b.html')",
        "path('/a/*') == true",
        "path('*.html') && !method('POST') || host('no')",
        "!!path('/a*')",
        "path_regexp('x', '^/(a)/b') && {http.regexp.x.1} == 'a'",
        "host('example.com')",
        "host({http.request.host})",
        "method('GET', 'POST')",
        "header({'X-A': 'one'})",
        "header({'X-A': ['two', 'one']})",
        "header({'X-A': {http.request.header.X-A}})",
        "header_regexp('x', 'X-A', '^(o)ne')",
        "header_regexp('X-A', '^(o)ne')",
        "query({'q': '1'})",
        "query({'q': ['2', '1']})",
        "protocol('http/1.1')",
        "remote_ip('127.0.0.1/8', '::1')",
        "client_ip('127.0.0.1')",
        "vars({'v': ['x', 'val']})",
        "vars_regexp('x', 'v', '^(v)al$')",
        "vars({'\\{http.request.method}': 'GET'})",
        "file({'root': '/etc', 'try_files': ['passwd']})",
        "{http.request.method} == \"GET\"",
        "'GET' == {http.request.method}",
        "{http.request.method} != 'POST'",
        "{http.nonexistent} == null",
        "{http.vars.none} == null",
        "{http.vars.v} == 'val'",
        "{http.vars.v} + 'x' == 'valx'",
        "{http.vars.n} == 5",
        "{http.vars.n} > 4 && {http.vars.flag}",
        "{http.request.uri.query.none} == ''",
        "{http.request.header.none} == ''",
        "{http.request.header.X-A}.startsWith('o')",
        "{http.request.header.X-A}.endsWith('e')",
        "{http.request.header.X-A}.contains('n')",
        "{http.request.header.X-A}.matches('^o')",
        "({http.request.header.X-A} + 'x').matches('ex$')",
        "matches({http.request.header.X-A}, '^on')",
        "{http.request.cookie.none} == ''",
        "int({http.request.uri.query.q}) > 0",
        "{http.request.uri.query.q} in ['1', '2']",
        "!({http.request.uri.query.q} in ['2'])",
        "{http.request.remote.port} > 1000",
        "type({http.request.remote.port}) == int",
        "type({http.request.duration_ms}) == double",
        "{http.request.duration} < duration('1h')",
        "{time.now} > timestamp('2020-01-01T00:00:00Z')",
        "{time.now}.getFullYear() > 2000",
        "timestamp('2020-01-01T00:00:00Z').getHours('Europe/Berlin') == 1",
        "cel.bind(a, {http.request.method}, a == 'GET')",
        "[1, 2].exists(x, x == 2)",
        "[path('/a*'), host('x')].exists(x, x)",
        "[1, 2].map(x, x > 1, x * 2) == [4]",
        "[1, 2].filter(x, x > 1) == [2]",
        "{'a': 1}.exists(k, k == 'a') && has({'a': 1}.a)",
        "'a %s'.format(['b']) == 'a b'",
        "{http.request.uri.path}.split('/').size() == 3",
        "'abc'.replace('b', 'x') == 'axc'",
        "math.greatest(1, 2) == 2 && math.least([1, 2]) == 1",
        "lists.range(3) == [0, 1, 2]",
        "[2, 1].sortBy(x, x) == [1, 2]",
        "{http.request.method} == 'GET' ? path('/a*') : false",
        "1 / 0 == 1 || true",
        "!(1 / 0 == 1 && false)",
        "\"\\{http.request.method}\" == \"\\{http.request.method}\"",
        "true // to the end",
        // Placeholders in text sent by a client are never expanded.
        "{http.request.header.X-Evil} == '\\{env.HOME}'",
        "header({'X-Evil': {http.request.header.X-Evil}})",
    ] {
        assert_eq!(response(expr), Some(true), "{expr}");
    }
}

#[test]
fn expressions_that_do_not_hold() {
    for expr in [
        "false",
        "path('/b')",
        "path({http.request.uri.query.p})",
        "method('post')",
        "header({'X-A': 'two'})",
        "query({})",
        "file()",
        "{http.nonexistent} == ''",
        "{http.nonexistent} in ['a']",
        "{http.vars.none} == ''",
        "{http.request.cookie.none} == null",
        "{http.request.uri.query.q} == 1",
        "'{http.request.method}' == 'GET'",
        "{http.error.status_code} == 404",
        "{http.request.header.X-Evil} == 'SECRET'",
        "path('/b') && 1 / 0 == 1",
        "1 / 0 == 1 && path('/b')",
    ] {
        assert_eq!(response(expr), Some(false), "{expr}");
    }
}

#[test]
fn expressions_that_fail() {
    for expr in [
        "1 / 0 == 1",
        "[1, 2][5] == 1",
        "{http.request.uri.query.q} > 0",
        "int({http.request.uri.query.r}) > 0",
        "{http.nonexistent}.startsWith('a')",
        "!{http.request.method}",
        "has({http.request.method}.a)",
        "path('/a*') && 1 / 0 == 1",
        "1 / 0 == 1 || path('/b')",
    ] {
        assert_eq!(response(expr), None, "{expr}");
    }
}

#[test]
fn mistakes_are_found_where_they_are() {
    for (expr, at, message) in [
        (
            "{http.request.method} == ",
            25,
            "Syntax error: mismatched input 'the end'",
        ),
        ("'a' == 1", 4, "`==` does not take (string, int)"),
        (
            "1 + {a.b} == 'x' && 1 + 'a' == 2",
            22,
            "`+` does not take (int, string)",
        ),
        (
            "{http.request.host}",
            0,
            "the expression gives a dyn, not true or false",
        ),
        ("1", 0, "the expression gives a int, not true or false"),
        ("unknown(1)", 7, "unknown function `unknown`"),
        ("unknown == 1", 0, "unknown name `unknown`"),
        ("pth('/a')", 3, "unknown function `pth`"),
        ("path()", 4, "`path` has nothing to compare with"),
        ("path(['/a'])", 4, "`path` takes constant texts"),
        ("path(1)", 4, "`path` takes constant texts"),
        ("header('A')", 6, "`header` takes a map"),
        ("header({'A': 1})", 6, "`header` takes constant texts"),
        ("protocol('a', 'b')", 8, "`protocol` takes one text"),
        ("file({'bogus': 'x'})", 4, "`file` has no option `bogus`"),
        (
            "remote_ip('private')",
            9,
            "`private` is not an IP address or network",
        ),
        ("!1", 0, "`!` does not take (int)"),
        (
            "true ? 1 : false",
            5,
            "`?_:` does not take (bool, int, bool)",
        ),
        ("'x' in 'xyz'", 4, "`in` does not take (string, string)"),
        (
            "'a'.startsWith(1)",
            14,
            "`startsWith` of a string does not take (int)",
        ),
        ("req.method == 'GET'", 0, "the request has no fields here"),
        ("path_regexp('(')", 11, "regular expression `(`: "),
        ("'a'.matches('(')", 12, "regular expression `(`: "),
        (
            "{a.b}.matches({c.d})",
            14,
            "the pattern of `matches` is not constant",
        ),
        (
            "lists.range(100000) == [1]",
            11,
            "`lists.range` takes a number up to 10000",
        ),
        ("'a'.path('b')", 8, "`path` is called on nothing"),
        ("optional.of(1) == 1", 0, "unknown name `optional`"),
    ] {
        let mistake = check(expr).expect_err(expr);
        assert!(mistake.message.starts_with(message), "{expr}: {mistake:?}");
        assert_eq!(mistake.at, at, "{expr}: {mistake:?}");
    }
}

#[test]
fn a_near_miss_is_guessed() {
    assert_eq!(check("pth('/a')").unwrap_err().help, "did you mean `path`?");
}

#[test]
fn groups_are_named_after_the_matcher() {
    for (expr, name, group) in [
        ("path_regexp('^/(a)')", "own", "own"),
        ("path_regexp('other', '^/(a)')", "own", "other"),
        ("header_regexp('X-A', '^(o)') == true", "own", "own"),
    ] {
        let set = MatcherSet::new(compile(&named(expr, name)).unwrap());
        let found = with(|input| {
            assert!(set.matches(input).unwrap());
            let mut out = Vec::new();
            input.scratch.captured(Some(group), "1", &mut out);
            out
        });
        assert_eq!(found.len(), 1, "{expr}");
    }
}

#[test]
fn conjunctions_of_matchers_become_plain_matchers() {
    let lowered = |expr: &str| compile(&named(expr, "")).unwrap();
    let plain = lowered("path('/a*') && host('h') && !method('POST')");
    assert!(matches!(
        &plain[..],
        [Matcher::Path(_), Matcher::Host(_), Matcher::Not(_)]
    ));
    let mixed = lowered("path('/a*') && {http.request.uri.query.a} == '1'");
    assert!(matches!(&mixed[..], [Matcher::Path(_), Matcher::Hook(_)]));
    // The order of evaluation is observable, and a matcher set would change it.
    let traced = lowered("header_regexp('A', 'x') && path_regexp('y')");
    assert!(matches!(&traced[..], [Matcher::Hook(_)]));
    // Both may fail, and whether the request fails depends on which one is evaluated first.
    let failing = lowered("{a.b}.contains('x') && {c.d}.contains('y')");
    assert!(matches!(&failing[..], [Matcher::Hook(_)]));
    assert!(matches!(
        tree(&named("{a.b} in ['x']", "")),
        Ok(Node::Text(_))
    ));
}

#[test]
fn hostile_expressions_are_refused_or_end_in_time() {
    let long = |piece: &str, end: &str| {
        let mut text = piece.repeat((EXPRESSION_BYTES_MAX - end.len()) / piece.len());
        text.push_str(end);
        text
    };
    for text in [
        long("(", ""),
        long("[", ""),
        long("!", "true"),
        long("-", "1 == 1"),
        long("1+", "1 == 1"),
        long("a.", "b"),
        long("true ? ", "1"),
        long("{'a':", "1"),
        long("path('/a')&&", "true"),
        long("path('/a')||", "true"),
        long("[1].all(x, ", "true"),
        long("\"", ""),
        long("{a.b}", ""),
        "x".repeat(EXPRESSION_BYTES_MAX + 1),
    ] {
        let _: Result<_, _> = check(&text);
    }
    assert!(check(&"[0].all(x, ".repeat(5)).is_err());
    let nested = format!(
        "{}true{}",
        "(true && ".repeat(EXPRESSION_DEPTH_MAX),
        ")".repeat(EXPRESSION_DEPTH_MAX)
    );
    assert!(check(&nested).is_err());
}

#[test]
fn loops_have_a_budget() {
    let range = "lists.range(1000)";
    assert_eq!(response(&format!("{range}.all(a, a >= 0)")), Some(true));
    let nested = format!("{range}.all(a, {range}.all(b, b >= 0))");
    assert_eq!(response(&nested), None);
    let five = "[1].all(a, [1].all(b, [1].all(c, [1].all(d, [1].all(e, true)))))";
    assert!(
        check(five)
            .unwrap_err()
            .message
            .starts_with("more than 4 loops")
    );
    assert_eq!(
        response("lists.range(9000).map(x, 'aaaaaaaaaa').join('').replace('a', 'bb').size() > 0"),
        None
    );
}

/// A seeded pseudorandom number generator (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }
}

/// Conditions that are true, that are false, that have side effects, and that fail.
const ATOMS: [&str; 14] = [
    "path('/a/*')",
    "path('/b')",
    "host('example.com')",
    "method('POST')",
    "path_regexp('x', '^/(a)')",
    "header_regexp('X-A', '^(t)')",
    "header({'X-A': 'one'})",
    "query({'q': '2'})",
    "true",
    "false",
    "{http.request.method} == 'GET'",
    "{http.request.header.X-A}.startsWith('z')",
    "{http.nonexistent}.contains('a')",
    "1 / 0 == 1",
];

fn random_condition(random: &mut Random, depth: usize) -> String {
    let part = |random: &mut Random| random_condition(random, depth - 1);
    match random.below(if depth == 0 { 1 } else { 6 }) {
        0 | 1 => ATOMS[random.below(ATOMS.len())].to_owned(),
        2 => format!("!({})", part(random)),
        3 => format!("({} ? {} : {})", part(random), part(random), part(random)),
        4 => format!("({} || {})", part(random), part(random)),
        _ => format!("({} && {})", part(random), part(random)),
    }
}

#[test]
fn lowered_conditions_decide_as_the_tree_does() {
    let seed = 0x5eed_ce11;
    let mut random = Random(seed);
    for _ in 0..2_000 {
        let condition = random_condition(&mut random, 4);
        println!("seed {seed:#x}: {condition}");
        // `response` compares the tree and its lowered form; `exists` forces the evaluator of `cel`, which does not use
        // our tree.
        let ours = response(&condition);
        let theirs = response(&format!("[0].exists(x, {condition})"));
        assert_eq!(ours, theirs, "seed {seed:#x}: {condition}");
    }
}

#[test]
fn comparisons_of_texts_decide_as_the_evaluator_does() {
    let seed = 0x7e57_ce11;
    let mut random = Random(seed);
    let names = [
        "method",
        "header.X-A",
        "header.none",
        "uri.query.q",
        "cookie.none",
        "remote.port",
        "uri.path",
    ];
    let texts = ["", "GET", "one", "on", "e", "1", "/a/b.html", "40000", "n"];
    for _ in 0..1_000 {
        let name = format!("{{http.request.{}}}", names[random.below(names.len())]);
        let text = texts[random.below(texts.len())];
        let of = |value: &str, kind: usize| match kind {
            0 => format!("{value} == '{text}'"),
            1 => format!("'{text}' != {value}"),
            2 => format!("{value} in ['{text}', 'x']"),
            3 => format!("{value}.startsWith('{text}')"),
            4 => format!("{value}.endsWith('{text}')"),
            _ => format!("{value}.contains('{text}')"),
        };
        let kind = random.below(6);
        let (quick, slow) = (of(&name, kind), of(&format!("dyn({name})"), kind));
        assert_eq!(response(&quick), response(&slow), "seed {seed:#x}: {quick}");
    }
}
