//! Converts a pattern to one for the `regex` crate, which matches in linear time. Patterns that need backtracking are
//! in `program`.

use alloc::format;
use alloc::string::String;

use super::tree::{Eagerness, Node, Place};

/// The pattern in the crate's syntax, for bytes; `None` if it cannot be said there.
///
/// `$` becomes the very end: before a last line feed, which the crate cannot look at, the other way of matching is asked.
pub fn write(node: &Node) -> Option<String> {
    let mut out = String::new();
    add(node, &mut out).then_some(out)
}

fn add(node: &Node, out: &mut String) -> bool {
    match node {
        Node::Empty => {}
        Node::Byte(byte) => byte_(*byte, out),
        Node::Set(set) => {
            let ranges = set.ranges();
            if ranges.is_empty() {
                out.push_str(r"[^\x00-\xff]");
                return true;
            }
            out.push('[');
            for (first, last) in ranges {
                out.push_str(&format!(r"\x{first:02x}-\x{last:02x}"));
            }
            out.push(']');
        }
        Node::At(place) => out.push_str(match place {
            Place::Start => r"\A",
            Place::End | Place::LastEnd => r"\z",
            Place::LineEnd => "(?m:$)",
            Place::WordEdge => r"\b",
            Place::NoWordEdge => r"\B",
            // Not behind a line feed that is the last byte.
            Place::LineStart => return false,
        }),
        Node::Sequence(nodes) => return nodes.iter().all(|node| add(node, out)),
        Node::Choice(nodes) => {
            out.push_str("(?:");
            for (index, node) in nodes.iter().enumerate() {
                if index > 0 {
                    out.push('|');
                }
                if !add(node, out) {
                    return false;
                }
            }
            out.push(')');
        }
        Node::Group(_, node) => {
            out.push('(');
            if !add(node, out) {
                return false;
            }
            out.push(')');
        }
        Node::Repeat {
            node,
            min,
            max,
            eagerness,
        } => return repeat(node, *min, *max, *eagerness, out),
        Node::Look { .. } | Node::Atomic(_) | Node::Back { .. } | Node::Keep => return false,
    }
    true
}

fn repeat(node: &Node, min: u32, max: Option<u32>, eagerness: Eagerness, out: &mut String) -> bool {
    let lazy = match eagerness {
        Eagerness::Greedy => "",
        Eagerness::Lazy => "?",
        Eagerness::Possessive => return false,
    };
    out.push_str("(?:");
    if !add(node, out) {
        return false;
    }
    out.push(')');
    match (min, max) {
        (0, None) => out.push('*'),
        (1, None) => out.push('+'),
        (0, Some(1)) => out.push('?'),
        (min, None) => out.push_str(&format!("{{{min},}}")),
        (min, Some(max)) => out.push_str(&format!("{{{min},{max}}}")),
    }
    out.push_str(lazy);
    true
}

fn byte_(byte: u8, out: &mut String) {
    match byte.is_ascii_alphanumeric() || byte == b'/' {
        true => out.push(char::from(byte)),
        false => out.push_str(&format!(r"\x{byte:02x}")),
    }
}
