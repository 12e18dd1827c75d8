//! The global option `servers`: server-wide settings.

use serde_json::Value;
use std::str::FromStr;

use sluice_model::http::{Http3, IpSource, Metrics, MinDataRate, RequestIdHeader, ServerLogs};
use sluice_model::matcher::IpRanges;
use sluice_model::{Address, Duration, HttpApp, RawModule, Server};

use super::super::Lowering;
use super::super::definition::Read::{Choice, Flag, Number, Size, Text, Time, With};
use super::super::definition::Verdict::{Always, Plugin};
use super::super::definition::{Block, Options, option};
use super::super::directives::bind::PROTOCOLS;
use super::super::matchers::ranges;
use super::METRICS;
use crate::tree::{Directive, Token};

/// Settings for servers, or for the one that listens on an address.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct ServerOptions {
    /// The address; every server when empty.
    address: String,
    name: String,
    listener_wrappers: Vec<RawModule>,
    read_timeout: Duration,
    read_header_timeout: Duration,
    read_idle: IdleTimeout,
    write_timeout: Duration,
    write_idle: IdleTimeout,
    max_write_chunk: i64,
    idle_timeout: Duration,
    min_data_rate: Option<MinDataRate>,
    keepalive_interval: Duration,
    keepalive_idle: Duration,
    keepalive_count: i64,
    max_header_bytes: u64,
    expected_underscore_headers: Vec<String>,
    expected_dot_headers: Vec<String>,
    enable_full_duplex: bool,
    protocols: Vec<String>,
    strict_sni_host: Option<bool>,
    trusted_proxies: Option<IpSource>,
    trusted_proxies_strict: bool,
    trusted_proxies_unix: bool,
    client_ip_headers: Vec<String>,
    log_credentials: bool,
    log_timings: bool,
    request_id: Option<RequestIdHeader>,
    metrics: Option<Metrics>,
    trace: bool,
    allow_0rtt: Option<bool>,
    http3: Option<Http3>,
}

/// `servers`.
pub(super) static SERVERS: Options<ServerOptions> = Options::new(
    "servers",
    &[
        option(
            "name",
            "name <name>",
            With(|cx, line, options| cx.server_name(line, options)),
        ),
        option::<ServerOptions>(
            "listener_wrappers",
            "listener_wrappers { … }",
            With(|cx, line, options| {
                cx.between(line, &line.args, 0, 0)?;
                cx.each(line.lines(), |this, wrapper| {
                    let wrapper = this.listener_wrapper(wrapper)?;
                    options.listener_wrappers.push(wrapper);
                    Some(())
                })
            }),
        )
        .holding(Block::ModuleLines(&[("proxy_protocol", &PROXY_PROTOCOL)])),
        option::<ServerOptions>(
            "packet_conn_wrappers",
            "packet_conn_wrappers { … }",
            With(|cx, line, _| {
                // As in Caddy, a block that names no module is none.
                match line.args.is_empty() && line.lines().is_empty() {
                    true => Some(()),
                    false => cx.unknown_option(line),
                }
            }),
        )
        .but(Plugin(
            "packet wrappers are plugins, which sluice does not have; remove the lines inside",
        )),
        option::<ServerOptions>(
            "timeouts",
            "timeouts { … }",
            With(|cx, line, options| {
                cx.between(line, &line.args, 0, 0)?;
                cx.read_options(&TIMEOUTS, line.lines(), options)
            }),
        )
        .holding(Block::Options(&TIMEOUTS)),
        option::<ServerOptions>(
            "min_data_rate",
            "min_data_rate <bytes/s> [<grace>]|off",
            With(|cx, line, options| {
                options.min_data_rate = Some(cx.min_data_rate(line)?);
                Some(())
            }),
        )
        .own(),
        option(
            "keepalive_interval",
            "keepalive_interval <duration>",
            Time(|options| &mut options.keepalive_interval),
        ),
        option(
            "keepalive_idle",
            "keepalive_idle <duration>",
            Time(|options| &mut options.keepalive_idle),
        ),
        option(
            "keepalive_count",
            "keepalive_count <number>",
            Number("a number of probes", |options| &mut options.keepalive_count),
        ),
        option(
            "0rtt",
            "0rtt on|off",
            With(|cx, line, options| {
                let word = cx.single(line)?;
                options.allow_0rtt = Some(cx.one_of(word, &["on", "off"])? == "on");
                Some(())
            }),
        ),
        option(
            "trusted_proxies",
            "trusted_proxies <module> …",
            With(|cx, line, options| {
                options.trusted_proxies = Some(cx.ip_source(line)?);
                Some(())
            }),
        ),
        option(
            "trusted_proxies_strict",
            "trusted_proxies_strict",
            Flag(|options| &mut options.trusted_proxies_strict),
        ),
        option(
            "trusted_proxies_unix",
            "trusted_proxies_unix",
            Flag(|options| &mut options.trusted_proxies_unix),
        ),
        option(
            "client_ip_headers",
            "client_ip_headers <headers...>",
            With(|cx, line, options| {
                for field in cx.texts(line)? {
                    if options.client_ip_headers.contains(&field) {
                        return cx.duplicate(line);
                    }
                    options.client_ip_headers.push(field);
                }
                Some(())
            }),
        ),
        option::<ServerOptions>(
            "metrics",
            "metrics [{ … }]",
            With(|cx, line, options| {
                options.metrics = Some(cx.metrics_option(line)?);
                let title = "`metrics` has a new place";
                let diagnostic = line.name.warning("deprecated-option", title, "old place");
                cx.report
                    .push(diagnostic.help("write it as a global option of its own"));
                Some(())
            }),
        )
        .holding(Block::Options(&METRICS)),
        option("trace", "trace", Flag(|options| &mut options.trace)),
        option(
            "max_header_size",
            "max_header_size <size>",
            With(|cx, line, options| {
                options.max_header_bytes = cx.single_size(line)?.unsigned_abs();
                Some(())
            }),
        ),
        option::<ServerOptions>(
            "enable_full_duplex",
            "enable_full_duplex",
            Flag(|options| &mut options.enable_full_duplex),
        )
        .but(Always(
            "a response may begin while its request is still arriving",
        )),
        option(
            "log_credentials",
            "log_credentials",
            Flag(|options| &mut options.log_credentials),
        ),
        option::<ServerOptions>(
            "log_timings",
            "log_timings",
            Flag(|options| &mut options.log_timings),
        )
        .own(),
        option::<ServerOptions>(
            "request_id",
            "request_id [<header>]",
            With(|cx, line, options| {
                options.request_id = Some(cx.request_id(line)?);
                Some(())
            }),
        )
        .own(),
        option::<ServerOptions>(
            "protocols",
            "protocols [h1|h2|h2c|h3]",
            With(|cx, line, options| {
                for protocol in cx.protocols(line)? {
                    if options.protocols.contains(&protocol) {
                        return cx.duplicate(line);
                    }
                    options.protocols.push(protocol);
                }
                Some(())
            }),
        ),
        option::<ServerOptions>(
            "http3",
            "http3 { … }",
            With(|cx, line, options| {
                cx.between(line, &line.args, 0, 0)?;
                let http3 = options.http3.get_or_insert_default();
                cx.read_options(&HTTP3, line.lines(), http3)
            }),
        )
        .holding(Block::Options(&HTTP3))
        .own(),
        option(
            "strict_sni_host",
            "strict_sni_host [on|insecure_off]",
            With(|cx, line, options| {
                cx.between(line, &line.args, 0, 1)?;
                options.strict_sni_host = match line.args.first() {
                    Some(word) => Some(cx.one_of(word, &["on", "insecure_off"])? == "on"),
                    None => Some(true),
                };
                Some(())
            }),
        ),
        option(
            "expected_underscore_headers",
            "expected_underscore_headers <headers...>",
            With(|cx, line, options| {
                options.expected_underscore_headers = cx.expected_headers(line, '_')?;
                Some(())
            }),
        ),
        option(
            "expected_dot_headers",
            "expected_dot_headers <headers...>",
            With(|cx, line, options| {
                options.expected_dot_headers = cx.expected_headers(line, '.')?;
                Some(())
            }),
        ),
    ],
);

/// Why the size of writes does not matter.
pub(in super::super) const BYTES_COUNT: &str =
    "every byte that the client takes is progress, however large the writes are";

/// A timeout for a transfer without progress.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct IdleTimeout {
    /// The timeout.
    pub(in super::super) time: Duration,
    /// The lowest rate in bytes per second once the timeout has passed in all; any when 0.
    pub(in super::super) min_rate: i64,
}

/// `http3` of `servers`, an extension of sluice.
static HTTP3: Options<Http3> = Options::new(
    "http3",
    &[
        option(
            "max_streams",
            "max_streams <number>",
            With(|cx, line, http3: &mut Http3| {
                let word = cx.single(line)?;
                let Streams(count) = cx.number(word, "a number from 1 to 128")?;
                http3.max_streams = count;
                Some(())
            }),
        ),
        option(
            "stream_window",
            "stream_window <size>",
            Size(|http3| &mut http3.stream_window),
        ),
        option(
            "congestion",
            "congestion cubic|bbr",
            Choice(&["cubic", "bbr"], |http3| &mut http3.congestion),
        ),
        option(
            "always_retry",
            "always_retry",
            Flag(|http3| &mut http3.always_retry),
        ),
        option(
            "no_segmentation_offload",
            "no_segmentation_offload",
            Flag(|http3| &mut http3.no_segmentation_offload),
        ),
        option(
            "host_key_file",
            "host_key_file <file>",
            Text(|http3| &mut http3.host_key_file),
        ),
    ],
);

/// Concurrent requests on an HTTP/3 connection.
struct Streams(i64);

impl FromStr for Streams {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let count = text.parse().map_err(|_| ())?;
        (1..=128)
            .contains(&count)
            .then_some(Streams(count))
            .ok_or(())
    }
}

static TIMEOUTS: Options<ServerOptions> = Options::new(
    "timeouts",
    &[
        option(
            "read_body",
            "read_body <duration>",
            Time(|options| &mut options.read_timeout),
        ),
        option(
            "read_body_idle",
            "read_body_idle <duration> [<min_rate>]",
            With(|cx, line, options| {
                options.read_idle = cx.idle_timeout(line)?;
                Some(())
            }),
        ),
        option(
            "read_header",
            "read_header <duration>",
            Time(|options| &mut options.read_header_timeout),
        ),
        option(
            "write",
            "write <duration>",
            Time(|options| &mut options.write_timeout),
        ),
        option(
            "write_idle",
            "write_idle <duration> [<min_rate>]",
            With(|cx, line, options| {
                options.write_idle = cx.idle_timeout(line)?;
                Some(())
            }),
        ),
        option::<ServerOptions>(
            "write_max_chunk",
            "write_max_chunk <size>",
            Size(|options| &mut options.max_write_chunk),
        )
        .but(Always(BYTES_COUNT)),
        option(
            "idle",
            "idle <duration>",
            Time(|options| &mut options.idle_timeout),
        ),
    ],
);

/// The listener wrapper `proxy_protocol`.
static PROXY_PROTOCOL: Options<RawModule> = Options::new(
    "proxy_protocol",
    &[
        option(
            "timeout",
            "timeout <duration>",
            With(|cx, line, module| {
                let timeout = cx.single_duration(line)?;
                module.insert("timeout".into(), timeout.0.into());
                Some(())
            }),
        ),
        option(
            "allow",
            "allow <ranges...>",
            With(|cx, line, module| cx.more_ranges(line, module)),
        ),
        option(
            "deny",
            "deny <ranges...>",
            With(|cx, line, module| cx.more_ranges(line, module)),
        ),
        option(
            "fallback_policy",
            "fallback_policy ignore|use|reject|require|skip",
            With(|cx, line, module| {
                let word = cx.single(line)?;
                let lower = Token {
                    text: word.text.to_lowercase(),
                    ..word.clone()
                };
                let policies = ["ignore", "use", "reject", "require", "skip"];
                let policy = cx.one_of(&lower, &policies)?;
                module.insert("fallback_policy".into(), policy.to_uppercase().into());
                Some(())
            }),
        ),
    ],
);

impl Lowering<'_> {
    pub(super) fn servers_option(&mut self, line: &Directive) -> Option<()> {
        self.between(line, &line.args, 0, 1)?;
        let mut options = ServerOptions::default();
        if let Some(word) = line.args.first() {
            options.address = self.listener_address(word)?;
        }
        let other = self
            .options
            .servers
            .iter()
            .any(|other| other.address == options.address);
        if other {
            return self.duplicate(line);
        }
        self.read_options(&SERVERS, line.lines(), &mut options)?;
        self.options.servers.push(options);
        Some(())
    }

    fn listener_address(&mut self, word: &Token) -> Option<String> {
        match Address::parse(&word.text) {
            Ok(address) => Some(address.to_string()),
            Err(error) => {
                let title = format!("invalid listener address `{}`", word.text);
                self.refuse(word.error("invalid-address", title, error.to_string()))
            }
        }
    }

    fn server_name(&mut self, line: &Directive, options: &mut ServerOptions) -> Option<()> {
        options.name = self.single_text(line)?;
        if options.address.is_empty() {
            let title = "`name` needs the address of one server";
            let diagnostic = line
                .name
                .error("misplaced-option", title, "applies to every server");
            return self.refuse(diagnostic.help("write `servers :443 { name … }`"));
        }
        Some(())
    }

    fn protocols(&mut self, line: &Directive) -> Option<Vec<String>> {
        self.texts(line)?;
        let mut protocols = Vec::new();
        for word in &line.args {
            let protocol = self.one_of(word, &PROTOCOLS)?;
            if protocols.contains(&protocol) {
                return self.surplus(line, word);
            }
            protocols.push(protocol);
        }
        Some(protocols)
    }

    /// Names of headers with `sign` in them, or beginnings of such names with a `*` behind them.
    fn expected_headers(&mut self, line: &Directive, sign: char) -> Option<Vec<String>> {
        self.texts(line)?;
        let mut names: Vec<String> = Vec::new();
        for word in &line.args {
            let name = word.text.strip_suffix('*').unwrap_or(&word.text);
            if !name.contains(sign) || !name.chars().all(is_token) {
                let title = format!("`{}` is not a header name with `{sign}`", word.text);
                let label = format!("expected a name such as `user{sign}id` or `webhook{sign}*`");
                let diagnostic = word.error("invalid-value", title, label);
                return self.refuse(diagnostic.help("headers with other names are always kept"));
            }
            if !names.contains(&word.text) {
                names.push(word.text.clone());
            }
        }
        Some(names)
    }

    /// `<name> <duration> [<bytes a second>]`.
    pub(in super::super) fn idle_timeout(&mut self, line: &Directive) -> Option<IdleTimeout> {
        self.no_block(line)?;
        self.between(line, &line.args, 1, 2)?;
        let time = self.duration(line.args.first()?)?;
        let Some(word) = line.args.get(1) else {
            return Some(IdleTimeout { time, min_rate: 0 });
        };
        let Ok(min_rate) = word.text.parse() else {
            let title = format!("invalid rate `{}` for `{}`", word.text, line.name.text);
            let diagnostic = word.error("invalid-number", title, "not a number");
            return self.refuse(diagnostic.help("write bytes per second, such as `240`"));
        };
        Some(IdleTimeout { time, min_rate })
    }

    /// `request_id [<header>]`.
    fn request_id(&mut self, line: &Directive) -> Option<RequestIdHeader> {
        self.no_block(line)?;
        self.between(line, &line.args, 0, 1)?;
        let Some(name) = line.args.first() else {
            return Some(RequestIdHeader::default());
        };
        if name.text.is_empty() || !name.text.chars().all(is_token) {
            let title = format!("invalid header `{}` for `request_id`", name.text);
            let diagnostic = name.error("invalid-value", title, "not a valid header name");
            return self.refuse(diagnostic.help("write a name such as `X-Correlation-Id`"));
        }
        Some(RequestIdHeader {
            header: name.text.clone(),
        })
    }

    /// `min_data_rate <bytes a second> [<grace>]|off`.
    fn min_data_rate(&mut self, line: &Directive) -> Option<MinDataRate> {
        self.no_block(line)?;
        self.between(line, &line.args, 1, 2)?;
        let (word, grace) = (line.args.first()?, line.args.get(1));
        if word.text == "off" {
            if let Some(grace) = grace {
                return self.surplus(line, grace);
            }
            return Some(MinDataRate::default());
        }
        let rate = u32::try_from(self.size(word)?)
            .ok()
            .filter(|rate| *rate > 0);
        let Some(rate) = rate else {
            let title = format!("invalid rate `{}` for `min_data_rate`", word.text);
            let diagnostic = word.error("invalid-size", title, "not a number of bytes a second");
            return self.refuse(diagnostic.help("write 1 to 4294967295, such as `240`, or `off`"));
        };
        let grace = match grace {
            Some(grace) => self.duration(grace)?,
            None => Duration::default(),
        };
        Some(MinDataRate {
            rate: rate.into(),
            grace,
        })
    }

    fn ip_source(&mut self, line: &Directive) -> Option<IpSource> {
        self.no_block(line)?;
        let Some((source, args)) = line.args.split_first() else {
            return self.missing(line, "a source of addresses: `static <ranges...>`");
        };
        if source.text != "static" {
            return self.unknown_module(source, "source of addresses", &["static"]);
        }
        self.between(line, args, 1, usize::MAX)?;
        Some(IpSource::Static(IpRanges {
            ranges: ranges(args),
        }))
    }

    fn listener_wrapper(&mut self, line: &Directive) -> Option<RawModule> {
        self.between(line, &line.args, 0, 0)?;
        let name = line.name.text.as_str();
        let mut module = RawModule::new();
        module.insert("wrapper".into(), name.into());
        match name {
            "tls" | "http_redirect" => self.no_block(line)?,
            "proxy_protocol" => self.read_options(&PROXY_PROTOCOL, line.lines(), &mut module)?,
            _ => {
                let names = ["proxy_protocol", "http_redirect", "tls"];
                return self.unknown_module(&line.name, "listener wrapper", &names);
            }
        }
        Some(module)
    }

    /// Adds the ranges of a line to a list of the module `proxy_protocol`.
    fn more_ranges(&mut self, line: &Directive, module: &mut RawModule) -> Option<()> {
        let ranges = self.texts(line)?;
        let list = module
            .entry(line.name.text.as_str())
            .or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(list) = list {
            list.extend(ranges.into_iter().map(Value::from));
        }
        Some(())
    }

    /// Applies the settings to the servers they are for.
    pub(in super::super) fn with_server_options(&self, mut http: HttpApp) -> HttpApp {
        let mut all = self.options.servers.clone();
        // The settings for one address come before those for all.
        all.sort_by_key(|options| std::cmp::Reverse(options.address.len()));
        let mut named = Vec::new();
        for (key, server) in &mut http.servers {
            let fits = |options: &&ServerOptions| {
                options.address.is_empty() || server.listen.contains(&options.address)
            };
            let Some(options) = all.iter().find(fits) else {
                continue;
            };
            apply(options, server);
            if let Some(metrics) = &options.metrics {
                let all = http.metrics.get_or_insert_default();
                all.per_host |= metrics.per_host;
                all.observe_catchall_hosts |= metrics.observe_catchall_hosts;
                all.otlp |= metrics.otlp;
            }
            if !options.name.is_empty() {
                named.push((key.clone(), options.name.clone()));
            }
        }
        for (key, name) in named {
            if let Some(server) = http.servers.remove(&key) {
                http.servers.insert(name, server);
            }
        }
        http
    }
}

/// Whether a name of a header may contain this character, apart from an asterisk.
fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'+-.^_`|~".contains(c)
}

fn apply(options: &ServerOptions, server: &mut Server) {
    server
        .listener_wrappers
        .clone_from(&options.listener_wrappers);
    server.read_timeout = options.read_timeout;
    server.read_header_timeout = options.read_header_timeout;
    server.read_idle_timeout = options.read_idle.time;
    server.read_min_rate = options.read_idle.min_rate;
    server.write_timeout = options.write_timeout;
    server.write_idle_timeout = options.write_idle.time;
    server.write_min_rate = options.write_idle.min_rate;
    server.max_write_chunk = options.max_write_chunk;
    server.idle_timeout = options.idle_timeout;
    server.min_data_rate.clone_from(&options.min_data_rate);
    server.keepalive_interval = options.keepalive_interval;
    server.keepalive_idle = options.keepalive_idle;
    server.keepalive_count = options.keepalive_count;
    server.max_header_bytes = options.max_header_bytes;
    server
        .expected_underscore_headers
        .clone_from(&options.expected_underscore_headers);
    server
        .expected_dot_headers
        .clone_from(&options.expected_dot_headers);
    server.enable_full_duplex = options.enable_full_duplex;
    server.request_id.clone_from(&options.request_id);
    server.protocols.clone_from(&options.protocols);
    server.strict_sni_host = options.strict_sni_host;
    server.trusted_proxies.clone_from(&options.trusted_proxies);
    server
        .client_ip_headers
        .clone_from(&options.client_ip_headers);
    server.trusted_proxies_strict = options.trusted_proxies_strict.into();
    server.trusted_proxies_unix = options.trusted_proxies_unix;
    server.allow_0rtt = options.allow_0rtt;
    server.http3.clone_from(&options.http3);
    if options.log_credentials || options.log_timings || options.trace {
        let logs = server.logs.get_or_insert_with(ServerLogs::default);
        logs.should_log_credentials = options.log_credentials;
        logs.timings = options.log_timings;
        logs.trace = options.trace;
    }
}
