//! Objects that have names (`@id`), which `/id/…` finds wherever they are.

use std::collections::HashMap;

use serde_json::Value;
use sluice_message::Status;
use sluice_model::OBJECT_ID;

use super::place::{Place, ROOT, decoded, encoded};
use crate::denied::Denied;

/// The place that a path below `/id/` names: the object with that name, and what follows below it.
pub fn place(root: &Value, path: &[u8]) -> Result<Place, Denied> {
    let below = path.strip_prefix(b"/id").unwrap_or(path);
    let below = below.strip_prefix(b"/").unwrap_or(below);
    let end = below.iter().position(|byte| *byte == b'/');
    let (name, rest) = below.split_at(end.unwrap_or(below.len()));
    let name = str::from_utf8(name).ok().and_then(decoded);
    let name = name
        .filter(|name| !name.is_empty())
        .ok_or_else(|| Denied::new(Status::BAD_REQUEST, "request path is missing object ID"))?;
    match index(root)?.get(&name) {
        Some(object) => Place::below(object, rest),
        None => {
            let why = format!("unknown object ID '{name}'");
            Err(Denied::new(Status::NOT_FOUND, why))
        }
    }
}

/// The paths of objects with names.
///
/// # Errors
///
/// Two objects have one name, or a name is neither text nor a number.
pub fn index(root: &Value) -> Result<HashMap<String, String>, Denied> {
    let mut paths = HashMap::new();
    add(root, &mut ROOT.to_owned(), &mut paths)?;
    Ok(paths)
}

fn add(
    value: &Value,
    path: &mut String,
    paths: &mut HashMap<String, String>,
) -> Result<(), Denied> {
    let length = path.len();
    match value {
        Value::Object(members) => {
            if let Some(name) = members.get(OBJECT_ID) {
                let name = name_of(name, path)?;
                if let Some(other) = paths.insert(name.clone(), path.clone()) {
                    let why = format!(
                        "indexing config: duplicate ID '{name}' found at {other} and {path}"
                    );
                    return Err(Denied::new(Status::BAD_REQUEST, why));
                }
            }
            for (key, member) in members {
                path.push('/');
                path.push_str(&encoded(key));
                add(member, path, paths)?;
                path.truncate(length);
            }
        }
        Value::Array(elements) => {
            for (at, element) in elements.iter().enumerate() {
                path.push_str(&format!("/{at}"));
                add(element, path, paths)?;
                path.truncate(length);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    Ok(())
}

fn name_of(name: &Value, path: &str) -> Result<String, Denied> {
    match name {
        Value::String(name) => Ok(name.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            let why = format!("indexing config: {path}: @id field must be a string or number");
            Err(Denied::new(Status::BAD_REQUEST, why))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_found_by_their_names() {
        let root = json!({"a": [{"@id": "first"}, {"@id": 2, "b/c": {"@id": "x/y"}}]});
        let path = |asked: &str| {
            place(&root, asked.as_bytes())
                .map(|place| place.path)
                .map_err(|denied| denied.status.code())
        };
        for (asked, found) in [
            ("/id/first", Ok("/config/a/0")),
            ("/id/2/b%2Fc/@id", Ok("/config/a/1/b%2Fc/@id")),
            ("/id/x%2fy", Ok("/config/a/1/b%2Fc")),
            ("/id/none", Err(404)),
            ("/id/", Err(400)),
            ("/id", Err(400)),
        ] {
            assert_eq!(path(asked).as_deref(), found.as_ref().copied(), "{asked}");
        }
    }

    #[test]
    fn names_are_texts_or_numbers_and_occur_once() {
        for root in [
            json!([{"@id": "a"}, {"@id": "a"}]),
            json!([{"@id": 1}, {"@id": "1"}]),
            json!({"@id": {}}),
            json!({"@id": null}),
        ] {
            assert!(index(&root).is_err(), "{root}");
        }
    }
}
