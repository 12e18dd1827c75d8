//! Who generates the load of a run: this process, or agents, which are connected before the first block and again after a
//! block in which one was lost.

use std::path::Path;
use std::thread;
use std::time::Instant;

use crate::agent::{AgentSpec, Fleet, Token};
use crate::file::Place;
use crate::limits::{LOST_BLOCKS_MAX, RECONNECT_MAX, RECONNECT_PAUSE};
use crate::remote::RemoteServers;
use crate::stage::Stage;
use sluice_load::generator;
use sluice_load::generator::interrupt::Interrupt;
use sluice_load::generator::target::Reach;
use sluice_load::machine;
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
        let token = match place.agents.is_empty() && place.servers.is_none() {
            true => None,
            false => Token::find(token_file).map_err(Refused)?,
        };
        // Before any load the machine of the servers finds that the address is its own.
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
                "agent {name} runs on another machine than the servers: add --address with an address of their machine that \
                 the agent reaches"
            )),
            Some(_) | None => Ok(fleet),
        }
    }

    /// The connected agents, if there are any.
    pub(super) fn fleet(&mut self) -> Option<&mut Fleet> {
        self.fleet.as_mut()
    }

    /// The token of agents.
    pub(super) fn token(&self) -> Option<&Token> {
        self.token.as_ref()
    }

    /// Connects anew if an agent was lost, here or for the servers. An agent that was only cut off serves again once it has
    /// noticed.
    pub(super) fn make_ready(
        &mut self,
        stage: &Stage,
        interrupt: &Interrupt,
    ) -> Result<(), Refused> {
        let servers_lost = || stage.remote().is_some_and(RemoteServers::is_lost);
        let fleet_lost = self.fleet.as_ref().is_some_and(Fleet::is_broken);
        if !fleet_lost && !servers_lost() {
            return Ok(());
        }
        if self.lost_in_a_row >= LOST_BLOCKS_MAX {
            let text = "agents failed in {} blocks in a row";
            return Err(Refused(text.replace("{}", &LOST_BLOCKS_MAX.to_string())));
        }
        // Agents serve one coordinator at a time, so the old connections end first.
        if fleet_lost {
            self.fleet = None;
        }
        let began = Instant::now();
        loop {
            let mut connected = Ok(());
            if fleet_lost && self.fleet.is_none() {
                connected = self.dial().map(|fleet| self.fleet = Some(fleet));
            }
            if servers_lost() {
                connected = connected.and_then(|()| stage.reconnect());
            }
            match connected {
                Ok(()) => return Ok(()),
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

    /// A search was lost because of an agent, and begins anew.
    pub(super) fn lost_a_search(&mut self) {
        self.lost_in_a_row += 1;
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

    /// Writes into a result who generates its load, and where the servers run.
    pub(super) fn describe(&self, result: &mut RunResult, servers: Option<&RemoteServers>) {
        let place = match servers {
            None => "The machine described here ran the servers and their upstreams".to_string(),
            Some(servers) => {
                let name = servers.name();
                format!(
                    "The machine described here is that of {name}, which ran the servers and their upstreams"
                )
            }
        };
        if self.specs.is_empty() {
            if servers.is_some() {
                let here = machine::look();
                let (model, cpus) = (here.cpu_model, here.cpus);
                result.notes.push(format!(
                    "{place}. The machine of the run generated the load: {model}, {cpus} CPUs."
                ));
            }
            return;
        }
        if !self.specs.iter().any(AgentSpec::is_local) {
            result.machine.placement.remove("generator");
        }
        let names: Vec<String> = self.specs.iter().map(AgentSpec::name).collect();
        let names = names.join(", ");
        result
            .notes
            .push(format!("Agents generated the load: {names}. {place}."));
    }
}
