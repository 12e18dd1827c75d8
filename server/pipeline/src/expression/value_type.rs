//! The types of values in expressions.

/// The static type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    /// Known only at run time.
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    List,
    Map,
    Duration,
    Timestamp,
    /// A type as a value, as `type(x)` returns.
    Meta,
}

impl Type {
    pub(super) fn name(self) -> &'static str {
        match self {
            Type::Dyn => "dyn",
            Type::Null => "null",
            Type::Bool => "bool",
            Type::Int => "int",
            Type::Uint => "uint",
            Type::Double => "double",
            Type::String => "string",
            Type::Bytes => "bytes",
            Type::List => "list",
            Type::Map => "map",
            Type::Duration => "duration",
            Type::Timestamp => "timestamp",
            Type::Meta => "type",
        }
    }

    /// Whether a value of this type is acceptable where `wanted` is expected.
    pub(super) fn fits(self, wanted: Type) -> bool {
        self == wanted || self == Type::Dyn || wanted == Type::Dyn
    }
}
