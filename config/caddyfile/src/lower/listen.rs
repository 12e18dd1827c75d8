//! Assigns sites to sockets. Sites that share all their sockets become one server.

use std::collections::{BTreeMap, BTreeSet};

use sluice_diag::{SourceId, Sources};
use sluice_model::Address;

use super::Lowering;
use super::address::SiteAddress;
use super::directives;
use super::outcome::{Bind, Ordered, Outcome};
use crate::tree::{self, Directive, Token};

/// A site block with what its directives amounted to.
#[derive(Clone, Debug)]
pub(super) struct Site {
    /// Its addresses.
    pub(super) addresses: Vec<SiteAddress>,
    /// The results of its directives.
    pub(super) outcomes: Vec<Ordered>,
    /// Named routes that it invokes.
    pub(super) invoked: Vec<String>,
}

/// The part of a site that one server serves.
#[derive(Clone, Debug)]
pub(super) struct Share {
    /// The number of the site.
    pub(super) site: usize,
    /// The addresses of the site that lead to this server.
    pub(super) addresses: Vec<SiteAddress>,
}

/// Sockets and the sites served on them.
#[derive(Clone, Debug)]
pub(super) struct Pairing {
    /// The sockets, each with the protocols asked for there.
    pub(super) listen: BTreeMap<String, BTreeSet<String>>,
    /// The sites.
    pub(super) shares: Vec<Share>,
}

/// All sites and the servers they make up.
#[derive(Clone, Debug)]
pub(super) struct Pairings {
    /// The sites in file order.
    pub(super) sites: Vec<Site>,
    /// The servers in the order of their sockets.
    pub(super) servers: Vec<Pairing>,
}

impl Site {
    /// The addresses to bind, if any were given.
    pub(super) fn binds(&self) -> Vec<&Bind> {
        let found = self.outcomes.iter();
        found
            .filter_map(|found| match &found.outcome {
                Outcome::Bind(bind) => Some(bind),
                Outcome::Route(_)
                | Outcome::Routes(_)
                | Outcome::ErrorRoutes(_)
                | Outcome::Log(_)
                | Outcome::Tls(_) => None,
            })
            .collect()
    }
}

/// The number of a site and its addresses, for each protocol on each socket.
type Sockets = BTreeMap<(String, String), Vec<(usize, Vec<SiteAddress>)>>;

impl Lowering<'_> {
    /// Lowers the lines of a site.
    pub(super) fn site(&mut self, site: &tree::Site) -> Option<Site> {
        self.no_directive_as_address(&site.addresses)?;
        let addresses: Vec<_> = site
            .addresses
            .iter()
            .filter_map(|word| self.site_address(word))
            .collect();
        self.site_files = source_names(&site.body, &self.report.sources);
        self.invoked.clear();
        let mut body = site.body.clone();
        super::shorthand::expand_lines(&mut body);
        self.enter_scope(&body);
        let mut outcomes = Vec::new();
        for line in body.iter().filter(|line| !line.name.text.starts_with('@')) {
            outcomes.extend(self.directive(line).unwrap_or_default());
        }
        self.leave_scope();
        let invoked = std::mem::take(&mut self.invoked);
        (!addresses.is_empty()).then_some(Site {
            addresses,
            outcomes,
            invoked,
        })
    }

    /// A file that begins with a directive has no site address: the line would be read as addresses.
    fn no_directive_as_address(&mut self, addresses: &[Token]) -> Option<()> {
        let is_directive = |word: &&Token| directives::find(&word.text).is_some();
        let Some(word) = addresses.iter().find(is_directive) else {
            return Some(());
        };
        let title = format!("`{}` is a directive, not a site address", word.text);
        let diagnostic = word.error("invalid-address", title, "read as a site address");
        self.refuse(diagnostic.help("put a site address on a line before it, such as `:80`"))
    }

    /// Finds the sockets of every site and joins sockets with the same sites into servers.
    pub(super) fn pairings(&mut self, sites: Vec<Site>) -> Pairings {
        let mut sockets = Sockets::new();
        for (number, site) in sites.iter().enumerate() {
            for address in &site.addresses {
                for (socket, protocols) in self.sockets_of(site, address) {
                    for protocol in protocols {
                        let shares = sockets.entry((socket.clone(), protocol)).or_default();
                        match shares.last_mut() {
                            Some((last, addresses)) if *last == number => {
                                addresses.push(address.clone());
                            }
                            _ => shares.push((number, vec![address.clone()])),
                        }
                    }
                }
            }
        }
        let servers = join_sockets(sockets);
        Pairings { sites, servers }
    }

    /// The sockets that one address of a site leads to.
    fn sockets_of(
        &mut self,
        site: &Site,
        address: &SiteAddress,
    ) -> BTreeMap<String, BTreeSet<String>> {
        let mut sockets = BTreeMap::new();
        let (http, https) = (self.http_port(), self.https_port());
        let port = match (address.port.as_str(), address.scheme.as_str()) {
            ("", "http") => http.clone(),
            ("", _) => https.clone(),
            (port, _) => port.to_string(),
        };
        let against = (address.scheme == "http" && port == https)
            || (address.scheme == "https" && port == http);
        if against {
            self.report.push(
                address
                    .word
                    .error(
                        "conflicting-schemes",
                        format!(
                            "site `{}` uses the port of the other scheme",
                            address.word.text
                        ),
                        format!("`{}://` on port {port}", address.scheme),
                    )
                    .help("leave out the scheme or the port"),
            );
            return sockets;
        }
        let any = [Bind {
            addresses: vec![String::new()],
            protocols: Vec::new(),
        }];
        let mut binds: Vec<Bind> = site.binds().into_iter().cloned().collect();
        if binds.is_empty() {
            binds.clone_from(&self.options.default_bind);
        }
        let binds = if binds.is_empty() {
            any.to_vec()
        } else {
            binds
        };
        for bind in binds {
            for host in &bind.addresses {
                let Some(socket) = self.socket(host, &port, address) else {
                    continue;
                };
                let protocols: &mut BTreeSet<String> = sockets.entry(socket).or_default();
                if bind.protocols.is_empty() {
                    protocols.insert(String::new());
                }
                protocols.extend(bind.protocols.iter().cloned());
            }
        }
        sockets
    }

    /// One socket in the form the model has it.
    fn socket(&mut self, host: &str, port: &str, address: &SiteAddress) -> Option<String> {
        // Placeholders are replaced when the configuration is loaded.
        let is_open = host.contains('{') || port.contains('{');
        let has_ports = !Address::parse(host).is_ok_and(|parsed| !parsed.has_ports());
        if is_open && has_ports {
            return Some(format!("{host}:{port}"));
        }
        let mut parsed = match Address::parse(host) {
            Ok(parsed) => parsed,
            Err(error) => {
                let title = format!("invalid address `{host}` to bind");
                return self.refuse(address.word.error(
                    "invalid-address",
                    title,
                    error.to_string(),
                ));
            }
        };
        if parsed.has_ports() {
            parsed.ports = port.parse().ok().map(sluice_model::PortRange::single);
        }
        Some(parsed.to_string())
    }

    /// The port for plain HTTP, as text.
    pub(super) fn http_port(&self) -> String {
        self.options
            .http_port
            .unwrap_or(sluice_model::http::HTTP_PORT)
            .to_string()
    }

    /// The port for HTTPS, as text.
    pub(super) fn https_port(&self) -> String {
        self.options
            .https_port
            .unwrap_or(sluice_model::http::HTTPS_PORT)
            .to_string()
    }
}

/// The names of the texts that some lines were written in.
pub(super) fn source_names(lines: &[Directive], sources: &Sources) -> Vec<String> {
    fn collect(lines: &[Directive], ids: &mut BTreeSet<SourceId>) {
        for line in lines {
            ids.extend(
                std::iter::once(&line.name)
                    .chain(&line.args)
                    .map(|word| word.span.source),
            );
            collect(line.lines(), ids);
        }
    }
    let mut ids = BTreeSet::new();
    collect(lines, &mut ids);
    let names: BTreeSet<&str> = ids
        .into_iter()
        .map(|id| sources.source(id).name())
        .collect();
    names.into_iter().map(str::to_string).collect()
}

/// Joins sockets that have the same sites with the same addresses.
fn join_sockets(mut sockets: Sockets) -> Vec<Pairing> {
    let mut servers = Vec::new();
    while let Some(((socket, protocol), shares)) = sockets.pop_first() {
        let mut listen: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        listen.entry(socket).or_default().insert(protocol);
        sockets.retain(|(socket, protocol), other| {
            let same = *other == shares;
            if same {
                listen
                    .entry(socket.clone())
                    .or_default()
                    .insert(protocol.clone());
            }
            !same
        });
        let shares = shares
            .into_iter()
            .map(|(site, addresses)| Share { site, addresses })
            .collect();
        servers.push(Pairing { listen, shares });
    }
    servers
}
