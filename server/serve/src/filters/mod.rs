//! Filters: what changes an answer on its way out. Each directive has one file.

pub mod encode;
