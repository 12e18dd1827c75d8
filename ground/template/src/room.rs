//! The remaining budget of one page, in steps and bytes. The code that computes charges it.

use crate::error::Fault;
use crate::limits::{BYTES_MAX, STEPS_MAX};

/// What is left of the limits of one page.
#[derive(Clone, Debug)]
pub struct Room {
    steps: usize,
    bytes: usize,
}

impl Default for Room {
    fn default() -> Room {
        Room::new(STEPS_MAX, BYTES_MAX)
    }
}

impl Room {
    /// Room for so many steps and bytes.
    pub fn new(steps: usize, bytes: usize) -> Room {
        Room { steps, bytes }
    }

    /// Takes one step.
    pub fn step(&mut self) -> Result<(), Fault> {
        self.steps = self.steps.checked_sub(1).ok_or(Fault::Limit("steps"))?;
        Ok(())
    }

    /// Takes `count` bytes, before they are made.
    pub fn take(&mut self, count: usize) -> Result<(), Fault> {
        self.bytes = self.bytes.checked_sub(count).ok_or(Fault::Limit("bytes"))?;
        Ok(())
    }

    /// Takes room for a list of `count` values.
    pub fn take_values(&mut self, count: usize) -> Result<(), Fault> {
        self.take(count.saturating_mul(core::mem::size_of::<crate::Value>()))
    }
}
