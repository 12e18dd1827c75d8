//! Template functions of this package, and their calls.

use alloc::borrow::Cow;
use alloc::rc::Rc;
use core::fmt;

use crate::error::Fault;
use crate::room::Room;
use crate::time::{Time, Zone};
use crate::value::{Map, Text, Value};

/// A function of this package.
pub(crate) struct Function {
    pub name: &'static str,
    /// The fewest and the most values it takes.
    pub args: (usize, usize),
    pub run: fn(&mut Call<'_>) -> Result<Value, Fault>,
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Stands for any number of values.
pub(crate) const ANY: usize = usize::MAX;

/// What functions need of the host: the time and chance.
pub(crate) trait Services {
    /// The time.
    fn now(&self) -> Time;

    /// The zone with this name at a moment; `None` if there is none.
    fn zone(&self, name: &str, seconds: i64) -> Option<Zone>;

    /// Random bits.
    fn random(&self) -> u64;
}

/// A call of one of our functions.
pub struct Call<'a> {
    /// Its values.
    pub args: &'a [Value],
    /// What is left of the limits.
    pub room: &'a mut Room,
    /// What the host that runs the template provides.
    pub(crate) host: &'a dyn Services,
}

impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.args).finish()
    }
}

impl<'a> Call<'a> {
    /// The value at place `at`.
    pub(crate) fn value(&self, at: usize) -> &'a Value {
        &self.args[at]
    }

    /// The text at place `at`.
    pub(crate) fn text(&self, at: usize) -> Result<&'a Text, Fault> {
        text(self.args, at)
    }

    /// The characters of the text at place `at`.
    pub(crate) fn str(&self, at: usize) -> Result<Cow<'a, str>, Fault> {
        Ok(text(self.args, at)?.lossy())
    }

    /// The whole number at place `at`.
    pub(crate) fn int(&self, at: usize) -> Result<i64, Fault> {
        match &self.args[at] {
            Value::Int(number, _) => Ok(*number),
            Value::Float(number) if *number % 1.0 == 0.0 => Ok(*number as i64),
            other => Err(wrong("a whole number", other)),
        }
    }

    /// The list at place `at`.
    pub(crate) fn list(&self, at: usize) -> Result<Value, Fault> {
        match self.args[at].plain() {
            list @ Value::List(_) => Ok(list),
            other => Err(wrong("a list", &other)),
        }
    }

    /// The map at place `at`.
    pub(crate) fn map(&self, at: usize) -> Result<Rc<Map>, Fault> {
        match self.args[at].plain() {
            Value::Map(map) => Ok(map),
            other => Err(wrong("a map", &other)),
        }
    }

    /// A text that is new, with its bytes taken from the room.
    pub(crate) fn made(&mut self, bytes: impl AsRef<[u8]>) -> Result<Value, Fault> {
        self.room.take(bytes.as_ref().len())?;
        Ok(Value::text(bytes))
    }
}

/// The text at place `at` of `args`.
pub(crate) fn text(args: &[Value], at: usize) -> Result<&Text, Fault> {
    match &args[at] {
        Value::Text(text) => Ok(text),
        other => Err(wrong("a text", other)),
    }
}

/// A value of the wrong type.
pub(crate) fn wrong(wanted: &'static str, found: &Value) -> Fault {
    Fault::Type {
        wanted,
        found: found.type_name(),
    }
}
