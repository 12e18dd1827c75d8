//! Builds one server of the model for every set of sockets: its routes, connection policies, logs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use sluice_model::http::{ErrorRoutes, RouteOrigin, ServerLogs};
use sluice_model::logging::Log;
use sluice_model::tls::{ConnectionPolicy, HandshakeMatch};
use sluice_model::{Matcher, MatcherSet, Route, Server};

use super::Lowering;
use super::address::{SiteAddress, specificity};
use super::listen::{Pairing, Pairings, Share, Site};
use super::outcome::{AccessLog, Outcome, TlsOutcome};
use super::routes::{Sorting, join_routes, subroute};

/// What is learnt about handshakes while the sites of a server are visited.
struct Handshakes {
    /// A policy for any name is there.
    catch_all: bool,
    /// Some address is served over TLS.
    qualifies: bool,
    /// Automatic HTTPS will add a policy when the server starts.
    added_later: bool,
    /// The hosts that automatic HTTPS leaves out; as a set, since a file may have ten thousand sites.
    skipped: BTreeSet<String>,
    /// The hosts of sites that set nothing about handshakes.
    unset: Vec<String>,
}

impl Lowering<'_> {
    /// Builds all servers, and the logs they write to.
    pub(super) fn servers(
        &mut self,
        pairings: &Pairings,
    ) -> (BTreeMap<String, Server>, BTreeMap<String, Log>) {
        let mut servers = BTreeMap::new();
        for (number, pairing) in pairings.servers.iter().enumerate() {
            let server = self.server(pairing, &pairings.sites);
            servers.insert(format!("srv{number}"), server);
        }
        let logs = self.site_logs(pairings);
        (servers, logs)
    }

    /// Puts the sites of every server into the order they are tried in.
    pub(super) fn sort_sites(&mut self, pairings: &mut Pairings) {
        for pairing in &mut pairings.servers {
            self.refuse_ambiguous(&pairing.shares);
            pairing.shares.sort_by_cached_key(precedence);
        }
    }

    fn server(&mut self, pairing: &Pairing, sites: &[Site]) -> Server {
        let shares = &pairing.shares;
        let mut server = self.bare_server(pairing);
        let mut handshakes = Handshakes {
            catch_all: false,
            qualifies: false,
            skipped: BTreeSet::new(),
            added_later: !server
                .automatic_https
                .as_ref()
                .is_some_and(|auto| auto.disable),
            unset: Vec::new(),
        };
        if shares
            .iter()
            .any(|share| logs_of(&sites[share.site]).next().is_some())
        {
            server.logs = Some(ServerLogs::default());
        }
        self.add_named_routes(&mut server, shares, sites);
        for share in shares {
            let site = &sites[share.site];
            self.add_policies(&mut server, share, site, &mut handshakes);
            self.add_routes(&mut server, share, site, shares.len());
            self.add_logs(&mut server, share, site);
        }
        if let Some(logs) = &mut server.logs {
            logs.skip_hosts.sort();
        }
        self.refuse_mixed_schemes(&server, shares);
        self.finish_policies(&mut server, &handshakes, shares);
        server.routes = join_routes(std::mem::take(&mut server.routes));
        server
    }

    /// A server with its sockets and the global settings of automatic HTTPS.
    fn bare_server(&self, pairing: &Pairing) -> Server {
        let protocols: Vec<Option<Vec<String>>> = pairing
            .listen
            .values()
            .map(|protocols| {
                // A socket that is bound without protocols as well speaks the usual ones.
                let named = !protocols.contains("");
                named.then(|| protocols.iter().cloned().collect())
            })
            .collect();
        let own = protocols.iter().any(Option::is_some);
        let mut server = Server {
            listen: pairing.listen.keys().cloned().collect(),
            listen_protocols: if own { protocols } else { Vec::new() },
            ..Server::default()
        };
        for word in &self.options.auto_https {
            let auto = server.automatic_https.get_or_insert_default();
            match word.as_str() {
                "off" => auto.disable = true,
                "disable_redirects" => auto.disable_redirects = true,
                "disable_certs" => auto.disable_certificates = true,
                "ignore_loaded_certs" => auto.ignore_loaded_certificates = true,
                _ => {}
            }
        }
        server
    }

    /// Refuses two sites with the same address on one server.
    fn refuse_ambiguous(&mut self, shares: &[Share]) {
        let mut seen: BTreeMap<&str, &SiteAddress> = BTreeMap::new();
        for share in shares {
            for address in &share.addresses {
                let Some(first) = seen.get(address.word.text.as_str()) else {
                    continue;
                };
                let name = &address.word.text;
                self.report.push(
                    address
                        .word
                        .error(
                            "ambiguous-site",
                            format!("site `{name}` is defined twice"),
                            "second definition",
                        )
                        .also(first.word.span, "first definition")
                        .help("put the directives of both into one site block"),
                );
            }
            for address in &share.addresses {
                seen.entry(address.word.text.as_str()).or_insert(address);
            }
        }
    }

    fn add_named_routes(&mut self, server: &mut Server, shares: &[Share], sites: &[Site]) {
        let invoked = shares.iter().flat_map(|share| &sites[share.site].invoked);
        let mut names: Vec<&String> = invoked.collect();
        // Named routes may invoke others.
        while let Some(name) = names.pop() {
            if server.named_routes.contains_key(name) {
                continue;
            }
            if let Some(Some(named)) = self.named_routes.get(name) {
                server
                    .named_routes
                    .insert(name.clone(), named.route.clone());
                names.extend(&named.invoked);
            }
        }
    }

    fn add_policies(
        &mut self,
        server: &mut Server,
        share: &Share,
        site: &Site,
        handshakes: &mut Handshakes,
    ) {
        let hosts = hosts(&share.addresses);
        let mut policies = 0;
        let forced = site
            .outcomes
            .iter()
            .any(|found| matches!(&found.outcome, Outcome::Tls(TlsOutcome::ForceAutomate)));
        for found in &site.outcomes {
            let Outcome::Tls(TlsOutcome::Policy(policy)) = &found.outcome else {
                continue;
            };
            policies += 1;
            let policy = self.policy_for(policy, &hosts);
            if !settings_empty(&policy) || (forced && !hosts.is_empty()) {
                handshakes.catch_all = hosts.is_empty();
                server.tls_connection_policies.push(policy);
            } else {
                handshakes.unset.extend(policy.r#match.sni);
            }
        }
        if policies == 0 {
            let https = share.addresses.iter();
            let https = https.filter(|address| address.scheme != "http");
            let names = https.map(|address| &address.host);
            let exact = names.filter(|host| hosts.contains(host) && !host.contains('*'));
            handshakes.unset.extend(exact.cloned());
        }
        for address in &share.addresses {
            self.visit_address(server, address, policies > 0, handshakes);
        }
    }

    /// A handshake policy for the hosts of a site.
    fn policy_for(&self, policy: &ConnectionPolicy, hosts: &[String]) -> ConnectionPolicy {
        let mut policy = policy.clone();
        let mut names = hosts.to_vec();
        let (default, fallback) = (&self.options.default_sni, &self.options.fallback_sni);
        if let Some(name) = hosts
            .iter()
            .find(|name| *name == default || *name == fallback)
        {
            names.push(String::new());
            if name == default {
                policy.default_sni.clone_from(default);
            } else {
                policy.fallback_sni.clone_from(fallback);
            }
        }
        if hosts.is_empty() {
            policy.default_sni.clone_from(default);
            policy.fallback_sni.clone_from(fallback);
        } else {
            names.sort();
            policy.r#match = HandshakeMatch {
                sni: names,
                ..HandshakeMatch::default()
            };
        }
        policy
    }

    fn visit_address(
        &self,
        server: &mut Server,
        address: &SiteAddress,
        has_policy: bool,
        handshakes: &mut Handshakes,
    ) {
        let (http, https) = (self.http_port(), self.https_port());
        let other_ports = server
            .listen
            .iter()
            .any(|socket| socket.rsplit_once(':').is_none_or(|(_, port)| port != http));
        if other_ports && address.scheme == "http" && !address.host.is_empty() {
            let auto = server.automatic_https.get_or_insert_default();
            if handshakes.skipped.insert(address.host.clone()) {
                auto.skip.push(address.host.clone());
            }
        }
        let is_skipped = handshakes.skipped.contains(&address.host);
        let tls = has_policy || (!address.host.is_empty() && !is_skipped);
        if address.scheme == "https" || (address.scheme != "http" && address.port != http && tls) {
            handshakes.qualifies = true;
        }
        let added = address.port == https || (address.port != http && !address.host.is_empty());
        handshakes.added_later = handshakes.added_later && added;
    }

    /// A server that speaks TLS has a policy for any name, at the end.
    fn finish_policies(&mut self, server: &mut Server, handshakes: &Handshakes, shares: &[Share]) {
        exempt(&mut server.tls_connection_policies, &handshakes.unset);
        let (default, fallback) = (&self.options.default_sni, &self.options.fallback_sni);
        let needed = !server.tls_connection_policies.is_empty()
            || !handshakes.added_later
            || !default.is_empty()
            || !fallback.is_empty();
        if handshakes.qualifies && !handshakes.catch_all && needed {
            server.tls_connection_policies.push(ConnectionPolicy {
                default_sni: default.clone(),
                fallback_sni: fallback.clone(),
                ..ConnectionPolicy::default()
            });
        }
        if let Some(conflict) =
            super::tls_policies::join_policies(&mut server.tls_connection_policies)
        {
            self.refuse_conflict(shares, conflict);
        }
    }

    fn refuse_conflict(&mut self, shares: &[Share], conflict: super::tls_policies::Conflict) {
        let mut addresses = shares.iter().flat_map(|share| &share.addresses);
        let named = addresses.find(|address| conflict.names.contains(&address.host));
        let Some(address) = named.or_else(|| shares.first()?.addresses.first()) else {
            return;
        };
        let title = format!(
            "two `tls` directives for `{}` set `{}` differently",
            address.word.text, conflict.setting
        );
        let diagnostic = address.word.error("conflicting-tls", title, "two settings");
        self.report
            .push(diagnostic.help("set it once for each name"));
    }

    fn add_routes(&mut self, server: &mut Server, share: &Share, site: &Site, sites: usize) {
        let matchers = address_matchers(&share.addresses);
        let mut ordered = Vec::new();
        let mut errors = Vec::new();
        for found in &site.outcomes {
            match &found.outcome {
                Outcome::Route(_) | Outcome::Routes(_) => {
                    ordered.push(found.clone());
                }
                Outcome::ErrorRoutes(routes) => errors.push(routes.clone()),
                Outcome::Bind(_) | Outcome::Log(_) | Outcome::Tls(_) => {}
            }
        }
        let routes = self.build_routes(ordered, Sorting::ByOrder);
        let origin = self.site_origin(&share.addresses);
        wrap_routes(&mut server.routes, routes, &matchers, sites, &origin);
        if errors.is_empty() {
            return;
        }
        // Those for any error come last; the others stay as they were written.
        errors.sort_by_key(|routes| routes[0].r#match.is_empty());
        let into = &mut server
            .errors
            .get_or_insert_with(ErrorRoutes::default)
            .routes;
        wrap_routes(
            into,
            errors.into_iter().flatten().collect(),
            &matchers,
            sites,
            &origin,
        );
    }

    fn add_logs(&self, server: &mut Server, share: &Share, site: &Site) {
        let Some(logs) = &mut server.logs else { return };
        let (http, https) = (self.http_port(), self.https_port());
        let named = share
            .addresses
            .iter()
            .filter(|address| !address.host.is_empty());
        let mut log_hosts: Vec<String> = named
            .map(|address| address.host_for_log(&http, &https))
            .collect();
        log_hosts.sort();
        log_hosts.dedup();
        let catch_all = share
            .addresses
            .iter()
            .any(|address| address.host.is_empty());
        let mut own = false;
        for log in logs_of(site) {
            own = true;
            if log.no_hostname {
                continue;
            }
            if catch_all && log.hostnames.is_empty() {
                logs.default_logger_name.clone_from(&log.name);
            } else {
                let hosts = if log.hostnames.is_empty() {
                    &log_hosts
                } else {
                    &log.hostnames
                };
                for host in hosts {
                    // The colons of an IPv6 address belong to it.
                    let host = match (host.strip_prefix('['), host.split_once(':')) {
                        (Some(rest), _) => rest.split_once(']').map_or(rest, |(host, _)| host),
                        (None, Some((host, port))) if !port.contains(':') => host,
                        (None, _) => host.as_str(),
                    };
                    let names = logs.logger_names.entry(host.to_string()).or_default();
                    names.0.push(log.name.clone());
                }
            }
        }
        if !own {
            logs.skip_unmapped_hosts |= catch_all;
            logs.skip_hosts.extend(log_hosts);
        }
    }

    /// A server speaks either HTTP or HTTPS.
    fn refuse_mixed_schemes(&mut self, server: &Server, shares: &[Share]) {
        let (http, https) = (self.http_port(), self.https_port());
        let mut first: Option<(bool, &SiteAddress)> = None;
        for address in shares.iter().flat_map(|share| &share.addresses) {
            let secure = if address.scheme == "http" || address.port == http {
                false
            } else if address.scheme == "https"
                || address.port == https
                || !server.tls_connection_policies.is_empty()
            {
                true
            } else if address.host.is_empty() {
                false
            } else {
                continue;
            };
            match first {
                None => first = Some((secure, address)),
                Some((other, _)) if other == secure => {}
                Some((_, other)) => {
                    let title = format!(
                        "`{}` and `{}` share a socket, one with TLS and one without",
                        other.word.text, address.word.text
                    );
                    self.report.push(
                        address
                            .word
                            .error(
                                "conflicting-schemes",
                                title,
                                if secure { "with TLS" } else { "without TLS" },
                            )
                            .also(
                                other.word.span,
                                if secure { "without TLS" } else { "with TLS" },
                            )
                            .help("give one of them another port"),
                    );
                    return;
                }
            }
        }
        if let (Some((false, address)), false) = (first, server.tls_connection_policies.is_empty())
        {
            let title = format!("site `{}` uses plain HTTP and has `tls`", address.word.text);
            let diagnostic = address
                .word
                .error("conflicting-schemes", title, "without TLS");
            self.report
                .push(diagnostic.help("remove `tls`, or give the site another port"));
        }
    }
}

/// The access logs of a site.
pub(super) fn logs_of(site: &Site) -> impl Iterator<Item = &AccessLog> {
    site.outcomes
        .iter()
        .filter_map(|found| match &found.outcome {
            Outcome::Log(log) => Some(log.as_ref()),
            Outcome::Route(_)
            | Outcome::Routes(_)
            | Outcome::ErrorRoutes(_)
            | Outcome::Bind(_)
            | Outcome::Tls(_) => None,
        })
}

/// The hosts of some addresses; none if one of them is for any host.
pub(super) fn hosts(addresses: &[SiteAddress]) -> Vec<String> {
    if addresses.iter().any(|address| address.host.is_empty()) {
        return Vec::new();
    }
    let mut hosts: Vec<String> = addresses
        .iter()
        .map(|address| address.host.clone())
        .collect();
    hosts.sort();
    hosts.dedup();
    hosts
}

/// Exempts hosts whose sites set nothing about handshakes from the client certificates that a policy for a wildcard
/// demands: a copy of that policy without them goes before it. Only the first policy that covers a host is ever used for
/// it. A policy for any name stays as it is: it protects all sites of the server.
fn exempt(policies: &mut Vec<ConnectionPolicy>, unset: &[String]) {
    let demands = |policy: &ConnectionPolicy, host: &str| {
        policy.client_authentication.is_some() && covers(&policy.r#match.sni, host)
    };
    let mut exempted: BTreeMap<usize, BTreeSet<&String>> = BTreeMap::new();
    for host in unset {
        if let Some(at) = policies.iter().position(|policy| demands(policy, host)) {
            exempted.entry(at).or_default().insert(host);
        }
    }
    // The last one first, so that the places of the others stay.
    for (at, hosts) in exempted.into_iter().rev() {
        let mut copy = policies[at].clone();
        copy.client_authentication = None;
        copy.r#match = HandshakeMatch {
            sni: hosts.into_iter().cloned().collect(),
            ..HandshakeMatch::default()
        };
        policies.insert(at, copy);
    }
}

/// Whether one of `names` is a wildcard for `host`.
fn covers(names: &[String], host: &str) -> bool {
    let matches = |name: &String| {
        name.contains('*')
            && name.split('.').count() == host.split('.').count()
            && name
                .split('.')
                .zip(host.split('.'))
                .all(|(name, host)| name == "*" || name == host)
    };
    names.iter().any(matches)
}

/// Whether a policy says nothing beyond when it applies.
fn settings_empty(policy: &ConnectionPolicy) -> bool {
    let bare = ConnectionPolicy {
        r#match: HandshakeMatch::default(),
        ..policy.clone()
    };
    bare == ConnectionPolicy::default()
}

/// What sites are sorted by, the first tried first: those for a fixed host, the longest first, then
/// those for wildcards, then those for any host in the order they are written.
fn precedence(share: &Share) -> (bool, bool, Reverse<usize>, Reverse<usize>) {
    let longest = |part: fn(&SiteAddress) -> &String| {
        share
            .addresses
            .iter()
            .map(|address| specificity(part(address)))
            .max()
            .unwrap_or(0)
    };
    let (host, path) = (
        longest(|address| &address.host),
        longest(|address| &address.path),
    );
    if host == 0 {
        return (true, true, Reverse(0), Reverse(0));
    }
    let wildcard = |address: &SiteAddress| address.host.is_empty() || address.host.contains('*');
    (
        false,
        share.addresses.iter().any(wildcard),
        Reverse(host),
        Reverse(path),
    )
}

/// The matchers that lead to a site: hosts, and paths where its addresses have any.
fn address_matchers(addresses: &[SiteAddress]) -> Vec<MatcherSet> {
    let mut pairs: Vec<(Vec<String>, &str)> = Vec::new();
    let mut any_host = false;
    for address in addresses {
        let at = match pairs.iter().position(|(_, path)| *path == address.path) {
            Some(at) => at,
            None => {
                pairs.push((Vec::new(), &address.path));
                pairs.len() - 1
            }
        };
        if address.host.is_empty() && !any_host {
            pairs[at].0.clear();
            any_host = true;
        }
        if !any_host && !pairs[at].0.contains(&address.host) {
            pairs[at].0.push(address.host.clone());
        }
    }
    let set = |(hosts, path): (Vec<String>, &str)| {
        let mut set = MatcherSet::default();
        if !hosts.is_empty() {
            set.insert(Matcher::Host(hosts));
        }
        if !path.is_empty() {
            set.insert(Matcher::Path(vec![path.to_string()]));
        }
        set
    };
    pairs
        .into_iter()
        .map(set)
        .filter(|set| !set.0.is_empty())
        .collect()
}

/// Adds the routes of a site to a server. A site that has the server to itself needs no wrapping,
/// unless it matches on hosts: at the top such a matcher would ask for certificates.
fn wrap_routes(
    into: &mut Vec<Route>,
    routes: Vec<Route>,
    matchers: &[MatcherSet],
    sites: usize,
    origin: &RouteOrigin,
) {
    if matchers.is_empty() && routes.is_empty() {
        return;
    }
    let on_hosts = |route: &Route| {
        let mut all = route.r#match.iter().flat_map(|set| &set.0);
        all.any(|matcher| matches!(matcher, Matcher::Host(_)))
    };
    if matchers.is_empty() && sites == 1 && !routes.iter().any(on_hosts) {
        into.extend(routes);
        return;
    }
    let handle = if routes.is_empty() {
        Vec::new()
    } else {
        vec![subroute(routes)]
    };
    into.push(Route {
        r#match: matchers.to_vec(),
        handle,
        terminal: true,
        origin: origin.clone(),
        ..Route::default()
    });
}
