//! The `sluice` program: reads the command line and hands over to one command. What a command does is left to
//! `commands`, what a running server does to `supervise`.
#![forbid(unsafe_code)]

#[macro_use]
mod messages;

mod admin_client;
mod commands;
mod envfile;
mod folders;
mod load;
mod nginx;
mod old_flags;
mod quick;
mod supervise;
mod watch;
mod welcome;

use std::process::ExitCode;

use clap::Parser;

/// Fewer and smaller pages than the system's allocator, and less time per request.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if std::env::args_os()
        .next()
        .is_some_and(|program| nginx::is_nginx(&program))
    {
        let words = std::env::args_os().skip(1);
        let words = words.map(|word| word.to_string_lossy().into_owned());
        return nginx::run(words.collect()).into();
    }
    // Words that are no Unicode are left to the parser.
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

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done,
    /// Something could not be done; it was told why.
    Refused,
    /// The command line makes no sense, or a stop was cut short.
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
