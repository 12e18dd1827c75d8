//! What stands between an entry and the encoder that writes it: filters of fields, and fields that every line gets.
//! The filters themselves are left to `filter`.

use super::filter::Filters;
use super::json::JsonWriter;
use super::node::{Node, write_members};

/// What becomes of the fields of an entry before they are written, the outermost first.
#[derive(Clone, Debug, Default)]
pub struct Layers(Vec<Layer>);

/// One of them.
#[derive(Clone, Debug)]
pub enum Layer {
    /// Fields are changed.
    Filter(Filters),
    /// Fields are added.
    Append(Vec<(String, Node)>),
}

impl Layers {
    /// Whether fields are written as they are.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a layer inside of all others.
    pub fn push(&mut self, layer: Layer) {
        self.0.push(layer);
    }

    /// Writes the members of `fields`, an object in JSON, as the layers change them.
    pub fn write(&self, fields: &[u8], json: &mut JsonWriter<'_>) {
        let Some(Node::Object(mut members)) = Node::parse(fields) else {
            unreachable!("the writer of log lines writes objects")
        };
        for layer in &self.0 {
            match layer {
                Layer::Filter(filters) => filters.apply(&mut members),
                Layer::Append(more) => members.extend_from_slice(more),
            }
        }
        write_members(&members, json);
    }
}
