//! Who generates the load of a run: this process, or agents, which are connected before the first block and again after a
//! block in which one was lost.

use std::path::Path;
use std::thread;
use std::time::Instant;

use crate::agent::{AgentSpec, Fleet, Token};
use crate::file::{File, Place};
use crate::limits::{LOST_BLOCKS_MAX, RECONNECT_MAX, RECONNECT_PAUSE};
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
        let others = place.servers.iter().chain(&place.upstreams);
        let token = match place.agents.iter().chain(others).next() {
            None => None,
            Some(_) => Token::find(token_file).map_err(Refused)?,
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

    /// Connects anew if an agent was lost, of the load, the servers or the upstreams. An agent that was only cut off serves again
    /// once it has noticed.
    pub(super) fn make_ready(
        &mut self,
        (stage, file): (&Stage, &File),
        interrupt: &Interrupt,
    ) -> Result<(), Refused> {
        let servers_lost = || stage.has_lost_agent();
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
                connected = connected.and_then(|()| stage.reconnect(file));
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

    /// Writes into a result who generates its load, and where servers and upstreams run.
    pub(super) fn describe(&self, result: &mut RunResult, stage: &Stage) {
        let place = place_words(stage);
        if self.specs.is_empty() {
            let here = machine::look();
            let (model, cpus) = (here.cpu_model, here.cpus);
            let generated = match (stage.remote(), stage.upstreams()) {
                (None, None) => return,
                (None, Some(_)) => "The machine of the servers generated the load, too.".into(),
                (Some(_), _) => {
                    format!("The machine of the run generated the load: {model}, {cpus} CPUs.")
                }
            };
            result.notes.push(format!("{place}. {generated}"));
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

/// Which machine ran the servers and which the upstreams, in a sentence without its full stop.
fn place_words(stage: &Stage) -> String {
    let upstreams = stage.upstreams();
    let ran = match upstreams {
        None => "the servers and their upstreams",
        Some(_) => "the servers",
    };
    let place = match stage.remote() {
        None => format!("The machine described here ran {ran}"),
        Some(servers) => {
            let name = servers.name();
            format!("The machine described here is that of {name}, which ran {ran}")
        }
    };
    match upstreams {
        None => place,
        Some(upstreams) => {
            let (name, machine) = (upstreams.name(), upstreams.prepared().machine);
            let (model, cpus) = (machine.cpu_model, machine.cpus);
            format!("{place}. The machine of {name} ran the upstreams: {model}, {cpus} CPUs")
        }
    }
}
