//! `@id` members: names that the admin API finds objects by. They set nothing.

use serde_json::Value;

/// The member of an object that names it for the admin API (`/id/…`).
pub const OBJECT_ID: &str = "@id";

/// Removes the names of all objects in `value`. Its depth is bounded by the parser's limit of 128.
pub fn remove_object_ids(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.remove(OBJECT_ID);
            members.values_mut().for_each(remove_object_ids);
        }
        Value::Array(elements) => elements.iter_mut().for_each(remove_object_ids),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::Config;

    #[test]
    fn names_and_nulls_set_nothing() {
        let given = json!({
            "@id": "whole",
            "admin": null,
            "apps": {"http": {"servers": {"a": {"@id": 1, "listen": [":80"], "protocols": null, "routes": null}}}},
        });
        let config = Config::from_value(given).expect("a configuration");
        let plain = json!({"apps": {"http": {"servers": {"a": {"listen": [":80"]}}}}});
        assert_eq!(config.to_value(), plain);
    }
}
