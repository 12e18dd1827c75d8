//! `sluice list-modules`: the modules that configurations can use, by their names in Caddy.

use serde_json::json;

use crate::Exit;
use crate::messages::Failed;

/// Flags of the command.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Print the package of each module.
    #[arg(long)]
    packages: bool,
    /// Print the version of each module.
    #[arg(long)]
    versions: bool,
    /// Skip the modules of the standard build (all of them, in this build).
    #[arg(short, long)]
    skip_standard: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The modules that this server supports. Modules that are known but not supported yet are rejected by name when they
/// are used.
const MODULES: &[&str] = &[
    "admin.api.load",
    "caddy.adapters.caddyfile",
    "caddy.logging.encoders.console",
    "caddy.logging.encoders.json",
    "caddy.logging.writers.discard",
    "caddy.logging.writers.file",
    "caddy.logging.writers.stderr",
    "caddy.logging.writers.stdout",
    "caddy.storage.file_system",
    "http.authentication.hashes.argon2id",
    "http.authentication.hashes.bcrypt",
    "http.authentication.providers.http_basic",
    "http.encoders.br",
    "http.encoders.gzip",
    "http.encoders.zstd",
    "http.handlers.authentication",
    "http.handlers.encode",
    "http.handlers.error",
    "http.handlers.file_server",
    "http.handlers.headers",
    "http.handlers.invoke",
    "http.handlers.log_append",
    "http.handlers.map",
    "http.handlers.request_body",
    "http.handlers.reverse_proxy",
    "http.handlers.rewrite",
    "http.handlers.static_response",
    "http.handlers.subroute",
    "http.handlers.vars",
    "http.ip_sources.static",
    "http.matchers.client_ip",
    "http.matchers.file",
    "http.matchers.header",
    "http.matchers.header_regexp",
    "http.matchers.host",
    "http.matchers.method",
    "http.matchers.not",
    "http.matchers.path",
    "http.matchers.path_regexp",
    "http.matchers.protocol",
    "http.matchers.query",
    "http.matchers.remote_ip",
    "http.matchers.vars",
    "http.matchers.vars_regexp",
    "http.precompressed.br",
    "http.precompressed.gzip",
    "http.precompressed.zstd",
    "http.reverse_proxy.selection_policies.first",
    "http.reverse_proxy.selection_policies.ip_hash",
    "http.reverse_proxy.selection_policies.least_conn",
    "http.reverse_proxy.selection_policies.random",
    "http.reverse_proxy.selection_policies.round_robin",
    "http.reverse_proxy.transport.http",
    "tls.certificates.load_files",
    "tls.issuance.internal",
];

impl Args {
    /// Prints the list.
    pub fn run(self) -> Result<Exit, Failed> {
        let shown = if self.skip_standard { &[][..] } else { MODULES };
        if self.json {
            let list: Vec<_> = shown
                .iter()
                .map(|name| json!({ "module_name": name, "module_type": "standard" }))
                .collect();
            say!("{:#}", json!(list));
            return Ok(Exit::Done);
        }
        for name in shown {
            let version = if self.versions {
                concat!(" v", env!("CARGO_PKG_VERSION"))
            } else {
                ""
            };
            let package = if self.packages { " sluice" } else { "" };
            say!("{name}{version}{package}");
        }
        say!("\n  Standard modules: {}", MODULES.len());
        Ok(Exit::Done)
    }
}
