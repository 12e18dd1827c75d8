//! Daemonizing: the original process exits only when the background process serves requests, or has failed.

use std::fs::OpenOptions;

use sluice_net::sys::process::{Half, Ready, Standard, redirect, split};

use crate::Exit;
use crate::messages::Failed;

/// Which process this is.
pub enum Place {
    /// The original one, which exits with this status.
    Before(Exit),
    /// The background process; the original one waits for it to be ready.
    Behind(Ready),
    /// The original one, running in the foreground.
    Here,
}

impl Place {
    /// Goes to the background if `wanted`. Failures in the background are reported by the background process.
    pub fn take(wanted: bool) -> Result<Place, Failed> {
        if !wanted {
            return Ok(Place::Here);
        }
        let split = split()
            .map_err(|error| Failed::new(format!("cannot go to the background: {error}")))?;
        match split {
            Half::Behind(ready) => Ok(Place::Behind(ready)),
            Half::Before(watch) => {
                let outcome = watch.wait().map_err(Failed::new)?;
                Ok(Place::Before(match outcome {
                    Ok(()) => Exit::Done,
                    Err(_) => Exit::Refused,
                }))
            }
        }
    }
}

/// Closes the standard input and output inherited from the parent process.
pub fn close_streams() -> Result<(), Failed> {
    let null = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")
        .map_err(Failed::new)?;
    for stream in [Standard::Input, Standard::Output] {
        redirect(stream, &null).map_err(Failed::new)?;
    }
    Ok(())
}
