//! Who generates the load of `hit`: this process, or agents.

use sluice_experiment::agent::{Fleet, Token};
use sluice_experiment::single::{self, Driver};
use sluice_load::generator::Plan;
use sluice_load::outcome::Refused;
use sluice_load::result::Block;

use super::Options;
use crate::live::Live;

/// The generators of the options: agents, or this process if there are none.
pub struct Generators(Option<Box<Fleet>>);

impl Generators {
    /// Connects to the agents of the options.
    pub fn connect(options: &Options) -> Result<Self, Refused> {
        if options.agent.is_empty() {
            if options.token_file.is_some() {
                return Err(Refused::new("--token-file needs --agent"));
            }
            return Ok(Generators(None));
        }
        let token = Token::find(options.token_file.as_deref()).map_err(Refused)?;
        let fleet = Fleet::connect(&options.agent, token.as_ref(), options.reach());
        let fleet = fleet.map_err(Refused)?;
        Ok(Generators(Some(Box::new(fleet))))
    }

    /// Runs block `number` of a plan. A load that fails has no figures.
    pub fn block(
        &mut self,
        options: &Options,
        plan: &Plan,
        number: usize,
        live: &mut Live,
    ) -> Result<Block, Refused> {
        let here = self.0.is_none();
        let block = single::block(&mut self.driver(options), plan, number, live);
        block.map_err(|error| match here {
            true => Refused::new(format!("the load generator failed: {error}")),
            // It names the agent.
            false => Refused::new(error.to_string()),
        })
    }

    /// Who generates a load with these options.
    pub fn driver(&mut self, options: &Options) -> Driver<'_> {
        match &mut self.0 {
            None => Driver::Here,
            Some(fleet) => Driver::Agents {
                fleet,
                tls: options.tls(),
                threads: options.threads,
            },
        }
    }
}
