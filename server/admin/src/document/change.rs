//! Reading and changing a part of a document. The meaning of the methods is that of Caddy's API
//! (<https://caddyserver.com/docs/api>).

use serde_json::{Map, Value};
use sluice_message::Status;

use super::place::Place;
use crate::denied::Denied;

/// How a part is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// `POST`: sets a member, or appends to an array. With `...` at the end appends all elements of an array.
    Post,
    /// `PUT`: creates a member and the objects above it, or inserts before an element.
    Put,
    /// `PATCH`: replaces what exists.
    Patch,
    /// `DELETE`: removes what exists.
    Delete,
}

/// The part of the document at a place. A missing member of an object is `null`, as in Caddy.
pub fn part<'v>(root: &'v Value, place: &Place) -> Result<&'v Value, Denied> {
    let mut part = root;
    for (at, step) in place.steps.iter().enumerate() {
        let is_last = at + 1 == place.steps.len();
        part = match part {
            Value::Object(members) => match members.get(step) {
                Some(member) => member,
                None if is_last => &Value::Null,
                None => return Err(no_way(place)),
            },
            Value::Array(elements) => &elements[index(step, elements.len(), place)?],
            _ => return Err(no_way(place)),
        };
    }
    Ok(part)
}

/// Changes the document at a place.
///
/// # Errors
///
/// The place does not exist, exists already, or cannot be changed this way. The document may have new empty objects
/// then, so the caller drops it.
pub fn change(root: &mut Value, place: &Place, manner: Manner, value: Value) -> Result<(), Denied> {
    let Some((last, above)) = place.steps.split_last() else {
        return set_root(root, place, manner, value);
    };
    let mut target = root;
    for step in above {
        target = descend(target, step, place, manner)?;
    }
    match or_object(target, manner) {
        Value::Object(members) => set_member(members, last, place, manner, value),
        Value::Array(elements) => set_element(elements, last, place, manner, value),
        _ => Err(no_way(place)),
    }
}

fn set_root(root: &mut Value, place: &Place, manner: Manner, value: Value) -> Result<(), Denied> {
    if place.spreads {
        return Err(spread_needs_array(place));
    }
    if manner == Manner::Put && !root.is_null() {
        return Err(exists(place, "config"));
    }
    *root = match manner {
        Manner::Delete => Value::Null,
        Manner::Post | Manner::Put | Manner::Patch => value,
    };
    Ok(())
}

/// Makes an object of nothing, if a member is to be created in it.
fn or_object(value: &mut Value, manner: Manner) -> &mut Value {
    if value.is_null() && manner == Manner::Put {
        *value = Value::Object(Map::new());
    }
    value
}

fn descend<'v>(
    value: &'v mut Value,
    step: &str,
    place: &Place,
    manner: Manner,
) -> Result<&'v mut Value, Denied> {
    match or_object(value, manner) {
        Value::Object(members) => match manner {
            Manner::Put => Ok(members.entry(step).or_insert(Value::Null)),
            Manner::Post | Manner::Patch | Manner::Delete => {
                members.get_mut(step).ok_or_else(|| no_way(place))
            }
        },
        Value::Array(elements) => {
            let at = index(step, elements.len(), place)?;
            Ok(&mut elements[at])
        }
        _ => Err(no_way(place)),
    }
}

fn set_member(
    members: &mut Map<String, Value>,
    key: &str,
    place: &Place,
    manner: Manner,
    value: Value,
) -> Result<(), Denied> {
    match (manner, members.get_mut(key)) {
        (Manner::Post, Some(Value::Array(elements))) => append(elements, place, value)?,
        (Manner::Post, Some(_)) if place.spreads => return Err(spread_needs_array(place)),
        (Manner::Put, Some(_)) => return Err(exists(place, key)),
        (Manner::Patch | Manner::Delete, None) => {
            let why = format!("[{}] key does not exist: {key}", place.path);
            return Err(Denied::new(Status::NOT_FOUND, why));
        }
        (Manner::Delete, _) => {
            members.remove(key);
        }
        (Manner::Post | Manner::Put | Manner::Patch, _) => {
            members.insert(key.to_owned(), value);
        }
    }
    Ok(())
}

fn set_element(
    elements: &mut Vec<Value>,
    step: &str,
    place: &Place,
    manner: Manner,
    value: Value,
) -> Result<(), Denied> {
    match manner {
        // Whatever the index: an element has no other place to go.
        Manner::Post => {
            index(step, usize::MAX, place)?;
            append(elements, place, value)?;
        }
        Manner::Put => elements.insert(index(step, elements.len() + 1, place)?, value),
        Manner::Patch => {
            let at = index(step, elements.len(), place)?;
            elements[at] = value;
        }
        Manner::Delete => {
            elements.remove(index(step, elements.len(), place)?);
        }
    }
    Ok(())
}

fn append(elements: &mut Vec<Value>, place: &Place, value: Value) -> Result<(), Denied> {
    match value {
        Value::Array(more) if place.spreads => elements.extend(more),
        _ if place.spreads => return Err(spread_needs_array(place)),
        value => elements.push(value),
    }
    Ok(())
}

/// The index that a step gives, below `end`.
fn index(step: &str, end: usize, place: &Place) -> Result<usize, Denied> {
    let path = &place.path;
    let why = match step.parse::<usize>() {
        Ok(at) if at < end => return Ok(at),
        Ok(_) => format!("[{path}] array index out of bounds: {step}"),
        Err(_) => format!("[{path}] invalid array index '{step}'"),
    };
    Err(Denied::new(Status::BAD_REQUEST, why))
}

fn exists(place: &Place, key: &str) -> Denied {
    let why = format!("[{}] key already exists: {key}", place.path);
    Denied::new(Status::CONFLICT, why)
}

fn no_way(place: &Place) -> Denied {
    let why = format!(
        "invalid traversal path at: {}",
        place.path.trim_start_matches('/')
    );
    Denied::new(Status::BAD_REQUEST, why)
}

fn spread_needs_array(place: &Place) -> Denied {
    let why = format!(
        "[{}] `...` needs an array, in the body and at this place",
        place.path
    );
    Denied::new(Status::BAD_REQUEST, why)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The document after a change, or the status of its refusal.
    fn after(manner: Manner, path: &str, value: Value) -> Result<Value, u16> {
        let mut root = json!({"a": {"list": [1, 2], "n": null}, "config": {"x": 1}});
        let place = Place::of(format!("/config{path}").as_bytes()).expect("a place");
        change(&mut root, &place, manner, value).map_err(|denied| denied.status.code())?;
        Ok(root)
    }

    #[test]
    fn post_sets_and_appends() {
        for (path, value, list) in [
            ("/a/list", json!(3), Ok(json!([1, 2, 3]))),
            ("/a/list", json!([3]), Ok(json!([1, 2, [3]]))),
            ("/a/list/", json!(3), Ok(json!([1, 2, 3]))),
            ("/a/list/0", json!(3), Ok(json!([1, 2, 3]))),
            ("/a/list/...", json!([3, 4]), Ok(json!([1, 2, 3, 4]))),
            ("/a/list/...", json!(3), Err(400)),
            ("/a/list/x", json!(3), Err(400)),
            ("/a/...", json!([3]), Err(400)),
            ("/b/list", json!(3), Err(400)),
            ("/a/list/0/x", json!(3), Err(400)),
        ] {
            let found = after(Manner::Post, path, value);
            assert_eq!(found.map(|root| root["a"]["list"].clone()), list, "{path}");
        }
        let found = after(Manner::Post, "/a", json!(5)).expect("it is set");
        assert_eq!(found["a"], json!(5));
        assert_eq!(after(Manner::Post, "/...", json!([])), Err(400));
        assert_eq!(after(Manner::Post, "/", json!({})), Ok(json!({})));
    }

    #[test]
    fn put_creates_and_inserts() {
        let found = after(Manner::Put, "/b/c/d", json!(1)).expect("it is created");
        assert_eq!(found["b"], json!({"c": {"d": 1}}));
        let found = after(Manner::Put, "/a/n/d", json!(1)).expect("null counts as absent");
        assert_eq!(found["a"]["n"], json!({"d": 1}));
        for (path, list) in [
            ("/a/list/0", Ok(json!([9, 1, 2]))),
            ("/a/list/2", Ok(json!([1, 2, 9]))),
            ("/a/list/3", Err(400)),
            ("/a/list/-1", Err(400)),
            ("/a/list", Err(409)),
            ("/config", Err(409)),
            ("/", Err(409)),
        ] {
            let found = after(Manner::Put, path, json!(9));
            assert_eq!(found.map(|root| root["a"]["list"].clone()), list, "{path}");
        }
    }

    #[test]
    fn patch_replaces_what_exists() {
        for (path, list) in [
            ("/a/list/1", Ok(json!([1, 9]))),
            ("/a/list", Ok(json!(9))),
            ("/a/list/2", Err(400)),
            ("/a/none", Err(404)),
            ("/none/none", Err(400)),
            ("/config/none", Err(404)),
        ] {
            let found = after(Manner::Patch, path, json!(9));
            assert_eq!(found.map(|root| root["a"]["list"].clone()), list, "{path}");
        }
    }

    #[test]
    fn delete_removes_what_exists() {
        for (path, list) in [
            ("/a/list/0", Ok(json!([2]))),
            ("/a/list", Ok(Value::Null)),
            ("/a/list/2", Err(400)),
            ("/a/none", Err(404)),
            ("/", Ok(Value::Null)),
        ] {
            let found = after(Manner::Delete, path, Value::Null);
            assert_eq!(found.map(|root| root["a"]["list"].clone()), list, "{path}");
        }
    }

    #[test]
    fn parts_are_found() {
        let root = json!({"a": {"list": [1, {"b": 2}]}});
        for (path, expected) in [
            ("/", Ok(root.clone())),
            ("/a/list/1/b", Ok(json!(2))),
            ("/a/none", Ok(Value::Null)),
            ("/none/none", Err(400)),
            ("/a/list/2", Err(400)),
            ("/a/list/1/b/c", Err(400)),
        ] {
            let place = Place::of(format!("/config{path}").as_bytes()).expect("a place");
            let found = part(&root, &place)
                .cloned()
                .map_err(|denied| denied.status.code());
            assert_eq!(found, expected, "{path}");
        }
    }
}
