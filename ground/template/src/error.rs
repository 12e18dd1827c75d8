//! Why a template cannot be parsed or run. The host chooses the status of the response.

use alloc::boxed::Box;
use core::fmt;

/// What is wrong, and in which line of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The line of the template, from 1.
    pub line: u32,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The text is not a valid template; says what was found or missing.
    Syntax(&'static str),
    /// No function has this name.
    UnknownFunction(Box<str>),
    /// No variable has this name.
    UnknownVariable(Box<str>),
    /// No template was defined under this name.
    UnknownTemplate(Box<str>),
    /// A template was defined twice.
    DefinedTwice(Box<str>),
    /// A value has no field or method of this name.
    NoField {
        /// The name that was asked for.
        name: Box<str>,
        /// The type of the value.
        of: Box<str>,
    },
    /// A field of nothing was asked for.
    OfNil(Box<str>),
    /// A function got too few or too many values.
    Arguments {
        /// The function.
        function: Box<str>,
        /// How many values it got.
        given: usize,
    },
    /// A value is of another type than is needed.
    Type {
        /// What is needed.
        wanted: &'static str,
        /// The type of the value.
        found: Box<str>,
    },
    /// A place that a list or text does not have.
    Index(i64),
    /// A division by zero.
    DivisionByZero,
    /// A limit was reached; tells which.
    Limit(&'static str),
    /// A function failed, with the reason.
    Failed(Box<str>),
    /// The template asked for an error response with this status.
    Status(u16),
}

impl Fault {
    /// A failure of a function.
    pub fn failed(why: impl fmt::Display) -> Fault {
        Fault::Failed(alloc::format!("{why}").into())
    }

    /// The fault at a line.
    pub fn at(self, line: u32) -> Error {
        Error { line, fault: self }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Syntax(what) => f.write_str(what),
            Fault::UnknownFunction(name) => write!(f, "function `{name}` is not known"),
            Fault::UnknownVariable(name) => write!(f, "variable `{name}` is not defined"),
            Fault::UnknownTemplate(name) => write!(f, "template `{name}` is not defined"),
            Fault::DefinedTwice(name) => write!(f, "template `{name}` is defined twice"),
            Fault::NoField { name, of } => write!(f, "a value of type {of} has no `{name}`"),
            Fault::OfNil(name) => write!(f, "there is no value to take `{name}` of"),
            Fault::Arguments { function, given } => {
                write!(f, "`{function}` does not take {given} values")
            }
            Fault::Type { wanted, found } => write!(f, "expected {wanted}, found {found}"),
            Fault::Index(place) => write!(f, "place {place} is out of range"),
            Fault::DivisionByZero => f.write_str("division by zero"),
            Fault::Limit(which) => write!(f, "limit reached: {which}"),
            Fault::Failed(why) => f.write_str(why),
            Fault::Status(code) => write!(f, "the template asked for status {code}"),
        }
    }
}

impl core::error::Error for Fault {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.fault)
    }
}

impl core::error::Error for Error {}
