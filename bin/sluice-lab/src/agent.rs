//! `sluice-lab agent`: its options; and those of the commands that use agents.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use sluice_experiment::agent::{Rules, TOKEN_VARIABLE, Token, serve, serve_stdio};
use sluice_experiment::host::hosting;
use sluice_experiment::limits::SILENCE_MAX;
use sluice_load::generator::target::Reach;
use sluice_load::outcome::{Completion, Outcome, Refused};
use sluice_load::quantity::parse_duration;

/// Options of `lab agent`.
#[derive(Args, Debug)]
pub struct Options {
    /// Address to listen on
    #[arg(
        long,
        short = 'l',
        default_value = "127.0.0.1:7070",
        conflicts_with = "stdio"
    )]
    listen: SocketAddr,
    /// Talk to the coordinator over standard input and output, as started by ssh
    #[arg(long)]
    stdio: bool,
    /// File with the token that coordinators have to know (default: the variable SLUICE_LAB_TOKEN)
    #[arg(long, value_name = "FILE", conflicts_with = "stdio")]
    token_file: Option<PathBuf>,
    /// Allow loads of hosts other than this one
    #[arg(long)]
    i_own_this_host: bool,
    /// Allow coordinators to start this program for an experiment (repeatable); nothing is started otherwise
    #[arg(long, value_name = "PROGRAM")]
    allow_run: Vec<String>,
    /// Stop servers if their coordinator is silent for this long (for tests)
    #[arg(long, hide = true, value_parser = parse_duration)]
    silence: Option<Duration>,
}

/// Runs `lab agent` until the process is terminated, or its coordinator is gone.
pub fn run(options: &Options) -> Outcome {
    let reach = match options.i_own_this_host {
        true => Reach::Anywhere,
        false => Reach::Loopback,
    };
    let failed = |error: std::io::Error| Refused(format!("the agent failed: {error}"));
    let hosting = match options.allow_run.is_empty() {
        true => None,
        false => Some(hosting(&options.allow_run)),
    };
    let rules = Rules {
        token: None,
        reach,
        hosting,
        silence_max: options.silence.unwrap_or(SILENCE_MAX),
    };
    if options.stdio {
        serve_stdio(rules).map_err(failed)?;
        return Ok(Completion::Yes);
    }
    let token = Token::find(options.token_file.as_deref()).map_err(Refused)?;
    let Some(token) = token else {
        return Err(Refused(format!(
            "an agent that listens needs a token: --token-file FILE or {TOKEN_VARIABLE}"
        )));
    };
    let listener = TcpListener::bind(options.listen)
        .map_err(|error| Refused(format!("{}: {error}", options.listen)))?;
    let address = listener.local_addr().map_err(failed)?;
    println!("listening on {address}");
    std::io::stdout().flush().map_err(failed)?;
    let rules = Rules {
        token: Some(token),
        ..rules
    };
    serve(&listener, rules, |line| eprintln!("{line}")).map_err(failed)?;
    Ok(Completion::Yes)
}
