//! The protocol between sluice and the worker processes of Python applications: frames, dictionaries that describe
//! requests, and header blocks (docs/decisions/0023-python-applications.md). Processes and sockets are in
//! `sluice-python`.

mod facts;

pub use facts::Facts;
