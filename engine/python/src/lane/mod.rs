//! Lanes: the connections between a thread of sluice and the seats of worker processes. Each is shared by many calls. A
//! task drives each lane and owns its socket; calls have slots in it where received data waits. Frames are left to
//! `sluice-wire`.

mod body;
mod drive;
mod heed;
mod local;
mod mux;
mod slot;
mod upload;

pub(crate) use body::ResponseBody;
pub(crate) use local::{Local, Placed};
pub(crate) use mux::{Mux, Whole};
pub(crate) use slot::{Found, Gone, Message};
pub(crate) use upload::Upload;
