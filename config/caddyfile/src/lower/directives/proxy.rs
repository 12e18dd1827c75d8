//! `reverse_proxy`, except for upstream addresses and transports.

use sluice_model::handler::{HeaderOps, Headers, ResponseHeaderOps, Rewrite};
use sluice_model::proxy::{
    ActiveChecks, CookieHash, HeaderHash, HealthChecks, LoadBalancing, NoPolicySettings,
    PassiveChecks, QueryHash, RandomChoose, ReverseProxy, SelectionPolicy, Weighted,
};
use sluice_model::{Address, Handler};

use super::Outcomes;
use super::intercept::is_response_line;
use crate::lower::Lowering;
use crate::lower::args::texts;
use crate::lower::matchers::{inner_line, ranges};
use crate::tree::{Directive, Quote, Token};

/// The policies there are.
const POLICIES: [&str; 12] = [
    "random",
    "random_choose",
    "first",
    "round_robin",
    "weighted_round_robin",
    "least_conn",
    "ip_hash",
    "client_ip_hash",
    "uri_hash",
    "query",
    "header",
    "cookie",
];

impl Lowering<'_> {
    pub(super) fn reverse_proxy(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            let proxy = this.proxy_block(line, args, line.lines(), ReverseProxy::default())?;
            Some(Handler::ReverseProxy(Box::new(proxy)))
        })
    }

    /// Reads the upstreams and options of a proxy; `php_fastcgi` and `forward_auth` have them too.
    pub(super) fn proxy_block(
        &mut self,
        line: &Directive,
        args: &[Token],
        options: &[Directive],
        mut proxy: ReverseProxy,
    ) -> Option<ReverseProxy> {
        let place = std::mem::replace(&mut self.place, "reverse_proxy");
        let mut upstreams: Vec<&Token> = args.iter().collect();
        let mut whole = true;
        for option in options.iter().filter(|option| !is_response_line(option)) {
            if option.name.text == "to" {
                whole &= self.texts(option).is_some();
                upstreams.extend(&option.args);
            } else {
                whole &= self.proxy_option(option, &mut proxy).is_some();
            }
        }
        let upstreams = self.upstreams(line, &upstreams, &mut proxy);
        match self.response_handlers(options) {
            Some(handlers) => proxy.handle_response = handlers,
            None => whole = false,
        }
        self.place = place;
        upstreams?;
        whole.then_some(proxy)
    }

    fn proxy_option(&mut self, line: &Directive, proxy: &mut ReverseProxy) -> Option<()> {
        let name = line.name.text.as_str();
        match name {
            "dynamic" if proxy.dynamic_upstreams.is_some() => return self.duplicate(line),
            "dynamic" => proxy.dynamic_upstreams = Some(self.dynamic_upstreams(line)?),
            "transport" => proxy.transport = Some(self.transport(line)?),
            "flush_interval" => {
                let word = self.single(line)?;
                proxy.flush_interval = match word.text.as_str() {
                    "-1" => sluice_model::Duration(-1),
                    _ => self.duration(word)?,
                };
            }
            "request_buffers" => proxy.request_buffers = self.buffer_size(line)?,
            "response_buffers" => proxy.response_buffers = self.buffer_size(line)?,
            "buffer_folder" => proxy.buffer_folder = self.single_text(line)?,
            "stream_timeout" => proxy.stream_timeout = self.single_duration(line)?,
            "stream_close_delay" => proxy.stream_close_delay = self.single_duration(line)?,
            "stream_buffer_size" => proxy.stream_buffer_size = self.single_size(line)?,
            "trusted_proxies" => {
                self.texts(line)?;
                proxy.trusted_proxies.extend(ranges(&line.args));
            }
            "header_up" | "header_down" => self.proxy_header(line, proxy)?,
            "method" => {
                let method = self.single_text(line)?;
                proxy.rewrite.get_or_insert_with(Rewrite::default).method = method;
            }
            "rewrite" => {
                let uri = self.single_text(line)?;
                proxy.rewrite.get_or_insert_with(Rewrite::default).uri = uri;
            }
            "coalesce" => {
                self.flag(line)?;
                proxy.coalesce = true;
            }
            "circuit_breaker" if proxy.circuit_breaker.is_some() => return self.duplicate(line),
            "circuit_breaker" => proxy.circuit_breaker = Some(self.circuit_breaker(line)?),
            "verbose_logs" if proxy.verbose_logs => return self.duplicate(line),
            "verbose_logs" => {
                self.flag(line)?;
                proxy.verbose_logs = true;
            }
            _ if name.starts_with("lb_") => {
                let balancing = proxy
                    .load_balancing
                    .get_or_insert_with(LoadBalancing::default);
                self.balancing_option(line, balancing)?;
            }
            _ if name.starts_with("health_") => self.active_option(line, proxy)?,
            _ => self.passive_option(line, proxy)?,
        }
        Some(())
    }

    fn buffer_size(&mut self, line: &Directive) -> Option<i64> {
        let word = self.single(line)?;
        if word.text == "unlimited" {
            Some(-1)
        } else {
            self.size(word)
        }
    }

    fn proxy_header(&mut self, line: &Directive, proxy: &mut ReverseProxy) -> Option<()> {
        self.no_block(line)?;
        self.between(line, &line.args, 1, 3)?;
        let headers = proxy.headers.get_or_insert_with(Headers::default);
        if line.name.text == "header_down" {
            let ops = headers
                .response
                .get_or_insert_with(ResponseHeaderOps::default);
            return self.upstream_change(line, ops);
        }
        let ops = headers.request.get_or_insert_with(HeaderOps::default);
        self.warn_needless_header(line);
        self.request_change(line, &line.args[0], &line.args[1..], ops)
    }

    /// Warns about fields that are sent with that very value anyway.
    fn warn_needless_header(&mut self, line: &Directive) {
        let [field, value] = line.args.as_slice() else {
            return;
        };
        let value = value.text.as_str();
        let needless = match field.text.to_ascii_lowercase().as_str() {
            "x-forwarded-for" => {
                matches!(
                    value,
                    "{http.request.remote}" | "{http.request.remote.host}"
                )
            }
            "x-forwarded-proto" => value == "{http.request.scheme}",
            "x-forwarded-host" => {
                matches!(value, "{http.request.host}" | "{http.request.hostport}")
            }
            "host" => value == "{http.request.hostport}",
            _ => false,
        };
        if needless {
            let title = format!("`header_up {}` changes nothing", field.text);
            let diagnostic = field.warning("needless-option", title, "sent like this anyway");
            self.report.push(diagnostic.help("remove the line"));
        }
    }

    fn balancing_option(&mut self, line: &Directive, lb: &mut LoadBalancing) -> Option<()> {
        match line.name.text.as_str() {
            "lb_policy" if lb.selection_policy.is_some() => return self.duplicate(line),
            "lb_policy" => lb.selection_policy = Some(self.selection_policy(line)?),
            "lb_retries" => lb.retries = self.single_number(line, "a number of retries")?,
            "lb_try_duration" => lb.try_duration = self.single_duration(line)?,
            "lb_try_interval" => lb.try_interval = self.single_duration(line)?,
            "lb_retry_match" => lb.retry_match.push(self.inline_matcher(line)?),
            "lb_slow_start" => lb.slow_start = self.single_duration(line)?,
            "lb_bounded_load" => lb.bounded_load = self.percent_from_100(line)?,
            _ => return self.unknown_option(line),
        }
        Some(())
    }

    /// A matcher set written behind an option: a block, a line, or a quoted expression.
    fn inline_matcher(&mut self, line: &Directive) -> Option<sluice_model::MatcherSet> {
        match line.args.as_slice() {
            [] if line.lines().is_empty() => self.missing(line, "a matcher"),
            [] => self.matcher_lines(line.lines(), ""),
            [only] if only.quote != Quote::None => {
                let expression = self.quoted_expression(only, "");
                Some(sluice_model::MatcherSet::of(
                    sluice_model::Matcher::Expression(expression),
                ))
            }
            _ => self.matcher_lines(&[inner_line(line)?], ""),
        }
    }

    fn selection_policy(&mut self, line: &Directive) -> Option<SelectionPolicy> {
        let Some((policy, args)) = line.args.split_first() else {
            return self.missing(line, "a policy");
        };
        let name = policy.text.as_str();
        if !matches!(name, "query" | "header" | "cookie") {
            self.no_block(line)?;
        }
        if !matches!(
            name,
            "random_choose" | "weighted_round_robin" | "query" | "header" | "cookie"
        ) && POLICIES.contains(&name)
        {
            self.exact::<0>(line, args)?;
        }
        let none = NoPolicySettings::default();
        Some(match name {
            "random" => SelectionPolicy::Random(none),
            "first" => SelectionPolicy::First(none),
            "round_robin" => SelectionPolicy::RoundRobin(none),
            "least_conn" => SelectionPolicy::LeastConn(none),
            "ip_hash" => SelectionPolicy::IpHash(none),
            "client_ip_hash" => SelectionPolicy::ClientIpHash(none),
            "uri_hash" => SelectionPolicy::UriHash(none),
            "random_choose" => {
                let [choose] = self.exact::<1>(line, args)?;
                let choose = self.number(choose, "how many to draw")?;
                SelectionPolicy::RandomChoose(RandomChoose { choose })
            }
            "weighted_round_robin" => {
                self.between(line, args, 1, usize::MAX)?;
                let weights: Option<Vec<i64>> = args.iter().map(|word| self.weight(word)).collect();
                SelectionPolicy::WeightedRoundRobin(Weighted { weights: weights? })
            }
            "query" | "header" | "cookie" => self.keyed_policy(line, name, args)?,
            _ => return self.unknown_module(policy, "policy", &POLICIES),
        })
    }

    fn weight(&mut self, word: &Token) -> Option<i64> {
        self.number::<u32>(word, "a weight of 0 or more")
            .map(i64::from)
    }

    fn keyed_policy(
        &mut self,
        line: &Directive,
        name: &str,
        args: &[Token],
    ) -> Option<SelectionPolicy> {
        let (min, max) = if name == "cookie" { (0, 2) } else { (1, 1) };
        self.between(line, args, min, max)?;
        let mut fallback = None;
        let mut max_age = sluice_model::Duration::default();
        let place = std::mem::replace(&mut self.place, "lb_policy");
        self.each(line.lines(), |this, option| {
            match option.name.text.as_str() {
                "fallback" if fallback.is_some() => return this.duplicate(option),
                "fallback" => fallback = Some(Box::new(this.selection_policy(option)?)),
                "max_age" if name == "cookie" => max_age = this.single_duration(option)?,
                _ => return this.unknown_option(option),
            }
            Some(())
        })?;
        self.place = place;
        let text = |at: usize| {
            args.get(at)
                .map(|word| word.text.clone())
                .unwrap_or_default()
        };
        Some(match name {
            "query" => SelectionPolicy::Query(QueryHash {
                key: text(0),
                fallback,
            }),
            "header" => SelectionPolicy::Header(HeaderHash {
                field: text(0),
                fallback,
            }),
            _ => SelectionPolicy::Cookie(CookieHash {
                name: text(0),
                secret: text(1),
                max_age,
                fallback,
            }),
        })
    }

    fn active_option(&mut self, line: &Directive, proxy: &mut ReverseProxy) -> Option<()> {
        let checks = proxy
            .health_checks
            .get_or_insert_with(HealthChecks::default);
        let active = checks.active.get_or_insert_with(ActiveChecks::default);
        match line.name.text.as_str() {
            "health_uri" => active.uri = self.single_text(line)?,
            "health_path" => {
                active.path = self.single_text(line)?;
                let title = "option `health_path` has a new name";
                let diagnostic = line.name.warning("deprecated-option", title, "old name");
                self.report.push(diagnostic.help("write `health_uri`"));
            }
            "health_upstream" => {
                active.upstream = self.host_and_port(line)?;
                self.refuse_both(line, active.port != 0)?;
            }
            "health_port" => {
                let word = self.single(line)?;
                active.port = self.port(word)?;
                self.refuse_both(line, !active.upstream.is_empty())?;
            }
            "health_interval" => active.interval = self.single_duration(line)?,
            "health_timeout" => active.timeout = self.single_duration(line)?,
            "health_passes" => active.passes = self.single_number(line, "a number of responses")?,
            "health_fails" => active.fails = self.single_number(line, "a number of responses")?,
            "health_method" => active.method = self.single_text(line)?,
            "health_request_body" => active.body = self.single_text(line)?,
            "health_body" => active.expect_body = self.single_text(line)?,
            "health_status" => {
                let word = self.single(line)?;
                active.expect_status = self.status_or_class(word)?;
            }
            "health_follow_redirects" => {
                self.flag(line)?;
                active.follow_redirects = true;
            }
            "health_headers" => {
                self.between(line, &line.args, 0, 0)?;
                self.each(line.lines(), |this, field| {
                    this.no_block(field)?;
                    let name = field.name.text.clone();
                    let values = texts(&field.args);
                    let values = if values.is_empty() {
                        vec![String::new()]
                    } else {
                        values
                    };
                    active.headers.entry(name).or_default().extend(values);
                    Some(())
                })?;
            }
            _ => return self.unknown_option(line),
        }
        Some(())
    }

    /// The one word of a line, which names a port.
    fn host_and_port(&mut self, line: &Directive) -> Option<String> {
        let word = self.single(line)?;
        let address = Address::parse(&word.text).ok();
        let ports = address.and_then(|address| address.ports);
        if ports.is_some_and(|ports| ports.count() == 1) {
            return Some(word.text.clone());
        }
        let title = format!("invalid address `{}` for `{}`", word.text, line.name.text);
        let diagnostic = word.error("invalid-upstream", title, "no host with one port");
        self.refuse(diagnostic.help("write `host:port`"))
    }

    fn refuse_both(&mut self, line: &Directive, both: bool) -> Option<()> {
        if !both {
            return Some(());
        }
        let title = "`health_port` and `health_upstream` exclude each other";
        let diagnostic = line
            .name
            .error("duplicate-option", title, "the other is given as well");
        self.refuse(diagnostic.help("write the port behind the address of `health_upstream`"))
    }

    fn passive_option(&mut self, line: &Directive, proxy: &mut ReverseProxy) -> Option<()> {
        let known = [
            "fail_duration",
            "max_fails",
            "unhealthy_status",
            "unhealthy_latency",
            "max_ejected",
        ];
        let name = line.name.text.as_str();
        if !known.contains(&name) && name != "unhealthy_request_count" {
            return self.unknown_option(line);
        }
        let checks = proxy
            .health_checks
            .get_or_insert_with(HealthChecks::default);
        let passive = checks.passive.get_or_insert_with(PassiveChecks::default);
        match name {
            "fail_duration" => passive.fail_duration = self.single_duration(line)?,
            "max_fails" => passive.max_fails = self.single_number(line, "a number of failures")?,
            "unhealthy_latency" => passive.unhealthy_latency = self.single_duration(line)?,
            "max_ejected" => passive.max_ejected = self.percent_to_100(line)?,
            "unhealthy_status" => {
                self.texts(line)?;
                for word in &line.args {
                    passive.unhealthy_status.push(self.status_or_class(word)?);
                }
            }
            _ => {
                passive.unhealthy_request_count =
                    self.single_number(line, "a number of requests")?;
            }
        }
        Some(())
    }
}
