//! `sluice reverse-proxy`: requests to one address go to others.

use crate::Exit;
use crate::load::{Adapter, parse};
use crate::messages::{Failed, MessageFormat};
use crate::quick::{field, quoted, serve};

/// The flags of the command.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The address to serve; with a host name and no port it is served over HTTPS.
    #[arg(short, long, value_name = "ADDRESS", default_value = "localhost")]
    from: String,
    /// The upstreams; repeat the flag for several.
    #[arg(
        short,
        long,
        value_name = "ADDRESS",
        required = true,
        value_delimiter = ','
    )]
    to: Vec<String>,
    /// Sends the upstream's address as Host.
    #[arg(short, long)]
    change_host_header: bool,
    /// Sets a field of requests to upstreams (`Name: value`).
    #[arg(short = 'H', long, value_name = "FIELD")]
    header_up: Vec<String>,
    /// Sets a field of answers to clients (`Name: value`).
    #[arg(short = 'd', long, value_name = "FIELD")]
    header_down: Vec<String>,
    /// Does not check certificates of upstreams: anybody in between can read and change everything.
    #[arg(long)]
    insecure: bool,
    /// Uses certificates of the local authority.
    #[arg(short, long)]
    internal_certs: bool,
    /// Does not redirect from HTTP to HTTPS.
    #[arg(short = 'r', long)]
    disable_redirects: bool,
    /// Logs requests.
    #[arg(long)]
    access_log: bool,
    /// Logs more.
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

    /// The same in words of a Caddyfile.
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
