use serde_json::{Value, json};

use super::super::json::JsonWriter;
use super::*;

fn build(fields: &Value) -> Result<Filters, (String, String)> {
    let fields: std::collections::BTreeMap<String, RawModule> =
        serde_json::from_value(fields.clone()).expect("fields with filters");
    Filters::build(&fields)
}

fn filtered(fields: &Value, line: &Value) -> Value {
    let filters = build(fields).expect("they are filters");
    let Node::Object(mut members) = Node::from(line.clone()) else {
        panic!("a line is an object");
    };
    filters.apply(&mut members);
    let mut out = Vec::new();
    Node::Object(members).write(&mut JsonWriter::new(&mut out, false));
    serde_json::from_slice(&out).expect("it is JSON")
}

#[test]
fn filters_reach_into_objects_and_lists() {
    let fields = json!({
        "request>headers>Authorization": {"filter": "delete"},
        "request>headers>X-Multi": {"filter": "regexp", "regexp": "[0-9]+", "value": "N"},
        "request>remote_ip": {"filter": "ip_mask", "ipv4_cidr": 16, "ipv6_cidr": 32},
        "request>host": {"filter": "hash"},
        "request>headers>X-List>0": {"filter": "delete"},
        "size": {"filter": "replace", "value": "big"},
        "status": {"filter": "hash"},
        "user_id": {"filter": "rename", "name": "user"},
        "missing>field": {"filter": "delete"},
    });
    let line = json!({
        "request": {"remote_ip": "127.0.0.1", "host": "localhost:41079", "headers": {
            "Authorization": ["secret"], "X-Multi": ["one", "two 1234"], "X-List": ["a"]}},
        "size": 2, "status": 200, "user_id": ""});
    assert_eq!(
        filtered(&fields, &line),
        json!({
            "request": {"remote_ip": "127.0.0.0", "host": hash("localhost:41079"), "headers": {
                "X-Multi": ["one", "two N"], "X-List": ["a"]}},
            "size": "big", "status": 200, "user": ""})
    );
}

#[test]
fn a_filter_of_the_whole_has_it_to_itself() {
    let fields = json!({
        "request": {"filter": "hash"},
        "request>method": {"filter": "delete"},
    });
    let line = json!({"request": {"method": "GET"}});
    assert_eq!(filtered(&fields, &line), line);
}

#[test]
fn parameters_of_a_url_change() {
    // The expected texts are the output of Caddy 2.11.4.
    let fields = json!({"uri": {"filter": "query", "actions": [
        {"type": "replace", "parameter": "token", "value": "Y"},
        {"type": "replace", "parameter": "missing", "value": "Z"},
        {"type": "delete", "parameter": "a"}]}});
    for (uri, expected) in [
        (
            "/a?token=abc&b=%20x+y&x=1&y=2&bad%zz&y=3&&empty=#frag",
            "/a?b=+x+y&empty=&token=Y&x=1&y=2&y=3#frag",
        ),
        ("http://u:p@h/p?a=1&b=2#f", "http://u:p@h/p?b=2#f"),
        ("notaurl?a=1", "notaurl"),
        ("/none", "/none"),
    ] {
        assert_eq!(
            filtered(&fields, &json!({ "uri": uri })),
            json!({ "uri": expected })
        );
    }
}

#[test]
fn cookies_change() {
    let fields = json!({"Cookie": {"filter": "cookie", "actions": [
        {"type": "replace", "name": "a", "value": "X"},
        {"type": "delete", "name": "b"},
        {"type": "hash", "name": "sess"}]}});
    let line = json!({"Cookie": ["a=1; sess=\"sec ret\"; b=2; bad"]});
    // The output of Caddy 2.11.4.
    assert_eq!(
        filtered(&fields, &line),
        json!({"Cookie": ["a=X; sess=\"16be037f\"; bad="]})
    );
}

#[test]
fn addresses_lose_bits_wherever_they_stand() {
    let fields = json!({"ip": {"filter": "ip_mask", "ipv4_cidr": 8, "ipv6_cidr": 32}});
    for (text, expected) in [
        ("10.1.2.3", "10.0.0.0"),
        (
            "10.1.2.3, 2001:db8:1:2::5, foo",
            "10.0.0.0, 2001:db8::, foo",
        ),
        ("10.9.8.7,10.1.1.1", "10.0.0.0, 10.0.0.0"),
        ("10.1.2.3:80", "10.0.0.0:80"),
        ("[2001:db8:ffff::1]:443", "[2001:db8::]:443"),
        ("no:address", "no:address"),
    ] {
        assert_eq!(
            filtered(&fields, &json!({ "ip": text })),
            json!({ "ip": expected })
        );
    }
    let nothing_stays = json!({"ip": {"filter": "ip_mask"}});
    assert_eq!(
        filtered(&nothing_stays, &json!({"ip": "10.1.2.3,2001:db8::1"})),
        json!({"ip": "0.0.0.0, ::"})
    );
}

#[test]
fn expressions_are_applied_one_after_the_other() {
    let fields = json!({"m": {"filter": "multi_regexp", "operations": [
        {"regexp": "one", "value": "ONE"},
        {"regexp": "ONE", "value": "two"},
        {"regexp": "t(w)o", "value": "${1}2"}]}});
    assert_eq!(
        filtered(&fields, &json!({"m": ["one", "two 1234"]})),
        json!({"m": ["w2", "w2 1234"]})
    );
}

#[test]
fn what_is_no_filter_is_refused_with_its_path() {
    for (filter, problem) in [
        (json!({"filter": "blur"}), "`blur` is none of delete"),
        (
            json!({"filter": "regexp", "regexp": "("}),
            "`(` is not a regular expression",
        ),
        (
            json!({"filter": "ip_mask", "ipv4_cidr": 33}),
            "33 is not a number of bits up to 32",
        ),
        (json!({"filter": "rename"}), "missing field `name`"),
        (
            json!({"filter": "cookie", "actions": [{"type": "eat", "name": "a"}]}),
            "`eat` is none of",
        ),
    ] {
        let (path, found) = build(&json!({"a>b": filter})).expect_err("it is no filter");
        assert_eq!(path, "a>b");
        assert!(found.contains(problem), "{found}");
    }
}
