//! The settings of `reverse_proxy`: upstreams, load balancing, health checks, transport.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

pub use super::body_buffers::BodyBuffers;
use super::nginx::NginxProxy;
use super::{FieldValues, Headers, ResponseHandler, Rewrite};
use crate::matcher::MatcherSet;
use crate::object::{RawModule, objects, tagged};
use crate::route_origin::RouteOrigin;
use crate::value::Duration;

objects! {
    /// Passes the request on.
    pub struct ReverseProxy {
        /// How upstreams are spoken to, HTTP when absent.
        pub transport: Option<Transport>,
        /// A module that stops passing on to sick upstreams.
        pub circuit_breaker: Option<RawModule>,
        /// The choice among upstreams.
        pub load_balancing: Option<LoadBalancing>,
        /// Which upstreams count as healthy.
        pub health_checks: Option<HealthChecks>,
        /// The upstreams.
        pub upstreams: Vec<Upstream>,
        /// A source of upstreams that is queried for each request.
        pub dynamic_upstreams: Option<UpstreamSource>,
        /// How long written bytes may stay buffered; negative flushes at once.
        pub flush_interval: Duration,
        /// Proxies in front of the server whose X-Forwarded headers are trusted.
        pub trusted_proxies: Vec<String>,
        /// Changes to header fields.
        pub headers: Option<Headers>,
        /// Bytes of the request body to buffer before forwarding it; -1 buffers all.
        pub request_buffers: i64,
        /// Bytes of the response body to buffer before forwarding it; -1 buffers all.
        pub response_buffers: i64,
        /// The name of this proxy in `Proxy-Status` (RFC 9209); without one that header is not sent.
        pub proxy_status_name: String,
        /// The directory that buffers the rest of bodies longer than `request_buffers` and `response_buffers`; when
        /// empty, the rest is forwarded as it arrives. sluice's own setting.
        pub buffer_folder: String,
        /// The longest life of a tunnel.
        pub stream_timeout: Duration,
        /// The size of the copy buffer.
        pub stream_buffer_size: i64,
        /// How long tunnels outlive their configuration.
        pub stream_close_delay: Duration,
        /// Changes to method or target.
        pub rewrite: Option<Rewrite>,
        /// Responses that are replaced or handled by routes.
        pub handle_response: Vec<ResponseHandler>,
        /// Logs the headers of both sides.
        pub verbose_logs: bool,
        /// Combines identical concurrent requests into one upstream request. sluice's own setting.
        pub coalesce: bool,
        /// The settings of another dialect than Caddy's, which then decides how requests are proxied. sluice's own
        /// setting.
        #[serde(rename = "as_nginx")]
        pub dialect: Option<NginxProxy>,
    }

    /// One upstream.
    pub struct Upstream {
        /// The address; see [`crate::Address`].
        pub dial: String,
        /// The most requests at a time; without limit when zero.
        pub max_requests: i64,
        /// Gets requests only while no other upstream is available. Our own word.
        pub backup: bool,
        /// Gets no more requests but those of clients whose cookie names it. Our own word.
        pub drain: bool,
    }

    /// The choice among upstreams.
    pub struct LoadBalancing {
        /// The policy, random when absent.
        pub selection_policy: Option<SelectionPolicy>,
        /// How many further upstreams are tried.
        pub retries: i64,
        /// How long to go on trying.
        pub try_duration: Duration,
        /// The pause between tries.
        pub try_interval: Duration,
        /// Requests that may be sent again, beside GET.
        pub retry_match: Vec<MatcherSet>,
        /// Requests that are sent again or twice, in percent of all requests; 10 when zero. Our own word.
        pub retry_budget: i64,
        /// After which time without a response a request is sent to another upstream as well; never when zero. Our own word.
        pub hedge: Duration,
        /// How long an upstream that became healthy again gets less than its share. Our own word.
        pub slow_start: Duration,
        /// For policies that hash: how much of an even share an upstream may have, in percent. Our own word.
        pub bounded_load: i64,
    }

    /// A policy without settings.
    pub struct NoPolicySettings {}

    /// The least busy of a few drawn at random.
    pub struct RandomChoose {
        /// How many are drawn.
        pub choose: i64,
    }

    /// Turns by weight.
    pub struct Weighted {
        /// A weight for each upstream.
        pub weights: Vec<i64>,
    }

    /// By the value of a header field.
    pub struct HeaderHash {
        /// The field.
        pub field: String,
        /// The policy when the field is missing.
        pub fallback: Option<Box<SelectionPolicy>>,
    }

    /// By the value of a query key.
    pub struct QueryHash {
        /// The key.
        pub key: String,
        /// The policy when the key is missing.
        pub fallback: Option<Box<SelectionPolicy>>,
    }

    /// By a cookie that we set.
    pub struct CookieHash {
        /// The name, `lb` when empty.
        pub name: String,
        /// The key of the cookie's signature.
        pub secret: String,
        /// The lifetime of the cookie.
        pub max_age: Duration,
        /// The policy when the cookie is missing.
        pub fallback: Option<Box<SelectionPolicy>>,
    }

    /// A group of servers that handlers share. sluice's own policy, with the methods of nginx's `upstream` blocks.
    pub struct UpstreamGroup {
        /// The name of the group: handlers of one name share what is known of its servers.
        pub name: String,
        /// How it chooses: `round_robin`, `least_conn`, `ip_hash`, `hash`, `consistent_hash`, `random`, `random_two`; `least_time_header`
        /// and `least_time_last_byte`, also with `_inflight` behind them or `random_two_` in front.
        pub method: String,
        /// What is hashed, with placeholders.
        pub key: String,
        /// What each of the upstreams is in it.
        pub servers: Vec<GroupServer>,
        /// Session affinity.
        pub sticky: Option<Sticky>,
        /// The DNS servers that resolve the names of servers with `resolve`; the system's when absent.
        pub resolver: Option<Resolver>,
        /// Where requests wait while no server can take them; they fail at once when absent.
        pub queue: Option<GroupQueue>,
    }

    /// A queue of requests that no server of a group can take at the moment.
    pub struct GroupQueue {
        /// How many may wait, those of all workers together.
        pub max: u32,
        /// How long one may wait.
        pub timeout: Duration,
    }

    /// Session affinity: a client keeps its server as long as that server is available.
    pub struct Sticky {
        /// The cookie, set by sluice, that names the server; the application names it when absent.
        pub cookie: Option<StickyCookie>,
        /// Where the server is named, with placeholders; the first value that is not empty applies.
        pub names: Vec<String>,
        /// If present, `names` identify sessions, and the server of each session is learned from its responses.
        pub learn: Option<StickyLearn>,
    }

    /// Sessions that upstream servers create.
    pub struct StickyLearn {
        /// Where a new session is named, with placeholders; the first value that is not empty applies.
        pub create: Vec<String>,
        /// Maximum number of sessions remembered.
        pub sessions_max: u32,
        /// How long an unused session is remembered, ten minutes when zero.
        pub timeout: Duration,
        /// A session is created when the response head arrives; at the end of the response when false.
        pub at_header: bool,
    }

    /// A cookie that names a server.
    pub struct StickyCookie {
        /// The name of the cookie.
        pub name: String,
        /// How long clients keep it; as long as they run when absent.
        pub expires: Option<Duration>,
        /// Clients keep it as long as they can.
        pub expires_never: bool,
        /// The domain, with placeholders.
        pub domain: String,
        /// The path, with placeholders.
        pub path: String,
        /// Scripts do not see it.
        pub http_only: bool,
        /// It goes over TLS only.
        pub secure: bool,
        /// Requests of other sites have it: `strict`, `lax` or `none`; with placeholders.
        pub same_site: String,
    }

    /// An upstream as a server of a group.
    pub struct GroupServer {
        /// Its address as the group writes it, from which its place on the ring follows.
        pub name: String,
        /// Its share beside the others.
        pub weight: u32,
        /// Failures that leave it out; none do when zero.
        pub max_fails: u32,
        /// In which time so many failures leave it out, and for how long.
        pub fail_timeout: Duration,
        /// It gets no requests.
        pub down: bool,
        /// What clients that stay with it call it; the MD5 of its address when empty.
        pub route: String,
        /// Its name is asked of the group's DNS servers, again and again; of the system when false.
        pub resolve: bool,
        /// The service whose SRV records at its name are the servers: `http`, or `_http._tcp`. Its addresses are when empty.
        pub service: String,
        /// It gets only requests of clients that stay with it.
        pub drain: bool,
        /// How long its share grows to its weight after failures had left it out.
        pub slow_start: Duration,
    }

    /// Which upstreams count as healthy.
    pub struct HealthChecks {
        /// By asking.
        pub active: Option<ActiveChecks>,
        /// By watching.
        pub passive: Option<PassiveChecks>,
    }

    /// Health by asking.
    pub struct ActiveChecks {
        /// The path (an old place).
        pub path: String,
        /// Path and query.
        pub uri: String,
        /// An address to ask instead of the upstream.
        pub upstream: String,
        /// A port to ask instead of the upstream's.
        pub port: u16,
        /// Fields of the question.
        pub headers: FieldValues,
        /// The method, GET when empty.
        pub method: String,
        /// The body of the question.
        pub body: String,
        /// Follows redirects.
        pub follow_redirects: bool,
        /// The interval between checks, 30 s when zero.
        pub interval: Duration,
        /// The timeout for the response, 5 s when zero.
        pub timeout: Duration,
        /// Consecutive successful checks after which an upstream is healthy, 1 when zero.
        pub passes: i64,
        /// Consecutive failed checks after which an upstream is unhealthy, 1 when zero.
        pub fails: i64,
        /// Maximum number of bytes of a response that are read.
        pub max_size: i64,
        /// The status expected; one digit stands for a class, any 2xx when zero.
        pub expect_status: u16,
        /// A pattern the body must match.
        pub expect_body: String,
        /// Checks of the servers of a group, which begin with the configuration. sluice's own setting.
        #[serde(rename = "as_nginx")]
        pub group: Option<GroupChecks>,
    }

    /// Checks of the servers of a group (`health_check` of an nginx.conf).
    pub struct GroupChecks {
        /// Each check is delayed by a random time up to this.
        pub jitter: Duration,
        /// Servers get no requests before their first check has passed.
        pub mandatory: bool,
        /// With `mandatory`: a server that was healthy before a reload remains so.
        pub persistent: bool,
        /// How long a connection is used for checks; each check opens its own when zero.
        pub keepalive_time: Duration,
        /// Calls the health service of gRPC instead.
        pub grpc: Option<GrpcCheck>,
        /// What a response must be like; its status must be from 200 to 399 when absent.
        pub tests: Option<ResponseTests>,
    }

    /// A call of `grpc.health.v1.Health/Check`.
    pub struct GrpcCheck {
        /// The name of the service; the server as a whole when empty.
        pub service: String,
        /// The gRPC status that counts as healthy.
        pub status: u32,
    }

    /// Tests of a response, all of which must pass (`match` of an nginx.conf).
    pub struct ResponseTests {
        /// Of the status.
        pub status: Vec<StatusTest>,
        /// Of headers.
        pub headers: Vec<HeaderTest>,
        /// Of the body.
        pub body: Vec<BodyTest>,
        /// Headers that are neither empty nor `0`.
        pub require: Vec<String>,
    }

    /// A test of the status.
    pub struct StatusTest {
        /// The ranges, one of which it must be in.
        pub ranges: Vec<StatusRange>,
        /// It must be in none of them.
        pub negated: bool,
    }

    /// A range of statuses.
    pub struct StatusRange {
        /// The first.
        pub first: u16,
        /// The last.
        pub last: u16,
    }

    /// A test of a header.
    pub struct HeaderTest {
        /// Its name.
        pub name: String,
        /// The value that it must have.
        pub value: Option<String>,
        /// A pattern that its value must match.
        pub pattern: String,
        /// The test must fail: without value and pattern, the header must be absent.
        pub negated: bool,
    }

    /// A test of the body.
    pub struct BodyTest {
        /// A pattern that it must match.
        pub pattern: String,
        /// It must not match.
        pub negated: bool,
    }

    /// Health by watching.
    pub struct PassiveChecks {
        /// How long a failure is remembered; zero does not watch.
        pub fail_duration: Duration,
        /// Failures that make an upstream sick, 1 when zero.
        pub max_fails: i64,
        /// Requests at a time that make an upstream sick.
        pub unhealthy_request_count: i64,
        /// Statuses that count as failures; one digit stands for a class.
        pub unhealthy_status: Vec<u16>,
        /// A wait that counts as a failure.
        pub unhealthy_latency: Duration,
        /// The most upstreams that failures may take out at a time, in percent; all when zero. Our own word.
        pub max_ejected: i64,
    }

    /// Speaks HTTP to upstreams.
    pub struct HttpTransport {
        /// DNS servers.
        pub resolver: Option<Resolver>,
        /// Speaks TLS, when present.
        pub tls: Option<UpstreamTls>,
        /// Connections kept for the next request.
        pub keep_alive: Option<KeepAlive>,
        /// Whether compressed responses are asked for on our own account.
        pub compression: Option<bool>,
        /// The most connections to one upstream.
        pub max_conns_per_host: i64,
        /// Sends a PROXY header: `v1` or `v2`.
        pub proxy_protocol: String,
        /// A proxy to go through (an old place).
        pub forward_proxy_url: String,
        /// How long dialling may take, 3 s when zero.
        pub dial_timeout: Duration,
        /// The head start of IPv6; negative for none.
        pub dial_fallback_delay: Duration,
        /// How long the head of a response may take.
        pub response_header_timeout: Duration,
        /// How long to wait for `100 Continue`.
        pub expect_continue_timeout: Duration,
        /// The most bytes of a response head.
        pub max_response_header_size: i64,
        /// The size of the write buffer.
        pub write_buffer_size: i64,
        /// The size of the read buffer.
        pub read_buffer_size: i64,
        /// How long one read may take.
        pub read_timeout: Duration,
        /// How long one write may take.
        pub write_timeout: Duration,
        /// The versions spoken: `1.1`, `2`, `h2c`, `3`.
        pub versions: Vec<String>,
        /// The address dialled from.
        pub local_address: String,
        /// Sizes of the socket buffers. sluice's own setting.
        pub socket_buffers: SocketBuffers,
        /// A proxy to go through.
        pub network_proxy: Option<RawModule>,
    }

    /// DNS servers.
    pub struct Resolver {
        /// Their addresses.
        pub addresses: Vec<String>,
        /// How long DNS answers are used, regardless of their TTL. sluice's own setting, like all below.
        pub valid: Option<Duration>,
        /// Whether DNS answers are used as long as their TTL allows.
        pub heeds_lifetimes: bool,
        /// Total timeout of a query.
        pub timeout: Duration,
        /// The IP versions to query for.
        pub versions: Option<IpVersions>,
    }

    /// TLS towards upstreams.
    pub struct UpstreamTls {
        /// The CAs trusted to sign the upstream's certificate.
        pub ca: Option<RawModule>,
        /// CA certificates in Base64 DER (deprecated).
        pub root_ca_pool: Vec<String>,
        /// Files of CA certificates (deprecated).
        pub root_ca_pem_files: Vec<String>,
        /// The file of our certificate.
        pub client_certificate_file: String,
        /// The file of our key.
        pub client_certificate_key_file: String,
        /// The name of a certificate that we made.
        pub client_certificate_automate: String,
        /// Believes any certificate.
        pub insecure_skip_verify: bool,
        /// How long the handshake may take.
        pub handshake_timeout: Duration,
        /// The name expected in the certificate.
        pub server_name: String,
        /// `never`, `once` or `freely`.
        pub renegotiation: String,
        /// Ports spoken to without TLS.
        pub except_ports: Vec<String>,
        /// The groups offered.
        pub curves: Vec<String>,
        /// The suites of TLS 1.2 offered; all when empty. Ours, as all below; Caddy has no such words.
        pub cipher_suites: Vec<String>,
        /// The suites of TLS 1.3 offered; all when empty.
        pub modern_suites: Vec<String>,
        /// The lowest version, `tls1.2` when empty.
        pub protocol_min: String,
        /// The highest version, `tls1.3` when empty.
        pub protocol_max: String,
        /// Files of lists of revoked certificates.
        pub revoked_files: Vec<String>,
        /// Does not tell the upstream which name is asked for.
        pub hides_name: bool,
        /// Whether the common name counts in a certificate without DNS names, as in OpenSSL.
        pub common_name: bool,
        /// Shakes hands in full each time.
        pub no_resumption: bool,
        /// A file of passwords, one in each line, for a key of ours that is protected.
        pub client_certificate_password_file: String,
        /// Where our certificate was written; no part of the JSON.
        #[serde(skip)]
        pub origin: RouteOrigin,
    }

    /// Connections kept for the next request.
    pub struct KeepAlive {
        /// Whether any are kept; they are when absent.
        pub enabled: Option<bool>,
        /// The time between TCP keep-alive probes.
        pub probe_interval: Duration,
        /// The most connections kept.
        pub max_idle_conns: i64,
        /// The most kept for one upstream, 32 when zero.
        pub max_idle_conns_per_host: i64,
        /// How long one is kept, 2 minutes when zero.
        pub idle_timeout: Duration,
        /// Requests that one carries; without limit when zero. Our own word.
        pub max_requests: i64,
        /// How long one serves altogether; without limit when zero. Our own word.
        pub max_age: Duration,
    }

    /// Speaks FastCGI to upstreams.
    pub struct FastCgiTransport {
        /// The folder of scripts, `{http.vars.root}` when empty.
        pub root: String,
        /// Where a path is split into script and path info.
        pub split_path: Vec<String>,
        /// Gives the real path of the root.
        pub resolve_root_symlink: bool,
        /// Further variables.
        pub env: BTreeMap<String, String>,
        /// How long dialling may take, 3 s when zero.
        pub dial_timeout: Duration,
        /// How long one read may take.
        pub read_timeout: Duration,
        /// How long one write may take.
        pub write_timeout: Duration,
        /// Logs what the application writes to standard error.
        pub capture_stderr: bool,
        /// Sends no variables but those of `env` and the fields of the request. Our own word.
        pub only_env: bool,
        /// Variables of `env` that are left out where they are empty. Our own word.
        pub env_if_not_empty: Vec<String>,
        /// Connections kept for the next request, briefly when absent. Our own word.
        pub keep_alive: Option<KeepAlive>,
        /// The address dialled from. Our own word.
        pub local_address: String,
        /// Sizes of the socket buffers. sluice's own setting.
        pub socket_buffers: SocketBuffers,
        /// Texts on standard error, before the response head, that make a response invalid. sluice's own setting.
        pub catch_stderr: Vec<String>,
    }

    /// Sizes of the socket buffers of a connection.
    pub struct SocketBuffers {
        /// Receive buffer in bytes; the system's default when zero.
        pub receive: u32,
        /// Send buffer in bytes; the system's default when zero.
        pub send: u32,
    }

    /// Speaks SCGI or uwsgi to upstreams. Our own.
    pub struct CgiTransport {
        /// The folder of scripts, `{http.vars.root}` when empty.
        pub root: String,
        /// Where a path is split into script and path info.
        pub split_path: Vec<String>,
        /// Gives the real path of the root.
        pub resolve_root_symlink: bool,
        /// Further variables.
        pub env: BTreeMap<String, String>,
        /// How long dialling may take, 3 s when zero.
        pub dial_timeout: Duration,
        /// How long one read may take.
        pub read_timeout: Duration,
        /// How long one write may take.
        pub write_timeout: Duration,
        /// Sends no variables but those of `env` and the fields of the request.
        pub only_env: bool,
        /// Variables of `env` that are left out where they are empty.
        pub env_if_not_empty: Vec<String>,
        /// uwsgi: the first modifier of packets, which identifies the kind of application; 0 is WSGI.
        pub modifier1: u8,
        /// uwsgi: the second modifier.
        pub modifier2: u8,
        /// The address dialled from.
        pub local_address: String,
        /// Sizes of the socket buffers. sluice's own setting.
        pub socket_buffers: SocketBuffers,
        /// Speaks TLS, which nothing but nginx does: `suwsgi`.
        pub tls: Option<UpstreamTls>,
    }

    /// Asks memcached for a value. Our own.
    pub struct MemcachedTransport {
        /// What the value is called, with placeholders.
        pub key: String,
        /// Values that were stored with one of these bits are compressed by gzip; none are when zero.
        pub gzip_flag: u32,
        /// How long dialling may take, 3 s when zero.
        pub dial_timeout: Duration,
        /// How long one read may take.
        pub read_timeout: Duration,
        /// How long one write may take.
        pub write_timeout: Duration,
        /// Connections kept for the next request.
        pub keep_alive: Option<KeepAlive>,
        /// The address dialled from.
        pub local_address: String,
    }

    /// Upstreams from a hash in Redis: its values are `HOST:PORT`. Our own.
    pub struct RedisUpstreams {
        /// The URL of the server.
        pub store: String,
        /// A file with the CAs (PEM) that the server's certificate may come from; those of the system when empty.
        pub ca: String,
        /// The key of the hash.
        pub key: String,
        /// How long results are cached, 1 second when zero.
        pub refresh: Duration,
        /// How long old results are used when the hash is gone.
        pub grace_period: Duration,
    }

    /// Upstreams below a prefix of etcd: its values are `HOST:PORT`. Our own.
    pub struct EtcdUpstreams {
        /// The members, as `host:port` or URLs. A call goes to the next one if one fails.
        pub endpoints: Vec<String>,
        /// What the keys begin with, followed by a slash.
        pub prefix: String,
        /// The user.
        pub username: String,
        /// Its password.
        pub password: String,
        /// A file with the certificates of the CAs that members are verified with; the system's when empty.
        pub tls_ca: String,
        /// A file with the certificate that members ask for.
        pub tls_cert: String,
        /// A file with its key.
        pub tls_key: String,
        /// How long old results are used when no upstream is left.
        pub grace_period: Duration,
    }

    /// Upstreams from SRV records.
    pub struct SrvUpstreams {
        /// The service.
        pub service: String,
        /// The protocol.
        pub proto: String,
        /// The name.
        pub name: String,
        /// How long results are cached, 1 minute when zero.
        pub refresh: Duration,
        /// How long old results are used when a lookup fails.
        pub grace_period: Duration,
        /// DNS servers.
        pub resolver: Option<Resolver>,
        /// How long dialling the DNS server may take.
        pub dial_timeout: Duration,
        /// The head start of IPv6.
        pub dial_fallback_delay: Duration,
        /// The network the upstreams are dialled on.
        pub dial_network: String,
    }

    /// Upstreams from A and AAAA records.
    pub struct AUpstreams {
        /// The name.
        pub name: String,
        /// The port.
        pub port: String,
        /// How long results are cached, 1 minute when zero.
        pub refresh: Duration,
        /// DNS servers.
        pub resolver: Option<Resolver>,
        /// How long dialling the DNS server may take.
        pub dial_timeout: Duration,
        /// The head start of IPv6.
        pub dial_fallback_delay: Duration,
        /// The IP versions to query for.
        pub versions: Option<IpVersions>,
    }

    /// The IP versions to query for.
    pub struct IpVersions {
        /// IPv4.
        pub ipv4: Option<bool>,
        /// IPv6.
        pub ipv6: Option<bool>,
    }

    /// Several sources at once.
    pub struct MultiUpstreams {
        /// The sources.
        pub sources: Vec<UpstreamSource>,
    }
}

tagged! {
    /// How upstreams are spoken to.
    pub enum Transport by "protocol" {
        /// HTTP.
        Http(Box<HttpTransport>) = "http",
        /// FastCGI.
        FastCgi(Box<FastCgiTransport>) = "fastcgi",
        /// SCGI. Our own.
        Scgi(Box<CgiTransport>) = "scgi",
        /// uwsgi. Our own.
        Uwsgi(Box<CgiTransport>) = "uwsgi",
        /// memcached. Our own.
        Memcached(Box<MemcachedTransport>) = "memcached",
    }
}

tagged! {
    /// Which upstream is chosen.
    pub enum SelectionPolicy by "policy" {
        /// Any.
        Random(NoPolicySettings) = "random",
        /// The least busy of a few drawn at random.
        RandomChoose(RandomChoose) = "random_choose",
        /// The first that is healthy.
        First(NoPolicySettings) = "first",
        /// In turn.
        RoundRobin(NoPolicySettings) = "round_robin",
        /// In turn, by weight.
        WeightedRoundRobin(Weighted) = "weighted_round_robin",
        /// The one with the fewest requests.
        LeastConn(NoPolicySettings) = "least_conn",
        /// By the address of the peer.
        IpHash(NoPolicySettings) = "ip_hash",
        /// By the address of the client.
        ClientIpHash(NoPolicySettings) = "client_ip_hash",
        /// By the target.
        UriHash(NoPolicySettings) = "uri_hash",
        /// By a query key.
        Query(QueryHash) = "query",
        /// By a header field.
        Header(HeaderHash) = "header",
        /// By a cookie.
        Cookie(CookieHash) = "cookie",
        /// A group of servers that handlers share. sluice's own policy.
        Group(Box<UpstreamGroup>) = "nginx",
    }
}

tagged! {
    /// A source of upstreams that is queried for each request.
    pub enum UpstreamSource by "source" {
        /// SRV records.
        Srv(Box<SrvUpstreams>) = "srv",
        /// A and AAAA records.
        A(Box<AUpstreams>) = "a",
        /// A hash in Redis.
        Redis(Box<RedisUpstreams>) = "redis",
        /// A prefix of etcd.
        Etcd(Box<EtcdUpstreams>) = "etcd",
        /// Several sources.
        Multi(MultiUpstreams) = "multi",
    }
}
