//! Inheritance of every directive that a location may have: an empty location has the same settings as one that repeats
//! the directive of the enclosing block.

use std::collections::BTreeSet;

use serde_json::Value;
use sluice_nginx::registry::{self, Context};
use sluice_nginx::{MemoryLoader, adapt};

mod examples;
use examples::{Example, Passes};

/// What examples name: zones, a group, a page for each variable.
const HTTP: &str = "\
    limit_req_zone $arg_k zone=requests:1m rate=1r/s; limit_conn_zone $arg_k zone=clients:1m;\n\
    proxy_cache_path /pa keys_zone=a:1m; proxy_cache_path /pb keys_zone=b:1m;\n\
    fastcgi_cache_path /fa keys_zone=a:1m; fastcgi_cache_path /fb keys_zone=b:1m;\n\
    scgi_cache_path /sa keys_zone=a:1m; scgi_cache_path /sb keys_zone=b:1m;\n\
    uwsgi_cache_path /ua keys_zone=a:1m; uwsgi_cache_path /ub keys_zone=b:1m;\n\
    upstream group { server 127.0.0.1:1; server 127.0.0.1:2; }\n\
    charset_map koi8-r utf-8 { 80 E282AC; } charset_map windows-1251 utf-8 { 80 E282AC; }\n";

/// The model of a text.
fn model(text: &str) -> Result<Value, String> {
    let adapted = adapt("nginx.conf", text, &MemoryLoader::default());
    let Some(config) = adapted.config else {
        let said = adapted.report.short();
        return Err(format!("is refused:\n{text}\n{said}"));
    };
    Ok(serde_json::to_value(&config).expect("keys are text"))
}

/// The virtual server of a text.
fn server(text: &str) -> Result<Value, String> {
    let mut config = model(text)?;
    Ok(config["apps"]["http"]["servers"]["srv0"]["routes"][0]["handle"][0]["servers"][0].take())
}

/// The location `path` in a server, as it would be were its path `/?/`.
fn location(server: &Value, path: &str) -> Value {
    fn find<'v>(locations: &'v Value, path: &str) -> Option<&'v Value> {
        let all = locations["locations"].as_array()?;
        let mut found = all.iter().filter(|one| one["path"] == path);
        found
            .next()
            .or_else(|| all.iter().find_map(|one| find(one, path)))
    }
    let found = find(server, path).unwrap_or_else(|| panic!("{path} is there"));
    let text = found.to_string().replace(path, "/?/");
    serde_json::from_str(&text).expect("it was JSON")
}

/// The file with a directive in the blocks around `/o/in/`, which has none itself, and in others.
fn file(example: &Example, of_http: &str, of_server: &str, of_outer: &str) -> String {
    let Example {
        beside,
        around,
        usual,
        ..
    } = example;
    let [first, second] = [example.line(0), example.line(1)];
    format!(
        "events {{}} http {{ {HTTP} {of_http}\nserver {{ server_name a.test; set $memcached_key $uri; {around} {of_server}\n\
         location /o/ {{ {of_outer}\n\
         location /o/in/ {{ {beside} }}\nlocation /o/wr/ {{ {beside} {first} }}\nlocation /o/rp/ {{ {beside} {second} }}\n\
         location /o/if/ {{ {beside} if ($arg_i) {{ }} }}\nlocation /o/le/ {{ {beside} limit_except GET {{ }} }}\n}}\n\
         location /p/ {{\nlocation /p/in/ {{ {beside} {usual} }}\nlocation /p/rp/ {{ {beside} {second} }}\n}}\n}}\n}}\n"
    )
}

fn contexts(name: &str) -> Vec<Context> {
    let entry = examples::entries().find(|entry| entry.name == name);
    let entry = entry.expect("it is one of them");
    let mut all = vec![Context::Http, Context::Server, Context::Location];
    all.retain(|context| entry.may_stand_in(*context));
    all
}

/// Whether the location inside has the settings of one that has them itself, where they stand in the block `from`.
fn from_block(example: &Example, from: Context, all: &[Context]) -> Result<(), String> {
    let level = all.iter().position(|context| *context == from);
    let of = |context: Context| match all.iter().position(|known| *known == context) {
        other if other == level => example.line(0),
        // What stands further out does not count.
        Some(_) if all.iter().position(|known| *known == context) < level => example.line(1),
        _ => String::new(),
    };
    let text = file(
        example,
        &of(Context::Http),
        &of(Context::Server),
        &of(Context::Location),
    );
    let server = server(&text)?;
    let at = |path| location(&server, path);
    let what = format!("is not inherited from {}", from.name());
    same(&what, &at("/o/in/"), &at("/o/wr/"))
}

/// Fails with what differs.
fn same(what: &str, found: &Value, expected: &Value) -> Result<(), String> {
    let Some((path, found, expected)) = difference(found, expected) else {
        return Ok(());
    };
    Err(format!("{what}: {path} is {found} and not {expected}"))
}

/// The first difference of two values: where it is, and both values there.
fn difference(one: &Value, other: &Value) -> Option<(String, Value, Value)> {
    let inside = |(key, one, other): (String, &Value, &Value)| {
        let (path, one, other) = difference(one, other)?;
        Some((format!(".{key}{path}"), one, other))
    };
    match (one, other) {
        (Value::Object(left), Value::Object(right)) if left.keys().eq(right.keys()) => {
            let mut pairs = left.iter().zip(right.values());
            pairs.find_map(|((key, one), other)| inside((key.clone(), one, other)))
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            let mut pairs = left.iter().zip(right).enumerate();
            pairs.find_map(|(at, (one, other))| inside((at.to_string(), one, other)))
        }
        _ => (one != other).then(|| (String::new(), one.clone(), other.clone())),
    }
}

/// What becomes of a directive of a location in the blocks inside of it.
fn in_blocks(example: &Example) -> Result<(), String> {
    let server = server(&file(example, "", "", &example.line(0)))?;
    let at = |path| location(&server, path);
    let (inherited, usual) = (at("/o/in/"), at("/p/in/"));
    let replaced = at("/o/rp/");
    same("is not replaced", &replaced, &at("/p/rp/"))?;
    let is_same = difference(&inherited, &usual).is_none();
    match example.passes {
        Passes::On | Passes::AsWritten(_) if is_same => {
            return Err("is as if it were not there".to_owned());
        }
        Passes::On | Passes::AsWritten(_) => {}
        Passes::NotOn(_) => same("is inherited", &inherited, &usual)?,
    }
    let is_two = example.values[0] != example.values[1];
    if is_two && difference(&at("/o/wr/"), &replaced).is_none() {
        return Err("has no effect".to_owned());
    }
    let (with_if, with_others) = (at("/o/if/"), at("/o/le/"));
    let place = &inherited["place"];
    same("is not inherited by `if`", &with_if["branches"][0], place)?;
    let others = &with_others["other_methods"]["place"];
    same("is not inherited by `limit_except`", others, place)
}

#[test]
fn every_directive_of_locations_has_an_example() {
    let known = examples::entries().chain(examples::of_servers());
    let known: BTreeSet<&str> = known.map(|entry| entry.name).collect();
    let without: Vec<&&str> = known
        .iter()
        .filter(|name| examples::find(name).is_none())
        .collect();
    assert!(without.is_empty(), "without an example: {without:?}");
    let named = examples::names();
    let strange: Vec<&String> = named
        .iter()
        .filter(|name| !known.contains(name.as_str()))
        .collect();
    assert!(
        strange.is_empty(),
        "no directives of locations: {strange:?}"
    );
    assert!(
        known.len() >= 375,
        "only {} directives were found",
        known.len()
    );
}

#[test]
fn locations_inherit_what_stands_around_them() {
    let mut failures = Vec::new();
    let names: BTreeSet<&str> = examples::entries().map(|entry| entry.name).collect();
    for name in &names {
        let example = examples::find(name).expect("each has one");
        let mut results = vec![in_blocks(&example)];
        if example.passes == Passes::On {
            let all = contexts(name);
            results.extend(all.iter().map(|from| from_block(&example, *from, &all)));
        }
        let wrong = results.into_iter().filter_map(Result::err);
        failures.extend(wrong.map(|wrong| format!("{name} {wrong}")));
    }
    println!("{} directives", names.len());
    assert!(
        failures.is_empty(),
        "{} failures:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// Whether a server has what stands in `http`, unless it has its own.
fn in_server(example: &Example) -> Result<(), String> {
    let certificate = ["ssl_certificate", "ssl_certificate_key"]
        .into_iter()
        .filter(|name| !example.name.starts_with(name) && !example.beside.contains(name))
        .map(|name| format!("{name} x; "));
    let beside = certificate.collect::<String>() + &example.beside;
    let of = |http: &str, server: &str| {
        model(&format!(
            "events {{}} http {{ {http} server {{ server_name a.test; listen 1 ssl; {beside} {server} }} }}"
        ))
    };
    let [first, second] = [example.line(0), example.line(1)];
    let written = of("", &first)?;
    same("is not inherited", &of(&first, "")?, &written)?;
    same("is not replaced", &of(&second, &first)?, &written)?;
    match difference(&of("", &second)?, &written) {
        None => Err("has no effect".to_owned()),
        Some(_) => Ok(()),
    }
}

#[test]
fn servers_inherit_what_stands_in_http() {
    let names: BTreeSet<&str> = examples::of_servers().map(|entry| entry.name).collect();
    let results = names.iter().filter_map(|name| {
        let example = examples::find(name).expect("each has one");
        in_server(&example)
            .err()
            .map(|wrong| format!("{name} {wrong}"))
    });
    let failures: Vec<String> = results.collect();
    assert!(
        failures.is_empty(),
        "{} failures:\n{}",
        failures.len(),
        failures.join("\n")
    );
}
