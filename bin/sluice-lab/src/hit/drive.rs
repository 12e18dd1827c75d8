//! Who generates the load of `hit`: this process, or agents.

use sluice_experiment::agent::{Divided, Fleet, Token};
use sluice_experiment::single;
use sluice_load::generator::Plan;
use sluice_load::outcome::Refused;
use sluice_load::result::Block;

use super::Options;
use crate::live::Live;

/// Who generates the load.
pub enum Driver {
    /// This process.
    Here,
    /// Agents.
    Agents(Box<Fleet>),
}

impl Driver {
    /// Connects to the agents of the options.
    pub fn connect(options: &Options) -> Result<Self, Refused> {
        if options.agent.is_empty() {
            return Ok(Driver::Here);
        }
        let token = Token::find(options.token_file.as_deref()).map_err(Refused)?;
        let fleet = Fleet::connect(&options.agent, token.as_ref(), options.reach());
        let fleet = fleet.map_err(Refused)?;
        Ok(Driver::Agents(Box::new(fleet)))
    }

    /// Runs block `number` of a plan. A load that fails has no figures.
    pub fn block(
        &mut self,
        options: &Options,
        plan: &Plan,
        number: usize,
        live: &mut Live,
    ) -> Result<Block, Refused> {
        match self {
            Driver::Here => single::block(plan, number, live)
                .map_err(|error| Refused::new(format!("the load generator failed: {error}"))),
            Driver::Agents(fleet) => {
                let task = Divided {
                    plan,
                    tls: &options.tls(),
                    threads: options.threads,
                };
                single::block_by(fleet, &task, number, live)
                    .map_err(|error| Refused::new(error.to_string()))
            }
        }
    }
}
