//! Every raw system call of the project, each behind a safe function. This is the only place for `unsafe` and for
//! `cfg(target_os)`.
#![allow(unsafe_code)]

pub mod code;
pub mod datagrams;
pub mod files;
pub mod identity;
pub mod inherited;
pub mod limits;
pub mod listening;
pub(crate) mod local_address;
pub mod local_time;
pub mod memory_file;
pub mod packets;
pub mod peek;
pub mod placement;
pub mod prefetch;
pub mod process;
pub mod readiness;
pub mod receive;
pub mod rights;
pub mod send;
pub mod spawn;
pub mod tcp_info;
pub mod temp_file;
pub mod terminal;
