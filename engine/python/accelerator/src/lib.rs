//! `sluice_accelerator`: the innermost loop of sluice's Python worker (`engine/python/worker`) as an extension module.
//!
//! It reads the frames of a lane, and serves requests without a body whose response is complete in one piece. A request
//! that turns out to be anything else is promoted: the worker's own class of pure Python takes its state over, so
//! that there is one implementation of all that is rare.

mod asgi;
mod frames;
mod headers;
mod lane;
mod limits;
mod marshal;
mod reader;
mod wsgi;

use pyo3::prelude::*;

/// The extension module.
#[pymodule]
mod sluice_accelerator {
    #[pymodule_export]
    use super::asgi::{Call, Http};
    #[pymodule_export]
    use super::reader::Reader;
    #[pymodule_export]
    use super::wsgi::Exchange;

    /// What the worker expects of this module; a worker of another version does not use it.
    #[pymodule_export]
    const PROTOCOL: u32 = 1;
    /// The version of the workspace.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
