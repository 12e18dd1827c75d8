//! Connections to the servers behind us: dialling, keeping, and speaking HTTP/1 on them. Which server is chosen
//! is left to `sluice-policy`.

/// The idle upstream connections of a worker.
#[derive(Default)]
pub struct Pool {}
