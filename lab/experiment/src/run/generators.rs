//! Who generates the load of a run: this process, or agents, which are connected before the first block and again after a
//! block in which one was lost.

use std::path::Path;
use std::thread;
use std::time::Instant;

use crate::agent::{AgentSpec, Fleet, Token};
use crate::file::Place;
use crate::limits::{LOST_BLOCKS_MAX, RECONNECT_MAX, RECONNECT_PAUSE};
use sluice_load::generator;
use sluice_load::generator::interrupt::Interrupt;
use sluice_load::generator::target::Reach;
use sluice_load::outcome::Refused;
use sluice_load::result::RunResult;

/// The generators of a run.
pub(super) struct Generators {
    specs: Vec<AgentSpec>,
    token: Option<Token>,
    /// What the agents that this program starts may load.
    reach: Reach,
    /// CPUs of agents that this program starts.
    cpus: Vec<usize>,
    fleet: Option<Fleet>,
    /// Blocks without figures since the last one with.
    lost_in_a_row: usize,
    lost: usize,
}

impl Generators {
    /// The generators of an experiment, not connected yet.
    pub(super) fn new(place: &Place, token_file: Option<&Path>) -> Result<Self, Refused> {
        let token = match place.agents.is_empty() {
            true => None,
            false => Token::find(token_file).map_err(Refused)?,
        };
        // The address was found to be one of this machine.
        let reach = match place.address {
            Some(address) if !address.is_loopback() => Reach::Anywhere,
            Some(_) | None => Reach::Loopback,
        };
        Ok(Generators {
            specs: place.agents.clone(),
            token,
            reach,
            cpus: Vec::new(),
            fleet: None,
            lost_in_a_row: 0,
            lost: 0,
        })
    }

    /// Connects to the agents, if there are any. Those that this program starts get these CPUs.
    pub(super) fn connect(&mut self, cpus: &[usize]) -> Result<(), Refused> {
        self.cpus = cpus.to_vec();
        self.fleet = match self.specs.is_empty() {
            true => None,
            false => Some(self.dial().map_err(Refused)?),
        };
        Ok(())
    }

    fn dial(&self) -> Result<Fleet, String> {
        let (specs, token, reach, cpus) = (&self.specs, &self.token, self.reach, &self.cpus);
        // A program inherits the CPUs of the thread that starts it.
        let fleet = thread::scope(|scope| {
            let dial = scope.spawn(|| {
                generator::confine(cpus).map_err(|error| error.to_string())?;
                Fleet::connect(specs, token.as_ref(), reach)
            });
            dial.join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        match fleet.elsewhere() {
            Some(name) if self.reach == Reach::Loopback => Err(format!(
                "agent {name} runs on another machine, and the servers listen on this one: add --address with an address of \
                 this machine that the agent reaches"
            )),
            Some(_) | None => Ok(fleet),
        }
    }

    /// The connected agents, if there are any.
    pub(super) fn fleet(&mut self) -> Option<&mut Fleet> {
        self.fleet.as_mut()
    }

    /// Connects anew if an agent was lost. An agent that was only cut off serves again once it has noticed.
    pub(super) fn make_ready(&mut self, interrupt: &Interrupt) -> Result<(), Refused> {
        if !self.fleet.as_ref().is_some_and(Fleet::is_broken) {
            return Ok(());
        }
        if self.lost_in_a_row >= LOST_BLOCKS_MAX {
            let text = "agents failed in {} blocks in a row";
            return Err(Refused(text.replace("{}", &LOST_BLOCKS_MAX.to_string())));
        }
        // Agents serve one coordinator at a time, so the old connections end first.
        self.fleet = None;
        let began = Instant::now();
        loop {
            match self.dial() {
                Ok(fleet) => {
                    self.fleet = Some(fleet);
                    return Ok(());
                }
                Err(error) if interrupt.is_set() || began.elapsed() > RECONNECT_MAX => {
                    return Err(Refused(error));
                }
                Err(_) => thread::sleep(RECONNECT_PAUSE),
            }
        }
    }

    /// A block has figures.
    pub(super) fn worked(&mut self) {
        self.lost_in_a_row = 0;
    }

    /// A block has none, because of an agent.
    pub(super) fn failed(&mut self) {
        self.lost_in_a_row += 1;
        self.lost += 1;
    }

    /// How many blocks have no figures because of agents, if any.
    pub(super) fn summary(&self) -> Option<String> {
        match self.lost {
            0 => None,
            1 => Some("an agent failed in 1 block, which has no figures".to_string()),
            lost => Some(format!(
                "agents failed in {lost} blocks, which have no figures"
            )),
        }
    }

    /// Writes into a result who generates its load.
    pub(super) fn describe(&self, result: &mut RunResult) {
        if self.specs.is_empty() {
            return;
        }
        if !self.specs.iter().any(AgentSpec::is_local) {
            result.machine.placement.remove("generator");
        }
        let names: Vec<String> = self.specs.iter().map(AgentSpec::name).collect();
        result.notes.push(format!(
            "Agents generated the load: {}. The machine described here ran the servers and their upstreams.",
            names.join(", ")
        ));
    }
}
