//! Results for people and programs: a self-contained HTML file, Markdown in the table layouts of the studies, CSV and
//! single charts. `view` orders the cells, `chart` draws, the others write. Nothing is measured or judged here.

#![forbid(unsafe_code)]

pub mod chart;
mod claims;
pub mod compare;
pub mod csv;
pub mod explain;
pub mod export;
pub mod gate;
pub mod html;
pub mod limits;
mod limits_found;
mod line_diff;
pub mod load;
mod mark_summary;
pub mod markdown;
pub mod merge;
pub mod otlp;
mod overload;
pub mod panels;
mod shapes;
pub mod summary;
pub mod text;
pub mod view;

#[cfg(test)]
mod example;
#[cfg(test)]
mod schema_tests;
#[cfg(test)]
mod tests;

pub use html::page;
