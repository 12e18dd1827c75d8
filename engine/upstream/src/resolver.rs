//! DNS queries: addresses of a name, servers of a service, TXT and CNAME records. The callers cache the results.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, LookupIpStrategy, NameServerConfig};
use hickory_resolver::config::{ResolverConfig, ResolverOpts};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{RData, RecordType};
use hickory_resolver::system_conf::read_system_conf;

use crate::limits::{
    DNS_ATTEMPTS, DNS_LIFETIME_MAX, DNS_LIFETIME_MIN, DNS_TIMEOUT, NAME_RECORDS_MAX,
};

/// The DNS servers to query, with timeouts. Holds no sockets: a socket shared by several workers would belong to the
/// runtime of the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolver {
    /// The servers; those of the system if empty.
    pub servers: Vec<SocketAddr>,
    /// Timeout of one server.
    pub timeout: Option<Duration>,
    /// Timeout of a query altogether.
    pub total: Option<Duration>,
    /// The IP versions to query for.
    pub family: Family,
    /// How long results are cached.
    pub lifetime: Lifetime,
}

/// How long results are cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lifetime {
    /// The caller's default.
    #[default]
    Usual,
    /// The TTL of the records, but at least a second.
    Ttl,
    /// This long, regardless of the TTL.
    For(Duration),
}

impl Lifetime {
    /// The cache lifetime of a result with this TTL; `usual` is the caller's default.
    pub fn of(self, ttl: Duration, usual: Duration) -> Duration {
        match self {
            Lifetime::Usual => usual,
            Lifetime::Ttl => ttl.clamp(DNS_LIFETIME_MIN, DNS_LIFETIME_MAX),
            Lifetime::For(time) => time.max(DNS_LIFETIME_MIN),
        }
    }
}

/// IP versions to query for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    /// Both.
    #[default]
    Any,
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Whether `ip` is of this version.
    pub fn has(self, ip: IpAddr) -> bool {
        match self {
            Family::Any => true,
            Family::V4 => ip.is_ipv4(),
            Family::V6 => ip.is_ipv6(),
        }
    }
}

/// The result of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved<T> {
    /// The records, at least one.
    pub records: Vec<T>,
    /// The TTL.
    pub lifetime: Duration,
}

impl<T> Resolved<T> {
    /// The same result with converted records.
    pub fn map<U>(self, change: impl FnMut(T) -> U) -> Resolved<U> {
        Resolved {
            records: self.records.into_iter().map(change).collect(),
            lifetime: self.lifetime,
        }
    }
}

/// A server of a service (SRV; RFC 2782).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// The name of the server, without the trailing dot.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Servers with the lowest number are used first.
    pub priority: u16,
    /// Its relative weight among servers of the same priority.
    pub weight: u16,
}

impl Resolver {
    /// The addresses of `name`. If there are none, the error is [`io::ErrorKind::NotFound`].
    pub async fn addresses(&self, name: &str, family: Family) -> io::Result<Resolved<IpAddr>> {
        let resolver = self.start(family)?;
        let found = self.within(resolver.lookup_ip(name)).await?;
        let records = found
            .iter()
            .filter(|ip| family.has(*ip))
            .take(NAME_RECORDS_MAX)
            .collect();
        some(records, found.as_lookup())
    }

    /// The servers of the service called `name`, `_service._proto.domain`: by priority, then by weight. If there are
    /// none, the error is [`io::ErrorKind::NotFound`].
    pub async fn services(&self, name: &str) -> io::Result<Resolved<Service>> {
        let resolver = self.start(Family::Any)?;
        let found = self.within(resolver.lookup(name, RecordType::SRV)).await?;
        let mut records: Vec<Service> = found
            .answers()
            .iter()
            .filter_map(|record| match &record.data {
                RData::SRV(srv) => Some(Service {
                    host: srv.target.to_utf8().trim_end_matches('.').to_owned(),
                    port: srv.port,
                    priority: srv.priority,
                    weight: srv.weight,
                }),
                _ => None,
            })
            // RFC 2782: a target of "." means that the service is decidedly not available.
            .filter(|service| !service.host.is_empty() && service.port != 0)
            .take(NAME_RECORDS_MAX)
            .collect();
        records.sort_by(|a, b| {
            let key = |s: &Service| (s.priority, std::cmp::Reverse(s.weight));
            (key(a), &a.host, a.port).cmp(&(key(b), &b.host, b.port))
        });
        some(records, &found)
    }

    /// The TXT records of `name`. If there are none, the error is [`io::ErrorKind::NotFound`].
    pub async fn texts(&self, name: &str) -> io::Result<Resolved<Vec<u8>>> {
        let resolver = self.start(Family::Any)?;
        let found = self.within(resolver.lookup(name, RecordType::TXT)).await?;
        let records = found
            .answers()
            .iter()
            .filter_map(|record| match &record.data {
                // RFC 7208, section 3.3: the strings of one record are concatenated.
                RData::TXT(txt) => Some(txt.txt_data.concat()),
                _ => None,
            })
            .take(NAME_RECORDS_MAX)
            .collect();
        some(records, &found)
    }

    /// The names that `name` is an alias of (CNAME), without the trailing dot. If there are none, the error is
    /// [`io::ErrorKind::NotFound`].
    pub async fn aliases(&self, name: &str) -> io::Result<Resolved<String>> {
        let resolver = self.start(Family::Any)?;
        let found = self
            .within(resolver.lookup(name, RecordType::CNAME))
            .await?;
        let records = found
            .answers()
            .iter()
            .filter_map(|record| match &record.data {
                RData::CNAME(alias) => Some(alias.0.to_utf8().trim_end_matches('.').to_owned()),
                _ => None,
            })
            .take(NAME_RECORDS_MAX)
            .collect();
        some(records, &found)
    }

    /// Awaits a query within the total timeout.
    async fn within<T>(&self, asking: impl Future<Output = Result<T, NetError>>) -> io::Result<T> {
        let answer = match self.total {
            None => asking.await,
            Some(total) => match tokio::time::timeout(total, asking).await {
                Ok(answer) => answer,
                Err(_) => return Err(io::ErrorKind::TimedOut.into()),
            },
        };
        answer.map_err(failed)
    }

    /// Creates a resolver for one query: the system's configuration files are read each time, so changes take effect.
    fn start(&self, family: Family) -> io::Result<TokioResolver> {
        let (mut config, mut options) = match read_system_conf() {
            Ok(system) => system,
            Err(_) if !self.servers.is_empty() => {
                (ResolverConfig::default(), ResolverOpts::default())
            }
            Err(error) => return Err(io::Error::other(error)),
        };
        if !self.servers.is_empty() {
            let (domain, search, _) = config.into_parts();
            let servers = self.servers.iter().map(name_server).collect();
            config = ResolverConfig::from_parts(domain, search, servers);
        }
        options.cache_size = 0;
        options.attempts = DNS_ATTEMPTS;
        options.timeout = self.timeout.unwrap_or(DNS_TIMEOUT);
        options.ip_strategy = match family {
            Family::Any => LookupIpStrategy::Ipv4AndIpv6,
            Family::V4 => LookupIpStrategy::Ipv4Only,
            Family::V6 => LookupIpStrategy::Ipv6Only,
        };
        TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
            .with_options(options)
            .build()
            .map_err(io::Error::other)
    }
}

/// The addresses of `name` according to the system, that is, its hosts file and DNS servers.
pub async fn by_system(name: &str) -> io::Result<Vec<IpAddr>> {
    let found = tokio::net::lookup_host((name, 0)).await?;
    let mut ips: Vec<IpAddr> = Vec::new();
    for ip in found.map(|address| address.ip()) {
        if !ips.contains(&ip) && ips.len() < NAME_RECORDS_MAX {
            ips.push(ip);
        }
    }
    Ok(ips)
}

/// Whether the system has a route to `ip`: without IPv6, names still have IPv6 addresses. Sends nothing, as connecting
/// a UDP socket only selects the route.
pub fn is_reachable(ip: IpAddr) -> bool {
    let any: IpAddr = match ip {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = std::net::UdpSocket::bind((any, 0));
    socket.is_ok_and(|socket| socket.connect((ip, DISCARD)).is_ok())
}

/// An arbitrary port for the route lookup.
const DISCARD: u16 = 9;

fn name_server(server: &SocketAddr) -> NameServerConfig {
    let mut ways = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
    for way in &mut ways {
        way.port = server.port();
    }
    NameServerConfig::new(server.ip(), true, ways.to_vec())
}

/// The absence of a record is a definite result, unlike a timeout, which may be temporary.
fn failed(error: NetError) -> io::Error {
    let kind = if error.is_no_records_found() {
        io::ErrorKind::NotFound
    } else {
        io::ErrorKind::TimedOut
    };
    io::Error::new(kind, error)
}

fn some<T>(records: Vec<T>, found: &Lookup) -> io::Result<Resolved<T>> {
    if records.is_empty() {
        let why = "the name has no record of this type";
        return Err(io::Error::new(io::ErrorKind::NotFound, why));
    }
    let lifetime = found
        .valid_until()
        .saturating_duration_since(Instant::now());
    Ok(Resolved { records, lifetime })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dns_answers_are_cached_as_long_as_configured() {
        let second = Duration::from_secs;
        let usual = second(10);
        assert_eq!(Lifetime::Usual.of(second(300), usual), usual);
        assert_eq!(Lifetime::Ttl.of(second(300), usual), second(300));
        assert_eq!(Lifetime::For(second(5)).of(second(300), usual), second(5));
        // Neither one query per request nor an unlimited cache lifetime.
        assert_eq!(Lifetime::Ttl.of(second(0), usual), DNS_LIFETIME_MIN);
        assert_eq!(
            Lifetime::For(second(0)).of(second(9), usual),
            DNS_LIFETIME_MIN
        );
        let forever = second(u64::from(u32::MAX));
        assert_eq!(Lifetime::Ttl.of(forever, usual), DNS_LIFETIME_MAX);
    }

    #[test]
    fn there_is_a_way_to_this_machine() {
        assert!(is_reachable(Ipv4Addr::LOCALHOST.into()));
    }
}
