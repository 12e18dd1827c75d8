//! The host of templates: it runs them, and adds functions that need files, requests or the operating system.

use alloc::rc::Rc;
use alloc::string::String;

use crate::code::Program;
use crate::error::Fault;
use crate::function::{self, Services};
use crate::room::Room;
use crate::time::{Time, Zone};
use crate::value::{Text, Value};

/// What runs templates: it has functions of its own, the clock and chance.
pub trait Host {
    /// Whether it has a function with this name.
    fn has(&self, function: &str) -> bool;

    /// Calls one of its functions.
    fn call(&mut self, function: &str, call: &mut HostCall<'_>) -> Result<Outcome, Fault>;

    /// The time.
    fn now(&self) -> Time;

    /// The zone with this name at a moment; `None` if there is none.
    fn zone(&self, name: &str, seconds: i64) -> Option<Zone>;

    /// Random bits.
    fn random(&self) -> u64;

    /// A variable of the environment.
    fn env(&self, name: &str) -> Option<String>;
}

/// A call of a host's function.
#[derive(Debug)]
pub struct HostCall<'a> {
    /// Its values.
    pub args: &'a [Value],
    /// What is left of the limits.
    pub room: &'a mut Room,
}

impl HostCall<'_> {
    /// The text at place `at`.
    pub fn text(&self, at: usize) -> Result<&Text, Fault> {
        function::text(self.args, at)
    }

    /// Refuses another number of values.
    pub fn expect(&self, function: &str, min: usize, max: usize) -> Result<(), Fault> {
        let given = self.args.len();
        if (min..=max).contains(&given) {
            return Ok(());
        }
        Err(Fault::Arguments {
            function: function.into(),
            given,
        })
    }
}

/// What a function of the host gives.
#[derive(Debug)]
pub enum Outcome {
    /// A value.
    Value(Value),
    /// What this program writes, given a dot.
    Run(Rc<Program>, Value),
    /// Nothing, but the templates that this program defines are known from now on.
    Import(Rc<Program>),
    /// The value comes later: the machine stops, and goes on with [`crate::Machine::supply`].
    Later,
}

/// A host as the functions of this package see it.
pub(crate) struct ServicesOf<'a>(pub &'a dyn Host);

impl Services for ServicesOf<'_> {
    fn now(&self) -> Time {
        self.0.now()
    }

    fn zone(&self, name: &str, seconds: i64) -> Option<Zone> {
        self.0.zone(name, seconds)
    }

    fn random(&self) -> u64 {
        self.0.random()
    }
}
