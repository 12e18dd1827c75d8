//! The commands, one file each, with Caddy's names and flags.

mod adapt;
pub(crate) mod build_info;
mod completion;
mod environ;
mod explain;
mod file_server;
mod fleet;
mod fmt;
mod hash_password;
mod lab;
mod lint;
mod list_modules;
mod manpage;
mod nginx;
mod push;
mod python;
mod reload;
mod respond;
mod reverse_proxy;
mod run;
mod start;
mod status;
mod stop;
mod storage;
mod top;
mod trust;
mod untrust;
mod upgrade_binary;
mod upstream;
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
    /// Format of diagnostics: human, short (one line each) or json (one object per line).
    #[arg(
        long,
        global = true,
        value_name = "FORMAT",
        value_enum,
        hide_possible_values = true
    )]
    #[arg(default_value_t = MessageFormat::Human, help_heading = "Global options")]
    message_format: MessageFormat,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Run the server in the foreground.
    ///
    /// Without `--config` it loads `./Caddyfile`. If that file does not exist, it serves a welcome page on
    /// http://localhost:8080 until you create it. SIGTERM drains connections and stops; SIGHUP reloads.
    Run(run::Args),
    /// Start the server in the background and return once it is ready.
    Start(start::Args),
    /// Stop a running server gracefully.
    Stop(stop::Args),
    /// Reload the configuration without dropping connections.
    ///
    /// If the new configuration has an error, the running server keeps the old one and the command exits with 1.
    Reload(reload::Args),
    /// Write a configuration to the place that the nodes of a fleet share, and wait until each has taken it.
    ///
    /// If a node refuses it, or its error rate jumps, the configuration before is written again and the command exits with
    /// 1. It exits with 0 only if all nodes run it.
    Push(Box<push::Args>),
    /// Show the nodes of a fleet and the configuration of each.
    Fleet(fleet::Args),
    /// Replace the running server by a new process, without dropping connections.
    ///
    /// The new process takes over the listening sockets and the configuration in effect. If it fails or does not serve in
    /// time, the old one goes on, and the command prints why and exits with 1.
    UpgradeBinary(upgrade_binary::Args),
    /// Show the status of a running server: requests, sites, upstreams and problems.
    Status(status::Args),
    /// Watch the status of a running server in the terminal.
    ///
    /// Redraws each second. `q` quits, `p` pauses, `s` changes the order of the sites, the arrow keys scroll. Without
    /// colors if `NO_COLOR` is set.
    Top(top::Args),
    /// Show the upstreams of a running server, or drain one, or change its weight.
    Upstream(upstream::Args),
    /// Check a configuration and report every mistake.
    ///
    /// Opens no port. Exits with 0 if the configuration is valid and with 1 if it has an error.
    Validate(validate::Args),
    /// Convert a configuration to JSON, or an nginx.conf to a Caddyfile.
    Adapt(adapt::Args),
    /// Find likely mistakes in an nginx.conf.
    ///
    /// Exits with 1 if it finds any.
    Lint(lint::Args),
    /// Format a Caddyfile.
    Fmt(fmt::Args),
    /// Run a reverse proxy without a configuration file.
    ReverseProxy(reverse_proxy::Args),
    /// Serve a directory without a configuration file.
    FileServer(file_server::Args),
    /// Serve a Python application (WSGI, ASGI, ESGI or RSGI).
    ///
    /// Without MODULE:APP it looks for a Django, Flask, FastAPI, Starlette or Quart project in the current folder. The
    /// interface is detected. Options are those of uvicorn and gunicorn.
    Python(Box<python::Args>),
    /// Serve a Python application with the flags of `caddy python-server`.
    PythonServer(Box<python::server::Args>),
    /// Send the same response to every request (development and testing).
    Respond(respond::Args),
    /// Print the version.
    Version,
    /// Print the environment variables the server would see.
    Environ(environ::Args),
    /// Hash a password for `basic_auth`.
    HashPassword(hash_password::Args),
    /// Install the local CA's root certificate into the system trust store.
    Trust(trust::Args),
    /// Remove the local CA's root certificate from the system trust store.
    Untrust(untrust::Args),
    /// List, export, import or move certificates and other stored data.
    Storage(storage::Args),
    /// Print a shell completion script.
    Completion(completion::Args),
    /// Write the manual pages.
    Manpage(manpage::Args),
    /// List the modules that configurations can use.
    ListModules(list_modules::Args),
    /// Print the packages this program was built from.
    BuildInfo,
    /// Run an nginx.conf with nginx's command line.
    Nginx(nginx::Args),
    /// Benchmark web servers (runs `sluice-lab`).
    Lab(lab::Args),
    /// Explain how a request is handled, or what a diagnostic means.
    ///
    /// With a URL it prints the configuration lines that handle the request, in order, and why other lines do not
    /// match. It sends no request. With a slug such as `unknown-directive` it prints the page of that diagnostic.
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
        Command::Push(args) => args.run(format),
        Command::Fleet(args) => args.run(),
        Command::UpgradeBinary(args) => args.run(format),
        Command::Status(args) => args.run(format),
        Command::Top(args) => args.run(format),
        Command::Upstream(args) => args.run(format),
        Command::Validate(args) => args.run(format),
        Command::Adapt(args) => args.run(format),
        Command::Lint(args) => args.run(format),
        Command::Fmt(args) => args.run(format),
        Command::ReverseProxy(args) => args.run(format),
        Command::FileServer(args) => args.run(format),
        Command::Python(args) => args.run(format),
        Command::PythonServer(args) => args.run(format),
        Command::Respond(args) => args.run(format),
        Command::Version => version::run(),
        Command::Environ(args) => args.run(),
        Command::HashPassword(args) => args.run(),
        Command::Trust(args) => args.run(format),
        Command::Untrust(args) => args.run(format),
        Command::Storage(args) => args.run(format),
        Command::Completion(args) => args.run(),
        Command::Manpage(args) => args.run(),
        Command::ListModules(args) => args.run(),
        Command::BuildInfo => build_info::run(),
        Command::Nginx(args) => args.run(),
        Command::Lab(args) => args.run(),
        Command::Explain(args) => args.run(format),
    }
}

/// The definition of the whole command line, for completion and manual pages.
fn description() -> clap::Command {
    Cli::command()
}

/// The version as it is printed.
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

    /// All command lines in Caddy's documentation.
    #[test]
    fn caddys_flags_are_understood() {
        for line in [
            "run -c a -a caddyfile --envfile e --envfile f -e -r -w --pidfile p --pingback :1",
            "start --config a --adapter caddyfile --envfile e --watch --pidfile p",
            "stop --address localhost:1 -c a -a caddyfile",
            "upstream --address localhost:1 -c a -a caddyfile",
            "upstream drain a:1 --keep --address localhost:1",
            "upstream set a:1 --weight 2 --max-requests configured",
            "reload -c a -a caddyfile --address localhost:1 -f",
            "run --config etcd://a/b --node c",
            "push a --to etcd://a/b --canary 10% --if-revision abcd --timeout 5s --observe 1m --yes --dry-run --json",
            "push --rollback --to etcd://a/b",
            "fleet status etcd://a/b --json",
            "upgrade-binary --binary a --ready-timeout 5s --grace-period 1m --address localhost:1",
            "status --address localhost:1 --json",
            "status -c a -a caddyfile --csv",
            "top --address localhost:1",
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
            "python",
            "python main:app -b :1 --bind unix:/a -w 2 --threads 3 --reload --root-path /a --lifespan on --factory --accelerator on",
            "python --host 0.0.0.0 --port 1 --chdir a --interface asgi -e A=b",
            "python-server -t wsgi -a a:b -d a.test -l :1 -w 2 --python-path p --working-dir d --venv v --env-file e \
             --env-var A=b --start-timeout -1 --static-path s --static-route /static/* --debug --access-logs \
             --autoreload --lifespan on --runtime sync --accelerator off --isolation none --max-dynamic-apps 3",
            "environ --envfile a",
            "hash-password -p x -a argon2id --argon2id-time 1 --argon2id-memory 8 \
             --argon2id-threads 1 --argon2id-keylen 32 --bcrypt-cost 4",
            "trust --ca local --address localhost:1 -c a -a caddyfile",
            "untrust -p a.crt",
            "storage export -c a -o -",
            "storage import --config a --input b",
            "storage list certificates --long -c a",
            "storage migrate --from-folder a -c b --replace",
            "storage reseal -c a",
            "storage unlock issue_cert_a.test -c a",
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
