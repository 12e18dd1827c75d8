//! Filters change responses on their way to the client. Each directive has a file of its own.

pub mod encode;
