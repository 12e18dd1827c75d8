//! What a template must not be able to do: run, grow or recurse without limit.

use sluice_template::limits::{CALLS_MAX, NESTING_MAX, SOURCE_BYTES_MAX};
use sluice_template::{Fault, Value};

use crate::support;

fn fault(source: &str) -> Fault {
    match support::write(source.as_bytes(), Value::Nil) {
        Ok(written) => panic!("{} bytes were written", written.len()),
        Err(error) => error.fault,
    }
}

#[test]
fn loops_and_lists_end() {
    for source in [
        "{{range until 1000000000}}x{{end}}",
        "{{range 9000000000000000000}}x{{end}}",
        "{{range until 2000}}{{range until 2000}}{{end}}{{end}}",
        "{{seq 1 1 9000000000000000000}}",
        "{{untilStep 0 9000000000000000000 1}}",
        r#"{{repeat 1000000000 "x"}}"#,
        r#"{{repeat 9000000000000000000 "xx"}}"#,
        r#"{{$s := "x"}}{{range 64}}{{$s = cat $s $s}}{{end}}"#,
        r#"{{$s := "x"}}{{range 64}}{{$s = print $s $s}}{{end}}"#,
        r#"{{$s := "ab"}}{{range 64}}{{$s = replace "a" $s $s}}{{end}}"#,
        r#"{{$l := list 1}}{{range 64}}{{$l = concat $l $l}}{{end}}"#,
        r#"{{$d := dict}}{{range 100}}{{$d = dict "a" $d "b" $d}}{{end}}{{$d}}"#,
        r#"{{$d := dict}}{{range 90}}{{$d = dict "a" $d "b" $d}}{{end}}{{toJson $d}}"#,
        r#"{{$d := dict}}{{range 90}}{{$d = dict "a" $d "b" $d}}{{end}}{{deepCopy $d}}"#,
        r#"{{$d := dict}}{{range 90}}{{$d = dict "a" $d "b" $d}}{{end}}{{deepEqual $d (deepCopy $d)}}"#,
        r#"{{indent 1000000000 "a\nb"}}"#,
        r#"{{printf "%1000000000d" 1}}"#,
        r#"{{printf "%*d" 1000000000 1}}"#,
        r#"{{randAlpha 1000000000}}"#,
        r#"{{$s := repeat 100000 "a"}}{{regexReplaceAll "a" $s $s}}"#,
        r#"{{$s := repeat 100000 "a"}}{{regexReplaceAll "a+" $s (repeat 10000 "$0")}}"#,
        r#"{{regexMatch "a{1000}{1000}" "a"}}{{mustRegexMatch "((a{100}){100}){100}" "a"}}"#,
    ] {
        let fault = fault(source);
        let expected = matches!(fault, Fault::Limit(_))
            || (source.contains("mustRegexMatch") && matches!(fault, Fault::Failed(_)));
        assert!(expected, "{source}: {fault}");
    }
}

#[test]
fn templates_that_call_themselves_end() {
    let source = r#"{{define "a"}}{{template "a" .}}{{end}}{{template "a" 1}}"#;
    assert_eq!(
        fault(source),
        Fault::Limit("templates that call each other")
    );
    let depth = CALLS_MAX - 2;
    let source = format!(
        r#"{{{{define "a"}}}}{{{{if .}}}}{{{{template "a" (sub . 1)}}}}{{{{end}}}}{{{{end}}}}{{{{template "a" {depth}}}}}"#
    );
    assert!(support::write(source.as_bytes(), Value::Nil).is_ok());
}

#[test]
fn sources_have_a_size_and_a_depth() {
    let nested = "{{if 1}}".repeat(NESTING_MAX + 1);
    assert_eq!(fault(&nested), Fault::Limit("blocks within each other"));
    let parens = format!("{{{{{}1}}}}", "(".repeat(NESTING_MAX + 1));
    assert_eq!(fault(&parens), Fault::Limit("blocks within each other"));
    let chain = format!("{{{{if 0}}}}{}", "{{else if 0}}".repeat(NESTING_MAX + 1));
    assert_eq!(fault(&chain), Fault::Limit("blocks within each other"));
    let long = "x".repeat(SOURCE_BYTES_MAX + 1);
    assert_eq!(fault(&long), Fault::Limit("bytes of a template"));
    let dense = "{{.}}".repeat(SOURCE_BYTES_MAX / 5);
    assert_eq!(fault(&dense), Fault::Limit("steps of a template"));
    let names: String = (0..1_001)
        .map(|at| format!("{{{{$x{at} := 1}}}}"))
        .collect();
    assert_eq!(fault(&names), Fault::Limit("variables"));
    let values = format!("{{{{list {}}}}}", "1 ".repeat(300));
    assert_eq!(fault(&values), Fault::Limit("values of a function"));
}

#[test]
fn errors_contain_the_line() {
    for (source, line) in [
        ("a\nb\n{{foo}}", 3),
        ("a\n{{if true}}\n\n{{fail \"x\"}}{{end}}", 4),
        ("{{/* a\nb */}}\n{{index (list) 1}}", 3),
        ("{{if true}}\n\n", 3),
    ] {
        let error = support::write(source.as_bytes(), Value::Nil).unwrap_err();
        assert_eq!(error.line, line, "{source}: {error}");
    }
}

#[test]
fn waiting_streams_are_supplied() {
    let source = b"{{$x := later}}[{{$x | upper}}]{{range 2}}{{later | len}}{{end}}";
    let written = support::write(source, Value::Nil).unwrap();
    assert_eq!(written, b"[WAITED]66");
}

#[test]
fn bytes_outside_utf8_pass_through() {
    let source = b"\xe9{{$x := \"\xe9\"}}{{$x}}{{`\xff`}}";
    assert_eq!(support::write(source, Value::Nil).unwrap(), b"\xe9\xe9\xff");
}
