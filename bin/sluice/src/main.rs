//! The `sluice` program: parses the command line and runs one command. `commands` contains the commands, `supervise`
//! the running server.
#![forbid(unsafe_code)]

#[macro_use]
mod messages;

mod admin_client;
mod commands;
mod differences;
mod envfile;
mod folders;
mod load;
mod nginx;
mod old_flags;
mod quick_servers;
mod remote;
mod supervise;
mod watch;
mod welcome;

use std::process::ExitCode;

use clap::Parser;

/// Uses fewer and smaller pages than the system's allocator, and less time per request.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // A cache, a log or a buffered body may reach a limit on the size of files, which must not end the server.
    sluice_net::sys::process::report_size_limit();
    if std::env::args_os()
        .next()
        .is_some_and(|program| nginx::is_nginx(&program))
    {
        let words = std::env::args_os().skip(1);
        let words = words.map(|word| word.to_string_lossy().into_owned());
        return nginx::run(words.collect()).into();
    }
    // Arguments that are not Unicode are left to the parser.
    let words = std::env::args_os()
        .skip(1)
        .map_while(|word| word.into_string().ok());
    if let Some(error) = old_flags::refusal(words) {
        error.print();
        return Exit::Misused.into();
    }
    let cli = commands::Cli::parse();
    match commands::run(cli) {
        Ok(exit) => exit.into(),
        Err(error) => {
            error.print();
            Exit::Refused.into()
        }
    }
}

/// The exit status of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Success.
    Done,
    /// Failure; the reason was printed.
    Refused,
    /// Invalid command line, or a graceful shutdown that was cut short.
    Misused,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Done => 0,
            Exit::Refused => 1,
            Exit::Misused => 2,
        })
    }
}
