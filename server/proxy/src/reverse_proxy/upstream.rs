//! One upstream of the configuration. `select` chooses among them.

use std::borrow::Cow;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sluice_message::{ConnInfo, FieldId, Method, Moment, Remote, RequestHead};
use sluice_net::Failure;
use sluice_net::clock;
use sluice_net::load::Load;
use sluice_policy::PassiveHealth;
use sluice_policy::breaker::Breaker;
use sluice_upstream::{Endpoint, KeepAlive, Wanted};

use super::by_request::Endpoints;
pub use super::checked::Checked;
use super::directions::Directed;
use super::group::peers::Member;
use sluice_observe::metrics::{Direction, Health, Standing, UpstreamMemory};
use sluice_pipeline::context::Exchange;

/// Whether requests in flight are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Counted.
    Yes,
    /// Not needed.
    No,
}

/// One upstream.
pub struct Upstream {
    /// The address as configured, for logs and placeholders.
    pub address: String,
    /// The `Host` to send if the client did not send one.
    pub authority: String,
    /// The ID in cookies, with the `cookie` policy.
    pub cookie: Option<Box<str>>,
    /// The endpoint for requests.
    pub endpoint: Arc<Endpoint>,
    /// The endpoint for upgrade requests, if others may use HTTP/2, which does not have them (RFC 9113, section 8.6).
    pub switching: Option<Arc<Endpoint>>,
    /// The endpoints for requests on which the connection settings depend.
    pub by_request: Option<Box<Endpoints>>,
    /// Requests in flight, if they are counted.
    pub load: Arc<Load>,
    /// Maximum number of concurrent requests, as configured.
    pub(super) configured_max: Option<usize>,
    /// The PROXY protocol header to send.
    pub proxy_header: ProxyHeader,
    /// The failures so far.
    pub health: PassiveHealth,
    /// The circuit breaker, if configured.
    pub breaker: Option<Breaker>,
    /// The state from active health checks.
    pub checked: Arc<Checked>,
    /// Whether there are active health checks.
    pub is_checked: bool,
    /// Whether requests in flight are counted.
    pub counted: Counted,
    /// The role in load balancing, as configured.
    pub(super) configured_role: Role,
    /// What operators have directed for the address.
    pub directed: Arc<Directed>,
    /// The membership in an nginx upstream group, which counts failures in this case.
    pub member: Option<Member>,
}

impl std::fmt::Debug for Upstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Upstream").field(&self.address).finish()
    }
}

impl Health for Upstream {
    fn standing(&self) -> Standing {
        let now = clock::now();
        Standing {
            requests: (self.counted == Counted::Yes).then(|| self.load.in_flight()),
            failures: self.fails(now),
            by_checks: self.is_checked.then(|| !self.checked.is_down()),
            by_failures: match &self.member {
                Some(member) => Some(member.is_healthy(now)),
                None => self.health.is_on().then(|| self.health.is_healthy(now)),
            },
            by_circuit: self.breaker.as_ref().map(Breaker::is_closed),
            trips: self.breaker.as_ref().map_or(0, Breaker::trips),
            directed: Direction {
                is_kept: None,
                ..self.directed.direction(now)
            },
        }
    }

    fn check_failure(&self) -> Option<String> {
        self.checked.failure()
    }

    fn direct(&self, direction: &Direction) {
        self.directed.direct(direction);
    }

    fn memory(&self) -> UpstreamMemory {
        let now = clock::now();
        let failures = self.health.remembered(now).into_iter();
        let nanos = |failure: Moment| u64::try_from(failure.since_start().as_nanos());
        UpstreamMemory {
            direction: self.directed.direction(now),
            failures: failures.filter_map(|failure| nanos(failure).ok()).collect(),
            failing: self.member.as_ref().and_then(Member::failing),
        }
    }

    fn recall(&self, memory: &UpstreamMemory) {
        let failures = memory.failures.iter();
        let failures = failures.map(|nanos| Moment::START + Duration::from_nanos(*nanos));
        self.health.add(&failures.collect::<Vec<_>>(), clock::now());
        if let (Some(member), Some(failing)) = (&self.member, memory.failing) {
            member.resume_failing(failing);
        }
    }
}

/// The role of an upstream in load balancing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Gets its share of requests.
    #[default]
    Usual,
    /// Gets requests while no primary upstream is available.
    Backup,
    /// Gets only requests of clients whose cookie selects it.
    Draining,
}

/// Which PROXY protocol header is sent at the start of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeader {
    /// None.
    Off,
    /// Version 1, the text format.
    V1,
    /// Version 2, the binary format.
    V2,
}

impl Upstream {
    /// The role in load balancing, as configured or directed.
    pub fn role(&self) -> Role {
        match self.directed.is_draining() {
            true => Role::Draining,
            false => self.configured_role,
        }
    }

    /// The maximum number of concurrent requests, as configured or directed.
    pub fn requests_max(&self) -> Option<usize> {
        let directed = self.directed.requests_max();
        directed.map_or(self.configured_max, |max| Some(max as usize))
    }

    /// The number of recent failures at `now`.
    pub fn fails(&self, now: Moment) -> u32 {
        match &self.member {
            Some(member) => member.fails(),
            None => self.health.fails(now),
        }
    }

    /// When it last became available again, for whatever reason it was unavailable.
    pub fn recovered_at(&self) -> Option<Moment> {
        self.checked.up_at().max(self.health.recovered_at())
    }

    /// Which idle connections may be used. A connection that starts with a client's address is for that client only.
    /// Applications close connections with a short keep-alive at any time, and it is impossible to know whether they
    /// have seen a request before that, so non-idempotent requests get a new connection.
    pub fn wanted(&self, method: &Method) -> Wanted {
        match (self.proxy_header, self.endpoint.options().keep_alive) {
            (ProxyHeader::Off, KeepAlive::Keep { .. }) => Wanted::Any,
            (ProxyHeader::Off, KeepAlive::Briefly(_)) if method.is_idempotent() => Wanted::Any,
            (ProxyHeader::Off, KeepAlive::Briefly(_)) => Wanted::Fresh,
            (ProxyHeader::Off, KeepAlive::Off) | (ProxyHeader::V1 | ProxyHeader::V2, _) => {
                Wanted::Fresh
            }
        }
    }

    /// The endpoint for a request.
    ///
    /// # Errors
    /// The request yields settings that cannot be used.
    pub fn endpoint_for(&self, exchange: &Exchange) -> Result<Cow<'_, Arc<Endpoint>>, Failure> {
        let usual = self.usual_endpoint(&exchange.req);
        match &self.by_request {
            None => Ok(Cow::Borrowed(usual)),
            Some(endpoints) => {
                let is_switching = !Arc::ptr_eq(usual, &self.endpoint);
                Ok(Cow::Owned(endpoints.of(exchange, usual, is_switching)?))
            }
        }
    }

    fn usual_endpoint(&self, request: &RequestHead) -> &Arc<Endpoint> {
        match &self.switching {
            Some(switching) if request.fields.has(FieldId::Upgrade) => switching,
            Some(_) | None => &self.endpoint,
        }
    }

    /// The bytes at the start of a new connection.
    pub fn preface(&self, conn: &ConnInfo) -> Vec<u8> {
        match self.proxy_header {
            // An empty list does not allocate.
            ProxyHeader::Off => Vec::new(),
            ProxyHeader::V1 => proxy_v1(conn),
            ProxyHeader::V2 => proxy_v2(conn),
        }
    }
}

/// The addresses of both ends of a connection, if both are IP addresses of the same version.
fn ends(conn: &ConnInfo) -> Option<(SocketAddr, SocketAddr)> {
    match (conn.remote, conn.local.address()) {
        (Remote::Ip(remote), Some(local)) if remote.is_ipv4() == local.is_ipv4() => {
            Some((remote, local))
        }
        (Remote::Ip(_) | Remote::Unix, _) => None,
    }
}

/// PROXY protocol, section 2.1.
fn proxy_v1(conn: &ConnInfo) -> Vec<u8> {
    let mut out = Vec::new();
    let written = match ends(conn) {
        None => out.write_all(b"PROXY UNKNOWN\r\n"),
        Some((from, to)) => {
            let family = if from.is_ipv4() { 4 } else { 6 };
            let (from_ip, to_ip) = (from.ip(), to.ip());
            let (from_port, to_port) = (from.port(), to.port());
            write!(
                out,
                "PROXY TCP{family} {from_ip} {to_ip} {from_port} {to_port}\r\n"
            )
        }
    };
    written.expect("writing to memory does not fail");
    out
}

/// PROXY protocol, section 2.2.
fn proxy_v2(conn: &ConnInfo) -> Vec<u8> {
    let mut out = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
    let Some((from, to)) = ends(conn) else {
        // Version 2, command LOCAL, no address: the connection is not on behalf of a client.
        out.extend_from_slice(&[0x20, 0x00, 0, 0]);
        return out;
    };
    let mut addresses = Vec::with_capacity(36);
    for end in [from, to] {
        match end {
            SocketAddr::V4(end) => addresses.extend_from_slice(&end.ip().octets()),
            SocketAddr::V6(end) => addresses.extend_from_slice(&end.ip().octets()),
        }
    }
    addresses.extend_from_slice(&from.port().to_be_bytes());
    addresses.extend_from_slice(&to.port().to_be_bytes());
    // Version 2, command PROXY; then TCP over IPv4 or IPv6.
    out.extend_from_slice(&[0x21, if from.is_ipv4() { 0x11 } else { 0x21 }]);
    out.extend_from_slice(&(addresses.len() as u16).to_be_bytes());
    out.extend_from_slice(&addresses);
    out
}

#[cfg(test)]
mod tests {
    use sluice_message::LocalEnd;

    use super::*;

    fn conn(remote: &str, local: &str) -> ConnInfo {
        let local = LocalEnd::from(local.parse().ok());
        let remote = remote.parse().map_or(Remote::Unix, Remote::Ip);
        ConnInfo {
            remote,
            local,
            tls: None,
            facts: Default::default(),
        }
    }

    #[test]
    fn the_text_header_names_both_ends() {
        let four = conn("192.0.2.1:1000", "192.0.2.2:80");
        assert_eq!(
            proxy_v1(&four),
            b"PROXY TCP4 192.0.2.1 192.0.2.2 1000 80\r\n"
        );
        let six = conn("[2001:db8::1]:1000", "[::1]:80");
        assert_eq!(proxy_v1(&six), b"PROXY TCP6 2001:db8::1 ::1 1000 80\r\n");
        assert_eq!(proxy_v1(&conn("", "")), b"PROXY UNKNOWN\r\n");
    }

    #[test]
    fn the_binary_header_names_both_ends() {
        let mut expected = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
        expected.extend_from_slice(&[192, 0, 2, 1, 192, 0, 2, 2, 3, 232, 0, 80]);
        assert_eq!(proxy_v2(&conn("192.0.2.1:1000", "192.0.2.2:80")), expected);
        assert_eq!(proxy_v2(&conn("[::2]:1", "[::1]:80")).len(), 16 + 36);
        assert_eq!(proxy_v2(&conn("", "")), b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0");
    }
}
