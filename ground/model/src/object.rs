//! How configuration objects are converted to and from JSON: the field rules that all objects share, and enums whose
//! variant is selected by one key. The meaning of the objects is up to the modules that declare them.

use alloc::string::{String, ToString};
use core::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// An object of a module that this build has no type for, kept as it came.
pub type RawModule = Map<String, Value>;

/// Whether a field holds its zero value, which Caddy's JSON omits.
pub(crate) fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Reads a field. `null` is its zero value, as for Go's decoder.
pub(crate) fn zero_if_null<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Separates the path from the message inside a nested error. Serde errors are plain text, so the
/// inner path travels in front of the message until [`locate`] joins it with the outer one.
const PATH_END: char = '\u{1}';

/// Reads a value whose place in the document must survive into the error text.
pub(crate) fn read_nested<T: DeserializeOwned, E: serde::de::Error>(
    value: Value,
    at: &str,
) -> Result<T, E> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let (path, message) = locate(&error.path().to_string(), &error.inner().to_string());
        let full = join(at, &path);
        E::custom(fmt_path(&full, &message))
    })
}

fn fmt_path(path: &str, message: &str) -> String {
    let mut text = String::with_capacity(path.len() + message.len() + 1);
    text.push_str(path);
    text.push(PATH_END);
    text.push_str(message);
    text
}

/// Splits an error into the full path of the mistake and the bare message.
pub(crate) fn locate(outer: &str, message: &str) -> (String, String) {
    let outer = if outer == "." { "" } else { outer };
    match message.split_once(PATH_END) {
        Some((inner, message)) => (join(outer, inner), message.to_string()),
        None => (outer.to_string(), message.to_string()),
    }
}

fn join(outer: &str, inner: &str) -> String {
    let inner = if inner == "." { "" } else { inner };
    match (outer.is_empty(), inner.is_empty()) {
        (true, _) => inner.to_string(),
        (_, true) => outer.to_string(),
        _ if inner.starts_with('[') => alloc::format!("{outer}{inner}"),
        _ => alloc::format!("{outer}.{inner}"),
    }
}

/// Writes an object with its telling key added. Caddy writes module objects with all keys sorted,
/// at every depth, and so do we: `serde_json`'s map is ordered by key.
pub(crate) fn write_tagged<T: Serialize, S: Serializer>(
    serializer: S,
    key: &str,
    name: &str,
    body: &T,
) -> Result<S::Ok, S::Error> {
    let mut value = serde_json::to_value(body).map_err(serde::ser::Error::custom)?;
    if let Value::Object(map) = &mut value {
        map.insert(key.to_string(), Value::String(name.to_string()));
    }
    value.serialize(serializer)
}

/// Takes the telling key out of an object, or says that it is missing.
pub(crate) fn take_tag<E: serde::de::Error>(map: &mut RawModule, key: &str) -> Result<String, E> {
    match map.remove(key) {
        Some(Value::String(name)) => Ok(name),
        Some(other) => Err(E::custom(format_args!(
            "`{key}` is {}, expected a name",
            Kind(&other)
        ))),
        None => Err(E::custom(format_args!("missing field `{key}`"))),
    }
}

/// The JSON type of a value, for messages.
pub(crate) struct Kind<'a>(pub(crate) &'a Value);

impl fmt::Display for Kind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "an array",
            Value::Object(_) => "an object",
        })
    }
}

/// Declares objects: fields that are absent or `null` take their zero value, zero values are not written, and a field
/// that is not declared is an error.
macro_rules! objects {
    ($($(#[$meta:meta])* pub struct $name:ident {
        $($(#[$field_meta:meta])* pub $field:ident: $type:ty,)*
    })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $($(#[$field_meta])*
            #[serde(
                skip_serializing_if = "crate::object::is_zero",
                deserialize_with = "crate::object::zero_if_null"
            )]
            pub $field: $type,)*
        }

        $crate::walk::walk_fields!($name { $($field),* });
    )*};
}

/// Declares an enum whose variants are objects told apart by one key; names that are not listed
/// land in `Other` with the whole object.
macro_rules! tagged {
    ($(#[$meta:meta])* pub enum $name:ident by $key:literal {
        $($(#[$variant_meta:meta])* $variant:ident($type:ty) = $text:literal,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $name {
            $($(#[$variant_meta])* $variant($type),)*
            /// A module this build has no type for; the object keeps its telling key.
            Other($crate::object::RawModule),
        }

        impl $name {
            /// The key that selects the variant.
            pub const KEY: &'static str = $key;

            /// The names of all modules that have a type.
            pub const MODULES: &'static [&'static str] = &[$($text),*];

            /// The name of the module, as the telling key has it.
            pub fn module(&self) -> &str {
                match self {
                    $(Self::$variant(_) => $text,)*
                    Self::Other(map) => map.get($key).and_then(|v| v.as_str()).unwrap_or(""),
                }
            }
        }

        impl $crate::walk::Walk for $name {
            fn walk(&self, visitor: &mut dyn $crate::walk::Visitor) {
                visitor.object(self);
                match self {
                    $(Self::$variant(body) => $crate::walk::Walk::walk(body, visitor),)*
                    Self::Other(map) => $crate::walk::Walk::walk(map, visitor),
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$variant(body) => {
                        $crate::object::write_tagged(serializer, $key, $text, body)
                    })*
                    Self::Other(map) => map.serialize(serializer),
                }
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                use serde::de::Error as _;
                let mut map = $crate::object::RawModule::deserialize(deserializer)?;
                let tag = $crate::object::take_tag::<D::Error>(&mut map, $key)?;
                match tag.as_str() {
                    $($text => $crate::object::read_nested(serde_json::Value::Object(map), "")
                        .map(Self::$variant),)*
                    "" => Err(D::Error::custom(concat!("`", $key, "` is empty"))),
                    _ => {
                        map.insert(alloc::string::String::from($key), serde_json::Value::String(tag));
                        Ok(Self::Other(map))
                    }
                }
            }
        }
    };
}

pub(crate) use {objects, tagged};
