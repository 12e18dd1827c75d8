//! Nodes of a fleet: servers with one storage and one CA. pebble connects to fixed ports, so one of the nodes responds to
//! the challenges of all of them.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::Resumption;

use crate::acme::TIMEOUT;
use crate::acme::pebble::Settings;
use crate::harness::{Folder, Server, Setup, free_port};
use crate::support::wait::until;
use crate::tls::{connect_to, get};

/// What a node is started with, so that it can be started again.
pub struct Node {
    pub data: Folder,
    /// Where its sites are.
    https: SocketAddr,
    pub caddyfile: String,
    network: Option<String>,
}

impl Node {
    /// A node that serves `names`. The one with the ports of `settings` responds to the challenges. `storage` is the
    /// global option.
    fn new(settings: &Settings, storage: &str, (http, https): (u16, u16), names: &[&str]) -> Node {
        let options = settings.options_at(&http.to_string(), &https.to_string());
        let sites = names.join(", ");
        Node {
            data: Folder::new(),
            https: (Ipv4Addr::LOCALHOST, https).into(),
            caddyfile: format!("{{\n\t{options}\t{storage}\n}}\n{sites} {{\n\trespond hello\n}}\n"),
            network: None,
        }
    }

    pub fn elsewhere(settings: &Settings, storage: &str, names: &[&str]) -> Node {
        Node::new(settings, storage, (free_port(), free_port()), names)
    }

    pub fn responding(settings: &Settings, storage: &str, names: &[&str]) -> Node {
        Node::new(settings, storage, (settings.http, settings.alpn), names)
    }

    /// A node that responds to the challenges of others, and orders nothing.
    pub fn only_responding(settings: &Settings, storage: &str) -> Node {
        Node::responding(settings, storage, &["http://other.test"])
    }

    /// The node, with orders that stop before the CA is asked to validate, until [`Node::release`]: a command that sets a DNS
    /// record does not return before that.
    pub fn holding_orders(mut self) -> Node {
        let folder = self.data.path().display();
        // It ends with the folder of a test that has failed.
        let script = format!(
            "[ \"$1\" = present ] || exit 0\n: > {folder}/held\n\
             while [ -d {folder} ] && [ ! -e {folder}/go ]; do sleep 0.05; done\n"
        );
        let script = self.data.write("hold", script);
        let issuer = format!(
            "cert_issuer acme {{\n\t\tdns exec /bin/sh {}\n\t\tpropagation_timeout -1\n\t}}",
            script.display()
        );
        self.caddyfile = self
            .caddyfile
            .replacen("\n}\n", &format!("\n\t{issuer}\n}}\n"), 1);
        self
    }

    /// Whether an order waits.
    pub fn is_held(&self) -> bool {
        self.data.path().join("held").is_file()
    }

    /// Ends what `holding_orders` began.
    pub fn release(&self) {
        self.data.write("go", "");
    }

    /// The node in a network namespace, which the test reaches at `address`.
    pub fn in_network(mut self, name: &str, address: Ipv4Addr) -> Node {
        self.network = Some(name.to_owned());
        self.https.set_ip(address.into());
        self
    }

    pub fn start(&self) -> Server {
        let data = self.data.path().display().to_string();
        let setup = Setup::new(&self.caddyfile).env("XDG_DATA_HOME", &data);
        match &self.network {
            Some(name) => setup.in_network(name).start(),
            None => setup.start(),
        }
    }

    /// Where its sites are.
    pub fn https(&self) -> SocketAddr {
        self.https
    }

    /// The certificate that it presents for `name`, if it has one that `client` trusts.
    pub fn certificate(&self, client: &Arc<ClientConfig>, name: &str) -> Option<Vec<u8>> {
        certificate(client, self.https, name)
    }

    pub fn wait(&self, client: &Arc<ClientConfig>, name: &str, server: &Server) -> Vec<u8> {
        let look = || self.certificate(client, name);
        until(TIMEOUT, name, look, || server.stderr())
    }
}

/// The certificate that the site `name` presents at this address, if `client` trusts it. The site responds with `hello`.
pub fn certificate(client: &Arc<ClientConfig>, at: SocketAddr, name: &str) -> Option<Vec<u8>> {
    // In a resumed session it would be the one of the first connection, whatever the site presents now.
    let mut client = (**client).clone();
    client.resumption = Resumption::disabled();
    let mut wire = connect_to(&Arc::new(client), at, name).ok()?;
    assert_eq!(get(&mut wire, name, "/").1, "hello");
    let certs = wire.stream().conn.peer_certificates()?;
    Some(certs[0].to_vec())
}

/// Names of so many sites.
pub fn names(count: usize) -> Vec<String> {
    let numbers = 0..count;
    numbers.map(|n| format!("n{n}.example.test")).collect()
}
