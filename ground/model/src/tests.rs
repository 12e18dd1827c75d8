//! Tests that read and write whole configurations.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;

use crate::matcher::Matcher;
use crate::{Config, ConfigError, Handler};

fn round_trip(text: &str) {
    let config = Config::from_json(text).unwrap();
    assert_eq!(config.to_json(), text);
}

#[test]
fn the_empty_configuration_is_an_empty_object() {
    assert_eq!(
        Config::default().to_json(),
        "{\"apps\":{}}".replace("\"apps\":{}", "")
    );
    assert_eq!(Config::from_json("null").unwrap(), Config::default());
    round_trip("{}");
}

#[test]
fn fields_are_written_in_the_order_of_the_documentation() {
    round_trip(
        r#"{"apps":{"http":{"servers":{"srv0":{"listen":[":443"],"routes":[{"match":[{"host":["a"]}],"handle":[{"handler":"subroute","routes":[{"handle":[{"body":"hi","handler":"static_response","status_code":404}],"match":[{"path":["/x"]}]}]}],"terminal":true}],"tls_connection_policies":[{}]}}},"tls":{"automation":{"policies":[{"subjects":["a"],"issuers":[{"module":"internal"}]}]}}}}"#,
    );
}

#[test]
fn unknown_handlers_survive_a_round_trip() {
    let text = r#"{"apps":{"http":{"servers":{"s":{"routes":[{"handle":[{"deep":{"x":[1,null]},"handler":"brew"}]}]}}}}}"#;
    round_trip(text);
    let config = Config::from_json(text).unwrap();
    let (_, server) = config.servers().next().unwrap();
    assert_eq!(server.routes[0].handle[0].module(), "brew");
    assert!(matches!(server.routes[0].handle[0], Handler::Other(_)));
}

fn shape_error(text: &str) -> (String, String) {
    match Config::from_json(text) {
        Err(ConfigError::Shape { path, message }) => (path, message),
        other => panic!("expected a shape error, got {other:?}"),
    }
}

#[test]
fn unknown_fields_are_errors_that_name_their_place() {
    let (path, message) = shape_error(r#"{"apps":{"http":{"servers":{"s":{"listn":[]}}}}}"#);
    assert_eq!(path, "apps.http.servers.s.listn");
    assert!(message.contains("unknown field `listn`"), "{message}");
}

#[test]
fn paths_reach_into_nested_handlers_and_matchers() {
    let (path, _) = shape_error(
        r#"{"apps":{"http":{"servers":{"s":{"routes":[{"handle":[{"handler":"subroute","routes":[{},{"handle":[{"handler":"static_response","bdy":1}]}]}]}]}}}}}"#,
    );
    assert_eq!(
        path,
        "apps.http.servers.s.routes[0].handle[0].routes[1].handle[0].bdy"
    );
    let (path, message) =
        shape_error(r#"{"apps":{"http":{"servers":{"s":{"routes":[{"match":[{"path":[1]}]}]}}}}}"#);
    assert_eq!(path, "apps.http.servers.s.routes[0].match[0].path[0]");
    assert!(message.contains("expected a string"), "{message}");
}

#[test]
fn a_handler_without_its_name_is_an_error() {
    let (path, message) =
        shape_error(r#"{"apps":{"http":{"servers":{"s":{"routes":[{"handle":[{}]}]}}}}}"#);
    assert_eq!(path, "apps.http.servers.s.routes[0].handle[0]");
    assert_eq!(message, "missing field `handler`");
}

#[test]
fn syntax_errors_have_a_place() {
    let error = Config::from_json("{\n  \"apps\": }").unwrap_err();
    assert!(
        matches!(
            error,
            ConfigError::Syntax {
                line: 2,
                column: 11,
                ..
            }
        ),
        "{error:?}"
    );
}

#[test]
fn nesting_is_bounded() {
    let deep = "[".repeat(100_000);
    assert!(matches!(
        Config::from_json(&deep),
        Err(ConfigError::Syntax { .. })
    ));
}

#[test]
fn numbers_beyond_all_bounds_are_refused() {
    for number in ["1e999999", "-1e999999", "99999999999999999999", "1e19"] {
        let text = format!(r#"{{"apps":{{"http":{{"http_port":{number}}}}}}}"#);
        assert!(Config::from_json(&text).is_err(), "{number}");
        let text = format!(r#"{{"apps":{{"http":{{"grace_period":{number}}}}}}}"#);
        assert!(Config::from_json(&text).is_err(), "{number}");
    }
}

#[test]
fn durations_come_as_numbers_or_texts() {
    let config = Config::from_json(r#"{"apps":{"http":{"grace_period":"1m30s"}}}"#).unwrap();
    assert_eq!(
        config.to_json(),
        r#"{"apps":{"http":{"grace_period":90000000000}}}"#
    );
    let (path, message) = shape_error(r#"{"apps":{"http":{"grace_period":"soon"}}}"#);
    assert_eq!(path, "apps.http.grace_period");
    assert_eq!(
        message,
        "invalid duration `soon`: expected a number at `soon`"
    );
}

#[test]
fn matchers_keep_absent_header_fields_apart_from_empty_ones() {
    let text = r#"{"apps":{"http":{"servers":{"s":{"routes":[{"match":[{"expression":{"expr":"true","name":"m"},"header":{"A":null,"B":["*"]},"not":[{"host":["x"]}]}]}]}}}}}"#;
    round_trip(text);
    let config = Config::from_json(text).unwrap();
    let (_, server) = config.servers().next().unwrap();
    let set = &server.routes[0].r#match[0];
    let Matcher::Header(fields) = &set.0[1] else {
        panic!("{set:?}")
    };
    assert_eq!(fields["A"], None);
    assert_eq!(fields["B"], Some(vec!["*".to_string()]));
}
