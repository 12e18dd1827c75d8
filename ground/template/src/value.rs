//! The values of a template. `show` formats them; `functions` operate on them.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt;

use crate::error::Fault;
use crate::limits::DEPTH_MAX;
use crate::room::Room;
use crate::time::Time;

/// A text: bytes that are usually UTF-8.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text(Rc<[u8]>);

impl Text {
    /// A copy of `bytes`.
    pub fn new(bytes: impl AsRef<[u8]>) -> Text {
        Text(Rc::from(bytes.as_ref()))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The characters; bytes that are not valid UTF-8 are replaced.
    pub fn lossy(&self) -> Cow<'_, str> {
        alloc::string::String::from_utf8_lossy(&self.0)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.lossy())
    }
}

/// The types of whole numbers that templates tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntKind {
    /// `int`
    Int,
    /// `int64`
    Int64,
    /// `int32`, the type of characters
    Int32,
    /// `uint8`, the type of bytes
    Uint8,
    /// `uint64`
    Uint64,
}

impl IntKind {
    /// The name in Go.
    pub fn name(self) -> &'static str {
        match self {
            IntKind::Int => "int",
            IntKind::Int64 => "int64",
            IntKind::Int32 => "int32",
            IntKind::Uint8 => "uint8",
            IntKind::Uint64 => "uint64",
        }
    }
}

/// What lists and maps hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// Values of all types.
    Any,
    /// Texts.
    Text,
    /// Whole numbers.
    Int,
    /// Lists of texts: the values of header fields and queries.
    Texts,
}

impl Of {
    fn name(self) -> &'static str {
        match self {
            Of::Any => "interface {}",
            Of::Text => "string",
            Of::Int => "int",
            Of::Texts => "[]string",
        }
    }
}

/// A value.
#[derive(Clone, Debug)]
pub enum Value {
    /// Nothing.
    Nil,
    /// A truth.
    Bool(bool),
    /// A whole number.
    Int(i64, IntKind),
    /// Another number.
    Float(f64),
    /// A text.
    Text(Text),
    /// Values in order, which never change.
    List(Rc<List>),
    /// Values by name. `set` changes it for all who hold it, as in Go.
    Map(Rc<Map>),
    /// A moment of a calendar.
    Time(Time),
    /// A span of time in nanoseconds.
    Duration(i64),
    /// Something of the host with fields and methods.
    Object(Rc<dyn Object>),
}

/// Something of the host.
pub trait Object {
    /// The name of its type.
    fn type_name(&self) -> &'static str;

    /// The field called `name`, or what the method of this name gives; `None` if there is neither.
    fn member(&self, name: &str, args: &[Value], room: &mut Room) -> Result<Option<Value>, Fault>;

    /// Itself as a plain value, for showing, indexing and ranging.
    fn plain(&self) -> Value;
}

impl fmt::Debug for dyn Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.type_name())
    }
}

/// Values in order.
#[derive(Debug)]
pub struct List {
    items: Vec<Value>,
    of: Of,
}

/// Values by name.
#[derive(Debug)]
pub struct Map {
    entries: RefCell<BTreeMap<Text, Value>>,
    of: Of,
}

impl List {
    /// The values.
    pub fn items(&self) -> &[Value] {
        &self.items
    }

    /// What it holds.
    pub fn of(&self) -> Of {
        self.of
    }
}

impl Map {
    /// The value called `name`.
    pub fn find(&self, name: &Text) -> Option<Value> {
        self.entries.borrow().get(name).cloned()
    }

    /// What a name without a value stands for.
    pub fn missing(&self) -> Value {
        match self.of {
            Of::Any => Value::Nil,
            Of::Text => Value::text(""),
            Of::Int => Value::int(0),
            Of::Texts => Value::list_of(Vec::new(), Of::Text),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.borrow().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A copy of all, sorted by name.
    pub fn entries(&self) -> Vec<(Text, Value)> {
        let entries = self.entries.borrow();
        entries
            .iter()
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }

    /// Gives `name` a value. A map that would hold itself could never be shown or freed: it is refused.
    pub fn set(self: &Rc<Map>, name: Text, value: Value, room: &mut Room) -> Result<(), Fault> {
        if holds(&value, self, room, 0)? {
            return Err(Fault::failed("a map cannot hold itself"));
        }
        room.take(name.as_bytes().len() + 64)?;
        // The old value is dropped after the borrow has ended.
        let old = self.entries.borrow_mut().insert(name, value);
        drop(old);
        Ok(())
    }

    /// Takes `name` away.
    pub fn unset(&self, name: &Text) {
        let old = self.entries.borrow_mut().remove(name);
        drop(old);
    }
}

/// Whether `map` is somewhere within `value`.
fn holds(value: &Value, map: &Rc<Map>, room: &mut Room, depth: usize) -> Result<bool, Fault> {
    room.step()?;
    if depth > DEPTH_MAX {
        return Err(Fault::Limit("values within each other"));
    }
    match value {
        Value::List(list) => {
            for item in &list.items {
                if holds(item, map, room, depth + 1)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Value::Map(other) if Rc::ptr_eq(other, map) => Ok(true),
        Value::Map(other) => {
            for item in other.entries.borrow().values() {
                if holds(item, map, room, depth + 1)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Value::Nil
        | Value::Bool(_)
        | Value::Int(..)
        | Value::Float(_)
        | Value::Text(_)
        | Value::Time(_)
        | Value::Duration(_)
        | Value::Object(_) => Ok(false),
    }
}

/// Frees what lies within each other one by one: a chain of a million lists must not end the stack.
fn free(mut pending: Vec<Value>) {
    while let Some(value) = pending.pop() {
        match value {
            Value::List(list) => {
                if let Some(mut list) = Rc::into_inner(list) {
                    pending.append(&mut list.items);
                }
            }
            Value::Map(map) => {
                if let Some(map) = Rc::into_inner(map) {
                    pending.extend(core::mem::take(&mut *map.entries.borrow_mut()).into_values());
                }
            }
            Value::Nil
            | Value::Bool(_)
            | Value::Int(..)
            | Value::Float(_)
            | Value::Text(_)
            | Value::Time(_)
            | Value::Duration(_)
            | Value::Object(_) => {}
        }
    }
}

impl Drop for List {
    fn drop(&mut self) {
        if !self.items.is_empty() {
            free(core::mem::take(&mut self.items));
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        let entries = core::mem::take(self.entries.get_mut());
        if !entries.is_empty() {
            free(entries.into_values().collect());
        }
    }
}

impl Value {
    /// A text.
    pub fn text(bytes: impl AsRef<[u8]>) -> Value {
        Value::Text(Text::new(bytes))
    }

    /// A number of type `int`.
    pub fn int(number: i64) -> Value {
        Value::Int(number, IntKind::Int)
    }

    /// A number of type `int64`.
    pub fn int64(number: i64) -> Value {
        Value::Int(number, IntKind::Int64)
    }

    /// A list of values of all types.
    pub fn list(items: Vec<Value>) -> Value {
        Value::list_of(items, Of::Any)
    }

    /// A list.
    pub fn list_of(items: Vec<Value>, of: Of) -> Value {
        Value::List(Rc::new(List { items, of }))
    }

    /// A map with values of all types.
    pub fn map(entries: impl IntoIterator<Item = (Text, Value)>) -> Value {
        Value::map_of(entries, Of::Any)
    }

    /// A map.
    pub fn map_of(entries: impl IntoIterator<Item = (Text, Value)>, of: Of) -> Value {
        Value::Map(Rc::new(Map {
            entries: RefCell::new(entries.into_iter().collect()),
            of,
        }))
    }

    /// Whether `if` takes it for true.
    pub fn is_true(&self) -> bool {
        match self {
            Value::Nil => false,
            Value::Bool(truth) => *truth,
            Value::Int(number, _) | Value::Duration(number) => *number != 0,
            Value::Float(number) => *number != 0.0,
            Value::Text(text) => !text.as_bytes().is_empty(),
            Value::List(list) => !list.items.is_empty(),
            Value::Map(map) => !map.is_empty(),
            Value::Time(_) => true,
            Value::Object(object) => match object.plain() {
                plain @ (Value::List(_) | Value::Map(_) | Value::Nil) => plain.is_true(),
                _ => true,
            },
        }
    }

    /// The name of its type in Go.
    pub fn type_name(&self) -> Box<str> {
        match self {
            Value::Nil => "<nil>".into(),
            Value::Bool(_) => "bool".into(),
            Value::Int(_, kind) => kind.name().into(),
            Value::Float(_) => "float64".into(),
            Value::Text(_) => "string".into(),
            Value::List(list) => alloc::format!("[]{}", list.of.name()).into(),
            Value::Map(map) => alloc::format!("map[string]{}", map.of.name()).into(),
            Value::Time(_) => "time.Time".into(),
            Value::Duration(_) => "time.Duration".into(),
            Value::Object(object) => object.type_name().into(),
        }
    }

    /// The name of its kind in Go.
    pub fn kind_name(&self) -> &'static str {
        match self {
            Value::Nil => "invalid",
            Value::Bool(_) => "bool",
            Value::Int(_, kind) => kind.name(),
            Value::Float(_) => "float64",
            Value::Text(_) => "string",
            Value::List(_) => "slice",
            Value::Map(_) => "map",
            Value::Time(_) => "struct",
            Value::Duration(_) => "int64",
            Value::Object(object) => match object.plain() {
                Value::Map(_) => "map",
                Value::List(_) => "slice",
                _ => "ptr",
            },
        }
    }

    /// An object of the host as a plain value; others as they are.
    pub fn plain(&self) -> Value {
        match self {
            Value::Object(object) => object.plain(),
            other => other.clone(),
        }
    }

    /// Whether both are of the same type and hold the same.
    pub fn equals(&self, other: &Value, room: &mut Room) -> Result<bool, Fault> {
        equal(self, other, room, 0)
    }
}

fn equal(one: &Value, other: &Value, room: &mut Room, depth: usize) -> Result<bool, Fault> {
    room.step()?;
    if depth > DEPTH_MAX {
        return Err(Fault::Limit("values within each other"));
    }
    let same = match (one, other) {
        (Value::Nil, Value::Nil) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(a, x), Value::Int(b, y)) => a == b && x == y,
        (Value::Float(a), Value::Float(b)) => a == b,
        (Value::Text(a), Value::Text(b)) => a == b,
        (Value::Time(a), Value::Time(b)) => a == b,
        (Value::Duration(a), Value::Duration(b)) => a == b,
        (Value::Object(a), Value::Object(b)) => Rc::ptr_eq(a, b),
        (Value::List(a), Value::List(b)) => {
            if a.of != b.of || a.items.len() != b.items.len() {
                return Ok(false);
            }
            for (a, b) in a.items.iter().zip(&b.items) {
                if !equal(a, b, room, depth + 1)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Map(a), Value::Map(b)) => {
            if a.of != b.of || a.len() != b.len() {
                return Ok(false);
            }
            for ((a_name, a), (b_name, b)) in a.entries().iter().zip(&b.entries()) {
                if a_name != b_name || !equal(a, b, room, depth + 1)? {
                    return Ok(false);
                }
            }
            true
        }
        _ => false,
    };
    Ok(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_chain_of_lists_is_freed_without_recursion() {
        let mut value = Value::Nil;
        for _ in 0..1_000_000 {
            value = Value::list(alloc::vec![value]);
        }
        drop(value);
    }

    #[test]
    fn a_map_never_holds_itself() {
        let mut room = Room::default();
        let inner = Value::map([]);
        let Value::Map(map) = &inner else {
            unreachable!("it is a map")
        };
        let outer = Value::map([(Text::new("a"), Value::list(alloc::vec![inner.clone()]))]);
        assert!(map.set(Text::new("b"), outer, &mut room).is_err());
        assert!(map.set(Text::new("b"), Value::int(1), &mut room).is_ok());
        assert_eq!(map.len(), 1);
    }
}
