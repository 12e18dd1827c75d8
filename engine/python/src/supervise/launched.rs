//! A process that was started, and our ends of its descriptors.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use sluice_net::sys::spawn::Spawned;

/// A process that was started.
pub(super) struct Launched {
    pub spawned: Spawned,
    /// Our end of the control channel.
    pub control: UnixStream,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
}
