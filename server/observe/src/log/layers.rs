//! Layers between an entry and its encoder: field filters, and fields added to every line. `filter` implements the
//! filters.

use super::filter::Filters;
use super::json::JsonWriter;
use super::node::{Node, write_members};

/// Changes to the fields of an entry before it is formatted, outermost first.
#[derive(Clone, Debug, Default)]
pub struct Layers(Vec<Layer>);

/// One layer.
#[derive(Clone, Debug)]
pub enum Layer {
    /// Changes fields.
    Filter(Filters),
    /// Adds fields.
    Append(Vec<(String, Node)>),
}

impl Layers {
    /// Whether fields are written unchanged.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds an innermost layer.
    pub fn push(&mut self, layer: Layer) {
        self.0.push(layer);
    }

    /// Writes the members of `fields`, a JSON object, with the changes of all layers.
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
