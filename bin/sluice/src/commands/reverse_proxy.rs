//! `sluice reverse-proxy`: forwards requests from one address to upstreams.

use crate::Exit;
use crate::load::{Adapter, parse};
use crate::messages::{Failed, MessageFormat};
use crate::quick_servers::{field, quoted, serve};

/// Flags of the command.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Address to serve; a host name without a port is served over HTTPS.
    #[arg(short, long, value_name = "ADDRESS", default_value = "localhost")]
    from: String,
    /// Upstream address (repeatable).
    #[arg(
        short,
        long,
        value_name = "ADDRESS",
        required = true,
        value_delimiter = ','
    )]
    to: Vec<String>,
    /// Set the `Host` header to the upstream's address.
    #[arg(short, long)]
    change_host_header: bool,
    /// Set a request header sent to the upstream (`Name: value`, repeatable).
    #[arg(short = 'H', long, value_name = "HEADER")]
    header_up: Vec<String>,
    /// Set a response header (`Name: value`, repeatable).
    #[arg(short = 'd', long, value_name = "HEADER")]
    header_down: Vec<String>,
    /// Do not verify upstream certificates (insecure: anyone on the path can read and change the traffic).
    #[arg(long)]
    insecure: bool,
    /// Use certificates of the local CA.
    #[arg(short, long)]
    internal_certs: bool,
    /// Do not redirect HTTP to HTTPS.
    #[arg(short = 'r', long)]
    disable_redirects: bool,
    /// Enable the access log.
    #[arg(long)]
    access_log: bool,
    /// Enable debug logs.
    #[arg(short = 'v', long)]
    debug: bool,
}

impl Args {
    /// Serves until the server is stopped.
    pub fn run(self, format: MessageFormat) -> Result<Exit, Failed> {
        let text = self.caddyfile()?;
        let loaded = parse("command line", &text, Adapter::Caddyfile, format)?;
        say!("Reverse proxy: {} -> {}", self.from, self.to.join(", "));
        serve(loaded.config, format)
    }

    /// The equivalent Caddyfile.
    fn caddyfile(&self) -> Result<String, Failed> {
        let mut text = String::from("{\n\tadmin off\n\tpersist_config off\n");
        for (wanted, line) in [
            (self.debug, "\tdebug\n"),
            (self.internal_certs, "\tlocal_certs\n"),
            (self.disable_redirects, "\tauto_https disable_redirects\n"),
        ] {
            if wanted {
                text.push_str(line);
            }
        }
        text.push_str(&format!("}}\n{} {{\n", quoted(&self.from)));
        if self.access_log {
            text.push_str("\tlog\n");
        }
        let to: Vec<String> = self.to.iter().map(|to| quoted(to)).collect();
        text.push_str(&format!("\treverse_proxy {} {{\n", to.join(" ")));
        if self.change_host_header {
            text.push_str("\t\theader_up Host {http.reverse_proxy.upstream.hostport}\n");
        }
        let up = self.header_up.iter().map(|field| ("header_up", field));
        for (word, line) in up.chain(self.header_down.iter().map(|field| ("header_down", field))) {
            let (name, value) = field(line)?;
            text.push_str(&format!("\t\t{word} {} {}\n", quoted(name), quoted(value)));
        }
        if self.insecure {
            text.push_str("\t\ttransport http {\n\t\t\ttls_insecure_skip_verify\n\t\t}\n");
        }
        text.push_str("\t}\n}\n");
        Ok(text)
    }
}
