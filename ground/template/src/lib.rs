//! Templates in the language of Go's text/template with the functions of Sprig: source and data go in, text comes out.
//! The [`Host`] that runs a template provides access to the request, files and the clock.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod code;
pub mod error;
pub mod function;
mod functions;
pub mod host;
pub mod json;
mod lex;
pub mod limits;
pub mod machine;
mod parse;
mod printf;
mod quote;
pub mod room;
mod show;
pub mod time;
pub mod value;

pub use code::Program;
pub use error::{Error, Fault};
pub use function::Call;
pub use host::{Host, Outcome};
pub use machine::{Machine, Progress};
pub use parse::{Delimiters, parse};
pub use room::Room;
pub use show::{show, write_float};
pub use time::{Time, Zone};
pub use value::{IntKind, List, Map, Object, Of, Text, Value};
