//! The live control interface.
