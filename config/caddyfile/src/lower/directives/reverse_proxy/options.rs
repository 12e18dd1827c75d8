//! The options of `reverse_proxy`, except for those of its transports and dynamic sources.

use sluice_model::handler::{HeaderOps, Headers, ResponseHeaderOps, Rewrite};
use sluice_model::proxy::{LoadBalancing, ReverseProxy};

use super::dynamic::DYNAMIC;
use super::fastcgi::{FASTCGI, SCGI, UWSGI};
use super::health_checks::{active, passive};
use super::load_balancing::{CIRCUIT_BREAKER, LB_POLICY};
use super::transport::HTTP;
use crate::lower::Lowering;
use crate::lower::definition::Read::{Elsewhere, Flag, Number, Size, Text, Time, With};
use crate::lower::definition::{Block, Options, option};
use crate::lower::matchers::ranges;
use crate::tree::Directive;

/// The options.
pub(super) static OPTIONS: Options<ReverseProxy> = Options::new(
    "reverse_proxy",
    &[
        option("to", "to <upstreams...>", Elsewhere),
        option::<ReverseProxy>(
            "dynamic",
            "dynamic <module> …",
            With(|cx, line, proxy| {
                if proxy.dynamic_upstreams.is_some() {
                    return cx.duplicate(line);
                }
                proxy.dynamic_upstreams = Some(cx.dynamic_upstreams(line)?);
                Some(())
            }),
        )
        .holding(Block::Modules(&[("a", &DYNAMIC), ("srv", &DYNAMIC)])),
        option::<ReverseProxy>(
            "lb_policy",
            "lb_policy <name> [<options...>]",
            With(|cx, line, proxy| {
                if balancing(proxy).selection_policy.is_some() {
                    return cx.duplicate(line);
                }
                balancing(proxy).selection_policy = Some(cx.selection_policy(line)?);
                Some(())
            }),
        )
        .holding(Block::Options(&LB_POLICY)),
        option(
            "lb_retries",
            "lb_retries <retries>",
            Number("a number of retries", |proxy| &mut balancing(proxy).retries),
        ),
        option(
            "lb_try_duration",
            "lb_try_duration <duration>",
            Time(|proxy| &mut balancing(proxy).try_duration),
        ),
        option(
            "lb_try_interval",
            "lb_try_interval <interval>",
            Time(|proxy| &mut balancing(proxy).try_interval),
        ),
        option(
            "lb_retry_match",
            "lb_retry_match <request-matcher>",
            With(|cx, line, proxy| {
                let matcher = cx.inline_matcher(line)?;
                balancing(proxy).retry_match.push(matcher);
                Some(())
            }),
        ),
        option(
            "health_uri",
            "health_uri <uri>",
            Text(|proxy| &mut active(proxy).uri),
        ),
        option(
            "health_path",
            "health_path <path>",
            With(|cx, line, proxy| cx.health_path(line, active(proxy))),
        ),
        option(
            "health_upstream",
            "health_upstream <ip:port>",
            With(|cx, line, proxy| cx.health_upstream(line, active(proxy))),
        ),
        option(
            "health_port",
            "health_port <port>",
            With(|cx, line, proxy| cx.health_port(line, active(proxy))),
        ),
        option(
            "health_interval",
            "health_interval <interval>",
            Time(|proxy| &mut active(proxy).interval),
        ),
        option(
            "health_passes",
            "health_passes <num>",
            Number("a number of responses", |proxy| &mut active(proxy).passes),
        ),
        option(
            "health_fails",
            "health_fails <num>",
            Number("a number of responses", |proxy| &mut active(proxy).fails),
        ),
        option(
            "health_timeout",
            "health_timeout <duration>",
            Time(|proxy| &mut active(proxy).timeout),
        ),
        option(
            "health_method",
            "health_method <method>",
            Text(|proxy| &mut active(proxy).method),
        ),
        option(
            "health_status",
            "health_status <status>",
            With(|cx, line, proxy| {
                let word = cx.single(line)?;
                active(proxy).expect_status = cx.status_or_class(word)?;
                Some(())
            }),
        ),
        option(
            "health_request_body",
            "health_request_body <body>",
            Text(|proxy| &mut active(proxy).body),
        ),
        option(
            "health_body",
            "health_body <regexp>",
            Text(|proxy| &mut active(proxy).expect_body),
        ),
        option(
            "health_follow_redirects",
            "health_follow_redirects",
            Flag(|proxy| &mut active(proxy).follow_redirects),
        ),
        option(
            "health_headers",
            "health_headers { <field> [<values...>] }",
            With(|cx, line, proxy| cx.health_headers(line, active(proxy))),
        ),
        option(
            "fail_duration",
            "fail_duration <duration>",
            Time(|proxy| &mut passive(proxy).fail_duration),
        ),
        option(
            "max_fails",
            "max_fails <num>",
            Number("a number of failures", |proxy| {
                &mut passive(proxy).max_fails
            }),
        ),
        option(
            "unhealthy_status",
            "unhealthy_status <status>",
            With(|cx, line, proxy| cx.unhealthy_status(line, passive(proxy))),
        ),
        option(
            "unhealthy_latency",
            "unhealthy_latency <duration>",
            Time(|proxy| &mut passive(proxy).unhealthy_latency),
        ),
        option(
            "unhealthy_request_count",
            "unhealthy_request_count <num>",
            Number("a number of requests", |proxy| {
                &mut passive(proxy).unhealthy_request_count
            }),
        ),
        option(
            "flush_interval",
            "flush_interval <duration>",
            With(|cx, line, proxy| {
                let word = cx.single(line)?;
                proxy.flush_interval = match word.text.as_str() {
                    "-1" => sluice_model::Duration(-1),
                    _ => cx.duration(word)?,
                };
                Some(())
            }),
        ),
        option(
            "request_buffers",
            "request_buffers <size>",
            With(|cx, line, proxy| {
                proxy.request_buffers = cx.buffer_size(line)?;
                Some(())
            }),
        ),
        option(
            "response_buffers",
            "response_buffers <size>",
            With(|cx, line, proxy| {
                proxy.response_buffers = cx.buffer_size(line)?;
                Some(())
            }),
        ),
        option(
            "stream_timeout",
            "stream_timeout <duration>",
            Time(|proxy| &mut proxy.stream_timeout),
        ),
        option(
            "stream_close_delay",
            "stream_close_delay <duration>",
            Time(|proxy| &mut proxy.stream_close_delay),
        ),
        option(
            "stream_buffer_size",
            "stream_buffer_size <size>",
            Size(|proxy| &mut proxy.stream_buffer_size),
        ),
        option(
            "proxy_status_name",
            "proxy_status_name <name>",
            Text(|proxy| &mut proxy.proxy_status_name),
        ),
        option(
            "trusted_proxies",
            "trusted_proxies [private_ranges] <ranges...>",
            With(|cx, line, proxy| {
                cx.texts(line)?;
                proxy.trusted_proxies.extend(ranges(&line.args));
                Some(())
            }),
        ),
        option(
            "header_up",
            "header_up [+|-]<field> [<value|regexp> [<replacement>]]",
            With(|cx, line, proxy| cx.proxy_header(line, proxy)),
        ),
        option(
            "header_down",
            "header_down [+|-]<field> [<value|regexp> [<replacement>]]",
            With(|cx, line, proxy| cx.proxy_header(line, proxy)),
        ),
        option(
            "method",
            "method <method>",
            Text(|proxy| &mut rewrite(proxy).method),
        ),
        option(
            "rewrite",
            "rewrite <to>",
            Text(|proxy| &mut rewrite(proxy).uri),
        ),
        option(
            "verbose_logs",
            "verbose_logs",
            With(|cx, line, proxy| {
                if proxy.verbose_logs {
                    return cx.duplicate(line);
                }
                cx.flag(line)?;
                proxy.verbose_logs = true;
                Some(())
            }),
        ),
        option::<ReverseProxy>(
            "lb_retry_budget",
            "lb_retry_budget <percent>",
            With(|cx, line, proxy| {
                balancing(proxy).retry_budget =
                    cx.percent(line, "requests", "`10` is the default")?;
                Some(())
            }),
        )
        .own(),
        option::<ReverseProxy>(
            "lb_hedge",
            "lb_hedge <duration>",
            Time(|proxy| &mut balancing(proxy).hedge),
        )
        .own(),
        option::<ReverseProxy>(
            "lb_slow_start",
            "lb_slow_start <duration>",
            Time(|proxy| &mut balancing(proxy).slow_start),
        )
        .own(),
        option::<ReverseProxy>(
            "lb_bounded_load",
            "lb_bounded_load <percent>",
            With(|cx, line, proxy| {
                balancing(proxy).bounded_load = cx.percent_from_100(line)?;
                Some(())
            }),
        )
        .own(),
        option::<ReverseProxy>(
            "max_ejected",
            "max_ejected <percent>",
            With(|cx, line, proxy| {
                passive(proxy).max_ejected = cx.percent(
                    line,
                    "upstreams",
                    "`max_ejected 50` keeps at least half of the upstreams",
                )?;
                Some(())
            }),
        )
        .own(),
        option::<ReverseProxy>(
            "buffer_folder",
            "buffer_folder <path>",
            Text(|proxy| &mut proxy.buffer_folder),
        )
        .own(),
        option::<ReverseProxy>("coalesce", "coalesce", Flag(|proxy| &mut proxy.coalesce)).own(),
        option::<ReverseProxy>(
            "circuit_breaker",
            "circuit_breaker error_ratio|status_ratio|latency|outlier <threshold> [{ … }]",
            With(|cx, line, proxy| {
                if proxy.circuit_breaker.is_some() {
                    return cx.duplicate(line);
                }
                proxy.circuit_breaker = Some(cx.circuit_breaker(line)?);
                Some(())
            }),
        )
        .own()
        .holding(Block::Options(&CIRCUIT_BREAKER)),
        option::<ReverseProxy>(
            "transport",
            "transport <name> [{ … }]",
            With(|cx, line, proxy| {
                proxy.transport = Some(cx.transport(line)?);
                Some(())
            }),
        )
        .holding(Block::Modules(&[
            ("http", &HTTP),
            ("fastcgi", &FASTCGI),
            ("scgi", &SCGI),
            ("uwsgi", &UWSGI),
        ])),
        option(
            "replace_status",
            "replace_status [<matcher>] <status_code>",
            Elsewhere,
        ),
        option::<ReverseProxy>(
            "handle_response",
            "handle_response [<matcher>] { <directives...> }",
            Elsewhere,
        )
        .holding(Block::Directives),
    ],
);

fn balancing(proxy: &mut ReverseProxy) -> &mut LoadBalancing {
    proxy.load_balancing.get_or_insert_default()
}

fn rewrite(proxy: &mut ReverseProxy) -> &mut Rewrite {
    proxy.rewrite.get_or_insert_default()
}

impl Lowering<'_> {
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
            let diagnostic = field.warning(
                "needless-option",
                title,
                "the header has this value by default",
            );
            self.report.push(diagnostic.help("remove the line"));
        }
    }
}
