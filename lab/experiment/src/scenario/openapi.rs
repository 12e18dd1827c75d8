//! An OpenAPI 3 description in JSON or YAML as a scenario: each operation becomes a request with example values. Operations that
//! change data are omitted unless they are wanted.

use std::cell::Cell;
use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::document;
use super::write::{Written, WrittenStep, literal};
use crate::limits::SCHEMA_STEPS_MAX;

/// Methods of operations, and whether they change data.
const METHODS: [(&str, bool); 7] = [
    ("get", false),
    ("head", false),
    ("options", false),
    ("post", true),
    ("put", true),
    ("patch", true),
    ("delete", true),
];

/// Depth of references and of objects in generated bodies: schemas may contain themselves.
const DEPTH_MAX: usize = 8;

/// Whether operations that change data are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changes {
    /// They are omitted.
    Omit,
    /// They are taken.
    Take,
}

/// Converts a description called `source`.
pub fn convert(source: &str, text: &str, changes: Changes) -> Result<Written, String> {
    let failed = |error: &str| format!("{source}: {error}");
    let root = read(source, text)?;
    // YAML without quotes has a number here.
    let version = match (
        root.get("openapi").and_then(plain),
        root.get("swagger").and_then(plain),
    ) {
        (Some(version), _) => version,
        (None, Some(version)) => format!("Swagger {version}"),
        (None, None) => "none".to_string(),
    };
    if !version.starts_with("3.") {
        return Err(failed(&format!(
            "this is not an OpenAPI 3 description (version: {version})"
        )));
    }
    let paths = root.get("paths").and_then(Value::as_object);
    let paths = paths.ok_or_else(|| failed("no `paths`"))?;
    // In the order of their names, whether or not the map has that order: a feature of serde_json, which any package may enable.
    let paths: BTreeMap<&String, &Value> = paths.iter().collect();
    let mut reader = Reader {
        root: &root,
        base: base_path(&root),
        written: Written {
            source: source.to_string(),
            name: "api".into(),
            ..Written::default()
        },
    };
    for (path, item) in paths {
        let item = reader.resolve(item);
        for (method, is_change) in METHODS {
            let Some(operation) = item.get(method) else {
                continue;
            };
            if is_change && changes == Changes::Omit {
                let text = "operation that may change data; add --changes to take them";
                reader.written.omit(text);
                continue;
            }
            match reader.request(path, method, item, operation) {
                Ok(step) => reader.written.add(step),
                Err(reason) => reader.written.omit(reason),
            }
        }
    }
    for part in ["webhooks", "security"] {
        if root.get(part).is_some() {
            reader.written.omit(format!(
                "`{part}` of the description{}",
                if part == "security" {
                    "; add the header to [headers]"
                } else {
                    ""
                }
            ));
        }
    }
    match reader.written.steps.is_empty() {
        true => {
            let omissions = reader.written.omissions().join("; ");
            Err(failed(&format!(
                "no operation can be taken over ({omissions})"
            )))
        }
        false => Ok(reader.written),
    }
}

/// Reads JSON, or YAML by the name or the first character: a description is an object, which begins with a brace only in JSON.
fn read(source: &str, text: &str) -> Result<Value, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let is_yaml = source.ends_with(".yaml") || source.ends_with(".yml");
    match is_yaml || !text.trim_start().starts_with('{') {
        true => document::yaml(source, text),
        false => document::json(source, text),
    }
}

/// The path of the first server.
fn base_path(root: &Value) -> String {
    let server = root.pointer("/servers/0");
    let url = server
        .and_then(|server| server.get("url"))
        .and_then(Value::as_str);
    let mut url = url.unwrap_or_default().to_string();
    let variables = server.and_then(|server| server.get("variables"));
    for (name, variable) in variables.and_then(Value::as_object).into_iter().flatten() {
        let default = variable.get("default").and_then(Value::as_str);
        url = url.replace(&format!("{{{name}}}"), default.unwrap_or_default());
    }
    let path = match url.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("", |at| &rest[at..]),
        None => &url,
    };
    path.trim_end_matches('/').to_string()
}

struct Reader<'a> {
    root: &'a Value,
    base: String,
    written: Written,
}

impl<'a> Reader<'a> {
    /// What a local reference refers to; other values are returned as they are.
    fn resolve(&self, value: &'a Value) -> &'a Value {
        let mut value = value;
        for _ in 0..DEPTH_MAX {
            let Some(reference) = value.get("$ref").and_then(Value::as_str) else {
                return value;
            };
            let target = reference.strip_prefix('#');
            match target.and_then(|pointer| self.root.pointer(pointer)) {
                Some(found) => value = found,
                None => return &Value::Null,
            }
        }
        &Value::Null
    }

    /// The request of an operation; the error is the reason to omit it.
    fn request(
        &mut self,
        path: &str,
        method: &str,
        item: &'a Value,
        operation: &'a Value,
    ) -> Result<WrittenStep, String> {
        if operation.get("deprecated") == Some(&Value::Bool(true)) {
            return Err("deprecated operation".to_string());
        }
        let mut path = literal(path);
        let (mut query, mut headers) = (Vec::new(), Vec::new());
        for parameter in self.parameters(item, operation) {
            let text = |key: &str| {
                parameter
                    .get(key)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
            };
            let (name, place) = (text("name"), text("in"));
            let is_required = parameter.get("required") == Some(&Value::Bool(true));
            let has_example = parameter.get("example").is_some();
            if place != "path" && !is_required && !has_example {
                continue;
            }
            if place == "cookie" {
                return Err("operation that needs a cookie parameter".to_string());
            }
            let value = self.parameter_value(name, parameter);
            let value = value.ok_or_else(|| {
                format!("operation with a parameter `{name}` that needs a structured value")
            })?;
            match place {
                "path" => path = path.replace(&format!("{{{name}}}"), &value),
                "query" => query.push(format!("{}={value}", encoded(name))),
                _ => headers.push((name.to_string(), value)),
            }
        }
        if path.replace("${", "").contains('{') {
            return Err("operation whose path has a parameter without a description".to_string());
        }
        let body = self.body(operation)?;
        if !body.is_empty() {
            headers.push(("Content-Type".to_string(), "application/json".to_string()));
        }
        let query = match query.is_empty() {
            true => String::new(),
            false => format!("?{}", query.join("&")),
        };
        Ok(WrittenStep {
            method: method.to_ascii_uppercase(),
            path: format!("{}{path}{query}", literal(&self.base)),
            headers,
            body,
            think_ms: 0,
            status: status(operation),
        })
    }

    /// The parameters of a path, and of the operation, which replace those with the same names.
    fn parameters(&self, item: &'a Value, operation: &'a Value) -> Vec<&'a Value> {
        let mut all: Vec<&Value> = Vec::new();
        for holder in [item, operation] {
            let list = holder.get("parameters").and_then(Value::as_array);
            for parameter in list.into_iter().flatten() {
                let parameter = self.resolve(parameter);
                let same = |other: &&Value| {
                    ["name", "in"]
                        .iter()
                        .all(|key| other.get(key) == parameter.get(key))
                };
                all.retain(|other| !same(other));
                all.push(parameter);
            }
        }
        all
    }

    /// The value of a parameter: an example, or a variable if several are known.
    fn parameter_value(&mut self, name: &str, parameter: &'a Value) -> Option<String> {
        let schema = self.resolve(parameter.get("schema").unwrap_or(&Value::Null));
        if let Some(example) = example(parameter).or_else(|| example(schema)) {
            return Some(encoded(&plain(example)?));
        }
        let variable = variable_name(name);
        if let Some(list) = schema.get("enum").and_then(Value::as_array) {
            let values: Option<Vec<String>> = list.iter().map(plain).collect();
            let values = values.filter(|values| !values.is_empty())?;
            self.written.lists.insert(variable.clone(), values);
            return Some(format!("${{{variable}}}"));
        }
        let bound = |key: &str| schema.get(key).and_then(Value::as_u64);
        let is_integer = schema.get("type").and_then(Value::as_str) == Some("integer");
        if let (true, Some(from), Some(to)) = (is_integer, bound("minimum"), bound("maximum"))
            && from <= to
        {
            self.written.ranges.insert(variable.clone(), [from, to]);
            return Some(format!("${{{variable}}}"));
        }
        let value = self.made(schema)?;
        Some(encoded(&plain(&value)?))
    }

    /// The body of an operation; empty for none.
    fn body(&self, operation: &'a Value) -> Result<String, String> {
        let Some(body) = operation.get("requestBody") else {
            return Ok(String::new());
        };
        let body = self.resolve(body);
        let content = body.get("content").and_then(Value::as_object);
        let json = content.and_then(|content| content.get("application/json"));
        let Some(media) = json else {
            return match body.get("required") {
                Some(Value::Bool(true)) => {
                    Err("operation with a body that is not JSON".to_string())
                }
                _ => Ok(String::new()),
            };
        };
        let schema = self.resolve(media.get("schema").unwrap_or(&Value::Null));
        let value = match example(media) {
            Some(example) => Some(example.clone()),
            None => self.made(schema),
        };
        let value = value.ok_or_else(|| "operation whose body has no usable schema".to_string())?;
        Ok(literal(&value.to_string()))
    }

    /// A value that fits a schema, if one is found in few enough steps.
    fn made(&self, schema: &'a Value) -> Option<Value> {
        let left = Cell::new(SCHEMA_STEPS_MAX);
        let value = self.generated(schema, 0, &left);
        value.filter(|_| left.get() > 0)
    }

    /// A value that fits a schema: its example, else one made from its type.
    fn generated(&self, schema: &'a Value, depth: usize, left: &Cell<usize>) -> Option<Value> {
        let schema = self.resolve(schema);
        left.set(left.get().saturating_sub(1));
        if depth > DEPTH_MAX || left.get() == 0 {
            return None;
        }
        if let Some(example) = example(schema) {
            return Some(example.clone());
        }
        if let Some(first) = schema.pointer("/enum/0").or_else(|| schema.get("const")) {
            return Some(first.clone());
        }
        if let Some(all) = schema.get("allOf").and_then(Value::as_array) {
            let mut whole = Map::new();
            for part in all {
                if let Some(Value::Object(part)) = self.generated(part, depth + 1, left) {
                    whole.extend(part);
                }
            }
            return Some(Value::Object(whole));
        }
        for choice in ["oneOf", "anyOf"] {
            if let Some(first) = schema.get(choice).and_then(|list| list.get(0)) {
                return self.generated(first, depth + 1, left);
            }
        }
        // Since 3.1 a list of types is possible.
        let kind = schema.get("type");
        let kind = kind.and_then(|kind| kind.as_str().or_else(|| kind.get(0)?.as_str()));
        match kind {
            Some("integer" | "number") => {
                Some(schema.get("minimum").cloned().unwrap_or(Value::from(1)))
            }
            Some("boolean") => Some(Value::Bool(true)),
            Some("string") => Some(Value::from(text_of(schema))),
            Some("array") => {
                let item = self.generated(schema.get("items")?, depth + 1, left)?;
                Some(Value::Array(vec![item]))
            }
            Some("object") | None if schema.get("properties").is_some() => {
                self.object(schema, depth, left)
            }
            Some("object") => Some(Value::Object(Map::new())),
            _ => None,
        }
    }

    /// An object with its required properties, and those that have an example.
    fn object(&self, schema: &'a Value, depth: usize, left: &Cell<usize>) -> Option<Value> {
        let required = schema.get("required").and_then(Value::as_array);
        let is_required = |name: &String| {
            required.is_some_and(|list| list.iter().any(|one| one.as_str() == Some(name)))
        };
        let mut object = Map::new();
        for (name, property) in schema.get("properties")?.as_object()? {
            let wanted = is_required(name) || example(self.resolve(property)).is_some();
            if !wanted {
                continue;
            }
            match self.generated(property, depth + 1, left) {
                Some(value) => {
                    object.insert(name.clone(), value);
                }
                None if is_required(name) => return None,
                None => {}
            }
        }
        Some(Value::Object(object))
    }
}

/// The example that a parameter, media type or schema gives.
fn example(value: &Value) -> Option<&Value> {
    let of_map = || {
        value
            .get("examples")?
            .as_object()?
            .values()
            .next()?
            .get("value")
    };
    let of_list = || value.get("examples")?.as_array()?.first();
    let example = value.get("example").or_else(of_map).or_else(of_list);
    example.or_else(|| value.get("default"))
}

/// The first successful status of an operation.
fn status(operation: &Value) -> u16 {
    let responses = operation.get("responses").and_then(Value::as_object);
    let mut codes = responses.into_iter().flat_map(Map::keys);
    let code = codes.find(|code| code.starts_with('2') || code.starts_with('3'));
    code.and_then(|code| code.parse().ok()).unwrap_or(200)
}

/// A text of a string schema's format.
fn text_of(schema: &Value) -> &'static str {
    match schema.get("format").and_then(Value::as_str) {
        Some("uuid") => "00000000-0000-4000-8000-000000000000",
        Some("date") => "2026-01-01",
        Some("date-time") => "2026-01-01T00:00:00Z",
        Some("email") => "user@example.com",
        Some("uri" | "url") => "https://example.com/",
        _ => "text",
    }
}

/// A value as text; `None` for objects, lists and null.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Array(list) => list.first().and_then(plain),
        Value::Object(_) | Value::Null => None,
    }
}

/// Percent-encoded for a path or query; nothing in it is a variable.
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// A parameter's name as that of a variable.
fn variable_name(name: &str) -> String {
    let fits = |c: char| {
        if c.is_ascii_alphanumeric() || c == '_' {
            c
        } else {
            '-'
        }
    };
    let name: String = name.chars().map(fits).collect();
    match name.is_empty() {
        true => "value".to_string(),
        false => name,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::scenario::parse;

    const API: &str = r##"{"openapi": "3.0.3", "servers": [{"url": "https://api.example/{v}/", "variables": {"v": {"default": "v1"}}}],
        "security": [{"key": []}],
        "paths": {
            "/pets/{id}": {
                "parameters": [{"$ref": "#/components/parameters/Id"}],
                "get": {"parameters": [
                    {"name": "sort", "in": "query", "required": true, "schema": {"type": "string", "enum": ["name", "age"]}},
                    {"name": "page", "in": "query", "schema": {"type": "integer"}},
                    {"name": "X-Trace", "in": "header", "required": true, "schema": {"type": "string", "format": "uuid"}}],
                    "responses": {"404": {}, "203": {}}},
                "delete": {"responses": {"204": {}}}},
            "/pets": {
                "post": {"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}},
                    "responses": {"201": {}}},
                "get": {"deprecated": true}},
            "/raw": {"put": {"requestBody": {"required": true, "content": {"image/png": {}}}}},
            "/me": {"get": {"parameters": [{"name": "sid", "in": "cookie", "required": true}]}},
            "/odd/{x}": {"get": {}}
        },
        "components": {
            "parameters": {"Id": {"name": "id", "in": "path", "required": true, "schema": {"type": "integer", "minimum": 1, "maximum": 50}}},
            "schemas": {"Pet": {"type": "object", "required": ["name", "tag"], "properties": {
                "name": {"type": "string", "example": "Rex $1"}, "tag": {"$ref": "#/components/schemas/Tag"},
                "parent": {"$ref": "#/components/schemas/Pet"}, "age": {"type": "integer", "default": 3}}},
                "Tag": {"allOf": [{"type": "object", "properties": {"id": {"type": "integer", "minimum": 5}}, "required": ["id"]}]}}
        }}"##;

    #[test]
    fn operations_become_requests_with_example_values() {
        let written = convert("api.json", API, Changes::Take).unwrap();
        let text = written.text();
        let scenario = parse("api.toml", &text, Path::new(".")).unwrap();
        let step = |at: usize| &scenario.sessions[at].steps[0];
        let values: Vec<String> = scenario.variables.iter().map(|v| v.example()).collect();
        let shown: Vec<String> = (0..scenario.sessions.len())
            .map(|at| format!("{} {}", step(at).method, step(at).path.fill_path(&values)))
            .collect();
        assert_eq!(
            shown,
            [
                "POST /v1/pets",
                "GET /v1/pets/1?sort=name",
                "DELETE /v1/pets/1"
            ]
        );
        let body: Value = serde_json::from_str(&step(0).body.fill(&values)).unwrap();
        let expected = r#"{"name": "Rex $1", "tag": {"id": 5}, "age": 3}"#;
        assert_eq!(body, serde_json::from_str::<Value>(expected).unwrap());
        let statuses: Vec<u16> = (0..3).map(|at| step(at).expect.status).collect();
        assert_eq!(statuses, [201, 203, 204]);
        assert_eq!(step(1).headers[0].0, "X-Trace");
        let omissions = written.omissions().join("\n");
        for part in [
            "deprecated operation",
            "a body that is not JSON",
            "needs a cookie parameter",
            "a parameter without a description",
            "`security` of the description; add the header",
        ] {
            assert!(
                omissions.contains(part) && text.contains(part),
                "{omissions}"
            );
        }
    }

    #[test]
    fn operations_that_change_data_are_omitted_unless_wanted() {
        let written = convert("api.json", API, Changes::Omit).unwrap();
        let methods: Vec<&str> = written.steps.iter().map(|s| s.method.as_str()).collect();
        assert_eq!(methods, ["GET"]);
        let omissions = written.omissions().join("\n");
        assert!(
            omissions.contains("3 x operation that may change data"),
            "{omissions}"
        );
    }

    #[test]
    fn a_description_in_yaml_is_the_same_as_in_json() {
        let root: Value = serde_json::from_str(API).unwrap();
        let yaml = "openapi: 3.0.3\n\
            servers:\n- url: https://api.example/{v}/\n  variables: {v: {default: v1}}\n\
            security:\n  - key: []\n\
            paths:\n  /pets/{id}:\n    parameters:\n      - $ref: '#/components/parameters/Id'\n\
            \x20   get:\n      parameters:\n      - {name: sort, in: query, required: true, schema: {type: string, enum: [name, age]}}\n\
            \x20     - &page {name: page, in: query, schema: {type: integer}}\n\
            \x20     - name: X-Trace\n        in: header\n        required: true\n        schema: {type: string, format: uuid}\n\
            \x20     responses: {404: {}, 203: {}}\n    delete: {responses: {204: {}}}\n\
            \x20 /pets:\n    post:\n      requestBody:\n        content:\n          application/json:\n            schema:\n              $ref: \"#/components/schemas/Pet\"\n\
            \x20     responses: {'201': {}}\n    get: {deprecated: true}\n\
            \x20 /raw: {put: {requestBody: {required: true, content: {image/png: {}}}}}\n\
            \x20 /me: {get: {parameters: [{name: sid, in: cookie, required: true}]}}\n  /odd/{x}: {get: {}}\n\
            components:\n  parameters:\n    Id: {name: id, in: path, required: true, schema: {type: integer, minimum: 1, maximum: 50}}\n\
            \x20 schemas:\n    Pet:\n      type: object\n      required: [name, tag]\n      properties:\n\
            \x20       name:\n          type: string\n          example: Rex $1\n        tag: {$ref: '#/components/schemas/Tag'}\n\
            \x20       parent: {$ref: '#/components/schemas/Pet'}\n        age: {type: integer, default: 3}\n\
            \x20   Tag:\n      allOf:\n      - type: object\n        properties: {id: {type: integer, minimum: 5}}\n        required: [id]\n";
        assert_eq!(read("api.yaml", yaml).unwrap(), root);
        let text = |source: &str, text: &str| convert(source, text, Changes::Take).unwrap().text();
        assert_eq!(text("api.yaml", yaml), text("api.yaml", API));
        // JSON is YAML as well, and is read as YAML if its name says so.
        assert_eq!(read("api.yml", API).unwrap(), root);
    }

    #[test]
    fn mistakes_have_a_place_in_both_languages() {
        let mistake = |source: &str, text: &str| convert(source, text, Changes::Omit).unwrap_err();
        assert_eq!(
            mistake("a.json", "{\n]"),
            "a.json:2:1: not JSON: key must be a string"
        );
        let error = mistake("api", "openapi: 3.1.0\npaths:\n  /a: {}\n  /a: {}\n");
        assert_eq!(error, "api:4:3: `/a` stands twice in a mapping");
    }

    #[test]
    fn schemas_that_contain_themselves_many_times_end() {
        // Each level has ten times as many values as the one above.
        let wanted = |required: bool| {
            let names: Vec<String> = (0..10).map(|at| format!("p{at}")).collect();
            let one = |name: &String| {
                let of = "{\"example\": null, \"allOf\": [{\"$ref\": \"#/components/schemas/A\"}]}";
                format!("\"{name}\": {}", of.replace("\"example\": null, ", ""))
            };
            let properties: Vec<String> = names.iter().map(one).collect();
            let required = if required { names } else { Vec::new() };
            let text = format!(
                "{{\"openapi\": \"3.1.0\", \"paths\": {{\"/a\": {{\"post\": {{\"requestBody\": {{\"content\": {{\"application/json\": \
                 {{\"schema\": {{\"$ref\": \"#/components/schemas/A\"}}}}}}}}}}}}}}, \"components\": {{\"schemas\": {{\"A\": {{\"type\": \
                 \"object\", \"required\": {}, \"properties\": {{{}}}}}}}}}}}",
                serde_json::to_string(&required).unwrap(),
                properties.join(", ")
            );
            convert("a.json", &text, Changes::Take)
        };
        assert_eq!(wanted(false).unwrap().steps[0].body, "{}");
        let error = wanted(true).unwrap_err();
        assert!(error.contains("whose body has no usable schema"), "{error}");
    }

    #[test]
    fn what_is_no_description_is_refused() {
        for (text, part) in [
            ("openapi: 3.0.0", "no `paths`"),
            ("openapi: 3.1", "no `paths`"),
            ("a picture", "not an OpenAPI 3 description (version: none)"),
            ("", "not an OpenAPI 3 description (version: none)"),
            ("{\"swagger\": \"2.0\"}", "(version: Swagger 2.0)"),
            ("swagger: 2.0", "(version: Swagger 2.0)"),
            ("{\"openapi\": \"3.1.0\"}", "no `paths`"),
            (
                "{\"openapi\": \"3.1.0\", \"paths\": {}}",
                "no operation can be taken over",
            ),
        ] {
            let error = convert("a.json", text, Changes::Take).unwrap_err();
            assert!(
                error.starts_with("a.json: ") && error.contains(part),
                "{error}"
            );
        }
    }
}
