//! The functions available in expressions, with their argument types: CEL's standard functions and its extensions for
//! strings, lists and math, as in Caddy. The crate `cel` implements them.

use super::value_type::Type::{self, *};

/// One overload of a function.
#[derive(Clone, Copy, Debug)]
pub(super) struct Function {
    pub(super) name: &'static str,
    /// The receiver type, for `target.name()`.
    pub(super) target: Option<Type>,
    args: Args,
    pub(super) gives: Type,
}

#[derive(Clone, Copy, Debug)]
enum Args {
    Each(&'static [Type]),
    /// One or more arguments of any type.
    Some,
}

impl Function {
    /// Whether it accepts these argument types.
    pub(super) fn takes(&self, args: &[Type], fits: impl Fn(Type, Type) -> bool) -> bool {
        match self.args {
            Args::Each(wanted) => {
                wanted.len() == args.len()
                    && wanted
                        .iter()
                        .zip(args)
                        .all(|(wanted, arg)| fits(*arg, *wanted))
            }
            Args::Some => !args.is_empty(),
        }
    }
}

/// The names of types, for `type(x) == string`.
pub(super) const TYPE_NAMES: [&str; 11] = [
    "bool",
    "bytes",
    "double",
    "duration",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "type",
    "uint",
];

const fn global(name: &'static str, args: &'static [Type], gives: Type) -> Function {
    Function {
        name,
        target: None,
        args: Args::Each(args),
        gives,
    }
}

const fn any(name: &'static str, gives: Type) -> Function {
    Function {
        name,
        target: None,
        args: Args::Some,
        gives,
    }
}

const fn on(target: Type, name: &'static str, args: &'static [Type], gives: Type) -> Function {
    Function {
        name,
        target: Some(target),
        args: Args::Each(args),
        gives,
    }
}

/// All overloads.
pub(super) const FUNCTIONS: &[Function] = &[
    global("size", &[String], Int),
    global("size", &[Bytes], Int),
    global("size", &[List], Int),
    global("size", &[Map], Int),
    on(String, "size", &[], Int),
    on(Bytes, "size", &[], Int),
    on(List, "size", &[], Int),
    on(Map, "size", &[], Int),
    on(String, "contains", &[String], Bool),
    on(String, "startsWith", &[String], Bool),
    on(String, "endsWith", &[String], Bool),
    on(String, "matches", &[String], Bool),
    global("matches", &[String, String], Bool),
    global("bool", &[Bool], Bool),
    global("bool", &[String], Bool),
    global("bytes", &[String], Bytes),
    global("bytes", &[Bytes], Bytes),
    global("double", &[Double], Double),
    global("double", &[Int], Double),
    global("double", &[Uint], Double),
    global("double", &[String], Double),
    global("duration", &[String], Duration),
    global("duration", &[Duration], Duration),
    global("dyn", &[Dyn], Dyn),
    global("int", &[Int], Int),
    global("int", &[Uint], Int),
    global("int", &[Double], Int),
    global("int", &[String], Int),
    global("int", &[Timestamp], Int),
    global("string", &[String], String),
    global("string", &[Bool], String),
    global("string", &[Int], String),
    global("string", &[Uint], String),
    global("string", &[Double], String),
    global("string", &[Bytes], String),
    global("string", &[Duration], String),
    global("string", &[Timestamp], String),
    global("timestamp", &[String], Timestamp),
    global("timestamp", &[Timestamp], Timestamp),
    global("timestamp", &[Int], Timestamp),
    global("type", &[Dyn], Meta),
    global("uint", &[Uint], Uint),
    global("uint", &[Int], Uint),
    global("uint", &[Double], Uint),
    global("uint", &[String], Uint),
    on(Timestamp, "getFullYear", &[], Int),
    on(Timestamp, "getFullYear", &[String], Int),
    on(Timestamp, "getMonth", &[], Int),
    on(Timestamp, "getMonth", &[String], Int),
    on(Timestamp, "getDate", &[], Int),
    on(Timestamp, "getDate", &[String], Int),
    on(Timestamp, "getDayOfMonth", &[], Int),
    on(Timestamp, "getDayOfMonth", &[String], Int),
    on(Timestamp, "getDayOfWeek", &[], Int),
    on(Timestamp, "getDayOfWeek", &[String], Int),
    on(Timestamp, "getDayOfYear", &[], Int),
    on(Timestamp, "getDayOfYear", &[String], Int),
    on(Timestamp, "getHours", &[], Int),
    on(Timestamp, "getHours", &[String], Int),
    on(Timestamp, "getMinutes", &[], Int),
    on(Timestamp, "getMinutes", &[String], Int),
    on(Timestamp, "getSeconds", &[], Int),
    on(Timestamp, "getSeconds", &[String], Int),
    on(Timestamp, "getMilliseconds", &[], Int),
    on(Timestamp, "getMilliseconds", &[String], Int),
    on(Duration, "getHours", &[], Int),
    on(Duration, "getMinutes", &[], Int),
    on(Duration, "getSeconds", &[], Int),
    on(Duration, "getMilliseconds", &[], Int),
    on(String, "charAt", &[Int], String),
    on(String, "format", &[List], String),
    on(String, "indexOf", &[String], Int),
    on(String, "indexOf", &[String, Int], Int),
    on(String, "lastIndexOf", &[String], Int),
    on(String, "lastIndexOf", &[String, Int], Int),
    on(List, "join", &[], String),
    on(List, "join", &[String], String),
    on(String, "lowerAscii", &[], String),
    on(String, "upperAscii", &[], String),
    on(String, "replace", &[String, String], String),
    on(String, "replace", &[String, String, Int], String),
    on(String, "reverse", &[], String),
    on(String, "split", &[String], List),
    on(String, "split", &[String, Int], List),
    on(String, "substring", &[Int], String),
    on(String, "substring", &[Int, Int], String),
    on(String, "trim", &[], String),
    global("strings.quote", &[String], String),
    on(List, "distinct", &[], List),
    on(List, "flatten", &[], List),
    on(List, "flatten", &[Int], List),
    on(List, "reverse", &[], List),
    on(List, "slice", &[Int, Int], List),
    on(List, "sort", &[], List),
    on(Dyn, "@sortByAssociatedKeys", &[List], List),
    global("lists.range", &[Int], List),
    any("math.@max", Dyn),
    any("math.@min", Dyn),
    global("math.abs", &[Dyn], Dyn),
    global("math.sign", &[Dyn], Dyn),
    global("math.ceil", &[Double], Double),
    global("math.floor", &[Double], Double),
    global("math.round", &[Double], Double),
    global("math.trunc", &[Double], Double),
    global("math.sqrt", &[Dyn], Double),
    global("math.isInf", &[Double], Bool),
    global("math.isNaN", &[Double], Bool),
    global("math.isFinite", &[Double], Bool),
    global("math.bitAnd", &[Dyn, Dyn], Dyn),
    global("math.bitOr", &[Dyn, Dyn], Dyn),
    global("math.bitXor", &[Dyn, Dyn], Dyn),
    global("math.bitNot", &[Dyn], Dyn),
    global("math.bitShiftLeft", &[Dyn, Int], Dyn),
    global("math.bitShiftRight", &[Dyn, Int], Dyn),
];
