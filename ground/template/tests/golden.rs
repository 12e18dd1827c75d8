//! Templates with the output of Caddy 2.11, or its rejection.

use std::path::Path;

use sluice_template::Value;

use crate::support;

/// What is known to differ, with the reason.
const DIFFERENT: &[(&str, &str)] = &[
    (
        r#"{{printf "%t" 1}} {{printf "%s" true}} {{printf "%v" true}} {{printf "%5t" true}} {{printf "%x" 3.5}}"#,
        "nobody shows a float in hexadecimal on a page",
    ),
    (
        r#"{{duration 95}} {{duration "3700"}} {{duration "x"}} {{duration 0}}"#,
        "Sprig takes the type int for no number of seconds",
    ),
    (
        r#"{{durationRound "2h10m5s"}} {{durationRound "400h"}} {{durationRound "8800h"}} {{durationRound "800h"}} {{durationRound "1ms"}} {{durationRound 5000000000}}"#,
        "Sprig takes the type int for no span of time",
    ),
    (
        "{{until 1.0}} {{int64 5 | until}}",
        "Go has `int` and `int64` differ; here a whole number is one",
    ),
];

fn check(name: &str, count_min: usize) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    let text = std::fs::read_to_string(path).expect("the file is there");
    let mut failures = Vec::new();
    let mut count = 0;
    let text = format!("\n{text}");
    for case in text.split("\n=== ").skip(1) {
        let (status, rest) = case.split_once('\n').expect("a status stands first");
        let (template, expected) = rest
            .split_once("\n---\n")
            .expect("a line of dashes follows");
        // The last case ends with a newline that the others gave to their separator.
        let expected = if count + 1 == text.matches("\n=== ").count() {
            expected.strip_suffix('\n').unwrap_or(expected)
        } else {
            expected
        };
        count += 1;
        let dot = if template.starts_with("{{.x.y}}") {
            Value::Nil
        } else {
            Value::map([])
        };
        let written = support::write(template.as_bytes(), dot);
        let same = match &written {
            Ok(text) => status == "200" && text == expected.as_bytes(),
            Err(_) => status == "500",
        };
        let differs = DIFFERENT.iter().any(|(known, _)| *known == template);
        if same == differs {
            let shown = written.map(|text| String::from_utf8_lossy(&text).into_owned());
            failures.push(format!(
                "{template}\n  expected {status} {expected:?}\n  found    {shown:?}"
            ));
        }
    }
    assert!(count >= count_min, "the yardstick got shorter");
    assert!(
        failures.is_empty(),
        "{} of {count}:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[test]
fn the_language_is_that_of_go() {
    check("language.txt", 140);
}

#[test]
fn functions_give_what_those_of_sprig_give() {
    check("sprig.txt", 100);
}
