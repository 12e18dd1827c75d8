//! The settings of `reverse_proxy`: upstreams, choice among them, health, transport.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::handler::{FieldValues, Headers, ResponseHandler, Rewrite};
use crate::http::RouteOrigin;
use crate::matcher::MatcherSet;
use crate::object::{RawModule, objects, tagged};
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
        /// A source of upstreams that is asked for each request.
        pub dynamic_upstreams: Option<UpstreamSource>,
        /// How long written bytes may wait; negative flushes at once.
        pub flush_interval: Duration,
        /// Proxies in front of us whose X-Forwarded fields are believed.
        pub trusted_proxies: Vec<String>,
        /// Changes to header fields.
        pub headers: Option<Headers>,
        /// Bytes of the request read before it is passed on; -1 reads all.
        pub request_buffers: i64,
        /// Bytes of the response read before it is passed on; -1 reads all.
        pub response_buffers: i64,
        /// Where bodies wait that are longer than `request_buffers` and `response_buffers`, which go on as they come when
        /// empty. Our own word.
        pub buffer_folder: String,
        /// The longest life of a tunnel.
        pub stream_timeout: Duration,
        /// The size of the copy buffer.
        pub stream_buffer_size: i64,
        /// How long tunnels outlive their configuration.
        pub stream_close_delay: Duration,
        /// Changes to method or target.
        pub rewrite: Option<Rewrite>,
        /// Responses that are answered otherwise.
        pub handle_response: Vec<ResponseHandler>,
        /// Logs the headers of both sides.
        pub verbose_logs: bool,
        /// Identical requests that are under way at one time ask the upstream once. Our own word.
        pub coalesce: bool,
        /// Passes on as nginx does, where present. Our own word.
        pub as_nginx: Option<AsNginx>,
    }

    /// How nginx passes requests on: it adds nothing of its own, and tells the upstream's name as the host.
    pub struct AsNginx {
        /// The Host field, with placeholders.
        pub host: String,
        /// What stands in the target in place of its first bytes; the target as it was sent when absent.
        pub target: Option<Target>,
        /// Whether a client may switch to another protocol.
        pub upgrade: bool,
        /// Fields of answers that are not passed back.
        pub hide: Vec<String>,
        /// Statuses of answers that are taken for errors of our own.
        pub intercept: Vec<u16>,
        /// Redirects of the upstream that are changed; the first that fits counts.
        pub redirects: Vec<LocationChange>,
        /// How redirects name this server.
        pub naming: crate::nginx::Redirects,
        /// When the next server is asked: `error`, `timeout`, `invalid_header`, `http_502` and the like,
        /// `non_idempotent`. Never when empty.
        pub next_upstream: Vec<String>,
        /// The most servers that are asked; all of them when zero.
        pub next_upstream_tries: i64,
        /// How long further servers are asked; without limit when zero.
        pub next_upstream_timeout: Duration,
        /// The method that the upstream is asked with, with placeholders; the client's when empty.
        pub method: String,
        /// What is sent in place of the request's content, with placeholders.
        pub body: Option<String>,
        /// Goes on asking although the client is gone, until the answer begins.
        pub ignore_client_abort: bool,
        /// Does not send the request's fields.
        pub drop_fields: bool,
        /// Does not send the request's content.
        pub drop_body: bool,
        /// Speaks HTTP/1.0: a request says how long its content is.
        pub http10: bool,
        /// Tells that trailer fields are taken, as gRPC wants it.
        pub trailers: bool,
        /// Hints that come before the answer are passed back where one of these is neither empty nor `0`, with placeholders; never
        /// when there are none.
        pub early_hints: Vec<String>,
        /// Fields of answers that are not obeyed: `X-Accel-Redirect`, `X-Accel-Limit-Rate`.
        pub ignore: Vec<String>,
        /// Changes to `Domain` of cookies; the first that fits counts.
        pub cookie_domains: Vec<LocationChange>,
        /// Changes to `Path` of cookies; the first that fits counts.
        pub cookie_paths: Vec<LocationChange>,
        /// Flags that cookies get or lose; the first that fits counts.
        pub cookie_flags: Vec<CookieFlags>,
        /// Bytes each second in which an answer is read, as nginx writes them, with placeholders; `0` for any number.
        pub limit_rate: String,
        /// Parts of an answer are given whether or not the upstream gives parts.
        pub force_ranges: bool,
        /// Answers that are files from then on.
        pub keep: Option<KeepFile>,
        /// How requests wait until they are here as a whole.
        pub request_buffers: BodyBuffers,
        /// How responses wait for clients that are slower than the upstream.
        pub response_buffers: BodyBuffers,
    }

    /// How bodies wait: in memory, then in a temporary file.
    pub struct BodyBuffers {
        /// They do not.
        pub off: bool,
        /// Bytes in memory; the usual number when zero.
        pub memory: u64,
        /// Bytes that are written to the file at a time; the usual number when zero.
        pub write: u64,
        /// Bytes in the file; the usual number when absent, no file when zero.
        pub file_max: Option<u64>,
        /// The folder of the file; that of the system when empty.
        pub folder: String,
        /// Where that was written; no part of the JSON.
        #[serde(skip)]
        pub origin: RouteOrigin,
    }

    /// Makes files of answers.
    pub struct KeepFile {
        /// The file of an answer, with placeholders.
        pub path: String,
        /// What may be done with the file, in the bits of the system.
        pub mode: u32,
    }

    /// Flags that a cookie gets or loses.
    pub struct CookieFlags {
        /// Its name, with placeholders.
        pub name: String,
        /// The pattern that its name matches, where `name` is empty.
        pub pattern: String,
        /// The flags: `secure`, `nosecure`, `httponly`, `nohttponly`, `samesite=strict`, `nosamesite` and the like.
        pub flags: Vec<String>,
    }

    /// What stands in a target in place of its beginning.
    pub struct Target {
        /// The new beginning, with placeholders.
        pub path: String,
        /// How many bytes of the path it replaces.
        pub cut: u32,
        /// It is all of the target, query included; where it is empty the target stays as it is.
        pub whole: bool,
    }

    /// A redirect of the upstream that is changed.
    pub struct LocationChange {
        /// What it begins with, with placeholders.
        pub from: String,
        /// The pattern that it matches, where `from` is empty.
        pub pattern: String,
        /// What stands there instead, with placeholders.
        pub to: String,
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

    /// As in a group of servers of an nginx.conf. Our own.
    pub struct NginxGroup {
        /// The name of the group: handlers of one name share what is known of its servers.
        pub name: String,
        /// How it chooses: `round_robin`, `least_conn`, `ip_hash`, `hash`, `consistent_hash`, `random`, `random_two`; `least_time_header`
        /// and `least_time_last_byte`, also with `_inflight` behind them or `random_two_` in front.
        pub method: String,
        /// What is hashed, with placeholders.
        pub key: String,
        /// What each of the upstreams is in it.
        pub servers: Vec<NginxServer>,
        /// Clients stay with the server that they had.
        pub sticky: Option<Sticky>,
        /// Who is asked for the names of servers with `resolve`; the DNS servers of the system when absent.
        pub resolver: Option<Resolver>,
    }

    /// Clients stay with the server that they had, as long as it can take their requests.
    pub struct Sticky {
        /// The cookie that names the server; the application names it when absent.
        pub cookie: Option<StickyCookie>,
        /// What may name the server, with placeholders; the first one that is not empty counts.
        pub names: Vec<String>,
        /// `names` name sessions, and which server has one is learned from its answers.
        pub learn: Option<StickyLearn>,
    }

    /// Sessions that servers begin.
    pub struct StickyLearn {
        /// What may name a new session, with placeholders; the first one that is not empty counts.
        pub create: Vec<String>,
        /// The most sessions that are remembered.
        pub sessions_max: u32,
        /// How long a session is remembered that nobody goes on with, ten minutes when zero.
        pub timeout: Duration,
        /// A session begins with the head of an answer; with the end of it when false.
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
    pub struct NginxServer {
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
        /// The time between questions, 30 s when zero.
        pub interval: Duration,
        /// How long an answer may take, 5 s when zero.
        pub timeout: Duration,
        /// Good answers in a row that make an upstream healthy, 1 when zero.
        pub passes: i64,
        /// Bad answers in a row that make an upstream sick, 1 when zero.
        pub fails: i64,
        /// The most bytes of an answer that are read.
        pub max_size: i64,
        /// The status expected; one digit stands for a class, any 2xx when zero.
        pub expect_status: u16,
        /// A pattern the body must match.
        pub expect_body: String,
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
        /// How much the system keeps of what comes and of what goes. Our own word.
        pub socket_buffers: SocketBuffers,
        /// A proxy to go through.
        pub network_proxy: Option<RawModule>,
    }

    /// DNS servers.
    pub struct Resolver {
        /// Their addresses.
        pub addresses: Vec<String>,
        /// How long answers are used, whatever their owners say. Our own word, as all below.
        pub valid: Option<Duration>,
        /// Answers are used as long as their owners say.
        pub heeds_lifetimes: bool,
        /// How long a question may take altogether.
        pub timeout: Duration,
        /// The versions of IP asked for.
        pub versions: Option<IpVersions>,
    }

    /// TLS towards upstreams.
    pub struct UpstreamTls {
        /// Who may have signed the upstream's certificate.
        pub ca: Option<RawModule>,
        /// Base64 DER of authorities (an old place).
        pub root_ca_pool: Vec<String>,
        /// Files of authorities (an old place).
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
        /// How much the system keeps of what comes and of what goes. Our own word.
        pub socket_buffers: SocketBuffers,
        /// Texts on standard error, in front of a head, that make an answer an invalid one. Our own word.
        pub catch_stderr: Vec<String>,
    }

    /// How much the system keeps of what comes on a connection, and of what goes.
    pub struct SocketBuffers {
        /// Bytes of what comes; the system's choice when zero.
        pub receive: u32,
        /// Bytes of what goes; the system's choice when zero.
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
        /// uwsgi: the first modifier of packets, which tells what kind of application is asked; 0 is WSGI.
        pub modifier1: u8,
        /// uwsgi: the second modifier.
        pub modifier2: u8,
        /// The address dialled from.
        pub local_address: String,
        /// How much the system keeps of what comes and of what goes.
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

    /// Upstreams from SRV records.
    pub struct SrvUpstreams {
        /// The service.
        pub service: String,
        /// The protocol.
        pub proto: String,
        /// The name.
        pub name: String,
        /// How long answers are kept, 1 minute when zero.
        pub refresh: Duration,
        /// How long old answers are used when asking fails.
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
        /// How long answers are kept, 1 minute when zero.
        pub refresh: Duration,
        /// DNS servers.
        pub resolver: Option<Resolver>,
        /// How long dialling the DNS server may take.
        pub dial_timeout: Duration,
        /// The head start of IPv6.
        pub dial_fallback_delay: Duration,
        /// The versions of IP asked for.
        pub versions: Option<IpVersions>,
    }

    /// The versions of IP asked for.
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
        /// As in a group of servers of an nginx.conf. Our own.
        Nginx(Box<NginxGroup>) = "nginx",
    }
}

tagged! {
    /// A source of upstreams.
    pub enum UpstreamSource by "source" {
        /// SRV records.
        Srv(Box<SrvUpstreams>) = "srv",
        /// A and AAAA records.
        A(Box<AUpstreams>) = "a",
        /// Several sources.
        Multi(MultiUpstreams) = "multi",
    }
}
