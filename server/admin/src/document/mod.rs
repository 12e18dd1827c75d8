//! The running configuration as a JSON document, parts of which clients read and change. It is the document that was
//! given, with the names of its objects, or the one that follows from a configuration in another language.

mod change;
mod condition;
mod objects;
mod place;

use std::sync::Arc;

use serde_json::Value;
use sluice_message::Status;
use sluice_model::Config;

pub use change::{Manner, part};
pub use condition::{Condition, tag};
pub use place::{Place, decoded};

use crate::denied::Denied;

/// The running configuration as clients see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Document {
    /// It follows from the configuration, which was written in another language.
    #[default]
    Derived,
    /// The JSON text that was given, which may have names of objects.
    Given(Arc<str>),
    /// It follows from an nginx.conf. It can be read, and changed only as a whole.
    Fixed,
}

impl Document {
    /// The document as a value; `config` is the configuration that runs.
    pub fn value(&self, config: &Config) -> Value {
        match self {
            // It was parsed before it took effect.
            Document::Given(text) => serde_json::from_str(text).unwrap_or_default(),
            Document::Derived | Document::Fixed => config.to_value(),
        }
    }

    /// The document as text, to be kept.
    pub fn text(&self, config: &Config) -> Arc<str> {
        match self {
            Document::Given(text) => text.clone(),
            Document::Derived | Document::Fixed => config.to_json().into(),
        }
    }
}

/// Reads a JSON configuration together with its document.
///
/// # Errors
///
/// The text is not JSON, not a configuration, or names of objects are not unique.
pub fn read(text: &str) -> Result<(Config, Document), Denied> {
    let config = Config::from_json(text).map_err(Denied::from_config)?;
    // Most have no names, and need no second look.
    if text.contains(sluice_model::OBJECT_ID) {
        objects::index(&serde_json::from_str(text).unwrap_or_default())?;
    }
    Ok((config, Document::Given(text.into())))
}

/// The place that a request path names, below `/config` or `/id`.
pub fn place(root: &Value, path: &[u8]) -> Result<Place, Denied> {
    match path.starts_with(b"/id") {
        true => objects::place(root, path),
        false => Place::of(path),
    }
}

/// A change that a client asks for.
#[derive(Clone, Debug)]
pub struct Change {
    /// The path of the request, below `/config` or `/id`.
    pub path: Vec<u8>,
    /// What happens there.
    pub manner: Manner,
    /// The new value; `null` for [`Manner::Delete`].
    pub value: Value,
    /// What has to hold of the document before.
    pub condition: Option<Condition>,
}

impl Change {
    /// The configuration after this change of `document`, which belongs to `config`.
    ///
    /// # Errors
    ///
    /// The document cannot be changed, its part does not allow the change, the condition does not hold, or the result is
    /// not a configuration.
    pub fn apply(self, document: &Document, config: &Config) -> Result<(Config, Document), Denied> {
        if *document == Document::Fixed {
            let why = "the configuration is an nginx.conf: change that file and reload it, or replace the whole at /load";
            return Err(Denied::new(Status::METHOD_NOT_ALLOWED, why));
        }
        let mut root = document.value(config);
        if let Some(condition) = &self.condition {
            condition.check(&root)?;
        }
        let place = place(&root, &self.path)?;
        change::change(&mut root, &place, self.manner, self.value)?;
        objects::index(&root)?;
        let text: Arc<str> = root.to_string().into();
        let config = Config::from_value(root).map_err(Denied::from_config)?;
        Ok((config, Document::Given(text)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn change(path: &str, manner: Manner, value: Value) -> Change {
        Change {
            path: path.into(),
            manner,
            value,
            condition: None,
        }
    }

    #[test]
    fn names_of_objects_survive_changes() {
        let text =
            r#"{"apps":{"http":{"servers":{"a":{"@id":"x","listen":[":80"],"protocols":null}}}}}"#;
        let (config, document) = read(text).expect("a configuration");
        assert_eq!(
            document.value(&config).to_string(),
            serde_json::from_str::<Value>(text)
                .expect("JSON")
                .to_string()
        );
        let (config, document) = change("/id/x/listen/0", Manner::Patch, json!(":81"))
            .apply(&document, &config)
            .expect("a configuration");
        assert_eq!(config.servers().next().expect("a server").1.listen, [":81"]);
        assert_eq!(*document.text(&config), *text.replace(":80", ":81"));
    }

    #[test]
    fn a_change_to_no_configuration_is_refused() {
        let (config, document) = (Config::default(), Document::Derived);
        for (path, value, status) in [
            ("/config/appz", json!({}), 400),
            ("/config/admin", json!({"listen": 5}), 400),
            (
                "/config/admin",
                json!({"@id": "a", "config": {"@id": "a"}}),
                400,
            ),
            ("/id/none", json!({}), 404),
        ] {
            let denied = change(path, Manner::Post, value).apply(&document, &config);
            assert_eq!(denied.expect_err("refused").status.code(), status, "{path}");
        }
        let denied =
            change("/config/admin", Manner::Post, json!({})).apply(&Document::Fixed, &config);
        assert_eq!(
            denied.expect_err("refused").status,
            Status::METHOD_NOT_ALLOWED
        );
    }
}
