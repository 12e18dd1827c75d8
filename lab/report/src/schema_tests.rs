//! The published schema of results (`docs/lab/result.schema.json`, JSON Schema 2020-12) against a result that has every
//! field.

use serde_json::{Map, Value, json};

use super::example;

const SCHEMA: &str = include_str!("../../../docs/lab/result.schema.json");

/// The keywords of JSON Schema that this test supports; it fails on any other, so that nothing is ignored silently.
const KNOWN: [&str; 19] = [
    "$schema",
    "$id",
    "$comment",
    "$defs",
    "$ref",
    "title",
    "description",
    "type",
    "properties",
    "required",
    "items",
    "prefixItems",
    "minItems",
    "additionalProperties",
    "enum",
    "const",
    "oneOf",
    "anyOf",
    "minimum",
];

/// Violations of the schema in `value`, with their paths. Fields that the schema does not name are violations here,
/// although readers ignore them.
fn mistakes(root: &Value, schema: &Value, value: &Value, place: &str, found: &mut Vec<String>) {
    let Some(rules) = schema.as_object() else {
        return;
    };
    for keyword in rules.keys().filter(|keyword| *keyword != "contentEncoding") {
        assert!(
            KNOWN.contains(&keyword.as_str()),
            "`{keyword}` is not checked here"
        );
    }
    if let Some(name) = rules.get("$ref").and_then(Value::as_str) {
        let target = root
            .pointer(name.trim_start_matches('#'))
            .unwrap_or_else(|| panic!("{name} is nowhere"));
        return mistakes(root, target, value, place, found);
    }
    for (keyword, one) in [("oneOf", true), ("anyOf", false)] {
        if let Some(choices) = rules.get(keyword).and_then(Value::as_array) {
            let fits = |choice: &&Value| {
                let mut inner = Vec::new();
                mistakes(root, choice, value, place, &mut inner);
                inner.is_empty()
            };
            let count = choices.iter().filter(fits).count();
            if count == 0 || one && count > 1 {
                found.push(format!("{place}: {count} of the choices fit"));
            }
        }
    }
    let expected = rules.get("const").is_none_or(|wanted| wanted == value);
    let listed = rules
        .get("enum")
        .and_then(Value::as_array)
        .is_none_or(|values| values.contains(value));
    if !expected || !listed || !has_type(rules, value) {
        found.push(format!("{place}: {value} does not fit"));
    }
    if let Some(fields) = value.as_object() {
        check_fields(root, rules, fields, place, found);
    }
    for (at, item) in value.as_array().into_iter().flatten().enumerate() {
        let own = rules
            .get("prefixItems")
            .and_then(|items| items.get(at))
            .or_else(|| rules.get("items"));
        match own {
            Some(Value::Bool(false)) => found.push(format!("{place}[{at}]: one too many")),
            Some(schema) => mistakes(root, schema, item, &format!("{place}[{at}]"), found),
            None => {}
        }
    }
}

fn has_type(rules: &Map<String, Value>, value: &Value) -> bool {
    match rules.get("type").and_then(Value::as_str) {
        None => true,
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        Some("number") => value.is_number(),
        Some("integer") => value.is_u64() || value.is_i64() && !rules.contains_key("minimum"),
        Some(other) => panic!("type `{other}`"),
    }
}

fn check_fields(
    root: &Value,
    rules: &Map<String, Value>,
    fields: &Map<String, Value>,
    place: &str,
    found: &mut Vec<String>,
) {
    for name in rules
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        if !fields.contains_key(name.as_str().unwrap_or_default()) {
            found.push(format!("{place}: no {name}"));
        }
    }
    for (name, value) in fields {
        let place = format!("{place}.{name}");
        match (
            rules.get("properties").and_then(|p| p.get(name)),
            rules.get("additionalProperties"),
        ) {
            (Some(schema), _) | (None, Some(schema)) => {
                mistakes(root, schema, value, &place, found)
            }
            (None, None) if rules.contains_key("properties") => {
                found.push(format!("{place} is not in the schema"));
            }
            // Alternatives name the fields themselves.
            (None, None) => {}
        }
    }
}

fn check(value: &Value) -> Vec<String> {
    let schema: Value = serde_json::from_str(SCHEMA).expect("the schema is JSON");
    let mut found = Vec::new();
    mistakes(&schema, &schema, value, "result", &mut found);
    found
}

#[test]
fn results_follow_the_published_schema() {
    let result = serde_json::to_value(example::result()).unwrap();
    assert_eq!(check(&result), Vec::<String>::new());
}

/// What searches add to a result.
fn fill_searches(result: &mut sluice_load::result::RunResult) {
    result.overload.push(sluice_load::result::Overload {
        steps: vec![sluice_load::result::OverloadStep {
            goodput: Some(0.9),
            p99_ns: Some(5e7),
            recovery_s: Some(0.1),
            faults: vec!["latency".into()],
            disturbed: true,
            ..Default::default()
        }],
        ..Default::default()
    });
    result.limits.push(sluice_load::result::RateLimit {
        tried: vec![sluice_load::result::RateTried {
            per_s: 5.0,
            broken: Some("p99 70 ms".into()),
        }],
        ..Default::default()
    });
}

/// Every field of every type is present, so a field added without its entry in the schema is found.
#[test]
fn the_schema_names_every_field() {
    let mut result = example::result();
    let block = &mut result.cells[0].blocks[0];
    block.ready_s = Some(0.2);
    block.rest = Some(sluice_load::result::Rest {
        idle: Some(true),
        busy: Some(0.1),
        ..Default::default()
    });
    block.log = vec!["a line".into()];
    block.load.due = Some(7);
    (block.load.warmup_ok, block.load.asked.warmup_requests) = (Some(5), Some(5));
    block.load.engine.version = Some("1".into());
    block.load.engine.raw = Some("text".into());
    block.load.asked.mode = sluice_load::result::Mode::Open {
        rate: 5.0,
        poisson: true,
    };
    block.load.latency.service = Some(Default::default());
    block.load.latency.wait = Some(Default::default());
    block.load.latency.connect = Some(Default::default());
    block.load.connections.key = Some("RSA".into());
    block.load.connections.resumed = Some(1);
    if let Some(resources) = &mut block.resources {
        resources.subject.disk_read_bytes = Some(1);
        resources.subject.disk_write_bytes = Some(2);
        resources.system.network_bytes = Some(3);
        resources.system.loopback_bytes = Some(4);
        resources.backend_system = Some(Default::default());
    }
    block.load.interrupted = true;
    block.load.parts.push(sluice_load::result::LoadPart {
        weight: 1,
        ..Default::default()
    });
    block.load.phases.push(Default::default());
    block.load.sessions.push(sluice_load::result::LoadSession {
        weight: 1,
        ..Default::default()
    });
    block.load.machines.push(sluice_load::result::LoadMachine {
        rate: Some(5.0),
        ..Default::default()
    });
    block.load.asked.scenario = Some("shop".into());
    block.load.held = Some(sluice_load::result::HeldConnections {
        open_before_load: Some(5),
        rss_without_bytes: Some(1),
        rss_with_bytes: Some(2),
        lost: vec![(sluice_load::result::FailureClass::Reset, 1)],
        ..Default::default()
    });
    block.tries.push(Default::default());
    result.cells[0].failed_starts.push(Default::default());
    result.upstream_machine = Some(result.machine.clone());
    result.layout = Some("servers on a; load on b".into());
    fill_searches(&mut result);
    let value = serde_json::to_value(&result).unwrap();
    assert_eq!(check(&value), Vec::<String>::new());
    for state in [
        json!({"is": "pending"}),
        json!({"is": "skipped", "reason": "too large"}),
    ] {
        let mut other = value.clone();
        other["cells"][0]["state"] = state;
        assert_eq!(check(&other), Vec::<String>::new());
    }
}

#[test]
fn other_files_are_not_results() {
    let good = serde_json::to_value(example::result()).unwrap();
    let changed = |place: &str, value: Value| {
        let mut bad = good.clone();
        *bad.pointer_mut(place).unwrap() = value;
        check(&bad).len()
    };
    assert_eq!(changed("/schema", json!("sluice.lab/2")), 1);
    assert_eq!(changed("/seed", json!(-1)), 1);
    assert_eq!(changed("/cells/0/state", json!({"is": "perhaps"})), 1);
    assert_eq!(changed("/cells/0/blocks/0/load/ok", json!("many")), 1);
    assert_eq!(
        check(&json!({"schema": "sluice.lab/1", "surprise": 1}))
            .iter()
            .filter(|m| m.contains("surprise"))
            .count(),
        1
    );
}
