//! The machines of a run: whether the experiment fits where its parts are to run, the connections to the agents of servers and
//! upstreams, and what the result says of these machines. The agents that generate the load are in `generators`.

use std::net::{IpAddr, Ipv4Addr};

use super::Walk;
use crate::agent::AgentSpec;
use crate::facts::{facts, missing, stand_ins};
use crate::file::{Backend, File, Place};
use crate::limits::MISTAKES_MAX;
use crate::position::position;
use crate::remote::{Bed, RemoteServers, Role};
use crate::stage::{Sources, Stage};
use sluice_load::outcome::Refused;

/// Hosts that are another machine for each.
const LOOPBACK_HOSTS: [&str; 2] = ["127.0.0.1", "localhost"];

/// The address at which servers reach upstreams.
const ADDRESS: &str = "{upstream.address}";

/// Refuses a placement that cannot be meant, and an experiment that does not fit it. `text` is that of the file.
pub(super) fn check(name: &str, text: &str, file: &File) -> Result<(), Refused> {
    let place = &file.place;
    let Some(upstreams) = &place.upstreams else {
        return match place.upstream_address {
            None => Ok(()),
            Some(_) => Err(Refused(format!(
                "{name}: --upstream-address (`upstream_address` of [place]) needs --upstreams (`upstreams`)"
            ))),
        };
    };
    if file.backend.is_empty() {
        return Err(Refused(format!(
            "{name}: it has no [[backend]] that agent {} could run: remove --upstreams (`upstreams` of [place])",
            upstreams.name()
        )));
    }
    if place
        .upstream_address
        .is_some_and(|one| one.is_unspecified())
    {
        return Err(Refused(format!(
            "{name}: --upstream-address is an address at which the servers reach the upstreams, such as 10.0.0.8"
        )));
    }
    let mistakes = match twice(place) {
        Some(twice) => vec![twice],
        None => misplaced(name, text, file),
    };
    match mistakes.is_empty() {
        true => Ok(()),
        false => Err(Refused(mistakes.join("\n"))),
    }
}

/// The refusal of an agent that is to be two machines. Those that this program starts are two processes.
fn twice(place: &Place) -> Option<String> {
    let upstreams = place.upstreams.as_ref()?;
    let is_one = |spec: &AgentSpec| matches!(spec, AgentSpec::Tcp(_)) && spec == upstreams;
    let name = upstreams.name();
    if place.servers.as_ref().is_some_and(is_one) {
        return Some(format!(
            "agent {name} cannot be the machine of the servers and that of the upstreams: start a second agent, or remove \
             --upstreams, as --servers runs both"
        ));
    }
    place.agents.iter().any(is_one).then(|| {
        format!("agent {name} cannot run upstreams and generate load: start a second agent")
    })
}

/// Where the file names the loopback address, although the servers reach the upstreams at another one: with the place of each,
/// and what to write.
fn misplaced(name: &str, text: &str, file: &File) -> Vec<String> {
    let Some(address) = file.place.upstream_address else {
        return Vec::new();
    };
    if address == IpAddr::V4(Ipv4Addr::LOCALHOST) {
        return Vec::new();
    }
    let mut found: Vec<(usize, String)> = Vec::new();
    for host in LOOPBACK_HOSTS {
        for end in ["{upstream}", "{backend."] {
            let written = format!("{host}:{end}");
            for (at, _) in text.match_indices(&written) {
                let rest = &text[at + host.len()..];
                let end = rest.find('}').map_or(rest.len(), |end| end + 1);
                let place = &rest[..end];
                let words = format!(
                    "`{host}{place}` is not where the upstreams run, which is {address}: write `{ADDRESS}{place}`"
                );
                found.push((at, words));
            }
        }
    }
    for backend in &file.backend {
        found.extend(listens_on_loopback(text, backend, address));
    }
    // What a comment says is not done.
    found.retain(|(at, _)| {
        let line = text[..*at].rsplit('\n').next().unwrap_or_default();
        !line.trim_start().starts_with('#')
    });
    found.sort();
    found.dedup();
    let found = found.into_iter().take(MISTAKES_MAX);
    found
        .map(|(at, words)| format!("{}: {words}", position(name, text, at)))
        .collect()
}

/// An upstream that would listen where no other machine reaches it: the place in the file, and what to write.
fn listens_on_loopback(
    text: &str,
    backend: &Backend,
    address: IpAddr,
) -> impl Iterator<Item = (usize, String)> {
    let commands = [Some(&backend.run), backend.instead.as_ref()];
    let commands = commands.into_iter().flatten().chain(backend.env.values());
    let both = commands.flat_map(|command| LOOPBACK_HOSTS.map(|host| (command, host)));
    both.flat_map(move |(command, host)| {
        ["{port}", "{listen}"].map(|port| (command, host, port))
    })
    .filter_map(move |(command, host, port)| {
        let written = format!("{host}:{port}");
        let within = command.find(&written)?;
        // The text has the command itself unless a quote in it is escaped.
        let at = text.find(command.as_str()).map_or(0, |at| at + within);
        let name = &backend.name;
        let words = format!(
            "[[backend]] `{name}` listens on `{written}`, and servers on another machine reach it at {address} only: write \
             `{ADDRESS}:{port}`"
        );
        Some((at, words))
    })
}

impl Walk {
    /// The environment of the run, here and on the machines of the servers and of the upstreams.
    pub(super) fn stage(&self, name: &str) -> Result<Stage, Refused> {
        let sources = Sources::Beside(name.into());
        let built = Stage::build(&self.file, sources, self.seed);
        let mut stage = built.map_err(Refused::new)?;
        stage.interrupt = self.interrupt.clone();
        // Servers are prepared with the ports of the upstreams.
        if let Some(spec) = &self.file.place.upstreams {
            let upstreams = self.connect(name, spec, Role::Upstreams, &stage)?;
            let placed = stage.place_upstreams(&self.file, upstreams);
            placed.map_err(Refused)?;
        }
        if let Some(spec) = &self.file.place.servers {
            let role = match stage.upstreams() {
                Some(upstreams) => Role::Servers(upstreams.places()),
                None => Role::Both,
            };
            let servers = self.connect(name, spec, role, &stage)?;
            stage.place_servers(servers).map_err(Refused)?;
        }
        stage.check_networks().map_err(Refused)?;
        Ok(stage)
    }

    /// Connects to an agent that runs a part of the experiment.
    fn connect(
        &self,
        name: &str,
        spec: &AgentSpec,
        role: Role,
        stage: &Stage,
    ) -> Result<RemoteServers, Refused> {
        let text = self.result.experiment.as_ref().map(|one| one.text.clone());
        let bed = Bed {
            name: name.to_string(),
            text: text.unwrap_or_default(),
            role,
            pin: self.file.place.pin,
            address: self.file.place.address,
            upstream_address: self.file.place.upstream_address,
            rest: self.file.load.rest.memory,
            idle_within: self.file.load.rest.idle,
            seed: self.seed,
            texts: stage.texts(&self.file, &self.cells),
            cells: self.cells.clone(),
        };
        let by = (spec, self.generators.token());
        RemoteServers::connect(by, &self.file, bed, &self.interrupt).map_err(Refused)
    }

    /// Writes into the result what is known of the servers and of their machines. Returns notes.
    pub(super) fn describe(&mut self, stage: &Stage) -> Vec<String> {
        let mut notes = match stage.remote() {
            None => {
                self.result.machine.placement = stage.placement();
                self.result.subjects = facts(&self.file, &self.cells, stage);
                self.missing = missing(&self.file, &self.cells, stage, &self.result.subjects);
                stand_ins(&self.file, stage)
            }
            Some(remote) => {
                let prepared = remote.prepared();
                self.result.machine = prepared.machine;
                self.result.subjects = prepared.subjects;
                self.missing = prepared.missing;
                prepared.notes
            }
        };
        if let Some(upstreams) = stage.upstreams() {
            let (prepared, name) = (upstreams.prepared(), upstreams.name());
            self.result.upstream_machine = Some(prepared.machine);
            for (cell, reason) in prepared.missing {
                let reason = format!("{reason} (on {name})");
                self.missing.entry(cell).or_insert(reason);
            }
            notes.extend(prepared.notes);
        }
        self.result.layout = Some(self.layout(stage));
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::parse;

    const TEXT: &str = r#"schema = "sluice.lab/1"
name = "own"
title = "Own"
[matrix]
clients = [1]
[[backend]]
name = "hello"
run = "{lab} serve respond --listen 127.0.0.1:{port}"
[test.proxied]
path = "/"
needs = ["hello"]
expect = { status = 200 }
[subject.relay]
# Not 127.0.0.1:{upstream}.
run = "{lab} serve relay 127.0.0.1:{backend.hello} --listen {address}:{port}"
env = { TO = "localhost:{upstream}" }
"#;

    fn placed(text: &str, change: impl Fn(&mut Place)) -> Result<(), String> {
        let mut file = parse("own.toml", text).unwrap();
        file.place.upstreams = Some(AgentSpec::Tcp("10.0.0.8:7070".into()));
        change(&mut file.place);
        check("own.toml", text, &file).map_err(|Refused(text)| text)
    }

    fn elsewhere(place: &mut Place) {
        place.upstream_address = Some([10, 0, 0, 8].into());
    }

    #[test]
    fn addresses_that_do_not_fit_another_machine_have_a_place() {
        assert_eq!(placed(TEXT, |_| {}), Ok(()));
        let error = placed(TEXT, elsewhere).unwrap_err();
        let lines: Vec<&str> = error.lines().collect();
        let expected = [
            "own.toml:8:37: [[backend]] `hello` listens on `127.0.0.1:{port}`, and servers on another machine reach it at \
             10.0.0.8 only: write `{upstream.address}:{port}`",
            "own.toml:15:26: `127.0.0.1:{backend.hello}` is not where the upstreams run, which is 10.0.0.8: write \
             `{upstream.address}:{backend.hello}`",
            "own.toml:16:15: `localhost:{upstream}` is not where the upstreams run, which is 10.0.0.8: write \
             `{upstream.address}:{upstream}`",
        ];
        assert_eq!(lines, expected);
        let right = TEXT
            .replace("127.0.0.1:", "{upstream.address}:")
            .replace("localhost:", "{upstream.address}:");
        assert_eq!(placed(&right, elsewhere), Ok(()));
    }

    #[test]
    fn the_built_in_experiments_fit_upstreams_on_another_machine() {
        for name in crate::builtin::builtin_names() {
            let text = crate::builtin::builtin(name).unwrap();
            let mut file = parse(name, text).unwrap();
            if file.backend.is_empty() {
                continue;
            }
            file.place.upstreams = Some(AgentSpec::Local);
            elsewhere(&mut file.place);
            let checked = check(name, text, &file);
            assert!(checked.is_ok(), "{checked:?}");
        }
    }

    #[test]
    fn placements_that_cannot_be_meant_are_refused() {
        let (before, rest) = TEXT.split_once("[[backend]]").unwrap();
        let (_, after) = rest.split_once("[test.").unwrap();
        let none = format!("{before}[test.{after}").replace("needs = [\"hello\"]\n", "");
        for (text, change, said) in [
            (
                none.as_str(),
                (|_| {}) as fn(&mut Place),
                "it has no [[backend]] that agent 10.0.0.8:7070 could run",
            ),
            (
                TEXT,
                |place| {
                    elsewhere(place);
                    place.upstreams = None;
                },
                "--upstream-address (`upstream_address` of [place]) needs --upstreams",
            ),
            (
                TEXT,
                |place| place.upstream_address = Some([0, 0, 0, 0].into()),
                "is an address at which the servers reach the upstreams",
            ),
            (
                TEXT,
                |place| place.servers.clone_from(&place.upstreams),
                "cannot be the machine of the servers and that of the upstreams",
            ),
            (
                TEXT,
                |place| place.agents.extend(place.upstreams.clone()),
                "cannot run upstreams and generate load",
            ),
        ] {
            let error = placed(text, change).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        // Of those that this program starts each is a process of its own.
        let local = |place: &mut Place| {
            place.upstreams = Some(AgentSpec::Local);
            place.servers.clone_from(&place.upstreams);
        };
        assert_eq!(placed(TEXT, local), Ok(()));
    }
}
