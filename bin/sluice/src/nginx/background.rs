//! Going to the background: the process that was started ends only when its successor serves, or has failed.

use std::fs::OpenOptions;

use sluice_net::sys::process::{Half, Ready, Standard, redirect, split};

use crate::Exit;
use crate::messages::Failed;

/// Where this process is.
pub enum Place {
    /// Before the background: it ends like this.
    Before(Exit),
    /// In the background, and somebody waits for it to serve.
    Behind(Ready),
    /// Where it was started.
    Here,
}

impl Place {
    /// Goes to the background if that is wanted. What goes wrong behind is told by the process behind.
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

/// Lets go of the input and the output of whoever started us.
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
