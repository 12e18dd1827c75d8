//! `sluice list-modules`: the modules that configurations can use, by their names in Caddy.

use serde_json::json;
use sluice_model::handler::PasswordHash;
use sluice_model::http::IpSource;
use sluice_model::logging::{LogEncoder, LogWriter};
use sluice_model::proxy::{SelectionPolicy, Transport, UpstreamSource};
use sluice_model::tls::Issuer;
use sluice_model::{Handler, Storage};

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

/// Namespaces whose modules the model has types for: the list is that of the types, so that it cannot fall behind.
const TYPED: &[(&str, &[&str])] = &[
    ("caddy.logging.encoders", LogEncoder::MODULES),
    ("caddy.logging.writers", LogWriter::MODULES),
    ("caddy.storage", Storage::MODULES),
    ("http.authentication.hashes", PasswordHash::MODULES),
    ("http.handlers", Handler::MODULES),
    ("http.ip_sources", IpSource::MODULES),
    (
        "http.reverse_proxy.selection_policies",
        SelectionPolicy::MODULES,
    ),
    ("http.reverse_proxy.transport", Transport::MODULES),
    ("http.reverse_proxy.upstreams", UpstreamSource::MODULES),
    ("tls.issuance", Issuer::MODULES),
];

/// The other modules. Those that are known but not supported are rejected by name when they are used.
const OTHERS: &[(&str, &[&str])] = &[
    ("admin.api", &["load", "metrics", "pki", "reverse_proxy"]),
    ("caddy", &["filesystems"]),
    ("caddy.adapters", &["caddyfile", "nginx"]),
    ("caddy.config_loaders", &["http"]),
    (
        "caddy.listeners",
        &["http_redirect", "proxy_protocol", "tls"],
    ),
    (
        "caddy.logging.encoders.filter",
        &[
            "cookie",
            "delete",
            "hash",
            "ip_mask",
            "multi_regexp",
            "query",
            "regexp",
            "rename",
            "replace",
            "set_cookie",
        ],
    ),
    ("caddy.network_proxy", &["none", "url"]),
    ("", &["events", "http", "pki", "tls"]),
    ("http.authentication.providers", &["http_basic"]),
    ("http.encoders", &["br", "gzip", "zstd"]),
    (
        "http.matchers",
        &[
            "client_ip",
            "expression",
            "file",
            "header",
            "header_regexp",
            "host",
            "method",
            "not",
            "path",
            "path_regexp",
            "protocol",
            "query",
            "remote_ip",
            "tls",
            "url_pattern",
            "vars",
            "vars_regexp",
        ],
    ),
    ("http.precompressed", &["br", "gzip", "zstd"]),
    (
        "tls.ca_pool.source",
        &[
            "combined",
            "file",
            "http",
            "inline",
            "pki_intermediate",
            "pki_root",
            "storage",
            "system",
        ],
    ),
    (
        "tls.certificates",
        &[
            "automate",
            "load_files",
            "load_folders",
            "load_pem",
            "load_storage",
        ],
    ),
    ("tls.client_auth.verifier", &["leaf"]),
    ("tls.get_certificate", &["http", "tailscale"]),
    (
        "tls.handshake_match",
        &["local_ip", "not", "remote_ip", "sni", "sni_regexp"],
    ),
    (
        "tls.leaf_cert_loader",
        &["file", "folder", "pem", "storage"],
    ),
    ("tls.permission", &["http", "python_dir"]),
    ("tls.stek", &["distributed", "standard"]),
];

/// The names of all modules, sorted.
fn modules() -> Vec<String> {
    let mut names: Vec<String> = TYPED
        .iter()
        .chain(OTHERS)
        .flat_map(|(namespace, names)| {
            names.iter().map(move |name| match *namespace {
                "" => (*name).to_owned(),
                namespace => format!("{namespace}.{name}"),
            })
        })
        .collect();
    names.sort_unstable();
    names
}

impl Args {
    /// Prints the list.
    pub fn run(self) -> Result<Exit, Failed> {
        let all = modules();
        let shown = if self.skip_standard { &[][..] } else { &all };
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
        say!("\n  Standard modules: {}", all.len());
        Ok(Exit::Done)
    }
}
