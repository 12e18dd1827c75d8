//! What scenario files may contain, and the messages about what they may not.

use super::*;
use sluice_load::generator::scenario::{Pace, Values};
use sluice_load::result::Mode;
use std::time::Duration;

/// Everything that a scenario can have.
const SHOP: &str = r#"
schema = "sluice.scenario/1"
name = "shop"
poisson = true
clients_max = 200

[headers]
Accept = "text/html"
X-User = "${user}"

[vars.user]
counter = [1, 1000]
[vars.word]
list = ["tea", "green tea"]
order = "random"
each = "request"
[vars.price]
random = [5, 10]

[[phase]]
name = "ramp"
duration = "10s"
rate = [0, 100]
[[phase]]
duration = "500ms"
rate = 1000

[[session]]
name = "buyer"
weight = 3
new_connection = true
[[session.step]]
path = "/search?q=${word}"
think = ["1s", "3s"]
expect = { headers = { Content-Type = "text/html", ETag = "" } }
[[session.step]]
name = "buy"
path = "/cart"
headers = { Accept = "application/json" }
body = '{"user": ${user}, "price": "$$${price}"}'
expect = { status = 201, length = 2 }

[[request]]
path = "/"
method = "HEAD"
think = "100ms"
"#;

fn parse_shop(text: &str) -> Result<Scenario, String> {
    parse("shop.toml", text, Path::new("."))
}

#[test]
fn a_scenario_is_read_with_all_its_parts() {
    let scenario = parse_shop(SHOP).unwrap();
    let open = Pace::Sessions {
        clients_max: 200,
        poisson: true,
    };
    assert_eq!(scenario.pace, open);
    assert_eq!(scenario.duration(), Duration::from_millis(10_500));
    assert_eq!(
        (scenario.phases[0].from, scenario.phases[0].to),
        (0.0, 100.0)
    );
    assert_eq!(scenario.phases[1].name, "phase 2");
    // 1,000 sessions, of which three of four have two steps, in 10.5 s.
    let Mode::Open { rate, .. } = scenario.mode() else {
        panic!("{:?}", scenario.mode());
    };
    assert!((rate - 1_000.0 * 1.75 / 10.5).abs() < 1e-6, "{rate}");
    let [buyer, request] = &scenario.sessions[..] else {
        panic!("{:?}", scenario.sessions);
    };
    assert!(buyer.cookies && buyer.new_connection && !request.cookies);
    assert_eq!((buyer.weight, request.weight), (3, 1));
    let [search, buy] = &buyer.steps[..] else {
        panic!("{:?}", buyer.steps);
    };
    assert_eq!(search.name, "GET /search?q=${word}");
    let think = [search.think_min, search.think_max].map(|time| time.as_secs());
    assert_eq!(think, [1, 3]);
    assert_eq!(search.expect.headers.len(), 2);
    assert_eq!((buy.method.as_str(), buy.expect.status), ("POST", 201));
    let names: Vec<&str> = buy.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["X-User", "Accept"]);
    let at = |name: &str| {
        let mut variables = scenario.variables.iter();
        variables.position(|one| one.name == name).unwrap()
    };
    let mut values = vec![String::new(); 3];
    (values[at("user")], values[at("price")]) = ("7".into(), "9".into());
    assert_eq!(buy.body.fill(&values), r#"{"user": 7, "price": "$9"}"#);
    assert!(
        matches!(&scenario.variables[at("word")].values, Values::Pick(list) if list.len() == 2)
    );
    assert_eq!(request.steps[0].method, "HEAD");
}

#[test]
fn all_mistakes_are_reported_at_once_with_their_places() {
    let wrong = SHOP
        .replace("duration = \"500ms\"", "duration = \"500 days\"")
        .replace("rate = 1000", "clients = 5")
        .replace("counter = [1, 1000]", "counter = [9, 1]")
        .replace("q=${word}", "q=${wrod}")
        .replace("path = \"/cart\"", "path = \"http://a/cart\"")
        .replace("[\"1s\", \"3s\"]", "[\"3s\", \"1s\"]");
    let error = parse_shop(&wrong).unwrap_err();
    let lines: Vec<&str> = error.lines().collect();
    let expected = [
        ("shop.toml:11:", "9 is above 1"),
        ("shop.toml:26:", "the first phase has a `rate`"),
        ("shop.toml:33:", "no variable `wrod`"),
        ("shop.toml:34:", "shortest think time comes first"),
        ("shop.toml:38:", "a path begins with `/`"),
    ];
    assert_eq!(lines.len(), expected.len(), "{error}");
    for (line, (place, part)) in lines.iter().zip(expected) {
        assert!(line.starts_with(place) && line.contains(part), "{line}");
    }
}

/// A replacement in the scenario, and a part of the message; empty if the result is right.
const CASES: [(&str, &str, &str); 30] = [
    (
        "sluice.scenario/1",
        "sluice.lab/1",
        "this version reads `sluice.scenario/1`",
    ),
    ("name = \"shop\"", "name = \"\"", "the name is empty"),
    ("[[phase]]\nduration = \"500ms\"\nrate = 1000", "", ""),
    ("rate = 1000", "rate = -5", "`-5` is not a rate from 0"),
    ("rate = 1000", "", "needs `clients` (closed loop) or `rate`"),
    (
        "rate = 1000",
        "rate = 5\nclients = 5",
        "either `clients` or `rate`",
    ),
    ("\"500ms\"", "\"0s\"", "longer than 0 s"),
    ("\"500ms\"", "\"500h\"", "longer than 24 hours"),
    ("clients_max = 200", "clients_max = 0", "from 1 to 100000"),
    ("weight = 3", "weight = 0", "a weight is a number"),
    ("weight = 3", "weight = 999999", "the weights add up to"),
    (
        "random = [5, 10]",
        "random = [5, 10]\nlist = []",
        "needs one of",
    ),
    ("random = [5, 10]", "list = []", "the list is empty"),
    (
        "random = [5, 10]",
        "random = [5, 10]\norder = \"random\"",
        "`order` applies",
    ),
    ("vars.price", "vars.\"pr ice\"", "names of variables"),
    (
        "Accept = \"text/html\"",
        "Host = \"a\"",
        "`Host` follows from",
    ),
    (
        "Accept = \"text/html\"",
        "Cookie = \"a=b\"",
        "add `cookies = false`",
    ),
    (
        "Accept = \"text/html\"",
        "\"A b\" = \"c\"",
        "invalid header name `A b`",
    ),
    ("Accept = \"text/html\"", "Accept = \"a\\nb\"", "line break"),
    (
        "method = \"HEAD\"",
        "method = \"HE AD\"",
        "cannot be sent as a method",
    ),
    ("think = \"100ms\"", "think = \"100\"", ""),
    (
        "think = \"100ms\"",
        "think = \"soon\"",
        "unknown unit of time `soon`",
    ),
    ("status = 201", "status = 99", "from 200 to 599"),
    (
        "status = 201",
        "status = 201, body = \"x\"",
        "has a length already",
    ),
    ("length = 2", "length = -2", "not negative"),
    (
        "name = \"buy\"",
        "name = \"buy\"\nbody_file = \"x\"",
        "either `body` or `body_file`",
    ),
    (
        "method = \"HEAD\"",
        "body_file = \"absent.txt\"",
        "absent.txt: No such file",
    ),
    (
        "method = \"HEAD\"",
        "metod = \"HEAD\"",
        "unknown field `metod`",
    ),
    ("\"/search?q=${word}\"", "\"/a b\"", "percent-encoded"),
    ("\"/search?q=${word}\"", "\"/a${word\"", "without `}`"),
];

#[test]
fn each_mistake_is_named() {
    for (from, to, part) in CASES {
        let text = SHOP.replacen(from, to, 1);
        assert_ne!(text, SHOP, "{from}");
        match parse_shop(&text) {
            Ok(_) => assert_eq!(part, "", "{from} -> {to}"),
            Err(error) => {
                assert!(!part.is_empty() && error.contains(part), "{part}: {error}");
                let place = error.trim_start_matches("shop.toml:");
                assert!(place.starts_with(|c: char| c.is_ascii_digit()), "{error}");
            }
        }
    }
}

#[test]
fn clients_are_whole_numbers_and_set_by_their_phases() {
    let closed = SHOP
        .replace("poisson = true\nclients_max = 200\n", "")
        .replace("rate = [0, 100]", "clients = [1, 20]")
        .replace("rate = 1000", "clients = 5");
    let scenario = parse_shop(&closed).unwrap();
    assert_eq!((scenario.pace, scenario.clients_max()), (Pace::Clients, 20));
    assert_eq!(scenario.mode(), Mode::Closed);
    let half = closed.replace("clients = 5", "clients = 5.5");
    let error = parse_shop(&half).unwrap_err();
    assert!(error.contains("`5.5` is not a whole number"), "{error}");
    let both = closed.replace("name = \"shop\"", "name = \"shop\"\nclients_max = 9");
    let error = parse_shop(&both).unwrap_err();
    assert!(
        error.contains("`clients_max` applies to phases with `rate`"),
        "{error}"
    );
    let none = closed
        .replace("clients = [1, 20]", "clients = 0")
        .replace("clients = 5", "clients = 0");
    assert!(
        parse_shop(&none)
            .unwrap_err()
            .contains("no phase has a level above 0")
    );
}

#[test]
fn many_mistakes_are_cut_off() {
    let step = "[[request]]\npath = \"no\"\n".repeat(MISTAKES + 5);
    let text = SHOP.replace("[[request]]\n", &format!("{step}[[request]]\n"));
    let error = parse_shop(&text).unwrap_err();
    assert_eq!(error.lines().count(), MISTAKES + 1);
    assert!(error.ends_with("5 more mistakes"), "{error}");
}

const MISTAKES: usize = crate::limits::MISTAKES_MAX;
