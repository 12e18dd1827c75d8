//! Which machine ran what, in a few words for each chart of a report.

use super::Walk;
use crate::agent::AgentSpec;
use crate::stage::Stage;

/// The machine on which the run was started.
const HERE: &str = "the machine of the run";

impl Walk {
    /// The layout of the run.
    pub(super) fn layout(&self, stage: &Stage) -> String {
        let place = &self.file.place;
        let here = HERE.to_string();
        let servers = stage.remote().map_or(here.clone(), |one| one.name());
        let upstreams = stage.upstreams().map_or(servers.clone(), |one| one.name());
        let machine = |spec: &AgentSpec| match spec.is_local() {
            true => HERE.to_string(),
            false => spec.name(),
        };
        let load: Vec<String> = match place.agents.is_empty() {
            true => vec![here],
            false => place.agents.iter().map(machine).collect(),
        };
        let upstreams = (!self.file.backend.is_empty()).then_some(upstreams);
        words(&servers, upstreams.as_deref(), &load)
    }
}

/// What each machine ran: machines in the order of servers, upstreams and load.
fn words(servers: &str, upstreams: Option<&str>, load: &[String]) -> String {
    let parts = [("servers", servers)];
    let parts = parts
        .into_iter()
        .chain(upstreams.map(|one| ("upstreams", one)));
    let parts = parts.chain(load.iter().map(|one| ("load", one.as_str())));
    let mut machines: Vec<(&str, Vec<&str>)> = Vec::new();
    for (part, machine) in parts {
        match machines.iter_mut().find(|(name, _)| *name == machine) {
            None => machines.push((machine, vec![part])),
            Some((_, parts)) if parts.contains(&part) => {}
            Some((_, parts)) => parts.push(part),
        }
    }
    if let [(_, parts)] = &machines[..] {
        return format!("{} on one machine", list(parts));
    }
    // Machines that did the same are named together.
    let mut groups: Vec<(Vec<&str>, Vec<&str>)> = Vec::new();
    for (machine, parts) in machines {
        match groups.iter_mut().find(|(known, _)| *known == parts) {
            Some((_, names)) => names.push(machine),
            None => groups.push((parts, vec![machine])),
        }
    }
    let groups = groups.iter();
    let groups = groups.map(|(parts, names)| format!("{} on {}", list(parts), names.join(", ")));
    groups.collect::<Vec<_>>().join("; ")
}

fn list(parts: &[&str]) -> String {
    match parts {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        parts => parts.join(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_machine_is_named_with_what_it_ran() {
        let words = |servers, upstreams, load: &[&str]| {
            let load: Vec<String> = load.iter().map(|one| one.to_string()).collect();
            super::words(servers, upstreams, &load)
        };
        for (found, expected) in [
            (
                words(HERE, Some(HERE), &[HERE]),
                "servers, upstreams and load on one machine",
            ),
            (
                words(HERE, None, &[HERE]),
                "servers and load on one machine",
            ),
            (
                words("web", Some("web"), &[HERE]),
                "servers and upstreams on web; load on the machine of the run",
            ),
            (
                words("web", Some("db"), &["one", "two"]),
                "servers on web; upstreams on db; load on one, two",
            ),
            (
                words(HERE, Some("db"), &[HERE, HERE, "one"]),
                "servers and load on the machine of the run; upstreams on db; load on one",
            ),
        ] {
            assert_eq!(found, expected);
        }
    }
}
