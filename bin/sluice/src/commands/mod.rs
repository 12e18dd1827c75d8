//! The commands, one file each, with Caddy's names and flags.

mod adapt;
mod build_info;
mod completion;
mod environ;
mod explain;
mod file_server;
mod fmt;
mod hash_password;
mod lab;
mod lint;
mod list_modules;
mod manpage;
mod nginx;
mod reload;
mod respond;
mod reverse_proxy;
mod run;
mod start;
mod stop;
mod trust;
mod untrust;
mod validate;
mod version;

use clap::{CommandFactory, Parser, Subcommand};

pub use hash_password::hash_bcrypt;

use crate::Exit;
use crate::messages::{Failed, MessageFormat};

/// Web server, reverse proxy and application server.
#[derive(Parser, Debug)]
#[command(name = "sluice", version = version::TEXT, about, subcommand_required = true)]
#[command(arg_required_else_help = true, max_term_width = 100)]
#[command(
    after_help = "Examples:\n  sluice run\n  sluice run --config Caddyfile --watch\n  \
    sluice reverse-proxy --from :8080 --to localhost:9000\n  sluice file-server --browse"
)]
pub struct Cli {
    /// How mistakes in configurations are told.
    #[arg(long, global = true, value_enum, default_value_t = MessageFormat::Human)]
    message_format: MessageFormat,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Starts the server and stays in the foreground until it is stopped.
    Run(run::Args),
    /// Starts the server in the background and returns when it serves.
    Start(start::Args),
    /// Stops a running server gracefully.
    Stop(stop::Args),
    /// Gives a running server a new configuration.
    Reload(reload::Args),
    /// Tells whether a configuration is valid.
    Validate(validate::Args),
    /// Shows a configuration as JSON.
    Adapt(adapt::Args),
    /// Tells what an nginx.conf says and hardly means.
    Lint(lint::Args),
    /// Formats a Caddyfile.
    Fmt(fmt::Args),
    /// Serves as a reverse proxy.
    ReverseProxy(reverse_proxy::Args),
    /// Serves files.
    FileServer(file_server::Args),
    /// Answers all requests alike, for development and testing.
    Respond(respond::Args),
    /// Prints the version.
    Version,
    /// Prints the environment as a server sees it.
    Environ(environ::Args),
    /// Hashes a password for `basic_auth`.
    HashPassword(hash_password::Args),
    /// Installs the root certificate of the local authority into the system's trust store.
    Trust(trust::Args),
    /// Removes a root certificate from the system's trust store.
    Untrust(untrust::Args),
    /// Prints the completion script of a shell.
    Completion(completion::Args),
    /// Writes the manual pages.
    Manpage(manpage::Args),
    /// Lists the modules that configurations can use.
    ListModules(list_modules::Args),
    /// Prints what this program was built from.
    BuildInfo,
    /// Serves an nginx.conf by nginx's own command line.
    Nginx(nginx::Args),
    /// Measures web servers: hands the rest of the line to the program `sluice-lab`.
    Lab(lab::Args),
    /// Explains how a request is handled, or a message by the name in its brackets.
    Explain(explain::Args),
}

/// Runs the command.
pub fn run(cli: Cli) -> Result<Exit, Failed> {
    let format = cli.message_format;
    match cli.command {
        Command::Run(args) => args.run(format),
        Command::Start(args) => args.run(format),
        Command::Stop(args) => args.run(format),
        Command::Reload(args) => args.run(format),
        Command::Validate(args) => args.run(format),
        Command::Adapt(args) => args.run(format),
        Command::Lint(args) => args.run(format),
        Command::Fmt(args) => args.run(format),
        Command::ReverseProxy(args) => args.run(format),
        Command::FileServer(args) => args.run(format),
        Command::Respond(args) => args.run(format),
        Command::Version => version::run(),
        Command::Environ(args) => args.run(),
        Command::HashPassword(args) => args.run(),
        Command::Trust(args) => args.run(format),
        Command::Untrust(args) => args.run(format),
        Command::Completion(args) => args.run(),
        Command::Manpage(args) => args.run(),
        Command::ListModules(args) => args.run(),
        Command::BuildInfo => build_info::run(),
        Command::Nginx(args) => args.run(),
        Command::Lab(args) => args.run(),
        Command::Explain(args) => args.run(format),
    }
}

/// The description of the whole command line, for completion and manual pages.
fn description() -> clap::Command {
    Cli::command()
}

/// The version, as people read it.
pub fn version_text() -> &'static str {
    version::TEXT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        description().debug_assert();
    }

    /// Everything that Caddy's documentation has people type.
    #[test]
    fn caddys_flags_are_understood() {
        for line in [
            "run -c a -a caddyfile --envfile e --envfile f -e -r -w --pidfile p --pingback :1",
            "start --config a --adapter caddyfile --envfile e --watch --pidfile p",
            "stop --address localhost:1 -c a -a caddyfile",
            "reload -c a -a caddyfile --address localhost:1 -f",
            "validate -c a -a caddyfile --envfile e",
            "adapt -c - -a caddyfile -p --validate --envfile e",
            "adapt --from caddy1 --to caddyfile a",
            "fmt -w",
            "fmt -d -",
            "reverse-proxy -f :1 -t :2 -t :3 -H A:b -d C:d -c -r -i -v --access-log --insecure",
            "reverse-proxy --from :1 --to :2 --header-up a:b --header-down c:d --change-host-header \
             --disable-redirects --internal-certs --debug",
            "file-server -r . -l :1 -d a.test -b -t -a -p zstd,gzip --reveal-symlinks --no-compress -v -f 9",
            "respond -l :1 -s 200 -b x -H A:b -v --access-log",
            "respond 404",
            "environ --envfile a",
            "hash-password -p x -a argon2id --argon2id-time 1 --argon2id-memory 8 \
             --argon2id-threads 1 --argon2id-keylen 32 --bcrypt-cost 4",
            "trust --ca local --address localhost:1 -c a -a caddyfile",
            "untrust -p a.crt",
            "completion bash",
            "manpage -o dir",
            "list-modules --packages --versions -s --json",
            "build-info",
            "version",
            "explain unknown-directive",
            "explain https://a/b -X POST -H A:b -H C:d --remote-ip ::1 --config a --json",
            "explain /a --address localhost:2019",
            "validate -c a --message-format json",
            "nginx -tq -c a -g x -s reload -h",
        ] {
            let words = std::iter::once("sluice").chain(line.split_whitespace());
            if let Err(error) = Cli::try_parse_from(words) {
                panic!("{line}: {error}");
            }
        }
    }
}
