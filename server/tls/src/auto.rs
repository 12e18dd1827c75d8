//! Automatic HTTPS: determines which servers use TLS because they have host names, which names need certificates, and
//! where plain HTTP is redirected. It transforms a configuration; `sluice-certs` obtains certificates.

use std::collections::{BTreeMap, BTreeSet};

use sluice_model::handler::StaticResponse;
use sluice_model::matcher::Matcher;
use sluice_model::proxy::UpstreamTls;
use sluice_model::tls::ConnectionPolicy;
use sluice_model::{Address, Config, Handler, MatcherSet, PortRange, Route, Server, walk};

/// The result of automatic HTTPS.
#[derive(Debug, Default)]
pub struct Auto {
    /// The configuration to run.
    pub config: Config,
    /// Names that need a managed certificate.
    pub names: BTreeSet<String>,
}

/// The name of the server that only redirects.
const REDIRECTS: &str = "remaining_auto_https_redirects";

/// Applies automatic HTTPS as documented by Caddy. `loaded` are the names in certificates from files.
pub fn expand(config: &Config, loaded: &BTreeSet<String>) -> Auto {
    let mut auto = Auto {
        config: config.clone(),
        ..Auto::default()
    };
    let Some(http) = &mut auto.config.apps.http else {
        return auto;
    };
    let http_port = nonzero(http.http_port, sluice_model::http::HTTP_PORT);
    let https_port = nonzero(http.https_port, sluice_model::http::HTTPS_PORT);
    let mut redirects = Redirects {
        http_port,
        https_port,
        targets: BTreeMap::new(),
    };
    for server in http.servers.values_mut() {
        let settings = server.automatic_https.clone().unwrap_or_default();
        let ports = listen_ports(server);
        if settings.disable || is_http_only(server, &ports, http_port) {
            continue;
        }
        // A server on the usual port alone is one of HTTPS, even for any name.
        let is_https_only = !ports.is_empty() && ports.iter().all(|(_, port)| *port == https_port);
        if server.tls_connection_policies.is_empty() && is_https_only {
            let policies = &mut server.tls_connection_policies;
            policies.push(ConnectionPolicy::default());
        }
        let names = named_hosts(server, &settings.skip);
        if names.is_empty() && server.tls_connection_policies.is_empty() {
            continue;
        }
        if server.tls_connection_policies.is_empty() {
            server
                .tls_connection_policies
                .push(ConnectionPolicy::default());
        }
        for name in names.iter().filter(|name| qualifies(name)) {
            let skipped =
                settings.disable_certificates || settings.skip_certificates.contains(name);
            if skipped || !settings.ignore_loaded_certificates && covers(loaded, name) {
                continue;
            }
            auto.names.insert(name.clone());
        }
        if !settings.disable_redirects {
            for (host, port) in ports.iter().filter(|(_, port)| *port != http_port) {
                redirects.record(&names, host, *port);
            }
        }
    }
    split_plain_sockets(http, http_port);
    redirects.add_to(http, !auto.names.is_empty());
    let tls = config.apps.tls.as_ref();
    let forced = tls.map_or(&[][..], |tls| &tls.certificates.automate);
    auto.names
        .extend(forced.iter().filter(|name| qualifies(name)).cloned());
    drop_covered(&mut auto.names, forced);
    auto
}

fn nonzero(port: u16, default: u16) -> u16 {
    if port == 0 { default } else { port }
}

fn listen_ports(server: &Server) -> Vec<(String, u16)> {
    let parsed = server
        .listen
        .iter()
        .filter_map(|text| Address::parse(text).ok());
    let ports = |address: Address| {
        let PortRange { first, last } = address.ports?;
        Some((first..=last).map(move |port| (address.host.clone(), port)))
    };
    parsed.filter_map(ports).flatten().collect()
}

/// Whether the server listens only on the plain HTTP port. As in Caddy, this excludes sockets without ports: a named
/// site has its certificate there too, and without a port nothing can redirect to it.
fn is_http_only(server: &Server, ports: &[(String, u16)], http_port: u16) -> bool {
    let parsed = server.listen.iter().map(|text| Address::parse(text));
    let is_portless = |address: Address| !address.has_ports();
    let mut sockets = parsed.flatten().map(is_portless);
    !sockets.any(|is_portless| is_portless) && ports.iter().all(|(_, port)| *port == http_port)
}

/// The hosts in the matchers of a server's routes.
fn named_hosts(server: &Server, skip: &[String]) -> BTreeSet<String> {
    let skip: BTreeSet<&String> = skip.iter().collect();
    let sets = server.routes.iter().flat_map(|route| &route.r#match);
    let hosts = sets
        .flat_map(|set| &set.0)
        .filter_map(|matcher| match matcher {
            Matcher::Host(hosts) => Some(hosts),
            _ => None,
        });
    hosts
        .flatten()
        .filter(|host| !host.contains('{') && !skip.contains(host))
        .cloned()
        .collect()
}

/// Whether a certificate can be issued for a name: only its first label may be a wildcard.
fn qualifies(name: &str) -> bool {
    let rest = name.strip_prefix("*.").unwrap_or(name);
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b':');
    !rest.is_empty() && !rest.starts_with('.') && !rest.ends_with('.') && rest.bytes().all(plain)
}

/// Whether one of the loaded certificates is valid for `name`.
fn covers(loaded: &BTreeSet<String>, name: &str) -> bool {
    let wildcard = name.split_once('.').map(|(_, rest)| format!("*.{rest}"));
    loaded.contains(name) || wildcard.is_some_and(|wildcard| loaded.contains(&wildcard))
}

/// Whether public CAs do not issue certificates for a name: IP addresses, `localhost` and names of home networks.
pub fn is_local(name: &str) -> bool {
    const ENDS: [&str; 4] = [".localhost", ".local", ".internal", ".home.arpa"];
    name.parse::<std::net::IpAddr>().is_ok()
        || !name.contains('.')
        || ENDS.iter().any(|end| name.ends_with(end))
}

/// Removes names covered by a wildcard in the list, unless they are in `forced`.
fn drop_covered(names: &mut BTreeSet<String>, forced: &[String]) {
    let wildcards: BTreeSet<String> = names
        .iter()
        .filter_map(|name| name.strip_prefix("*.").map(str::to_owned))
        .collect();
    names.retain(|name| {
        let rest = name.split_once('.').map(|(_, rest)| rest);
        let is_covered = !name.starts_with("*.") && rest.is_some_and(|r| wildcards.contains(r));
        !is_covered || forced.contains(name)
    });
}

/// Gives the sockets on the plain HTTP port a server of their own where their server uses TLS on others: as in Caddy,
/// nothing on that port uses TLS. Servers without automatic HTTPS, such as those of an nginx.conf, stay as they are.
fn split_plain_sockets(http: &mut sluice_model::HttpApp, http_port: u16) {
    let is_plain = |listen: &String| {
        let ports = Address::parse(listen)
            .ok()
            .and_then(|address| address.ports);
        ports.is_some_and(|ports| ports.first == http_port && ports.last == http_port)
    };
    let mut split = Vec::new();
    for (name, server) in &mut http.servers {
        let is_automatic = server
            .automatic_https
            .as_ref()
            .is_none_or(|auto| !auto.disable);
        let is_mixed = !server.tls_connection_policies.is_empty()
            && server.listen_protocols.is_empty()
            && server.listen.iter().any(is_plain)
            && !server.listen.iter().all(is_plain);
        if !is_mixed || !is_automatic {
            continue;
        }
        let mut plain = server.clone();
        plain.tls_connection_policies.clear();
        plain.listen.retain(is_plain);
        server.listen.retain(|listen| !is_plain(listen));
        split.push((format!("{name} (plain HTTP)"), plain));
    }
    http.servers.extend(split);
}

/// Where plain HTTP is redirected to.
struct Redirects {
    http_port: u16,
    https_port: u16,
    /// The addresses of each name, all with one port; those of sites for any name under the empty one.
    targets: BTreeMap<String, Vec<(String, u16)>>,
}

impl Redirects {
    /// Records that a server with these names listens on an address. The usual port wins over others, and else the
    /// first one.
    fn record(&mut self, names: &BTreeSet<String>, host: &str, port: u16) {
        let any = BTreeSet::from([String::new()]);
        for name in if names.is_empty() { &any } else { names } {
            let targets = self.targets.entry(name.clone()).or_default();
            let known = targets.first().map(|(_, port)| *port);
            match known {
                Some(known) if known == port => {}
                Some(_) if port == self.https_port => targets.clear(),
                Some(_) => continue,
                None => {}
            }
            let target = (host.to_owned(), port);
            if !targets.contains(&target) {
                targets.push(target);
            }
        }
    }

    /// The redirects of each address on the plain HTTP port, the more specific ones first.
    fn routes(&self) -> BTreeMap<String, Vec<Route>> {
        let mut names: BTreeMap<(&str, u16), Vec<&str>> = BTreeMap::new();
        for (name, targets) in &self.targets {
            for (host, port) in targets {
                names.entry((host, *port)).or_default().push(name);
            }
        }
        let mut found: BTreeMap<String, Vec<(u16, Vec<&str>)>> = BTreeMap::new();
        for ((host, port), names) in names {
            let redirects = found.entry(listen_text(host, self.http_port)).or_default();
            redirects.push((port, names));
        }
        let route = |(port, names): (u16, Vec<&str>)| {
            let named = names.into_iter().filter(|name| !name.is_empty());
            self.redirect(named.map(str::to_owned).collect(), port)
        };
        let sorted = |mut redirects: Vec<(u16, Vec<&str>)>| {
            redirects.sort_by_key(|(_, names)| {
                let name = names.last().copied().unwrap_or_default();
                (name.is_empty(), name.contains('*'), usize::MAX - name.len())
            });
            redirects.into_iter().map(route).collect()
        };
        let all = found.into_iter();
        all.map(|(listen, redirects)| (listen, sorted(redirects)))
            .collect()
    }

    /// Adds the redirects to the servers on the plain HTTP port, or a server for them. As in Caddy, all other names
    /// are redirected as well where no route of the configuration responds; and without a name that needs a
    /// certificate, the routes for any name come before the redirects.
    fn add_to(&self, http: &mut sluice_model::HttpApp, manages_names: bool) {
        for (listen, mut routes) in self.routes() {
            let others = self.redirect(Vec::new(), self.https_port);
            let mut servers = http.servers.values_mut();
            match servers.find(|server| server.listen.contains(&listen)) {
                Some(server) => {
                    if manages_names {
                        let at = after_named(&server.routes);
                        server.routes.splice(at..at, routes);
                    }
                    server.routes.push(others);
                }
                None => {
                    let server = http.servers.entry(REDIRECTS.to_owned()).or_default();
                    server.listen.push(listen);
                    // The server may have the redirects of another address already, which end with all other names.
                    let at = server.routes.len().saturating_sub(1);
                    if server.routes.is_empty() {
                        routes.push(others);
                    }
                    server.routes.splice(at..at, routes);
                }
            }
        }
    }

    /// The redirect of these names, or of all, to a port.
    fn redirect(&self, names: Vec<String>, port: u16) -> Route {
        // The port in front of a container or a firewall is the usual one, whatever it is here.
        let is_usual = [self.http_port, self.https_port, 80, 443].contains(&port);
        let port = match is_usual {
            true => String::new(),
            false => format!(":{port}"),
        };
        let location = format!("https://{{http.request.host}}{port}{{http.request.uri}}");
        let mut response = StaticResponse {
            status_code: 308.into(),
            close: true,
            ..Default::default()
        };
        response
            .headers
            .insert("Location".to_owned(), vec![location]);
        let mut matchers = vec![Matcher::Protocol("http".to_owned())];
        if !names.is_empty() {
            matchers.insert(0, Matcher::Host(names));
        }
        Route {
            r#match: vec![MatcherSet(matchers)],
            handle: vec![Handler::StaticResponse(response)],
            terminal: true,
            ..Route::default()
        }
    }
}

/// The place behind the last route with a host, or the first one if there is none.
fn after_named(routes: &[Route]) -> usize {
    let is_named = |route: &Route| {
        let mut matchers = route.r#match.iter().flat_map(|set| &set.0);
        matchers.any(|matcher| matches!(matcher, Matcher::Host(_)))
    };
    routes.iter().rposition(is_named).map_or(0, |at| at + 1)
}

fn listen_text(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// The names of client certificates that proxies present to upstreams (`tls_client_auth <name>`).
pub(super) fn client_names(config: &Config) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (_, server) in config.servers() {
        // Any handler may contain a proxy.
        walk::each(server, |tls: &UpstreamTls| {
            let name = &tls.client_certificate_automate;
            names.extend((!name.is_empty()).then(|| name.clone()));
        });
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(json: &str) -> Config {
        Config::from_json(json).unwrap()
    }

    fn site(listen: &str, host: &str) -> String {
        format!(
            r#"{{"apps":{{"http":{{"servers":{{"srv0":{{"listen":["{listen}"],
            "routes":[{{"match":[{{"host":["{host}"]}}]}}]}}}}}}}}}}"#
        )
    }

    #[test]
    fn a_named_site_gets_tls_a_certificate_and_a_redirect() {
        let auto = expand(&config(&site(":443", "localhost")), &BTreeSet::new());
        let servers = &auto.config.apps.http.unwrap().servers;
        assert_eq!(servers["srv0"].tls_connection_policies.len(), 1);
        assert_eq!(servers[REDIRECTS].listen, [":80"]);
        assert!(auto.names.contains("localhost"));
    }

    #[test]
    fn a_redirect_names_a_port_that_is_not_the_usual_one() {
        let auto = expand(&config(&site(":8443", "a.example")), &BTreeSet::new());
        assert!(auto.names.contains("a.example"));
        let text = auto.config.to_json();
        assert!(
            text.contains("https://{http.request.host}:8443{http.request.uri}"),
            "{text}"
        );
    }

    /// The hosts and locations of the redirects of a server, in order.
    fn redirects(server: &Server) -> Vec<(Vec<String>, String)> {
        let found = server.routes.iter().filter_map(|route| {
            let Handler::StaticResponse(response) = route.handle.first()? else {
                return None;
            };
            let hosts = route
                .r#match
                .first()?
                .0
                .iter()
                .find_map(|matcher| match matcher {
                    Matcher::Host(hosts) => Some(hosts.clone()),
                    _ => None,
                });
            let location = response.headers.get("Location")?.first()?.clone();
            Some((hosts.unwrap_or_default(), location))
        });
        found.collect()
    }

    const TO_USUAL: &str = "https://{http.request.host}{http.request.uri}";

    #[test]
    fn other_names_are_redirected_behind_all_routes() {
        let text = r#"{"apps":{"http":{"servers":{
            "a":{"listen":[":443",":8443"],"routes":[{"match":[{"host":["a.example","*.example"]}]}]},
            "b":{"listen":[":8443"],"routes":[{"match":[{"host":["b.test"]}]}]},
            "p":{"listen":[":80"],"routes":[{"match":[{"host":["p.test"]}]},{}]}}}}}"#;
        let auto = expand(&config(text), &BTreeSet::new());
        let http = auto.config.apps.http.unwrap();
        let plain = &http.servers["p"];
        let hosts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let other = "https://{http.request.host}:8443{http.request.uri}".to_owned();
        let expected = [
            (hosts(&["*.example", "a.example"]), TO_USUAL.to_owned()),
            (hosts(&["b.test"]), other),
            (hosts(&[]), TO_USUAL.to_owned()),
        ];
        assert_eq!(redirects(plain), expected);
        assert!(plain.routes[3].r#match.is_empty(), "the route for any name");
        assert!(!http.servers.contains_key(REDIRECTS));
    }

    #[test]
    fn a_site_for_any_name_is_redirected_to() {
        let text = r#"{"apps":{"http":{"servers":{"a":{"listen":["127.0.0.1:8443","[::1]:8443"],
            "tls_connection_policies":[{}],"routes":[{}]}}}}}"#;
        let auto = expand(&config(text), &BTreeSet::new());
        let server = &auto.config.apps.http.unwrap().servers[REDIRECTS];
        assert_eq!(server.listen, ["127.0.0.1:80", "[::1]:80"]);
        let to = |location: &str| (Vec::new(), location.to_owned());
        let other = "https://{http.request.host}:8443{http.request.uri}";
        assert_eq!(redirects(server), [to(other), to(other), to(TO_USUAL)]);
    }

    #[test]
    fn plain_ports_and_sites_without_names_stay_plain() {
        for text in [site(":80", "localhost"), site(":8080", "{env.HOST}")] {
            let before = config(&text);
            let auto = expand(&before, &BTreeSet::new());
            assert_eq!(auto.config, before);
            assert!(auto.names.is_empty());
        }
    }

    #[test]
    fn a_named_site_on_a_socket_without_port_gets_tls_and_no_redirect() {
        for listen in ["unix//run/a.sock", "fd/3"] {
            let auto = expand(&config(&site(listen, "localhost")), &BTreeSet::new());
            let servers = &auto.config.apps.http.unwrap().servers;
            assert_eq!(servers["srv0"].tls_connection_policies.len(), 1, "{listen}");
            assert_eq!(servers.len(), 1, "{listen}");
            assert!(auto.names.contains("localhost"), "{listen}");
        }
    }

    #[test]
    fn a_wildcard_covers_its_names_unless_they_are_forced() {
        let names = ["*.a.test", "b.a.test", "c.a.test", "d.c.a.test", "a.test"];
        let mut names = names.map(str::to_owned).into_iter().collect();
        drop_covered(&mut names, &["c.a.test".to_owned()]);
        let left: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(left, ["*.a.test", "a.test", "c.a.test", "d.c.a.test"]);
    }

    #[test]
    fn loaded_certificates_cover_their_names() {
        let loaded = BTreeSet::from(["*.example.com".to_owned()]);
        let auto = expand(&config(&site(":443", "a.example.com")), &loaded);
        assert!(auto.names.is_empty());
        let servers = auto.config.apps.http.unwrap().servers;
        assert_eq!(servers["srv0"].tls_connection_policies.len(), 1);
    }
}
