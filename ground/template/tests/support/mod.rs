//! A host without files and requests, with a fixed clock and repeatable randomness.

use std::cell::Cell;

use sluice_template::host::{HostCall, Outcome};
use sluice_template::limits::{BYTES_MAX, STEPS_MAX};
use sluice_template::{
    Delimiters, Error, Fault, Host, Machine, Progress, Room, Time, Value, Zone, parse,
};

#[derive(Default)]
pub struct Alone {
    chance: Cell<u64>,
}

impl Host for Alone {
    fn has(&self, function: &str) -> bool {
        function == "later"
    }

    fn call(&mut self, _function: &str, call: &mut HostCall<'_>) -> Result<Outcome, Fault> {
        match call.args {
            [value] => Ok(Outcome::Value(value.clone())),
            _ => Ok(Outcome::Later),
        }
    }

    fn now(&self) -> Time {
        Time::from_unix(1_790_000_000)
    }

    fn zone(&self, name: &str, _seconds: i64) -> Option<Zone> {
        (name == "UTC").then_some(Zone::UTC)
    }

    fn random(&self) -> u64 {
        // Numerical Recipes, section 7.1: enough to be different each time.
        let next = self.chance.get().wrapping_mul(6_364_136_223_846_793_005);
        self.chance
            .set(next.wrapping_add(1_442_695_040_888_963_407));
        self.chance.get() >> 16
    }

    fn env(&self, _name: &str) -> Option<String> {
        None
    }
}

/// The output of a template; a suspended call is resumed with `waited`.
pub fn write(source: &[u8], dot: Value) -> Result<Vec<u8>, Error> {
    let mut host = Alone::default();
    let program = parse(source, Delimiters::default(), &host)?;
    let mut machine = Machine::new(&program, dot);
    // A tenth of what pages have: tests are not optimised.
    machine.room = Room::new(STEPS_MAX / 10, BYTES_MAX / 10);
    while machine.run(&mut host)? == Progress::Waiting {
        machine.supply(Outcome::Value(Value::text("waited")))?;
    }
    Ok(machine.into_output())
}
