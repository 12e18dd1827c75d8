//! The fields of an entry as a tree, for encoders that change fields. Plain encoders do not build one.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};

use super::json::JsonWriter;

/// A value in an entry. Members keep their order, unlike those of [`Value`].
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// Members by name.
    Object(Vec<(String, Node)>),
    /// Elements.
    Array(Vec<Node>),
    /// A string.
    Text(String),
    /// A number, a boolean or null.
    Scalar(Value),
}

impl Node {
    /// Parses the output of [`JsonWriter`].
    pub fn parse(json: &[u8]) -> Option<Node> {
        serde_json::from_slice(json).ok()
    }

    /// Writes the value.
    pub fn write(&self, json: &mut JsonWriter<'_>) {
        match self {
            Node::Object(members) => {
                json.begin_object();
                write_members(members, json);
                json.end_object();
            }
            Node::Array(elements) => {
                json.begin_array();
                for element in elements {
                    element.write(json);
                }
                json.end_array();
            }
            Node::Text(text) => json.text(text.as_bytes()),
            Node::Scalar(value) => json.raw(value.to_string().as_bytes()),
        }
    }

    /// Changes the string, or each string in a list; other values remain.
    pub fn edit_texts(&mut self, edit: impl Fn(&str) -> String) {
        match self {
            Node::Text(text) => *text = edit(text),
            Node::Array(elements) => {
                for element in elements {
                    if let Node::Text(text) = element {
                        *text = edit(text);
                    }
                }
            }
            Node::Object(_) | Node::Scalar(_) => {}
        }
    }
}

impl From<Value> for Node {
    fn from(value: Value) -> Node {
        match value {
            Value::String(text) => Node::Text(text),
            Value::Array(elements) => Node::Array(elements.into_iter().map(Node::from).collect()),
            Value::Object(members) => {
                let members = members
                    .into_iter()
                    .map(|(name, value)| (name, value.into()));
                Node::Object(members.collect())
            }
            scalar @ (Value::Null | Value::Bool(_) | Value::Number(_)) => Node::Scalar(scalar),
        }
    }
}

/// Writes the members of an open object.
pub fn write_members(members: &[(String, Node)], json: &mut JsonWriter<'_>) {
    for (name, value) in members {
        json.key(name.as_bytes());
        value.write(json);
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        let number = Number::from_f64(value).map_or(Value::Null, Value::Number);
        Ok(Node::Scalar(number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = access.next_element()? {
            elements.push(element);
        }
        Ok(Node::Array(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = access.next_entry()? {
            members.push(member);
        }
        Ok(Node::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_is_written_in_the_same_order() {
        let text = br#"{"z":{"b":[1,"x",null,true],"a":-2},"d":0.000166951,"c":"\u001b\n"}"#;
        let node = Node::parse(text).expect("it is JSON");
        let mut out = Vec::new();
        node.write(&mut JsonWriter::new(&mut out, false));
        assert_eq!(out, text);
    }
}
