//! The programs that an agent may start: those named by `--allow-run`.

use super::Role;
use crate::file::{File, Run};
use sluice_load::process::words;

/// The name of the lab itself in the list.
const LAB: &str = "sluice-lab";

/// The tracer of checks that count system calls.
const TRACER: &str = "strace";

/// The programs that may be started, each as an experiment names it.
#[derive(Clone, Debug, Default)]
pub struct AllowedPrograms(Vec<String>);

impl AllowedPrograms {
    /// These.
    pub fn new(programs: &[String]) -> Self {
        AllowedPrograms(programs.to_vec())
    }

    /// Whether a command may run: `written` as the experiment has it, `words` with placeholders replaced. The error says what to
    /// do. Of the lab itself only the servers are allowed: its other commands run anything.
    pub fn command(&self, written: &str, words: &[String]) -> Result<(), String> {
        let name = program(written);
        let first = words.first().map_or("", String::as_str);
        let is_named = |one: &String| *one == name || one == first;
        if !self.0.iter().any(is_named) {
            return Err(format!(
                "the agent may not start `{name}`; start it with --allow-run={name}"
            ));
        }
        let is_lab = [name.as_str(), first]
            .iter()
            .any(|one| one.rsplit('/').next() == Some(LAB));
        match words.get(1).map(String::as_str) {
            Some("serve") => Ok(()),
            _ if !is_lab => Ok(()),
            _ => Err(format!("the agent may start only `{LAB} serve`")),
        }
    }

    /// Whether system calls may be traced.
    pub fn tracer(&self) -> Result<(), String> {
        self.command(TRACER, &[TRACER.to_string()])
    }
}

/// The programs of an experiment that a machine with this part in it starts, as they have to be allowed.
pub fn programs(file: &File, role: &Role) -> Vec<String> {
    let mut commands: Vec<&str> = Vec::new();
    let backends = file.backend.iter().filter(|_| role.has_upstreams());
    for backend in backends {
        commands.push(&backend.run);
        commands.extend(backend.instead.as_deref());
    }
    for subject in file.subject.values().filter(|_| role.has_servers()) {
        match &subject.run {
            Run::One(command) => commands.push(command),
            Run::ByKind(by_kind) => commands.extend(by_kind.values().map(String::as_str)),
        }
        commands.extend(subject.version.as_deref());
    }
    if role.has_servers() && file.check.iter().any(|part| part.calls.is_some()) {
        commands.push(TRACER);
    }
    let mut programs: Vec<String> = commands.into_iter().map(program).collect();
    programs.sort();
    programs.dedup();
    programs
}

/// The program of a command as the experiment names it.
fn program(command: &str) -> String {
    let first = words(command).unwrap_or_default().into_iter().next();
    match first.as_deref() {
        Some("{lab}") => LAB.to_string(),
        first => first.unwrap_or_default().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::builtin;
    use crate::file;

    #[test]
    fn only_named_programs_may_be_started() {
        let allowed =
            AllowedPrograms::new(&["nginx".into(), "sluice-lab".into(), "{setup}/go".into()]);
        let may = |written: &str, filled: &str| allowed.command(written, &words(filled).unwrap());
        assert_eq!(may("nginx -c {conf}", "nginx -c /tmp/x"), Ok(()));
        assert_eq!(may("{setup}/go", "/home/a/go"), Ok(()));
        let lab = |rest: &str| {
            may(
                &format!("{{lab}} {rest}"),
                &format!("/bin/sluice-lab {rest}"),
            )
        };
        assert_eq!(lab("serve null --listen 1"), Ok(()));
        // What runs any command is refused, however it is named.
        for rest in ["shield --parent=1 -- sh -c x", "run x.toml", ""] {
            assert!(lab(rest).is_err(), "{rest}");
            let named = format!("sluice-lab {rest}");
            assert!(may(&named, &named).is_err(), "{rest}");
        }
        for other in ["sh -c nginx", "/tmp/nginx", "", "nginx2"] {
            let error = may(other, other).unwrap_err();
            assert!(error.contains("--allow-run="), "{error}");
        }
        assert!(AllowedPrograms::default().command("nginx", &[]).is_err());
        assert!(allowed.tracer().unwrap_err().contains("strace"));
    }

    #[test]
    fn the_programs_of_an_experiment_are_those_of_its_commands() {
        let file = file::parse("000", builtin("000").unwrap()).unwrap();
        let all = programs(&file, &Role::Both);
        for name in ["nginx", "caddy", "sluice", "sluice-lab", "lighttpd"] {
            assert!(all.iter().any(|one| one == name), "{all:?}");
        }
        // A machine of its own for the upstreams starts nothing else, and the machine of the servers no upstream.
        let upstreams = programs(&file, &Role::Upstreams);
        assert_eq!(upstreams, ["lighttpd", "sluice-lab"]);
        let servers = programs(&file, &Role::Servers(Default::default()));
        assert!(!servers.iter().any(|one| one == "lighttpd"), "{servers:?}");
        assert!(servers.iter().any(|one| one == "nginx"), "{servers:?}");
    }
}
