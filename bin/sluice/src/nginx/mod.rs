//! nginx's command line: `sluice nginx …`, and this program started through a link named `nginx`. Flags, exit codes and
//! the messages that other programs parse are nginx's (<https://nginx.org/en/docs/switches.html>); `supervise` runs the
//! server.

mod background;
pub mod invocation;
mod lines;
pub mod notices;
mod send_signal;
mod switches;
mod version;

use std::ffi::OsStr;
use std::path::Path;

use sluice_net::sys::process::Signals;

use crate::Exit;
use crate::load::Loaded;
use crate::messages::{Failed, MessageFormat, print_bytes, write};
use crate::supervise::binary_upgrade::Inherited;
use crate::supervise::{self, Job, Manners, Origin};
use background::Place;
use invocation::Invocation;
use switches::{Switches, Task};

/// Whether a program of this name behaves like nginx.
pub fn is_nginx(program: &OsStr) -> bool {
    Path::new(program).file_name() == Some(OsStr::new("nginx"))
}

/// Runs an nginx command line, without the program name. All errors have been printed when it returns.
pub fn run(words: Vec<String>) -> Exit {
    let switches = match Switches::parse(words) {
        Ok(switches) => switches,
        Err(problem) => {
            write(&format!("nginx: {problem}\n"));
            return Exit::Refused;
        }
    };
    if let Some(text) = version::text(&switches) {
        write(&text);
        if switches.task == Task::Serve || switches.task == Task::Help {
            return Exit::Done;
        }
    }
    let done = Invocation::new(&switches).and_then(|invocation| match &switches.task {
        Task::Help => Ok(Exit::Done),
        Task::Test { dump } => test(&invocation, &switches, *dump),
        Task::Signal(signal) => send_signal::send(&invocation, *signal),
        Task::Serve => serve(invocation),
    });
    match done {
        Ok(exit) => exit,
        Err(failed) => {
            lines::print(&failed);
            Exit::Refused
        }
    }
}

/// `-t` and `-T`.
fn test(invocation: &Invocation, switches: &Switches, dump: bool) -> Result<Exit, Failed> {
    let conf = invocation.conf();
    let say = |what: &str| {
        if !switches.quiet {
            write(&format!("nginx: {what}\n"));
        }
    };
    let tested = invocation.load(MessageFormat::Human).and_then(|loaded| {
        lines::print_warnings(&loaded.report);
        say(&format!("the configuration file {conf} syntax is ok"));
        supervise::validate(&loaded, MessageFormat::Human).map(|()| loaded)
    });
    match tested {
        Ok(loaded) => {
            say(&format!("configuration file {conf} test is successful"));
            match dump {
                true => dump_texts(&loaded),
                false => Ok(Exit::Done),
            }
        }
        Err(failed) => {
            lines::print(&failed);
            write(&format!("nginx: configuration file {conf} test failed\n"));
            Ok(Exit::Refused)
        }
    }
}

/// Prints all files that were read, each once.
fn dump_texts(loaded: &Loaded) -> Result<Exit, Failed> {
    let mut out = String::new();
    let mut seen: Vec<&str> = Vec::new();
    for source in loaded.report.sources.all() {
        let name = source.name();
        if name == sluice_nginx::COMMAND_LINE || seen.contains(&name) {
            continue;
        }
        seen.push(name);
        out.push_str(&format!(
            "# configuration file {name}:\n{}\n",
            source.text()
        ));
    }
    print_bytes(out.as_bytes())
}

/// Runs the server, in the background unless the configuration says otherwise.
fn serve(mut invocation: Invocation) -> Result<Exit, Failed> {
    let signals = Signals::hold().map_err(Failed::new)?;
    let handed = Inherited::take()?;
    let is_successor = handed.is_some();
    let handed = handed.unwrap_or_default();
    let loaded = handed.reported(invocation.load(MessageFormat::Human))?;
    lines::print_warnings(&loaded.report);
    let asked = loaded.config.apps.process.clone().unwrap_or_default();
    let background = asked.background.unwrap_or(true);
    let place = Place::take(background && !is_successor)?;
    let ready = match place {
        Place::Before(exit) => return Ok(exit),
        Place::Behind(ready) => Some(ready),
        Place::Here => None,
    };
    if background {
        // After a binary upgrade the process is in the background already.
        invocation.leave_terminal();
    }
    let inherited = (invocation.clone(), loaded.config.clone());
    let job = Job {
        origin: Origin::Nginx(invocation),
        watch: false,
        pidfile: None,
        ready: Box::new(move || {
            if inherited.0.is_in_background() {
                background::close_streams()?;
                inherited.0.redirect_error(&inherited.1);
            }
            if let Some(ready) = ready {
                ready.report();
            }
            Ok(())
        }),
        format: MessageFormat::Human,
        manners: Manners::Nginx,
        inherited: handed,
    };
    supervise::run_loaded(job, loaded, signals)
}
