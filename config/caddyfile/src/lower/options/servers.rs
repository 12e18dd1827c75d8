//! The global option `servers`: server-wide settings.

use serde_json::Value;
use sluice_model::http::{IpSource, Metrics, MinDataRate, ServerLogs};
use sluice_model::matcher::IpRanges;
use sluice_model::{Address, Duration, HttpApp, RawModule, Server};

use super::super::Lowering;
use super::super::directives::bind::PROTOCOLS;
use super::super::matchers::ranges;
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
    write_timeout: Duration,
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
    metrics: Option<Metrics>,
    trace: bool,
    allow_0rtt: Option<bool>,
}

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
        self.each(line.lines(), |this, option| {
            this.place = "servers";
            this.server_option(option, &mut options)?;
            Some(())
        })?;
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

    fn server_option(&mut self, line: &Directive, options: &mut ServerOptions) -> Option<()> {
        match line.name.text.as_str() {
            "name" => {
                options.name = self.single_text(line)?;
                if options.address.is_empty() {
                    let title = "a name needs the address of one server";
                    let diagnostic = line.name.error("misplaced-option", title, "names them all");
                    return self.refuse(diagnostic.help("write `servers :443 { name … }`"));
                }
            }
            "listener_wrappers" => {
                self.between(line, &line.args, 0, 0)?;
                self.each(line.lines(), |this, wrapper| {
                    let wrapper = this.listener_wrapper(wrapper)?;
                    options.listener_wrappers.push(wrapper);
                    Some(())
                })?;
            }
            // As in Caddy, a block that names no module is none.
            "packet_conn_wrappers" if line.args.is_empty() && line.lines().is_empty() => {}
            "timeouts" => self.timeouts(line, options)?,
            "min_data_rate" => options.min_data_rate = Some(self.min_data_rate(line)?),
            "keepalive_interval" => options.keepalive_interval = self.single_duration(line)?,
            "keepalive_idle" => options.keepalive_idle = self.single_duration(line)?,
            "keepalive_count" => {
                options.keepalive_count = self.single_number(line, "a number of probes")?;
            }
            "max_header_size" => {
                options.max_header_bytes = self.single_size(line)?.unsigned_abs();
            }
            "expected_underscore_headers" => {
                options.expected_underscore_headers = self.expected_headers(line, '_')?;
            }
            "expected_dot_headers" => {
                options.expected_dot_headers = self.expected_headers(line, '.')?;
            }
            "protocols" => options.protocols = self.protocols(line)?,
            "strict_sni_host" => {
                self.between(line, &line.args, 0, 1)?;
                options.strict_sni_host = match line.args.first() {
                    Some(word) => Some(self.one_of(word, &["on", "insecure_off"])? == "on"),
                    None => Some(true),
                };
            }
            "0rtt" => {
                let word = self.single(line)?;
                options.allow_0rtt = Some(self.one_of(word, &["on", "off"])? == "on");
            }
            "metrics" => {
                options.metrics = Some(self.metrics_option(line)?);
                let title = "`metrics` has a new place";
                let diagnostic = line.name.warning("deprecated-option", title, "old place");
                self.report
                    .push(diagnostic.help("write it as a global option of its own"));
            }
            "trusted_proxies" => options.trusted_proxies = Some(self.ip_source(line)?),
            "client_ip_headers" => {
                for field in self.texts(line)? {
                    if options.client_ip_headers.contains(&field) {
                        return self.duplicate(line);
                    }
                    options.client_ip_headers.push(field);
                }
            }
            _ => self.server_flag(line, options)?,
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
            let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'+-.^_`|~".contains(c);
            if !name.contains(sign) || !name.chars().all(is_token) {
                let title = format!("`{}` is not a header name with `{sign}`", word.text);
                let label = format!("expected a name such as `user{sign}id` or `webhook{sign}*`");
                let diagnostic = word.error("invalid-value", title, label);
                return self.refuse(diagnostic.help("headers with other names are kept anyway"));
            }
            if !names.contains(&word.text) {
                names.push(word.text.clone());
            }
        }
        Some(names)
    }

    fn server_flag(&mut self, line: &Directive, options: &mut ServerOptions) -> Option<()> {
        let flag = match line.name.text.as_str() {
            "enable_full_duplex" => &mut options.enable_full_duplex,
            "log_credentials" => &mut options.log_credentials,
            "trace" => &mut options.trace,
            "trusted_proxies_strict" => &mut options.trusted_proxies_strict,
            "trusted_proxies_unix" => &mut options.trusted_proxies_unix,
            _ => return self.unknown_option(line),
        };
        *flag = true;
        self.flag(line)
    }

    fn timeouts(&mut self, line: &Directive, options: &mut ServerOptions) -> Option<()> {
        self.between(line, &line.args, 0, 0)?;
        self.place = "timeouts";
        self.each(line.lines(), |this, option| {
            match option.name.text.as_str() {
                "read_body" => options.read_timeout = this.single_duration(option)?,
                "read_header" => options.read_header_timeout = this.single_duration(option)?,
                "write" => options.write_timeout = this.single_duration(option)?,
                "idle" => options.idle_timeout = this.single_duration(option)?,
                _ => return this.unknown_option(option),
            }
            Some(())
        })?;
        Some(())
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
            "proxy_protocol" => self.proxy_protocol(line, &mut module)?,
            _ => {
                let names = ["proxy_protocol", "http_redirect", "tls"];
                return self.unknown_module(&line.name, "listener wrapper", &names);
            }
        }
        Some(module)
    }

    fn proxy_protocol(&mut self, line: &Directive, module: &mut RawModule) -> Option<()> {
        self.place = "proxy_protocol";
        self.each(line.lines(), |this, option| {
            let name = option.name.text.as_str();
            match name {
                "timeout" => {
                    let timeout = this.single_duration(option)?;
                    module.insert(name.into(), timeout.0.into());
                }
                "allow" | "deny" => {
                    let ranges = this.texts(option)?;
                    let list = module
                        .entry(name)
                        .or_insert_with(|| Value::Array(Vec::new()));
                    if let Value::Array(list) = list {
                        list.extend(ranges.into_iter().map(Value::from));
                    }
                }
                "fallback_policy" => {
                    let word = this.single(option)?;
                    let lower = Token {
                        text: word.text.to_lowercase(),
                        ..word.clone()
                    };
                    let policies = ["ignore", "use", "reject", "require", "skip"];
                    let policy = this.one_of(&lower, &policies)?;
                    module.insert(name.into(), policy.to_uppercase().into());
                }
                _ => return this.unknown_option(option),
            }
            Some(())
        })?;
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
                http.metrics.get_or_insert_with(|| metrics.clone());
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

fn apply(options: &ServerOptions, server: &mut Server) {
    server
        .listener_wrappers
        .clone_from(&options.listener_wrappers);
    server.read_timeout = options.read_timeout;
    server.read_header_timeout = options.read_header_timeout;
    server.write_timeout = options.write_timeout;
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
    server.protocols.clone_from(&options.protocols);
    server.strict_sni_host = options.strict_sni_host;
    server.trusted_proxies.clone_from(&options.trusted_proxies);
    server
        .client_ip_headers
        .clone_from(&options.client_ip_headers);
    server.trusted_proxies_strict = options.trusted_proxies_strict.into();
    server.trusted_proxies_unix = options.trusted_proxies_unix;
    server.allow_0rtt = options.allow_0rtt;
    if options.log_credentials || options.trace {
        let logs = server.logs.get_or_insert_with(ServerLogs::default);
        logs.should_log_credentials = options.log_credentials;
        logs.trace = options.trace;
    }
}
