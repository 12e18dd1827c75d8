//! Source files, spans, and diagnostics that point at them.
//!
//! The configuration languages define the diagnostics and their help; the command line decides where the rendered text
//! goes, and whether in colour.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod closest;
mod diagnostic;
mod excerpt;
mod json;
mod limits;
mod origin;
mod render;
mod report;
mod shown;
mod source;

pub use closest::closest;
pub use diagnostic::{Diagnostic, Label, Severity};
pub use excerpt::{Excerpt, columns};
pub use limits::DIAGNOSTICS_SHOWN_MAX;
pub use origin::{Origin, OriginId, Origins, Place, Written};
pub use render::{Colour, Role};
pub use report::Report;
pub use shown::shown;
pub use source::{ImportId, ImportStep, Position, Source, SourceId, Sources, Span};
