//! The types of values in expressions.

/// What is known of a value before it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    /// Only the request tells.
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
    /// A type itself, as `type(x)` gives.
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

    /// Whether a value of this type may stand where `wanted` is asked for.
    pub(super) fn fits(self, wanted: Type) -> bool {
        self == wanted || self == Type::Dyn || wanted == Type::Dyn
    }
}
